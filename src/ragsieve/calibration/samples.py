"""Scores with what belongs together, and how many independent draws they are worth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve.errors import InputError


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Scores of one slice.

    :param scores: shape (n,), finite, >= 0, large is suspicious.
    :param groups: shape (n,), numbers; documents of one ranking, or of one campaign, share
        theirs, since what raises one raises the others.
    :raises InputError: when a score is NaN, infinite or negative, or there is none.
    """

    scores: npt.NDArray[np.float64]
    groups: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or self.scores.shape != self.groups.shape:
            raise ValueError("expected one group for every score")
        if not self.scores.size:
            raise InputError("expected scores, found none")
        wrong = np.flatnonzero(~(np.isfinite(self.scores) & (self.scores >= 0)))
        if wrong.size:
            place = int(wrong[0])
            raise InputError(
                f"score {place} of {self.scores.size} is {self.scores[place]}, expected a finite "
                "number of at least 0; score these documents again"
            )

    def __len__(self) -> int:
        return int(self.scores.size)

    @property
    def effective(self) -> int:
        """Independent draws these scores are worth at least, whatever ties a group together.

        (sum of group sizes)^2 / sum of squared group sizes (Kish 1965), rounded down: the number
        of groups when all are of one size. It takes documents of a group to say the same
        thing, the worst that they can do.
        """
        sizes = self.sizes.astype(np.float64)
        return max(1, int(np.floor(sizes.sum() ** 2 / (sizes**2).sum() * (1 + 1e-12))))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Documents of each group."""
        return np.unique(self.groups, return_counts=True)[1].astype(np.int64)

    def highest(self) -> Sample:
        """One score for each group, its highest: does the group raise an alarm?"""
        names, place = np.unique(self.groups, return_inverse=True)
        top = np.zeros(names.size)
        np.maximum.at(top, place, self.scores)
        return Sample(top, names.astype(np.int64))

    def without_top(self, count: int) -> Sample:
        """All but the ``count`` highest scores."""
        kept = np.argsort(-self.scores, kind="stable")[count:]
        return Sample(self.scores[kept], self.groups[kept])


def sample(scores: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Sample:
    """A sample from anything like arrays; without groups every score is a draw of its own.

    :raises InputError: as `Sample`.
    """
    values = np.asarray(scores, dtype=np.float64)
    own: Any = np.arange(values.size) if groups is None else groups
    return Sample(values, np.asarray(own, dtype=np.int64))
