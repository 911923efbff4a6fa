"""A distribution of scores in a few hundred numbers, to compare later traffic with."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ragsieve.calibration.samples import Sample
from ragsieve.errors import InputError

POINTS = 400
# Half of the points for the highest tenth, where thresholds lie.
_TAIL = 0.9


@dataclasses.dataclass(frozen=True, slots=True)
class Sketch:
    """Exact shares at some of the scores that occurred.

    :param size: scores it was made from.
    :param effective: independent draws they are worth.
    :param scores: increasing.
    :param below: share of scores below each, in [0, 1].
    :param upto: share of scores at or below each, in [0, 1].
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}

    size: int
    effective: int
    scores: tuple[float, ...]
    below: tuple[float, ...]
    upto: tuple[float, ...]

    def __post_init__(self) -> None:
        values, below, upto = map(np.asarray, (self.scores, self.below, self.upto))
        if not values.size or not values.size == below.size == upto.size:
            raise InputError("a sketch needs scores with a share below and up to each")
        shares = np.stack([below, upto], axis=1).ravel()
        ordered = bool((np.diff(values) > 0).all() and (np.diff(shares) >= 0).all())
        if not ordered or shares[0] < 0 or shares[-1] > 1:
            raise InputError("a sketch's scores must increase, and its shares with them")
        if not 0 < self.effective <= self.size:
            raise InputError("a sketch's effective size must be in (0, size]")

    def quantile(self, share: float) -> float:
        """The lowest of its scores that a share of all is at or below."""
        place = int(np.searchsorted(np.asarray(self.upto), share - 1e-12))
        return self.scores[min(place, len(self.scores) - 1)]


def sketch_of(units: Sample, points: int = POINTS) -> Sketch:
    """The sketch of a sample; complete when it has at most ``points`` different scores."""
    values, counts = np.unique(units.scores, return_counts=True)
    upto = np.cumsum(counts) / len(units)
    below = (np.cumsum(counts) - counts) / len(units)
    if values.size > points:
        body = np.linspace(0, _TAIL, points // 2)
        tail = np.linspace(_TAIL, 1, points - points // 2)
        wanted = np.concatenate([body, tail])
        kept = np.unique(np.minimum(np.searchsorted(upto, wanted - 1e-12), values.size - 1))
        values, upto, below = values[kept], upto[kept], below[kept]
    return Sketch(len(units), units.effective, _plain(values), _plain(below), _plain(upto))


def _plain(values: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
