"""Whether traffic still scores as it did when its threshold was set."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np
from scipy.special import kolmogorov

from ragsieve.calibration.intervals import Interval, clustered_share, difference
from ragsieve.calibration.samples import Sample
from ragsieve.calibration.sketch import Sketch
from ragsieve.calibration.thresholds import Alarms, alarms_at

LEVEL = 0.01
"""Chance of a false report by each test where nothing changed, over all slices together."""

SHIFT = 0.1
"""Population stability index from which a shift of the distribution matters."""

_BINS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Drift:
    """Traffic now against traffic then.

    :param statistic: Kolmogorov-Smirnov, largest difference of the two distributions at the
        sketch's scores, in [0, 1]; never above the full statistic.
    :param p_value: of it, by effective sizes; large samples make small differences significant.
    :param stability_index: population stability index over tenths of the earlier traffic, >= 0.
    :param threshold: in force since the last calibration.
    :param before: its rate of alarms then; ``now`` likewise.
    :param change: of the rate, with its interval.
    :param reasons: what counts as drift; empty where nothing does.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}

    statistic: float
    p_value: float
    stability_index: float
    threshold: float
    before: Interval
    now: Interval
    change: Interval
    reasons: tuple[str, ...]

    @property
    def drifted(self) -> bool:
        """Whether the threshold should be set anew."""
        return bool(self.reasons)


def compare(earlier: Sketch, before: Alarms, units: Sample, *, comparisons: int = 1) -> Drift:
    """Drift of a slice since its last calibration.

    Drift is a rate of alarms at the threshold in force whose change has an interval without 0,
    or a distribution that is both significantly and noticeably another.

    :param before: alarms then, at the threshold in force since.
    :param units: of the traffic now, counted as they were then.
    :param comparisons: slices compared at once, by which the level is divided.
    """
    level = LEVEL / max(1, comparisons)
    statistic = _statistic(earlier, units)
    draws = earlier.effective * units.effective / (earlier.effective + units.effective)
    p_value = float(kolmogorov(math.sqrt(draws) * statistic))
    index = _stability(earlier, units)
    then = clustered_share(before.count, before.of, before.effective, 1 - level)
    now = alarms_at(units, before.threshold, 1 - level).rate
    change = difference(then, now)
    reasons = []
    if not change.low <= 0 <= change.high:
        reasons.append(
            f"alarms at {before.threshold:g} went from {then.value:.3%} to {now.value:.3%}"
        )
    if p_value < level and index >= SHIFT:
        reasons.append(
            f"the distribution moved (Kolmogorov-Smirnov {statistic:.3f}, p {p_value:.2g}, "
            f"stability index {index:.2f})"
        )
    return Drift(statistic, p_value, index, before.threshold, then, now, change, tuple(reasons))


def _statistic(earlier: Sketch, units: Sample) -> float:
    ordered = np.sort(units.scores)
    points = np.asarray(earlier.scores)
    upto = np.searchsorted(ordered, points, side="right") / len(units)
    below = np.searchsorted(ordered, points, side="left") / len(units)
    largest = max(
        float(np.abs(upto - np.asarray(earlier.upto)).max()),
        float(np.abs(below - np.asarray(earlier.below)).max()),
    )
    return min(1.0, largest)


def _stability(earlier: Sketch, units: Sample) -> float:
    shares = np.arange(1, _BINS) / _BINS
    edges = np.unique([earlier.quantile(share) for share in shares.tolist()])
    known = dict(zip(earlier.scores, earlier.upto, strict=True))
    before = np.diff([0.0, *(known[edge] for edge in edges.tolist()), 1.0])
    upto = np.searchsorted(np.sort(units.scores), edges, side="right") / len(units)
    now = np.diff([0.0, *upto.tolist(), 1.0])
    # Half a draw in every bin: an empty one must not make the index infinite.
    bins = before.size
    old = (before * earlier.effective + 0.5) / (earlier.effective + 0.5 * bins)
    new = (now * units.effective + 0.5) / (units.effective + 0.5 * bins)
    return max(0.0, float(((new - old) * np.log(new / old)).sum()))
