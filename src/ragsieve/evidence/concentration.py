"""Do documents that stand out together come from one hand, more than neighbours here usually do?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tails import excess_evidence, simes
from ragsieve.records import Detail

LEVEL = 0.05
LARGEST = 0.75
FEWEST_PAIRS = 30
_SMALLEST_HABIT = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class Habits:
    """How often near neighbours of a corpus share an origin; None where too few say.

    :param source: share of nearest-neighbour pairs from one source, in [0, 1].
    :param author: the same for authors.
    :param days_apart: shape (n,), sorted, days between the creation of such pairs.
    """

    source: float | None = None
    author: float | None = None
    days_apart: npt.NDArray[np.float64] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SharedOrigin:
    """One field of the provenance over a group.

    :param field: ``source``, ``author`` or ``created``.
    :param shared: members that share the document's value, or that were created within
        ``days`` of each other.
    :param members: members whose value is known.
    :param habit: how often a near neighbour of this corpus does as much, in (0, 1].
    :param probability: of so many by habit alone, in (0, 1].
    """

    field: str
    shared: int
    members: int
    habit: float
    probability: float
    days: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class OriginDetail(Detail):
    """The origins of a group that stands out together, field by field."""

    fields: tuple[SharedOrigin, ...]
    probability: float


def shared_value(field: str, own: str, others: list[str], habit: float) -> SharedOrigin:
    """How surprising it is that so many of the others share a value.

    ``P[X >= shared]``, X ~ Binomial(len(others), habit).

    :param habit: in [0, 1]; at least .001 is assumed.
    """
    rate = min(1.0, max(_SMALLEST_HABIT, habit))
    size, shared = len(others), sum(other == own for other in others)
    probability = math.fsum(
        math.comb(size, hit) * rate**hit * (1 - rate) ** (size - hit)
        for hit in range(shared, size + 1)
    )
    return SharedOrigin(field, shared, size, rate, min(1.0, max(probability, 1e-300)))


def created_together(
    days: npt.NDArray[np.float64], days_apart: npt.NDArray[np.float64]
) -> SharedOrigin:
    """How surprising it is that a group was created within so short a time.

    Each member after the first is as close by chance with the frequency of so short a
    distance between near neighbours of the corpus.

    :param days: shape (n,), n >= 2, creation of the group's members.
    :param days_apart: sorted distances of the corpus's neighbour pairs.
    """
    span = float(days.max() - days.min())
    closer = int(np.searchsorted(days_apart, span, side="right"))
    rate = (closer + 0.5) / (days_apart.size + 1)
    members = int(days.size) - 1
    return SharedOrigin("created", members, members, rate, rate**members, span)


def origin_evidence(fields: tuple[SharedOrigin, ...]) -> tuple[float, OriginDetail]:
    """``min(.75, excess of the combined probability over .05)``: corroborates, never decides alone.

    :param fields: at least one.
    :returns: evidence in [0, .75], large is suspicious, with the facts behind it.
    """
    probability = simes([one.probability for one in fields])
    value = min(LARGEST, excess_evidence(max(probability, 1e-300), LEVEL))
    return value, OriginDetail(fields, probability)
