"""The lowest threshold that keeps alarms on benign traffic within a rate."""

from __future__ import annotations

import dataclasses
import decimal
import math
from typing import ClassVar, Literal

import numpy as np

from ragsieve.calibration.intervals import Interval, clustered_share, fewest, quantile_ranks
from ragsieve.calibration.samples import Sample
from ragsieve.errors import ConfigError, InputError

Unit = Literal["document", "query"]

MOST_TRIMMED = 0.1
_DIGITS = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """What is asked of a threshold.

    :param alarm_rate: share of benign units at or above it, in (0, 1).
    :param unit: what is counted: documents judged, or queries with any alarm among theirs.
    :param confidence: of every interval, in (0, 1).
    :param trim: highest share of the traffic left out as possibly planted, in [0, .1].
    :raises ConfigError: when a number is out of range.
    """

    alarm_rate: float = 0.01
    unit: Unit = "document"
    confidence: float = 0.95
    trim: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alarm_rate", "confidence"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise ConfigError(f"{name} must lie between 0 and 1, found {value}")
        if not 0 <= self.trim <= MOST_TRIMMED:
            raise ConfigError(f"trim must be in [0, {MOST_TRIMMED}], found {self.trim}")


@dataclasses.dataclass(frozen=True, slots=True)
class Alarms:
    """Units at or above a threshold.

    :param effective: independent draws behind the interval.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}

    threshold: float
    count: int
    of: int
    effective: int
    rate: Interval

    def __post_init__(self) -> None:
        if not (0 <= self.count <= self.of and 0 < self.effective <= self.of):
            raise InputError(
                f"alarms: {self.count} of {self.of}, worth {self.effective}, cannot be"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A threshold, or why there is none.

    :param threshold: with the interval of the score that a share ``alarm_rate`` of such units
        reaches; None when it cannot be set.
    :param alarms: at that threshold; None without one.
    :param reason: why it cannot be set; None when it was.
    :param units: documents, or queries.
    :param effective: independent draws they are worth.
    :param trimmed: of the units, left out.
    """

    threshold: Interval | None
    alarms: Alarms | None
    reason: str | None
    units: int
    effective: int
    trimmed: int = 0


def units_of(benign: Sample, aim: Aim) -> Sample:
    """What alarms are counted over."""
    return benign.highest() if aim.unit == "query" else benign


def alarms_at(units: Sample, threshold: float, confidence: float) -> Alarms:
    """Alarms at a threshold that was fixed before these units were seen."""
    count, effective = int(np.count_nonzero(units.scores >= threshold)), units.effective
    rate = clustered_share(count, len(units), effective, confidence)
    return Alarms(threshold, count, len(units), effective, rate)


def choose(benign: Sample, aim: Aim) -> Choice:
    """The lowest threshold, to six digits, that at most ``alarm_rate`` of the units reach.

    Nothing is extrapolated: unless the sample itself encloses the threshold, there is none. The
    interval of the rate holds although the threshold was chosen on the same sample: the share of
    new units above the (k+1)-th largest of n is Beta(k+1, n-k), whatever the distribution, which
    is where Clopper-Pearson takes its upper end from; ties only lower the share. Trimmed units
    count as alarms in the upper end.
    """
    everything = units_of(benign, aim)
    trimmed = math.floor(aim.trim * len(everything))
    units = everything.without_top(trimmed)
    effective = units.effective

    def refused(reason: str) -> Choice:
        return Choice(None, None, reason, len(units), effective, trimmed)

    needed = fewest(aim.alarm_rate, aim.confidence)
    if effective < needed:
        return refused(
            f"too few: {_counted(units, aim)}; a rate of {aim.alarm_rate:g} needs {needed:,}"
        )
    allowed = math.floor(aim.alarm_rate * len(units))
    falling = np.sort(units.scores)[::-1]
    highest_left = float(falling[allowed])
    if highest_left <= 0:
        return refused(
            f"only {int(np.count_nonzero(units.scores > 0)):,} of {len(units):,} have any evidence: "
            f"every threshold keeps to a rate of {aim.alarm_rate:g}, none is the right one"
        )
    threshold = _just_above(highest_left)
    if not math.isfinite(threshold):
        return refused("scores reach the end of double precision; score these documents again")
    count = int(np.count_nonzero(units.scores >= threshold))
    per_draw = len(units) / effective
    upper, lower = quantile_ranks(effective, aim.alarm_rate, aim.confidence)
    above = float(falling[math.floor((upper - 1) * per_draw)])
    place = math.ceil(lower * per_draw) - 1
    below = float(falling[place]) if place < len(units) else 0.0
    rate = _rate(units, everything, count, allowed, aim.confidence)
    return Choice(
        Interval(threshold, min(threshold, below), max(threshold, above)),
        Alarms(threshold, count, len(units), effective, rate),
        None,
        len(units),
        effective,
        trimmed,
    )


def _rate(
    units: Sample, everything: Sample, count: int, allowed: int, confidence: float
) -> Interval:
    most = allowed + len(everything) - len(units)
    found = clustered_share(count, len(units), units.effective, confidence)
    worst = clustered_share(most, len(everything), everything.effective, confidence)
    return dataclasses.replace(found, high=worst.high)


def _just_above(value: float) -> float:
    """The smallest number of six digits above ``value``."""
    exact = decimal.Decimal(math.nextafter(value, math.inf))
    upwards = decimal.Context(prec=_DIGITS, rounding=decimal.ROUND_CEILING)
    return float(upwards.plus(exact)) if exact.is_finite() else math.inf


def _counted(units: Sample, aim: Aim) -> str:
    word = "documents" if aim.unit == "document" else "queries"
    plain = f"{len(units):,} benign {word}"
    if units.effective == len(units):
        return plain
    return f"{plain}, worth {units.effective:,} independent ones since rankings tie them together"
