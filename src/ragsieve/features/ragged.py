"""Rows of different lengths in one array."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True, slots=True)
class Ragged:
    """Integer rows of different lengths, stored end to end.

    :param values: shape (total,).
    :param offsets: shape (rows + 1,), from 0 to total.
    """

    values: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[npt.NDArray[np.int32]]) -> Ragged:
        """The given rows, in order."""
        kept = list(rows)
        lengths = np.array([row.size for row in kept], dtype=np.int64)
        values = np.concatenate(kept) if kept else np.empty(0, np.int32)
        return cls(values.astype(np.int32, copy=False), np.concatenate(([0], lengths.cumsum())))

    def __len__(self) -> int:
        return int(self.offsets.size - 1)

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        """One row; a view."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def followed_by(self, other: Ragged) -> Ragged:
        """These rows, then the other's."""
        return Ragged(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]]),
        )

    def rows(self, start: int, stop: int) -> Ragged:
        """Rows from ``start`` to ``stop`` (exclusive)."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])
