"""Tail probabilities, and the scale that turns them into evidence."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def upper_tail(value: float, reference: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """Mid-rank upper tail probability of ``value`` against a small reference sample.

    ``p = (0.5 + #{r > value} + 0.5 #{r = value}) / (m + 1)``, RSQ's script and alignment
    evidence.

    :param reference: shape (m,), m >= 1, any unit, the same as ``value``.
    :returns: in [0.5 / (m + 1), (m + 0.5) / (m + 1)]; small is suspicious.
    :raises ValueError: when the reference is empty, or anything is NaN.
    """
    sample = np.asarray(reference, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError("reference must be a non-empty sequence of numbers")
    if math.isnan(value) or bool(np.isnan(sample).any()):
        raise ValueError("value and reference must not be NaN; leave unmeasured documents out")
    greater = int(np.count_nonzero(sample > value))
    equal = int(np.count_nonzero(sample == value))
    return (0.5 + greater + 0.5 * equal) / (sample.size + 1)


def corpus_tail(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Share of a corpus at least as extreme as each of its members, RSG's ``p_i``.

    ``p_i = #{j : D_j >= D_i} / (V + 1)``, ties compared in float32 so that rounding
    noise neither makes nor breaks one.

    :param values: shape (V,), large is suspicious, finite.
    :returns: shape (V,), in [1 / (V + 1), V / (V + 1)]; small is suspicious.
    :raises ValueError: when a value is NaN.
    """
    rounded = np.asarray(values).astype(np.float32)
    if bool(np.isnan(rounded).any()):
        raise ValueError("values must not be NaN")
    ordered = np.sort(rounded)
    at_least = rounded.size - np.searchsorted(ordered, rounded, side="left")
    return np.asarray(at_least / (rounded.size + 1), dtype=np.float64)


def simes(probabilities: Sequence[float]) -> float:
    """Combine tests that may depend on each other, ``min(1, min_j (M / j) p_(j))``.

    :param probabilities: M values in (0, 1].
    :returns: in (0, 1]; small is suspicious; 1 when there is nothing to combine.
    :raises ValueError: when a probability is outside (0, 1].
    """
    ordered = sorted(probabilities)
    if not ordered:
        return 1.0
    if not (ordered[0] > 0.0 and ordered[-1] <= 1.0):
        raise ValueError("probabilities must lie in (0, 1]")
    count = len(ordered)
    return min(1.0, *(count / rank * p for rank, p in enumerate(ordered, start=1)))


@functools.lru_cache(maxsize=65536)
def hypergeometric_tail(observed: int, population: int, marked: int, drawn: int) -> float:
    """``P[X >= observed]`` for X ~ Hypergeometric(population, marked, drawn), exactly.

    :param observed: marked members in the draw.
    :param population: documents in the ranking, n.
    :param marked: documents of the ranking that hold the word, K.
    :param drawn: candidates, k.
    :returns: in [0, 1]; small is suspicious.
    :raises ValueError: when the counts contradict each other.
    """
    if not (0 <= marked <= population and 0 <= drawn <= population):
        raise ValueError("marked and drawn must lie between 0 and population")
    most = min(marked, drawn)
    ways = sum(
        math.comb(marked, hit) * math.comb(population - marked, drawn - hit)
        for hit in range(max(0, observed), most + 1)
    )
    return ways / math.comb(population, drawn)


def log_evidence(probability: float, smallest: float) -> float:
    """Probability as evidence: ``log(p) / log(smallest)``, 0 at p = 1 and 1 at the smallest.

    :param probability: in (0, 1].
    :param smallest: in (0, 1), the smallest probability the test can give.
    :returns: >= 0, large is suspicious, in units of the threshold.
    :raises ValueError: when either lies outside its range.
    """
    if not 0.0 < probability <= 1.0 or not 0.0 < smallest < 1.0:
        raise ValueError("probability must lie in (0, 1] and smallest in (0, 1)")
    return max(0.0, math.log(probability) / math.log(smallest))


def excess_evidence(probability: float, level: float) -> float:
    """Evidence beyond a level: ``max(0, ln(level / p) / ln(1 / level))``.

    :param probability: in (0, 1].
    :param level: alpha in (0, 1); a probability at or above it is no evidence.
    :returns: >= 0, large is suspicious.
    :raises ValueError: when either lies outside its range.
    """
    if not 0.0 < probability <= 1.0 or not 0.0 < level < 1.0:
        raise ValueError("probability must lie in (0, 1] and level in (0, 1)")
    return max(0.0, math.log(level / probability) / math.log(1.0 / level))


@dataclasses.dataclass(frozen=True, slots=True)
class Bulk:
    """Where the bulk of a corpus lies.

    :param middle: median of the values below the ceiling.
    :param high: their 90% quantile.
    """

    middle: float
    high: float

    def threshold(self, spread: float, floor: float) -> float:
        """``max(floor, middle + spread (high - middle))``.

        :param spread: distances from the median to the 90% quantile.
        :param floor: smallest threshold, for a corpus without spread.
        """
        return max(floor, self.middle + spread * (self.high - self.middle))


def bulk(values: npt.NDArray[np.float64], ceiling: float) -> Bulk:
    """The bulk of a corpus, which a minority of planted documents cannot lift.

    :param values: shape (V,), large is suspicious; linear interpolation between them.
    :param ceiling: values at or above it do not count as bulk.
    :returns: zeros when no value lies below the ceiling.
    """
    below = values[values < ceiling]
    if below.size == 0:
        return Bulk(0.0, 0.0)
    middle, high = np.quantile(below, (0.5, 0.9)).tolist()
    return Bulk(middle, high)


def above_half(values: npt.NDArray[np.float64], threshold: float) -> npt.NDArray[np.float64]:
    """Evidence that begins at half a threshold and is 1 at the threshold.

    ``max(0, (v - t/2) / (t/2))``; NaN stays NaN.

    :param threshold: t > 0, in the unit of the values.
    """
    half = threshold / 2
    return np.asarray(np.maximum(0.0, (values - half) / half), dtype=np.float64)
