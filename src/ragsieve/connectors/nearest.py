"""Exact nearest rows, page by page, for a store whose index gave fewer than were asked for."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ragsieve.connectors.contract import Row
from ragsieve.records import FloatArray

_EPSILON = 1e-30


def cosine_distance(query: FloatArray, rows: FloatArray) -> FloatArray:
    """1 - cosine, in [0, 2], of every row of shape (n, d)."""
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return np.asarray(1.0 - rows @ query / np.maximum(norms, _EPSILON))


def squared_distance(query: FloatArray, rows: FloatArray) -> FloatArray:
    """Squared Euclidean distance of every row of shape (n, d)."""
    return np.asarray(((rows - query) ** 2).sum(axis=1))


def product_distance(query: FloatArray, rows: FloatArray) -> FloatArray:
    """1 - inner product of every row of shape (n, d)."""
    return np.asarray(1.0 - rows @ query)


Distance = Callable[[FloatArray, FloatArray], FloatArray]
DISTANCES: dict[str, Distance] = {
    "cosine": cosine_distance,
    "l2": squared_distance,
    "ip": product_distance,
}
"""Distances by the name that stores give them; small is near."""


def exact_nearest(
    pages: Iterable[Sequence[Row]], query: FloatArray, *, depth: int, distance: Distance
) -> tuple[tuple[Row, float], ...]:
    """The ``depth`` nearest rows, best first, ties by id; one page in memory at a time.

    Rows without a vector, or with one of another dimension, are nobody's neighbours.
    """
    best: list[tuple[float, str, Row]] = []
    for page in pages:
        rows = [row for row in page if row.vector is not None and row.vector.shape == query.shape]
        if not rows:
            continue
        found = distance(
            query.astype(np.float64),
            np.stack([np.asarray(row.vector, dtype=np.float64) for row in rows]),
        )
        near = [
            (float(value), row.id, row)
            for value, row in zip(found, rows, strict=True)
            if np.isfinite(value)
        ]
        best = heapq.nsmallest(depth, [*best, *near], key=lambda item: item[:2])
    return tuple((row, value) for value, _, row in best)
