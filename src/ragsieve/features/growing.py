"""Arrays that grow at their end without being copied each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve.features.ragged import Ragged

_SMALLEST = 1024
_SPARE = 1.25


class GrowingArray:
    """Rows of one dtype, appended.

    Views given out stay valid: rows are copied when they move, and the old ones are left.

    :param width: columns of a row; None for plain numbers.
    """

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self._tail = () if width is None else (width,)
        self._rows: npt.NDArray[Any] = np.empty((0, *self._tail), dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> npt.NDArray[Any]:
        """The rows; writing into it changes them."""
        return self._rows[: self._size]

    def append(self, rows: npt.ArrayLike) -> None:
        """Add rows at the end."""
        fresh = np.asarray(rows, dtype=self._rows.dtype)
        needed = self._size + fresh.shape[0]
        if needed > self._rows.shape[0]:
            room = max(_SMALLEST, int(needed * _SPARE))
            moved = np.empty((room, *self._tail), dtype=self._rows.dtype)
            moved[: self._size] = self.view
            self._rows = moved
        self._rows[self._size : needed] = fresh
        self._size = needed

    def extend_to(self, size: int, fill: float) -> None:
        """Add rows of one value until there are ``size``."""
        missing = size - self._size
        if missing > 0:
            self.append(np.full((missing, *self._tail), fill, dtype=self._rows.dtype))


class GrowingRagged:
    """Rows of different lengths, appended."""

    def __init__(self) -> None:
        self._values = GrowingArray(np.int32)
        self._offsets = GrowingArray(np.int64)
        self._offsets.append([0])

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def view(self) -> Ragged:
        """The rows."""
        return Ragged(self._values.view, self._offsets.view)

    def append(self, rows: Ragged) -> None:
        """Add rows at the end."""
        self._offsets.append(rows.offsets[1:] + len(self._values))
        self._values.append(rows.values)
