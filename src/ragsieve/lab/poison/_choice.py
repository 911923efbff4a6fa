"""Greedy choices of documents that stay apart from one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsieve.records import FloatArray


def best_first(
    rows: FloatArray, scores: FloatArray, open_to: Sequence[int], count: int, *, below: float
) -> list[int]:
    """By falling score, each below a cosine to all chosen before.

    :param rows: unit rows, shape (n, d).
    :param scores: shape (n,).
    :param open_to: rows that may be chosen.
    """
    chosen: list[int] = []
    for row in _by_score(scores, open_to):
        if len(chosen) == count:
            break
        if not chosen or float((rows[chosen] @ rows[row]).max()) < below:
            chosen.append(row)
    return chosen


def farthest_first(
    rows: FloatArray, scores: FloatArray, open_to: Sequence[int], count: int, *, below: float
) -> list[int]:
    """The best score, then whichever keeps the largest cosine to those chosen lowest.

    Finds more documents below a cosine than :func:`best_first`, of lower scores.
    """
    chosen = _by_score(scores, open_to)[: min(1, count)]
    nearest = np.full(len(rows), -1.0)
    while chosen and len(chosen) < count:
        nearest = np.maximum(nearest, np.asarray(rows @ rows[chosen[-1]], dtype=np.float64))
        left = [row for row in open_to if row not in chosen and nearest[row] < below]
        if not left:
            break
        chosen.append(min(left, key=lambda row: (nearest[row], -scores[row], row)))
    return chosen


def _by_score(scores: FloatArray, open_to: Sequence[int]) -> list[int]:
    return sorted(open_to, key=lambda row: (-scores[row], row))
