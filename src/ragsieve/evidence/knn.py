"""Exact cosine nearest neighbours: a checked shell around a bare kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragsieve.errors import EmbeddingError
from ragsieve.records import NeighborGraph

BLOCK_BYTES = 64 * 1024 * 1024
# float32 products of unit rows are good to about this; wider ties are settled in float64.
_SLACK = 4e-6
_TIES_EXAMINED = 4096


def unit_rows(embeddings: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Embeddings as unit rows in float32.

    :param embeddings: shape (V, d), any float dtype.
    :returns: shape (V, d), each row of length 1.
    :raises EmbeddingError: when the shape is wrong, or a row is not finite or is zero.
    """
    raw = np.asarray(embeddings)
    if raw.ndim != 2 or raw.shape[1] == 0:  # noqa: PLR2004 -- a matrix
        raise EmbeddingError(f"expected embeddings of shape (rows, dimension), found {raw.shape}")
    if not np.issubdtype(raw.dtype, np.floating):
        raise EmbeddingError(f"expected floating point embeddings, found {raw.dtype}")
    unit = np.empty(raw.shape, dtype=np.float32)
    step = max(1, BLOCK_BYTES // (8 * raw.shape[1]))
    for start in range(0, raw.shape[0], step):
        block = raw[start : start + step].astype(np.float64)
        finite = np.isfinite(block).all(axis=1)
        if not bool(finite.all()):
            row = start + int(np.argmin(finite))
            raise EmbeddingError(f"embedding row {row} (from 0) holds NaN or infinity; re-embed it")
        # Scaling first keeps rows of huge or tiny numbers from overflowing their length.
        largest = np.abs(block).max(axis=1, keepdims=True)
        if not bool((largest > 0).all()):
            row = start + int(np.argmin(largest[:, 0] > 0))
            raise EmbeddingError(f"embedding row {row} (from 0) is all zeros; re-embed it")
        block /= largest
        unit[start : start + step] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return unit


def cosine_knn(
    embeddings: npt.ArrayLike,
    k: int,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    progress: Callable[[int], None] | None = None,
) -> NeighborGraph:
    """Exact top ``k`` cosine neighbours of every row, itself excluded.

    Rows are sorted by (-similarity, index). Similarities are summed in float64 in one
    order, so those of a pair are equal from both sides and do not depend on where in the
    corpus the rows stand. Memory is bounded by a block of similarities, not V x V. Of more
    than 4,096 rows within 4e-6 of the last neighbour, the lowest indices are examined.

    :param embeddings: shape (V, d), any float dtype.
    :param k: neighbours wanted, >= 1; V - 1 are given in a corpus of fewer than k + 1.
    :param rows: the rows whose neighbours are wanted, in the order they are given back; all
        of them when None.
    :param progress: called with the number of rows finished in each block.
    :raises EmbeddingError: for rows that are not finite or are zero.
    :raises ValueError: when k < 1.
    """
    if k < 1:
        raise ValueError("k must be at least 1")
    unit = unit_rows(embeddings)
    size = unit.shape[0]
    used = min(k, max(0, size - 1))
    wanted = np.arange(size) if rows is None else np.asarray(rows, dtype=np.int64)
    indices = np.empty((wanted.size, used), dtype=np.int64)
    similarities = np.empty((wanted.size, used), dtype=np.float64)
    if used:
        step = max(1, BLOCK_BYTES // (4 * size))
        for start in range(0, wanted.size, step):
            block = wanted[start : start + step]
            _block(unit, block, indices[start:], similarities[start:])
            if progress is not None:
                progress(block.size)
    return NeighborGraph(indices, similarities)


def nearest_rows(
    queries: npt.ArrayLike, embeddings: npt.ArrayLike, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The ``k`` corpus rows most similar to each query, by (-similarity, index).

    :param queries: shape (q, d).
    :param embeddings: shape (V, d).
    :returns: indices and cosines, each of shape (q, min(k, V)).
    :raises EmbeddingError: when rows are unusable or the dimensions differ.
    """
    asked, unit = unit_rows(queries), unit_rows(embeddings)
    if asked.shape[1] != unit.shape[1]:
        raise EmbeddingError(
            f"query vectors have dimension {asked.shape[1]}, documents {unit.shape[1]}; "
            "embed both with one encoder"
        )
    used = min(k, unit.shape[0])
    indices = np.empty((asked.shape[0], used), dtype=np.int64)
    similarities = np.empty((asked.shape[0], used), dtype=np.float64)
    for row in range(asked.shape[0]):
        coarse = unit @ asked[row]
        indices[row], similarities[row] = _top(coarse, asked[row], unit, used)
    return indices, similarities


def _block(
    unit: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> None:
    coarse = unit[rows] @ unit.T
    used = indices.shape[1]
    for place, row in enumerate(rows.tolist()):
        line = coarse[place]
        line[row] = -np.inf
        indices[place], similarities[place] = _top(line, unit[row], unit, used)


def joined_graph(embeddings: npt.ArrayLike, earlier: NeighborGraph, k: int) -> NeighborGraph:
    """The graph of a corpus that grew at its end, equal to one computed afresh.

    Searches for the new rows, and again for those old rows a new one comes close to.

    :param embeddings: shape (V, d), the rows of ``earlier`` first.
    :param earlier: the exact graph of the first rows, with min(k, rows - 1) neighbours.
    :raises EmbeddingError: for rows that are not finite or are zero.
    """
    unit = unit_rows(embeddings)
    old, size = len(earlier), unit.shape[0]
    if earlier.k < min(k, size - 1):
        return cosine_knn(unit, k)
    touched = [np.arange(old, size)]
    step = max(1, BLOCK_BYTES // (4 * max(1, size - old)))
    for start in range(0, old, step):
        stop = min(start + step, old)
        closest = (unit[start:stop] @ unit[old:].T).max(axis=1, initial=-2.0)
        touched.append(
            start + np.flatnonzero(closest >= earlier.similarities[start:stop, -1] - _SLACK)
        )
    rows = np.concatenate(touched)
    fresh = cosine_knn(unit, k, rows=rows)
    indices = np.empty((size, fresh.k), dtype=np.int64)
    similarities = np.empty((size, fresh.k), dtype=np.float64)
    indices[:old], similarities[:old] = earlier.indices, earlier.similarities
    indices[rows], similarities[rows] = fresh.indices, fresh.similarities
    return NeighborGraph(indices, similarities)


def _top(
    coarse: npt.NDArray[np.float32],
    vector: npt.NDArray[np.float32],
    unit: npt.NDArray[np.float32],
    used: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    boundary = np.partition(coarse, coarse.size - used)[coarse.size - used]
    close = np.flatnonzero(coarse >= boundary - _SLACK)
    if close.size > used + _TIES_EXAMINED:
        # Thousands of copies: those clearly above the boundary first, then the lowest indices.
        order = np.lexsort((close, coarse[close] < boundary + _SLACK))
        close = close[order[: used + _TIES_EXAMINED]]
    exact = np.einsum(
        "ij,j->i", unit[close].astype(np.float64), vector.astype(np.float64), optimize=False
    )
    np.clip(exact, -1.0, 1.0, out=exact)
    best = np.lexsort((close, -exact))[:used]
    return close[best], exact[best]
