"""Similarities by tile: each pair's product is computed once and serves both rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.shortlist import (
    Doubles,
    Floats,
    Shortlist,
    kth_largest,
    ranges,
    rounding,
)

# Products in float64 held at a time.
_CLOSER = 1 << 20

Found = tuple[npt.NDArray[np.int64], Doubles]
# Rows or columns: a range, or their numbers in ascending order.
Some = slice | npt.NDArray[np.int64]


class Product(Protocol):
    """Approximate similarities of some rows and some columns."""

    error: float
    """How far a similarity may be from the exact one."""

    def __call__(self, rows: Some, columns: Some) -> Floats:
        """Shape (rows, columns), contiguous; the caller may overwrite it, the next call does."""
        ...


MakeProduct = Callable[[Floats, Floats], Product]


class Float32Product:
    """The product in float32, by the linear algebra behind numpy.

    :param left: shape (rows, d), unit rows.
    :param right: shape (columns, d), unit rows.
    """

    def __init__(self, left: Floats, right: Floats) -> None:
        self._left, self._right = left, right
        self._buffer = np.empty(0, dtype=np.float32)
        self.error = rounding(left.shape[1], 24)

    def __call__(self, rows: Some, columns: Some) -> Floats:
        """The tile, in a buffer that the next one overwrites."""
        left, right = self._left[rows], self._right[columns]
        shape = left.shape[0], right.shape[0]
        # One buffer for all tiles: fresh memory would cost as much as looking at it.
        if self._buffer.size < shape[0] * shape[1]:
            self._buffer = np.empty(shape[0] * shape[1], dtype=np.float32)
        tile = self._buffer[: shape[0] * shape[1]].reshape(shape)
        return np.matmul(left, right.T, out=tile)


class Search:
    """A search under way: tiles go in, survivors reach the shortlist.

    :param symmetric: rows and columns are the same vectors, and a row is not its own neighbour.
    """

    def __init__(self, shortlist: Shortlist, product: Product, *, symmetric: bool) -> None:
        self._shortlist, self._product, self._symmetric = shortlist, product, symmetric
        self._masks = np.empty((2, 0), dtype=np.bool_)
        # Survivors of a row in one tile that are too many to keep unexamined.
        self._crowd = 4 * shortlist.k + 64

    def open(self, rows: Some, columns: Some, own: npt.NDArray[np.int64] | None = None) -> None:
        """Look at the first tile of some rows, for themselves alone.

        :param own: the column each row stands for, which is left out; None for none.
        """
        self._look(rows, columns, own, opening=True, both=False)

    def add(self, rows: Some, columns: Some, own: npt.NDArray[np.int64] | None = None) -> None:
        """Look at a further tile; when symmetric, for its columns too."""
        self._look(rows, columns, own, opening=False, both=self._symmetric)

    def _look(
        self,
        rows: Some,
        columns: Some,
        own: npt.NDArray[np.int64] | None,
        *,
        opening: bool,
        both: bool,
    ) -> None:
        product, shortlist = self._product, self._shortlist
        tile = product(rows, columns)
        lines, places = _numbers(rows), _numbers(columns)
        if own is not None:
            at = np.minimum(np.searchsorted(places, own), places.size - 1)
            mine = np.flatnonzero(places[at] == own)
            tile[mine, at[mine]] = -np.inf
        if opening:
            shortlist.start(rows, tile, product.error)
        if self._masks.shape[1] < tile.size:
            self._masks = np.empty((2, tile.size), dtype=np.bool_)
        close, other = (mask[: tile.size].reshape(tile.shape) for mask in self._masks)
        np.greater_equal(tile, self._reach(rows)[:, None], out=close)
        if both:
            np.greater_equal(tile, self._reach(columns)[None, :], out=other)
            np.logical_or(close, other, out=close)
        many = 4 * np.count_nonzero(close) > shortlist.k * sum(tile.shape)
        if many and _densest(close) > self._crowd:
            self._one_side(tile, lines, places)
            if both:
                self._one_side(np.ascontiguousarray(tile.T), places, lines)
            return
        down, across, value = _survivors(tile, close)
        shortlist.offer(lines[down], places[across], value, product.error)
        if both:
            order = np.argsort(across, kind="stable")
            down, across, value = down[order], across[order], value[order]
            shortlist.offer(places[across], lines[down], value, product.error)

    def _one_side(
        self, tile: Floats, lines: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
    ) -> None:
        """As many survive as where there are near copies: look closer at rows with a crowd."""
        close = tile >= self._reach(lines)[:, None]
        crowded = np.flatnonzero(np.count_nonzero(close, axis=1) > self._crowd)
        for part in ranges(crowded.size, max(1, _CLOSER // tile.shape[1])):
            self._closer(close[crowded[part]], lines[crowded[part]], places)
        close[crowded] = False
        down, across, value = _survivors(tile, close)
        self._shortlist.offer(lines[down], places[across], value, self._product.error)

    def _closer(
        self,
        close: npt.NDArray[np.bool_],
        lines: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
    ) -> None:
        """Offer the pairs in ``close`` by their products in float64."""
        shortlist = self._shortlist
        error = rounding(shortlist.left.shape[1], 53)
        among = np.flatnonzero(close.any(axis=0))
        close, places = close[:, among], places[among]
        right = shortlist.right[places].astype(np.float64)
        product = shortlist.left[lines].astype(np.float64) @ right.T
        product[~close] = -np.inf
        floor = shortlist.floor[lines]
        if among.size >= shortlist.k:
            reached = np.minimum(kth_largest(product, shortlist.k), 1.0) - error
            floor = np.maximum(floor, reached)
        close &= product >= floor[:, None] - error
        # Beyond one all are cut to one: ties, of which the k lowest columns will do.
        ones = product >= 1.0 + error
        close &= ~ones | (np.cumsum(ones, axis=1, dtype=np.int32) <= shortlist.k)
        down, across = np.nonzero(close)
        shortlist.offer(lines[down], places[across], product[down, across], error)

    def _reach(self, rows: Some) -> Floats:
        """The product, in float32 and rounded down, that a neighbour has at least."""
        reach = np.maximum(self._shortlist.floor[rows] - self._product.error, -2.0)
        return np.nextafter(reach.astype(np.float32), np.float32(-3.0))


def _numbers(some: Some) -> npt.NDArray[np.int64]:
    return np.arange(some.start, some.stop) if isinstance(some, slice) else some


def _densest(close: npt.NDArray[np.bool_]) -> int:
    """The most survivors of a row or column."""
    return int(max(np.count_nonzero(close, axis=axis).max() for axis in (0, 1)))


def _survivors(
    tile: Floats, close: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Doubles]:
    found = np.flatnonzero(close)
    down, across = np.divmod(found, tile.shape[1])
    return down, across, tile.ravel()[found].astype(np.float64)


def nearest_of_all(
    unit: Floats,
    k: int,
    side: int,
    product: Product,
    progress: Callable[[int], None] | None = None,
) -> Found:
    """The ``k`` nearest other rows of every row.

    :param side: rows and columns of a tile.
    :param progress: called with rows, in proportion to the work done.
    """
    shortlist = Shortlist(unit, unit, k)
    search = Search(shortlist, product, symmetric=True)
    blocks = ranges(unit.shape[0], side)
    for rows in blocks:
        search.open(rows, rows, np.arange(rows.start, rows.stop))
    for done in _evenly(unit.shape[0], len(blocks), progress):
        for columns in blocks[done + 1 :]:
            search.add(blocks[done], columns)
    return shortlist.finish()


def nearest_of_some(
    left: Floats,
    right: Floats,
    k: int,
    side: int,
    product: Product,
    own: npt.NDArray[np.int64] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Found:
    """The ``k`` rows of ``right`` nearest to each of ``left``.

    :param own: the row of ``right`` that each of ``left`` is, which is left out; None for none.
    :param progress: called with the rows finished in each block.
    """
    shortlist = Shortlist(left, right, k)
    search = Search(shortlist, product, symmetric=False)
    for rows in ranges(left.shape[0], side):
        mine = None if own is None else own[rows]
        first, *others = ranges(right.shape[0], max(side, k + 1))
        search.open(rows, first, mine)
        for columns in others:
            search.add(rows, columns, mine)
        if progress is not None:
            progress(rows.stop - rows.start)
    return shortlist.finish()


def nearest_joined(unit: Floats, earlier: Found, k: int, side: int, product: MakeProduct) -> Found:
    """The ``k`` nearest other rows of every row, those of the first rows being known.

    :param earlier: the ``k`` nearest of the first rows among themselves.
    """
    indices, cosines = earlier
    old, size = indices.shape[0], unit.shape[0]
    fresh = ranges(size, side, old)
    every = product(unit, unit)
    reach = cosines[:, -1] - every.error
    touched = np.concatenate(
        [
            rows.start + np.flatnonzero((every(rows, columns) >= reach[rows, None]).any(axis=1))
            for rows in ranges(old, side)
            for columns in fresh
        ]
    )
    touched = np.unique(touched)
    changed = unit[touched]
    shortlist = Shortlist(changed, unit, k)
    # What is known is exact.
    line = np.repeat(np.arange(touched.size), k)
    shortlist.offer(line, indices[touched].ravel(), cosines[touched].ravel(), 0.0)
    search = Search(shortlist, product(changed, unit), symmetric=False)
    for rows in ranges(touched.size, side):
        for columns in fresh:
            search.add(rows, columns)
    merged = shortlist.finish()
    own = np.arange(old, size)
    of_new = nearest_of_some(unit[old:], unit, k, side, product(unit[old:], unit), own)
    joined = np.concatenate([indices, of_new[0]]), np.concatenate([cosines, of_new[1]])
    joined[0][touched], joined[1][touched] = merged
    return joined


def _evenly(size: int, blocks: int, progress: Callable[[int], None] | None) -> Iterator[int]:
    """Each block in turn, reporting rows in proportion to the tiles finished."""
    total, finished, reported = blocks * (blocks + 1) // 2, 0, 0
    for block in range(blocks):
        yield block
        finished += blocks - block
        if progress is not None:
            reached = size * finished // total
            progress(reached - reported)
            reported = reached
