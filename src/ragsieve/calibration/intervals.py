"""Intervals without assumptions about how scores are distributed."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

from ragsieve.errors import ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and between which ends it lies with the stated confidence."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}

    value: float
    low: float
    high: float


def share_interval(hits: float, of: float, confidence: float) -> Interval:
    """A share with its Clopper-Pearson interval.

    Fractions stand for effective counts (Korn and Graubard 1998): the share is kept, the
    number of independent draws is what is given.

    :param hits: in [0, of].
    :param of: draws, above 0.
    :param confidence: in (0, 1), split evenly over both ends.
    """
    if not 0 <= hits <= of or of <= 0:
        raise ValueError(f"expected 0 <= hits <= of, found {hits} of {of}")
    edge = _edge(confidence)
    low = 0.0 if hits <= 0 else float(betaincinv(hits, of - hits + 1, edge))
    high = 1.0 if hits >= of else float(betaincinv(hits + 1, of - hits, 1 - edge))
    return Interval(hits / of, low, high)


def clustered_share(count: int, of: int, effective: int, confidence: float) -> Interval:
    """The share ``count / of`` with the interval that ``effective`` independent draws give."""
    found = share_interval(min(count * effective / of, effective), effective, confidence)
    return dataclasses.replace(found, value=count / of)


def quantile_ranks(of: int, rate: float, confidence: float) -> tuple[int, int]:
    """Which order statistics enclose the value that a draw reaches with chance ``rate``.

    Of n independent draws, the number at or above that value is binomial whatever the
    distribution, so the j-th largest lies above it exactly when that number is below j.

    :param of: n.
    :returns: ranks from the top, the upper end's first; 0 where the upper end lies above every
        draw, ``of + 1`` where the lower end lies below every draw.
    """
    edge = _edge(confidence)
    counts = np.arange(of)
    upper = int(np.count_nonzero(bdtr(counts, of, rate) <= edge))
    reached = np.flatnonzero(bdtrc(counts, of, rate) <= edge)
    # bdtrc(j - 1) is the chance of j or more; the last entry stands for all n.
    lower = int(reached[0]) + 1 if reached.size else of + 1
    return upper, lower


def fewest(rate: float, confidence: float) -> int:
    """Independent draws below which the upper end of a quantile lies beyond every draw."""
    return math.ceil(math.log(_edge(confidence)) / math.log1p(-rate))


def difference(before: Interval, after: Interval) -> Interval:
    """How much a share changed, from the intervals of both (Newcombe 1998, method 10's form).

    :param before: measured on draws independent of those of ``after``.
    """
    value = after.value - before.value
    down = math.hypot(after.value - after.low, before.high - before.value)
    up = math.hypot(after.high - after.value, before.value - before.low)
    return Interval(value, max(-1.0, value - down), min(1.0, value + up))


def _edge(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie between 0 and 1, found {confidence}")
    return (1 - confidence) / 2
