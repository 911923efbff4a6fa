"""How far a document's nearest neighbours stand above the next ones: a floor that adapts."""

from __future__ import annotations

import dataclasses
import functools

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
    most = min(max_group, width - 1)
    if size == 0 or most < 1:
        return Gaps(np.zeros(size), np.zeros(size, np.int64), np.zeros(size), np.zeros(size))
    known = np.isfinite(similarities)
    count = known.sum(axis=1)
    filled = np.where(known, similarities, 0.0)
    rows = np.arange(size)
    groups, weight = _groups(most, pair_weight)
    floors = np.minimum(FLOOR_NEIGHBORS, count[:, None] - groups)
    usable = floors > 0
    # The row is sorted, so the median of a stretch is its middle.
    low = np.where(usable, groups + (floors - 1) // 2, 0)
    high = np.where(usable, groups + floors // 2, 0)
    floor = 0.5 * (filled[rows[:, None], low] + filled[rows[:, None], high])
    mean = np.cumsum(filled[:, :most], axis=1) / groups
    gap = weight * (mean - floor) / np.maximum(_SMALLEST, 1.0 - floor)
    gap[~usable] = -np.inf
    # The first of equals, so the smallest group.
    chosen = gap.argmax(axis=1)
    some = usable[:, 0]
    return Gaps(
        gap=np.where(some, gap[rows, chosen], 0.0),
        group=np.where(some, chosen + 1, 0),
        mean=np.where(some, mean[rows, chosen], 0.0),
        floor=np.where(some, floor[rows, chosen], 0.0),
    )


@functools.lru_cache(maxsize=64)
def _groups(most: int, pair_weight: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The sizes r = 1..most and their weights."""
    weight = np.ones(most)
    weight[0] = pair_weight
    return np.arange(1, most + 1), weight
