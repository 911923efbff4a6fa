"""The graph from a hierarchical navigable small world: FAISS proposes, exact cosines decide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.evidence.knn import unit_graph
from ragsieve.evidence.shortlist import Floats, Shortlist, ranges
from ragsieve.evidence.tiles import Found
from ragsieve.graphs.inverted import Parameters, Tuning
from ragsieve.graphs.recall import recall_of
from ragsieve.records import NeighborGraph

_LINKS = 32
_BUILD_BREADTH = 80
_BREADTHS = (32, 64, 128, 256, 512)
_SPARE = 16
_BLOCK = 8192


def search_layers(
    unit: Floats,
    k: int,
    tuning: Tuning,
    aim: float,
    progress: Callable[[int], None] | None = None,
) -> tuple[Found, Parameters]:
    """The ``k`` nearest of each row among those a search of the layers meets.

    The breadth of the search is raised until ``aim`` of the sampled neighbours are found.

    :param tuning: sampled rows, and their exact neighbours.
    :param aim: in (0, 1].
    :raises MissingExtraError: when FAISS is not installed.
    """
    faiss = require("faiss", extra="approximate")
    index = faiss.IndexHNSWFlat(unit.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BUILD_BREADTH
    index.add(unit)
    rows, exact = tuning
    for breadth in _BREADTHS:
        index.hnsw.efSearch = breadth
        if recall_of(NeighborGraph(*_of_rows(index, unit, rows, k)), exact).share >= aim:
            break
    indices, cosines = np.empty((len(unit), k), np.int64), np.empty((len(unit), k))
    for part in ranges(len(unit), _BLOCK):
        asked = np.arange(part.start, part.stop)
        indices[part], cosines[part] = _of_rows(index, unit, asked, k)
        if progress is not None:
            progress(asked.size)
    return (indices, cosines), (("links", _LINKS), ("breadth", breadth))


def _of_rows(index: object, unit: Floats, rows: npt.NDArray[np.int64], k: int) -> Found:
    wanted = min(k + 1 + _SPARE, len(unit))
    _, met = index.search(unit[rows], wanted)  # type: ignore[attr-defined]
    met = np.sort(met.astype(np.int64), axis=1)
    useful = (met >= 0) & (met != rows[:, None])
    useful[:, 1:] &= met[:, 1:] != met[:, :-1]
    full = useful.sum(axis=1) >= k
    indices, cosines = np.empty((rows.size, k), np.int64), np.empty((rows.size, k))
    useful = useful[full]
    shortlist = Shortlist(unit[rows[full]], unit, k)
    line, _ = np.nonzero(useful)
    # A bound of two keeps all of them for the exact cosines.
    shortlist.offer(line, met[full][useful], np.zeros(line.size), 2.0)
    indices[full], cosines[full] = shortlist.finish()
    if not full.all():
        rest = unit_graph(unit, k, rows=rows[~full])
        indices[~full], cosines[~full] = rest.indices, rest.similarities
    return indices, cosines
