"""Exact neighbour lists of documents that come and go."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.errors import EmbeddingError
from ragsieve.evidence.knn import unit_graph
from ragsieve.evidence.shortlist import exact_similarities, rounding
from ragsieve.features.growing import GrowingArray
from ragsieve.records import NeighborGraph

BLOCK_BYTES = 64 * 1024 * 1024
_SAMPLED = 8
# Above this share of the documents, searching for all of them costs less.
_MOST_SEARCHED = 0.25

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Cosines = npt.NDArray[np.float64]

_NO_PAIRS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclasses.dataclass(frozen=True, slots=True)
class Lists:
    """The kept neighbours of some documents.

    :param near: shape (n, width), slots, by (-cosine, slot); 0 behind the last.
    :param cosines: shape (n, width).
    :param held: shape (n,), neighbours kept of each.
    """

    near: npt.NDArray[np.int32]
    cosines: Cosines
    held: npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True, slots=True)
class Touched:
    """What a change did to the lists.

    :param slots: the documents whose lists changed, those that came among them; ascending.
    :param searched: how many of them were searched for among all documents.
    """

    slots: Rows
    searched: int


class LiveNeighbors:
    """The exact nearest neighbours of every document, kept up to date.

    A document has a slot, given in the order of arrival and not used again. Each list is
    the beginning of the true one: k neighbours and a few spare, so that a document that
    loses one seldom has to be searched for anew.

    :param k: neighbours wanted.
    :param spare: neighbours kept beyond them.
    """

    def __init__(self, k: int, spare: int) -> None:
        self.k, self._width = k, k + spare
        self._clear()

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> int:
        """Slots given out."""
        return len(self._alive)

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """By slot, which documents are there."""
        return self._alive.view

    @property
    def unit(self) -> Vectors:
        """By slot, unit rows."""
        if self._unit is None:
            return np.empty((0, 0), dtype=np.float32)
        return self._unit.view

    @property
    def used(self) -> int:
        """Neighbours of each document, at most k."""
        return min(self.k, max(0, self._count - 1))

    def check(self, rows: Vectors) -> None:
        """Whether rows could be added.

        :raises EmbeddingError: when their dimension is another.
        """
        if self._unit is not None and rows.shape[1] != self.unit.shape[1]:
            raise EmbeddingError(
                f"the new rows have dimension {rows.shape[1]}, those of the index "
                f"{self.unit.shape[1]}; embed both with one encoder"
            )

    def near(self, slots: Rows) -> tuple[Rows, Cosines]:
        """The neighbours of some documents and their cosines, each (n, used)."""
        used = self.used
        found = self._near.view[slots, :used].astype(np.int64)
        return found, self._cosines.view[slots, :used]

    def lists(self, slots: Rows) -> Lists:
        """All that is kept of some documents."""
        return Lists(self._near.view[slots], self._cosines.view[slots], self._held.view[slots])

    def graph(self) -> NeighborGraph:
        """The graph of the documents that are there, numbered in the order of their slots."""
        rows = np.flatnonzero(self.alive)
        rank = np.cumsum(self.alive) - 1
        near, cosines = self.near(rows)
        return NeighborGraph(rank[near], cosines)

    def change(self, gone: Rows, fresh: Vectors) -> Touched:
        """Let documents go and others come.

        :param gone: slots of documents that are there.
        :param fresh: unit rows; they get the next slots.
        """
        hit = self._take_out(gone)
        self._append(fresh)
        if not self._count:
            return Touched(np.empty(0, np.int64), 0)
        wanted = np.flatnonzero(self.alive & (self._held.view < self.used))
        new = np.arange(self.slots - len(fresh), self.slots)
        wanted = np.union1d(wanted, new)
        everything = np.flatnonzero(self.alive)
        if wanted.size > _MOST_SEARCHED * self._count:
            self._search_all(everything)
            return Touched(everything, everything.size)
        reach = self._reach(wanted)
        found = [self._search(block, reach, new) for block in self._blocks(wanted)]
        slot, newcomer, cosine = (
            np.concatenate(part) for part in zip(_NO_PAIRS, *found, strict=True)
        )
        merged = self._merge(slot, newcomer, cosine)
        touched = np.unique(np.concatenate([wanted, merged, hit]))
        return Touched(touched[self.alive[touched]], wanted.size)

    def restore(self, gone: Rows, fresh: Vectors, touched: Rows, lists: Lists) -> None:
        """Repeat a change whose result is known."""
        self._take_out(gone)
        self._append(fresh)
        self._near.view[touched] = lists.near
        self._cosines.view[touched] = lists.cosines
        self._held.view[touched] = lists.held

    def compact(self) -> Rows:
        """Give the documents that are there the first slots; their old slots, in order."""
        kept = np.flatnonzero(self.alive)
        rank = (np.cumsum(self.alive) - 1).astype(np.int32)
        lists, unit = self.lists(kept), self.unit[kept]
        behind = np.arange(self._width) >= lists.held[:, None]
        near = np.where(behind, 0, rank[lists.near])
        self._clear()
        self.restore(kept[:0], unit, np.arange(kept.size), Lists(near, lists.cosines, lists.held))
        return kept

    def _clear(self) -> None:
        self._unit: GrowingArray | None = None
        self._alive = GrowingArray(np.bool_)
        self._near = GrowingArray(np.int32, self._width)
        self._cosines = GrowingArray(np.float64, self._width)
        self._held = GrowingArray(np.int32)
        self._count = 0

    def _append(self, fresh: Vectors) -> None:
        if self._unit is None:
            if not len(fresh):
                return
            self._unit = GrowingArray(np.float32, fresh.shape[1])
        if len(fresh):
            self._unit.append(fresh)
        size = self.slots + len(fresh)
        self._alive.extend_to(size, True)
        self._near.extend_to(size, 0)
        self._cosines.extend_to(size, -np.inf)
        self._held.extend_to(size, 0)
        self._count += len(fresh)

    def _take_out(self, gone: Rows) -> Rows:
        """Drop documents from every list; the slots of those that held one."""
        if not gone.size:
            return gone
        self.alive[gone] = False
        self._count -= gone.size
        missing = np.zeros(self.slots, dtype=np.bool_)
        missing[gone] = True
        lost = missing[self._near.view]
        lost &= np.arange(self._width) < self._held.view[:, None]
        hit = np.flatnonzero(lost.any(axis=1) & self.alive)
        order = np.argsort(lost[hit], axis=1, kind="stable")
        self._near.view[hit] = np.take_along_axis(self._near.view[hit], order, axis=1)
        self._cosines.view[hit] = np.take_along_axis(self._cosines.view[hit], order, axis=1)
        self._held.view[hit] -= lost[hit].sum(axis=1, dtype=np.int32)
        return hit

    def _reach(self, wanted: Rows) -> npt.NDArray[np.float32]:
        """By slot, the product that a newcomer must have at least to enter a list."""
        last = self._cosines.view[np.arange(self.slots), np.maximum(0, self._held.view - 1)]
        reach = last - rounding(self.unit.shape[1], 24)
        reach[wanted] = np.inf
        reach[~self.alive] = np.inf
        return np.asarray(np.nextafter(reach.astype(np.float32), np.float32(-3.0)))

    def _blocks(self, wanted: Rows) -> list[Rows]:
        step = max(1, BLOCK_BYTES // (4 * self.slots))
        return [wanted[start : start + step] for start in range(0, wanted.size, step)]

    def _search(
        self, block: Rows, reach: npt.NDArray[np.float32], new: Rows
    ) -> tuple[Rows, Rows, Cosines]:
        """Fill the lists of a block; pairs (slot, newcomer, cosine) for the lists of others."""
        unit = self.unit
        product = unit[block] @ unit.T
        fresh = np.flatnonzero(np.isin(block, new, assume_unique=True))
        column, slot = _where(product[fresh] >= reach)
        newcomer = block[fresh][column]
        product[:, np.flatnonzero(~self.alive)] = -np.inf
        product[np.arange(block.size), block] = -np.inf
        kept = min(self._width, self._count - 1)
        if kept:
            row, other = _closest(product, kept, 2.1 * rounding(unit.shape[1], 24))
            exact = exact_similarities(unit, unit, block[row], other)
            self._write(block, row, other, exact)
        return slot, newcomer, exact_similarities(unit, unit, slot, newcomer)

    def _merge(self, slot: Rows, newcomer: Rows, cosine: Cosines) -> Rows:
        """Put newcomers into the lists of others; the slots of those lists."""
        last = self._cosines.view[slot, np.maximum(0, self._held.view[slot] - 1)]
        # A newcomer has the largest slot: on a tie it stands behind those that were left out.
        enters = cosine > last
        slot, newcomer, cosine = slot[enters], newcomer[enters], cosine[enters]
        mine, row = np.unique(slot, return_inverse=True)
        lists = self.lists(mine)
        place, column = np.nonzero(np.arange(self._width) < lists.held[:, None])
        self._write(
            mine,
            np.concatenate([place, row]),
            np.concatenate([lists.near[place, column], newcomer]),
            np.concatenate([lists.cosines[place, column], cosine]),
        )
        return mine

    def _write(self, slots: Rows, row: Rows, other: Rows, cosine: Cosines) -> None:
        """Make the best candidates of each row the lists of ``slots``."""
        order = np.lexsort((other, -cosine, row))
        row, other, cosine = row[order], other[order], cosine[order]
        sizes = np.bincount(row, minlength=slots.size)
        rank = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        best = rank < self._width
        near = np.zeros((slots.size, self._width), dtype=np.int32)
        cosines = np.full((slots.size, self._width), -np.inf)
        near[row[best], rank[best]] = other[best]
        cosines[row[best], rank[best]] = cosine[best]
        self._near.view[slots], self._cosines.view[slots] = near, cosines
        self._held.view[slots] = np.minimum(sizes, self._width)

    def adopt(self, fresh: Vectors, graph: NeighborGraph) -> Touched:
        """Take in the first documents with neighbours that are known.

        :param graph: the exact one of these rows, with min(k, rows - 1) neighbours.
        """
        self._append(fresh)
        everything = np.arange(self.slots)
        self._fill(everything, graph)
        return Touched(everything, 0)

    def _search_all(self, everything: Rows) -> None:
        self._fill(everything, unit_graph(self.unit[everything], self._width))

    def _fill(self, everything: Rows, graph: NeighborGraph) -> None:
        self._near.view[everything, : graph.k] = everything[graph.indices]
        self._cosines.view[everything, : graph.k] = graph.similarities
        self._held.view[everything] = graph.k


def _where(marks: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Rows and columns of what is marked; faster than a search by two indices."""
    found = np.flatnonzero(marks)
    if not found.size:
        return found, found
    row, column = np.divmod(found, marks.shape[1])
    return row, column


def _closest(product: Vectors, kept: int, slack: float) -> tuple[Rows, Rows]:
    """Rows and columns of all that may be among the ``kept`` largest of their row.

    :param slack: how far two entries may be from their true order.
    """
    size, width = product.shape
    # The k-th largest of some columns is a floor; of every eighth it is a close one in any order.
    step = _SAMPLED if width >= _SAMPLED * 8 * kept else 1
    sample = product[:, ::step]
    line = np.partition(sample, sample.shape[1] - kept, axis=1)[:, sample.shape[1] - kept]
    row, column = _where(product >= (line - np.float32(slack))[:, None])
    if step == 1:
        return row, column
    value = product[row, column]
    order = np.lexsort((-value, row))
    sizes = np.bincount(row, minlength=size)
    starts = np.cumsum(sizes) - sizes
    line = value[order[starts + kept - 1]]
    near = value >= line[row] - np.float32(slack)
    return row[near], column[near]
