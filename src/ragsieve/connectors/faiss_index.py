"""What can be done with an index of FAISS, by its kind: which ids, vectors, filters, removals.

A kind that is not known here is not tried out: reading vectors that an index cannot give back
ends the whole process, not the call.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.records import FloatArray

Ids = npt.NDArray[np.int64]

_FLAT = frozenset({"IndexFlat", "IndexFlatL2", "IndexFlatIP"})
_CODES = frozenset({"IndexScalarQuantizer", "IndexPQ"})
_GRAPHS = frozenset({"IndexHNSWFlat", "IndexHNSWSQ", "IndexHNSWPQ"})
_LISTS = frozenset({"IndexIVFFlat", "IndexIVFPQ", "IndexIVFScalarQuantizer"})
_MAPS = frozenset({"IndexIDMap", "IndexIDMap2"})
_EXACT = _FLAT | {"IndexHNSWFlat", "IndexIVFFlat", "IndexNSGFlat"}
_READABLE = _FLAT | _CODES | _GRAPHS | _LISTS | {"IndexNSGFlat", "IndexRefineFlat"}
_FILTERED = _FLAT | {"IndexScalarQuantizer"} | _GRAPHS | _LISTS | {"IndexRefineFlat"}


@dataclasses.dataclass(frozen=True, slots=True)
class Traits:
    """What an index can do.

    :param kind: its class, with those inside it.
    :param exact: whether vectors come back as they went in.
    :param readable: whether they come back at all.
    :param filtered: whether a search can leave ids out.
    :param removes: whether rows can be removed and added again.
    :param shifts: whether the ids of later rows change when one is removed.
    """

    kind: str
    exact: bool
    readable: bool
    filtered: bool
    removes: bool
    shifts: bool


def traits_of(index: Any) -> Traits:
    """What an index can do, by its kind."""
    outer = _downcast(index)
    name = type(outer).__name__
    if name in _MAPS:
        inner = traits_of(outer.index)
        return dataclasses.replace(
            inner,
            kind=f"{name}({inner.kind})",
            # Over lists of its own ids the map and the lists no longer agree after a removal:
            # searches then give other rows' ids.
            removes=inner.removes and inner.shifts,
            shifts=False,
        )
    if name == "IndexPreTransform":
        inner = traits_of(outer.index)
        return dataclasses.replace(inner, kind=f"{name}({inner.kind})", exact=False)
    exact = name in _EXACT
    if name == "IndexRefineFlat":
        exact = type(_downcast(outer.refine_index)).__name__ in _FLAT
    return Traits(
        kind=name,
        exact=exact,
        readable=name in _READABLE,
        filtered=name in _FILTERED,
        removes=name in _FLAT | _CODES | _LISTS,
        shifts=name in _FLAT | _CODES,
    )


def ids_of(index: Any) -> Ids | None:
    """The id of every vector; None for an index of which that is not known."""
    faiss = _faiss()
    outer = _downcast(index)
    if type(outer).__name__ in _MAPS:
        return np.asarray(faiss.vector_to_array(outer.id_map), dtype=np.int64)
    lists = lists_of(outer)
    if lists is None:
        counted = traits_of(outer).readable
        return np.arange(outer.ntotal, dtype=np.int64) if counted else None
    found = [
        faiss.rev_swig_ptr(lists.invlists.get_ids(number), size).copy()
        for number in range(lists.nlist)
        if (size := lists.invlists.list_size(number))
    ]
    return np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def open_vectors(index: Any) -> None:
    """Let vectors of inverted lists be read by id; changes the index in memory only."""
    lists = lists_of(index)
    if lists is not None:
        lists.set_direct_map_type(_faiss().DirectMap.Hashtable)


def vectors_of(index: Any, ids: Ids) -> FloatArray:
    """The vectors of ids that are there, shape (n, d), after `open_vectors`.

    :param index: one that is `Traits.readable`.
    """
    if not ids.size:
        return np.empty((0, index.d), dtype=np.float32)
    faiss = _faiss()
    outer = _downcast(index)
    if type(outer).__name__ in _MAPS:
        # The plain map has no way back from its ids.
        known = np.asarray(faiss.vector_to_array(outer.id_map), dtype=np.int64)
        order = np.argsort(known, kind="stable")
        ids = order[np.searchsorted(known, ids, sorter=order)].astype(np.int64)
        outer = outer.index
    return np.asarray(outer.reconstruct_batch(ids), dtype=np.float32)


def removing(index: Any, ids: Ids) -> int:
    """Remove ids of an index that is `Traits.removes`; how many were."""
    faiss = _faiss()
    lists = lists_of(index)
    if lists is not None:
        # The other kinds of direct map refuse, or want the ids in another form.
        lists.set_direct_map_type(faiss.DirectMap.NoMap)
    return int(index.remove_ids(faiss.IDSelectorBatch(ids)))


def adding(index: Any, vectors: FloatArray, ids: Ids) -> None:
    """Add vectors under ids, or behind the last where the index counts by itself."""
    outer = _downcast(index)
    own = type(outer).__name__ in _MAPS or lists_of(outer) is not None
    if own:
        index.add_with_ids(np.asarray(vectors, dtype=np.float32), ids)
    else:
        index.add(np.asarray(vectors, dtype=np.float32))


def parameters(index: Any, hidden: Ids, *, wide: bool = False) -> Any:
    """Parameters of a search that leaves ids out, otherwise those the index has.

    :param wide: look everywhere, not only where the index would.
    """
    faiss = _faiss()
    selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(hidden))
    return _parameters(faiss, index, selector, wide=wide)


def _parameters(faiss: Any, index: Any, selector: Any, *, wide: bool) -> Any:
    outer = _downcast(index)
    name = type(outer).__name__
    if name in _MAPS or name == "IndexPreTransform":
        return _parameters(faiss, outer.index, selector, wide=wide)
    if name == "IndexRefineFlat":
        base = _parameters(faiss, outer.base_index, selector, wide=wide)
        return faiss.IndexRefineSearchParameters(k_factor=outer.k_factor, base_index_params=base)
    if name in _LISTS:
        # Without it the parameters' own default applies: one list.
        return faiss.SearchParametersIVF(sel=selector, nprobe=outer.nlist if wide else outer.nprobe)
    if name in _GRAPHS:
        reach = outer.hnsw.efSearch
        return faiss.SearchParametersHNSW(
            sel=selector, efSearch=max(outer.ntotal, reach) if wide else reach
        )
    return faiss.SearchParameters(sel=selector)


def lists_of(index: Any) -> Any:
    """The inverted lists in an index; None where it has none, or ones behind a map."""
    outer = _downcast(index)
    name = type(outer).__name__
    if name == "IndexPreTransform" or name in _MAPS:
        return lists_of(outer.index)
    return outer if name in _LISTS else None


def _downcast(index: Any) -> Any:
    return _faiss().downcast_index(index)


def _faiss() -> Any:
    return require("faiss", extra="faiss")
