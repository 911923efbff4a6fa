"""How much an approximate graph found, estimated on a sample of rows searched exactly."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from ragsieve.records import NeighborGraph

_DEVIATES = 1.959964


@dataclasses.dataclass(frozen=True, slots=True)
class Recall:
    """The share of nearest neighbours found, and its 95% interval.

    :param share: in [0, 1].
    :param low: of the interval, in [0, share].
    :param high: of the interval, in [share, 1].
    :param k: neighbours a row.
    :param sampled_rows: rows searched exactly.
    """

    share: float
    low: float
    high: float
    k: int
    sampled_rows: int

    def __str__(self) -> str:
        return (
            f"recall@{self.k} {self.share:.4f} [{self.low:.4f}, {self.high:.4f}] "
            f"on {self.sampled_rows:,} rows"
        )


def recall_of(found: NeighborGraph, exact: NeighborGraph) -> Recall:
    """The recall of a graph's rows against the exact neighbours of the same rows.

    A neighbour counts as found when its similarity is at least that of the last exact one, so
    that a tie is as good as another. The interval is Wilson's, with the effective sample size
    of sampling whole rows, at least one observation a row.
    """
    rows, k = exact.similarities.shape
    if not rows or not k:
        return Recall(1.0, 1.0, 1.0, k, rows)
    shares = (found.similarities >= exact.similarities[:, -1:]).mean(axis=1)
    share = float(shares.mean())
    variance = float(shares.var(ddof=1)) if rows > 1 else 0.0
    effective = float(rows)
    if variance > 0:
        effective = min(max(share * (1 - share) * rows / variance, rows), rows * k)
    low, high = _wilson(share, effective)
    return Recall(share, min(low, share), max(high, share), k, rows)


def sampled_rows(size: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """``count`` rows drawn without replacement, ascending; all when there are no more."""
    return np.sort(rng.permutation(size)[: min(count, size)])


def _wilson(share: float, size: float) -> tuple[float, float]:
    square = _DEVIATES**2
    middle = (share + square / (2 * size)) / (1 + square / size)
    half = _DEVIATES * math.sqrt(share * (1 - share) / size + square / (4 * size**2))
    half /= 1 + square / size
    return max(0.0, middle - half), min(1.0, middle + half)
