"""Who may still be among the nearest: candidates kept by bounds on their similarity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer]

# Candidates held before those that fell behind are dropped; 16 bytes each.
_PENDING = 6_000_000
# Pairs summed, and numbers merged, at a time.
_PAIRS = 1024
_MERGED = 1 << 20


def rounding(dimension: int, bits: int) -> float:
    """How far a product of two unit rows may be from the exact one, in any order of summation.

    The usual bound n u / (1 - n u) on a sum of n products, with |a| |b| <= 1.

    :param bits: of the significand, 24 for float32 and 53 for float64.
    """
    return 1.02 * (dimension + 8) * 2.0**-bits


def exact_similarities(left: Floats, right: Floats, i: Integers, j: Integers) -> Doubles:
    """The cosine of ``left[i]`` and ``right[j]`` for each pair, in [-1, 1].

    Products are summed in float64 in one order, the same for (i, j) and (j, i).
    """
    found = np.empty(i.size, dtype=np.float64)
    for part in ranges(i.size, _PAIRS):
        one, other = left[i[part]].astype(np.float64), right[j[part]].astype(np.float64)
        np.einsum("ij,ij->i", one, other, out=found[part], optimize=False)
    return np.clip(found, -1.0, 1.0, out=found)


def runs(sorted_keys: Integers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each run of equal keys starts, and how long it is."""
    changes = np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1]) + 1
    starts = np.concatenate([np.zeros(min(1, sorted_keys.size), dtype=np.int64), changes])
    return starts, np.diff(starts, append=sorted_keys.size)


def ranges(size: int, step: int, start: int = 0) -> list[slice]:
    """Consecutive ranges of at most ``step`` rows."""
    return [slice(first, min(first + step, size)) for first in range(start, size, step)]


def kth_largest(lines: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.floating]:
    """The k-th largest number of each line."""
    place = lines.shape[1] - k
    return np.partition(lines, place, axis=1)[:, place]


class Shortlist:
    """The candidates for the ``k`` nearest columns of each row.

    A candidate arrives with an approximate similarity and a bound on its error. It is kept
    while its similarity may still reach the k-th largest; in the end exact similarities
    decide, ties by the lower column.

    :param left: shape (rows, d), unit rows.
    :param right: shape (columns, d), unit rows.
    :param k: <= the columns that will be offered to every row.
    """

    def __init__(self, left: Floats, right: Floats, k: int) -> None:
        self.left, self.right, self.k = left, right, k
        # The k largest lower bounds of each row; the floor is the smallest of them.
        self._best = np.full((left.shape[0], k), -np.inf)
        self.floor = np.full(left.shape[0], -np.inf)
        self._pending: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Doubles]] = []
        self._count = 0
        self._limit = max(_PENDING, 4 * self._best.size)

    def start(self, rows: slice | npt.NDArray[np.int64], tile: Floats, error: float) -> None:
        """Raise the floors of ``rows`` by a tile of their similarities."""
        if tile.shape[1] < self.k:
            return
        floor = self.floor[rows]
        for part in ranges(tile.shape[0], max(1, _MERGED // tile.shape[1])):
            reached = kth_largest(tile[part], self.k).astype(np.float64)
            floor[part] = np.maximum(floor[part], np.clip(reached, -1.0, 1.0) - error)
        self.floor[rows] = floor

    def offer(self, row: Integers, column: Integers, value: Doubles, error: float) -> None:
        """Take in pairs with their similarity to within ``error``, each pair once.

        :param row: ascending.
        """
        near = value + error >= self.floor[row]
        row, column, value = row[near], column[near], np.clip(value[near], -1.0, 1.0)
        if not row.size:
            return
        self._raise_floor(row, value - error)
        high = value + error
        near = high >= self.floor[row]
        kept = row[near].astype(np.int32), column[near].astype(np.int32), high[near]
        self._pending.append(kept)
        self._count += kept[0].size
        if self._count > self._limit:
            self._prune()

    def finish(self) -> tuple[npt.NDArray[np.int64], Doubles]:
        """The nearest columns of every row and their cosines, by (-cosine, column)."""
        column, exact = self._settle()
        shape = self._best.shape
        return column.astype(np.int64).reshape(shape), exact.reshape(shape)

    def _raise_floor(self, row: Integers, low: Doubles) -> None:
        k = self.k
        starts, counts = runs(row)
        widest = int(counts.max())
        step = max(1, _MERGED // (k + widest))
        for start in range(0, starts.size, step):
            begin, many = starts[start : start + step], counts[start : start + step]
            mine = row[begin]
            here = slice(begin[0], begin[-1] + many[-1])
            merged = np.full((mine.size, k + widest), -np.inf)
            merged[:, :k] = self._best[mine]
            offset = np.arange(here.start, here.stop) - np.repeat(begin, many)
            merged[np.repeat(np.arange(mine.size), many), k + offset] = low[here]
            merged.partition(widest, axis=1)
            self._best[mine] = merged[:, widest:]
            self.floor[mine] = np.maximum(self.floor[mine], merged[:, widest])

    def _gathered(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Doubles]:
        """All candidates that may still be among the nearest; takes them out."""
        kept = []
        while self._pending:
            row, column, high = self._pending.pop()
            near = high >= self.floor[row]
            kept.append((row[near], column[near], high[near]))
        empty = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
        row, column, high = (np.concatenate(parts) for parts in zip(empty, *kept, strict=True))
        return row, column, high

    def _prune(self) -> None:
        row, column, high = self._gathered()
        self._pending, self._count = [(row, column, high)], row.size
        if self._count > self._limit // 2:
            self._settle()

    def _settle(self) -> tuple[npt.NDArray[np.int32], Doubles]:
        """Decide by exact similarities which k candidates a row keeps."""
        row, column, _ = self._gathered()
        order = np.lexsort((column, row))
        row, column = row[order], column[order]
        exact = exact_similarities(self.left, self.right, row, column)
        order = np.lexsort((column, -exact, row))
        starts, counts = runs(row)
        rank = np.arange(row.size) - np.repeat(starts, counts)
        order = order[rank < self.k]
        row, column, exact = row[order], column[order], exact[order]
        self._best.fill(-np.inf)
        self._best[row, rank[rank < self.k]] = exact
        self.floor = np.maximum(self.floor, self._best.min(axis=1, initial=np.inf))
        self._pending, self._count = [(row, column, exact)], row.size
        return column, exact
