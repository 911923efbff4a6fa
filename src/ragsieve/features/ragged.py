"""Rows of different lengths in one array."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

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

    @classmethod
    def distinct(
        cls, values: npt.NDArray[np.int32], rows: npt.NDArray[np.int64], count: int
    ) -> Ragged:
        """Sorted rows, each value once in its row.

        :param values: shape (n,), >= 0.
        :param rows: shape (n,), the row of each, in any order.
        :param count: rows in all.
        """
        keys = np.sort((rows << 32) | values)
        # numpy's own search for distinct numbers hashes them, which costs several sorts.
        keys = keys[np.concatenate((np.ones(min(1, keys.size), np.bool_), keys[1:] != keys[:-1]))]
        lengths = np.bincount(keys >> 32, minlength=count)
        return cls(
            (keys & 0xFFFFFFFF).astype(np.int32),
            np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
        )

    def __len__(self) -> int:
        return int(self.offsets.size - 1)

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        """One row; a view."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Shape (rows,)."""
        return np.diff(self.offsets)

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

    def take(self, rows: npt.NDArray[np.int64]) -> Ragged:
        """The given rows, in the order given."""
        places, offsets = places_of(self.offsets, rows)
        return Ragged(self.values[places], offsets)


def places_of(
    offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the values of some rows stand.

    :param offsets: shape (all rows + 1,).
    :returns: places in the values, rows end to end; and the offsets of those rows.
    """
    lengths = offsets[rows + 1] - offsets[rows]
    taken = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    shift = np.repeat(offsets[rows] - taken[:-1], lengths)
    return np.arange(taken[-1], dtype=np.int64) + shift, taken


def chunks(offsets: npt.NDArray[np.int64], most: int = 4_000_000) -> Iterator[tuple[int, int]]:
    """Rows in stretches of at most ``most`` values, or one row that is longer."""
    start, size = 0, offsets.size - 1
    while start < size:
        beyond = int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1
        stop = min(size, max(start + 1, beyond))
        yield start, stop
        start = stop
