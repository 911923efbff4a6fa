"""In how many documents does a token follow another? A count table of bounded memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragsieve.errors import InputError

MEMORY_BYTES = 512 * 1024 * 1024
_BYTES_PER_PAIR = 10
_SATURATED = 65_535
_SKETCH_SATURATED = 255
_DEPTH = 4
# Odd multipliers of multiply-shift hashing, one a sketch row.
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)

Keys = npt.NDArray[np.uint64]


def pair_keys(tokens: npt.NDArray[np.int32]) -> Keys:
    """One key for each token and its predecessor.

    :param tokens: shape (n,), vocabulary numbers.
    :returns: shape (max(0, n - 1),); equal keys exactly for equal pairs.
    """
    wide = tokens.astype(np.uint64)
    return (wide[:-1] << np.uint64(32)) | wide[1:]


class PairTable:
    """Document frequencies of token pairs.

    Exact (sorted keys, 10 bytes a pair) while that fits the memory allowed; beyond it a
    count-min sketch of four rows within the same memory, which may count too much but
    never too little, so that a pair can pass as familiar but never as alien by mistake.

    :param memory_bytes: bound on the table.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        if memory_bytes < 4 * _DEPTH:
            raise ValueError(f"memory_bytes must be at least {4 * _DEPTH}")
        self.memory_bytes = memory_bytes
        self._keys: Keys = np.empty(0, np.uint64)
        self._counts: npt.NDArray[np.uint16] = np.empty(0, np.uint16)
        self._sketch: npt.NDArray[np.uint8] | None = None

    @property
    def exact(self) -> bool:
        """Whether counts are exact."""
        return self._sketch is None

    @property
    def used_bytes(self) -> int:
        """Memory of the table itself."""
        if self._sketch is not None:
            return self._sketch.nbytes
        return self._keys.nbytes + self._counts.nbytes

    def add(self, keys: Keys) -> None:
        """Count documents.

        :param keys: the distinct pairs of each document, documents end to end.
        """
        if keys.size == 0:
            return
        fresh, counts = np.unique(keys, return_counts=True)
        if self._sketch is None:
            self._merge(fresh, counts)
        else:
            _raise_counts(self._sketch, fresh, counts)

    def counts(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Documents that hold each pair; in a sketch, at least that many, up to 255.

        :param keys: shape (n,).
        :returns: shape (n,).
        """
        if self._sketch is not None:
            found = [self._sketch[row, place] for row, place in _places(self._sketch, keys)]
            return np.asarray(np.minimum.reduce(found), dtype=np.int64)
        if self._keys.size == 0:
            return np.zeros(keys.size, np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return np.where(self._keys[place] == keys, self._counts[place], 0).astype(np.int64)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The table as named arrays, for storage."""
        if self._sketch is not None:
            return {"sketch": self._sketch}
        return {"keys": self._keys, "counts": self._counts}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, npt.NDArray[np.generic]], memory_bytes: int = MEMORY_BYTES
    ) -> PairTable:
        """A table stored earlier.

        :raises InputError: when the arrays are not those of a table.
        """
        table = cls(memory_bytes)
        if set(arrays) == {"sketch"}:
            table._sketch = np.array(arrays["sketch"], dtype=np.uint8)
        elif set(arrays) == {"keys", "counts"} and arrays["keys"].shape == arrays["counts"].shape:
            table._keys = np.array(arrays["keys"], dtype=np.uint64)
            table._counts = np.array(arrays["counts"], dtype=np.uint16)
        else:
            raise InputError(
                f"pair table: expected keys and counts, or a sketch; found {sorted(arrays)}"
            )
        return table

    @classmethod
    def counted(
        cls, keys: Keys, counts: npt.NDArray[np.int64], memory_bytes: int = MEMORY_BYTES
    ) -> PairTable:
        """An exact table, whatever its size.

        :param keys: distinct and sorted.
        :param counts: documents that hold each.
        """
        table = cls(memory_bytes)
        table._keys = keys
        table._counts = np.minimum(counts, _SATURATED).astype(np.uint16)
        return table

    def copy(self) -> PairTable:
        """An independent table of the same counts."""
        return PairTable.from_arrays(self.arrays(), self.memory_bytes)

    def _merge(self, fresh: Keys, counts: npt.NDArray[np.int64]) -> None:
        keys = np.concatenate([self._keys, fresh])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        total = np.concatenate([self._counts.astype(np.int64), counts])[order]
        first = np.concatenate(([True], keys[1:] != keys[:-1]))
        starts = np.flatnonzero(first)
        self._keys = keys[starts]
        self._counts = np.minimum(np.add.reduceat(total, starts), _SATURATED).astype(np.uint16)
        if self._keys.size * _BYTES_PER_PAIR > self.memory_bytes:
            self._to_sketch()

    def _to_sketch(self) -> None:
        width = 1 << ((self.memory_bytes // _DEPTH).bit_length() - 1)
        sketch = np.zeros((_DEPTH, width), np.uint8)
        _raise_counts(sketch, self._keys, self._counts.astype(np.int64))
        self._sketch = sketch
        self._keys, self._counts = np.empty(0, np.uint64), np.empty(0, np.uint16)


def _raise_counts(sketch: npt.NDArray[np.uint8], keys: Keys, counts: npt.NDArray[np.int64]) -> None:
    for row, place in _places(sketch, keys):
        where, inverse = np.unique(place, return_inverse=True)
        added = np.bincount(inverse, weights=counts).astype(np.int64)
        total = sketch[row, where].astype(np.int64) + added
        sketch[row, where] = np.minimum(total, _SKETCH_SATURATED)


def _places(sketch: npt.NDArray[np.uint8], keys: Keys) -> list[tuple[int, npt.NDArray[np.int64]]]:
    shift = np.uint64(64 - (sketch.shape[1].bit_length() - 1))
    # Folding the halves first lets both tokens reach the bits that the shift keeps.
    mixed = keys ^ (keys >> np.uint64(29))
    return [
        (row, ((mixed * np.uint64(multiplier)) >> shift).astype(np.int64))
        for row, multiplier in enumerate(_MULTIPLIERS)
    ]
