"""The graph from inverted lists: FAISS cuts them, the exact search's tiles look into them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.shortlist import Floats, Shortlist, ranges
from ragsieve.evidence.tiles import Float32Product, Found, Search
from ragsieve.graphs.partition import partitioned
from ragsieve.records import NeighborGraph

Tuning = tuple[npt.NDArray[np.int64], NeighborGraph]
Parameters = tuple[tuple[str, float | int], ...]

_TILE = 1 << 22
# Rows whose probes are held at a time.
_STRETCH = 1 << 17


def search_lists(
    unit: Floats,
    k: int,
    tuning: Tuning,
    aim: float,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> tuple[Found, Parameters]:
    """The ``k`` nearest of each row among the lists it looks into.

    How far it looks is the margin within which ``aim`` of the sampled neighbours lie. A
    margin of similarity, not a number of lists: rows far from every centroid look into many.

    :param tuning: sampled rows, and their exact neighbours.
    :param aim: in (0, 1].
    """
    lists = max(1, min(round(2 * math.sqrt(unit.shape[0])), unit.shape[0] // 40))
    partition = partitioned(unit, lists, seed)
    margin = float(np.quantile(partition.shortfalls(unit, tuning[1], tuning[0]), aim))
    shortlist = Shortlist(unit, unit, k)
    search = Search(shortlist, Float32Product(unit, unit), symmetric=False)
    for rows in partition.members:
        for part in _parts(rows, rows.size):
            search.open(rows[part], rows, rows[part])
    looked = int((partition.sizes**2).sum())
    for stretch in ranges(unit.shape[0], _STRETCH):
        for number, asking in partition.probes(unit, stretch, margin, k):
            columns = partition.members[number]
            looked += asking.size * columns.size
            for part in _parts(asking, columns.size):
                search.add(asking[part], columns)
        if progress is not None:
            progress(stretch.stop - stretch.start)
    looked_share = looked / unit.shape[0] ** 2
    return shortlist.finish(), (
        ("lists", lists),
        ("margin", margin),
        ("pairs_examined_share", looked_share),
    )


def _parts(rows: npt.NDArray[np.int64], width: int) -> list[slice]:
    return ranges(rows.size, max(1, _TILE // max(1, width))) if width else []
