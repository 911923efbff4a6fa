"""The neighbour graph as the specification reads: blocked products, then row after row."""

from __future__ import annotations

import numpy as np

BLOCK_ROWS = 512
# Neighbours looked at beyond those wanted, so that float32 rounding loses none.
SPARE = 16


def plain_unit(embeddings: np.ndarray) -> np.ndarray:
    """Unit rows in float32, normalised in float64."""
    unit = np.empty(embeddings.shape, dtype=np.float32)
    for row, vector in enumerate(embeddings):
        wide = np.asarray(vector, dtype=np.float64)
        largest = np.abs(wide).max()
        if not np.isfinite(wide).all() or largest == 0:
            raise ValueError(f"row {row} cannot be used")
        wide = wide / largest
        unit[row] = wide / np.linalg.norm(wide)
    return unit


def plain_graph(unit: np.ndarray, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Top ``k`` cosine neighbours of ``rows``, by (-similarity, index), from unit rows."""
    indices = np.empty((rows.size, k), dtype=np.int64)
    similarities = np.empty((rows.size, k))
    for start in range(0, rows.size, BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        product = unit[block] @ unit.T
        for place, row in enumerate(block.tolist(), start):
            line = product[place - start]
            line[row] = -np.inf
            near = np.argpartition(-line, k + SPARE)[: k + SPARE]
            exact = np.clip(unit[near].astype(np.float64) @ unit[row].astype(np.float64), -1.0, 1.0)
            best = np.lexsort((near, -exact))[:k]
            indices[place], similarities[place] = near[best], exact[best]
    return indices, similarities
