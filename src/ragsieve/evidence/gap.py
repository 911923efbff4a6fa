"""How far a document's nearest neighbours stand above the next ones: a floor that adapts."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.records import Detail

FLOOR_NEIGHBORS = 8
PAIR_WEIGHT = 0.85
COPY_CONTAINMENT = 0.9
_SMALLEST = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """The gap of every document of a corpus, by column.

    :param gap: shape (V,), in [0, 1], large is suspicious.
    :param group: shape (V,), neighbours that stand out, r*; 0 when there is no floor.
    :param mean: shape (V,), mean similarity of those neighbours.
    :param floor: shape (V,), median similarity of the next eight at most.
    """

    gap: npt.NDArray[np.float64]
    group: npt.NDArray[np.int64]
    mean: npt.NDArray[np.float64]
    floor: npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class StandingOut:
    """One neighbour of the group that makes the gap."""

    document_id: str
    similarity: float


@dataclasses.dataclass(frozen=True, slots=True)
class GapDetail(Detail):
    """Which neighbours stand out, above what.

    :param gap: g, in [0, 1].
    :param threshold: the gap at which this evidence alone reaches its unit.
    :param copies: neighbours left out because nearly all their words are shared.
    """

    gap: float
    threshold: float
    group: tuple[StandingOut, ...]
    mean: float
    floor: float
    copies: tuple[str, ...]


def neighbor_gaps(
    similarities: npt.NDArray[np.float64], max_group: int = 8, pair_weight: float = PAIR_WEIGHT
) -> Gaps:
    """``g = max_r w_r (mean(s_1..s_r) - f_r) / max(1e-6, 1 - f_r)`` for every row.

    ``f_r`` is the median of the eight similarities after the r-th, of as many as there
    are; ``w_1`` is the pair weight, every other weight 1. Unchanged when every similarity s becomes
    ``a + (1 - a) s``.

    :param similarities: shape (V, n), each row non-increasing, NaN behind its last value.
    :param max_group: largest r.
    :returns: zeros for a row of fewer than two neighbours.
    """
    size, width = similarities.shape
    count = np.isfinite(similarities).sum(axis=1)
    filled = np.nan_to_num(similarities, nan=0.0)
    best = Gaps(np.zeros(size), np.zeros(size, np.int64), np.zeros(size), np.zeros(size))
    rows = np.arange(size)
    totals = np.cumsum(filled, axis=1)
    for group in range(1, min(max_group, width - 1) + 1):
        floors = np.minimum(FLOOR_NEIGHBORS, count - group)
        usable = floors > 0
        # The row is sorted, so the median of a stretch is its middle.
        low = np.where(usable, group + (floors - 1) // 2, 0)
        high = np.where(usable, group + floors // 2, 0)
        floor = 0.5 * (filled[rows, low] + filled[rows, high])
        mean = totals[:, group - 1] / group
        weight = pair_weight if group == 1 else 1.0
        gap = weight * (mean - floor) / np.maximum(_SMALLEST, 1.0 - floor)
        better = usable & ((gap > best.gap) | (best.group == 0))
        best.gap[better] = gap[better]
        best.group[better] = group
        best.mean[better] = mean[better]
        best.floor[better] = floor[better]
    return best
