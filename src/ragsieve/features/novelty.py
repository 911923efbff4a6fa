"""Which tokens follow their predecessor in no other document: kept as documents come and go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragsieve.features.growing import GrowingArray
from ragsieve.features.pairs import Keys
from ragsieve.features.ragged import Ragged, places_of

_CHUNK = 1 << 18
_LARGEST_PENDING = 1 << 18

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class PairNumbers:
    """Token pairs by number; new ones get the next."""

    def __init__(self) -> None:
        self._keys: list[Keys] = [np.empty(0, np.uint64), np.empty(0, np.uint64)]
        self._numbers: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32), np.empty(0, np.int32)]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def of(self, keys: Keys) -> npt.NDArray[np.int32]:
        """The number of each pair.

        :param keys: distinct and sorted.
        """
        found = np.full(keys.size, -1, dtype=np.int32)
        for known, numbers in zip(self._keys, self._numbers, strict=True):
            if known.size:
                place = np.minimum(np.searchsorted(known, keys), known.size - 1)
                held = known[place] == keys
                found[held] = numbers[place[held]]
        missing = np.flatnonzero(found < 0)
        if missing.size:
            found[missing] = np.arange(self._size, self._size + missing.size, dtype=np.int32)
            self._size += missing.size
            self._insert(1, keys[missing], found[missing])
            if self._keys[1].size > max(_LARGEST_PENDING, self._keys[0].size // 16):
                self._insert(0, self._keys[1], self._numbers[1])
                self._keys[1], self._numbers[1] = self._keys[1][:0], self._numbers[1][:0]
        return found

    def sorted(self) -> tuple[Keys, npt.NDArray[np.int32]]:
        """Every pair in the order of the keys, with its number."""
        keys, numbers = np.concatenate(self._keys), np.concatenate(self._numbers)
        order = np.argsort(keys, kind="stable")
        return keys[order], numbers[order]

    def _insert(self, part: int, keys: Keys, numbers: npt.NDArray[np.int32]) -> None:
        place = np.searchsorted(self._keys[part], keys)
        self._keys[part] = np.insert(self._keys[part], place, keys)
        self._numbers[part] = np.insert(self._numbers[part], place, numbers)


class PairIndex:
    """The token pairs of documents that come and go, and in how many documents each stands.

    Documents are numbered by a slot each, in the order they are added; a slot is not used
    again.
    """

    def __init__(self) -> None:
        self._pairs = PairNumbers()
        # By token: the number of the pair it ends, -1 at a beginning; and whether it is the
        # one place of the document that counts for the pair.
        self._numbers = GrowingArray(np.int32)
        self._counting = GrowingArray(np.bool_)
        self._counts = GrowingArray(np.int32)

    def append(self, tokens: Ragged) -> None:
        """Count documents, in the next slots."""
        ends = np.ones(tokens.values.size, dtype=np.bool_)
        ends[tokens.offsets[:-1][tokens.lengths > 0]] = False
        wide = tokens.values.astype(np.uint64)
        keys = ((wide[:-1] << np.uint64(32)) | wide[1:])[ends[1:]]
        distinct, place = np.unique(keys, return_inverse=True)
        own = self._pairs.of(distinct)[place]
        numbers = np.full(tokens.values.size, -1, dtype=np.int32)
        numbers[ends] = own
        counting = np.zeros(tokens.values.size, dtype=np.bool_)
        counting[np.flatnonzero(ends)[_one_a_document(tokens, own, ends)]] = True
        self._numbers.append(numbers)
        self._counting.append(counting)
        self._counts.extend_to(len(self._pairs), 0)
        self._counts.view[:] += np.bincount(numbers[counting], minlength=len(self._pairs)).astype(
            np.int32
        )

    def release(self, offsets: Rows, slots: Rows) -> None:
        """Count documents no longer.

        :param offsets: where the tokens of each slot stand.
        """
        places, _ = places_of(offsets, slots)
        gone = self._numbers.view[places][self._counting.view[places]]
        np.subtract.at(self._counts.view, gone, 1)

    def table(self) -> tuple[Keys, npt.NDArray[np.int64]]:
        """The pairs that stand in a document, sorted by key, and in how many."""
        keys, numbers = self._pairs.sorted()
        counts = self._counts.view[numbers]
        return keys[counts > 0], counts[counts > 0].astype(np.int64)

    def pairs_of(self, offsets: Rows, slots: Rows) -> tuple[npt.NDArray[np.int32], Rows]:
        """The distinct pairs of some documents, by number, and how many of them hold each."""
        places, _ = places_of(offsets, slots)
        own = self._numbers.view[places][self._counting.view[places]]
        pairs, held = np.unique(own, return_counts=True)
        return pairs, held

    def counts(self, pairs: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Documents that hold each pair."""
        return np.asarray(self._counts.view[pairs])

    def holders(self, offsets: Rows, pairs: npt.NDArray[np.int32]) -> tuple[Rows, Rows]:
        """The slots that hold any of some pairs, released ones too.

        :returns: pairs in ascending order, and the slot of each.
        """
        asked = np.zeros(len(self._pairs) + 1, dtype=np.bool_)
        asked[pairs] = True
        # The last entry stands for -1.
        places = np.flatnonzero(asked[self._numbers.view] & self._counting.view)
        slots = np.searchsorted(offsets, places, side="right") - 1
        found = self._numbers.view[places]
        order = np.argsort(found, kind="stable")
        return found[order].astype(np.int64), slots[order]

    def novel(self, offsets: Rows, slots: Rows, nearest: Rows, alive: Flags) -> Flags:
        """Which tokens of some documents are novel.

        Novel: the pair with the token before stands in no document other than this one and
        its nearest neighbours. The first token has no pair and is novel.

        :param slots: shape (n,), counted documents.
        :param nearest: shape (n, at most 8), the slots of their nearest neighbours.
        :param alive: by slot, which are counted.
        :returns: flags of their tokens, end to end.
        """
        places, _ = places_of(offsets, slots)
        numbers = self._numbers.view[places]
        elsewhere = np.zeros(numbers.size, dtype=np.int64)
        paired = numbers >= 0
        elsewhere[paired] = self._counts.view[numbers[paired]] - 1
        flags = elsewhere <= 0
        # A neighbour can account for one document: more than all of them leaves one outside.
        open_ = np.flatnonzero((elsewhere > 0) & (elsewhere <= nearest.shape[1]))
        if not open_.size:
            return flags
        row = np.repeat(np.arange(slots.size), offsets[slots + 1] - offsets[slots])
        pairs, holding = self.holders(offsets, np.unique(numbers[open_]))
        pairs, holding = pairs[alive[holding]], holding[alive[holding]]
        for start in range(0, open_.size, _CHUNK):
            part = open_[start : start + _CHUNK]
            first = np.searchsorted(pairs, numbers[part])
            many = elsewhere[part] + 1
            ends = np.cumsum(many)
            entry = np.arange(ends[-1]) + np.repeat(first - (ends - many), many)
            near = nearest[np.repeat(row[part], many)]
            held = (near == holding[entry][:, None]).any(axis=1)
            vouched = np.add.reduceat(held.astype(np.int64), ends - many)
            flags[part] = elsewhere[part] <= vouched
        return flags


def _one_a_document(tokens: Ragged, numbers: npt.NDArray[np.int32], ends: Flags) -> Rows:
    """One place of each pair in each document, among the places that end a pair."""
    rows = np.repeat(np.arange(len(tokens)), tokens.lengths)[ends]
    keys = (rows << 32) | numbers
    order = np.argsort(keys, kind="stable")
    fresh = np.ones(order.size, dtype=np.bool_)
    fresh[1:] = keys[order[1:]] != keys[order[:-1]]
    return np.asarray(order[fresh])
