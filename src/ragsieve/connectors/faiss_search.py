"""Nearest served rows of an index of FAISS, also where the index alone would find too few."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ragsieve._extras import require
from ragsieve.connectors.contract import PAGE_ROWS, Mark, Row
from ragsieve.connectors.exchange import batched
from ragsieve.connectors.faiss_index import parameters
from ragsieve.connectors.faiss_rows import Collection
from ragsieve.connectors.nearest import DISTANCES, exact_nearest
from ragsieve.records import FloatArray

Found = tuple[tuple[Row, float], ...]


def distance_of(index: Any) -> str | None:
    """The index's distance, as `connectors.nearest` names it; None for one it does not have."""
    faiss = require("faiss", extra="faiss")
    known = {faiss.METRIC_L2: "l2", faiss.METRIC_INNER_PRODUCT: "ip"}
    return known.get(index.metric_type)


def search_rows(
    found: Collection, marks: Mapping[str, Mark], query: FloatArray, depth: int
) -> Found:
    """The nearest rows that are not hidden, best first, each id once.

    First where the index would look, then everywhere in it, then every row by itself.
    """
    served = [name for name in found.places if name not in marks]
    # An id may stand on several rows.
    count = depth + len(found.ids) - len(found.places)
    rows: Found = ()
    for wide in (False, True):
        rows = _asked(found, marks, query, count, wide=wide)[:depth]
        if len(rows) >= min(depth, len(served)):
            return rows
    return _everywhere(found, served, query, depth) or rows


def _asked(
    found: Collection, marks: Mapping[str, Mark], query: FloatArray, count: int, *, wide: bool
) -> Found:
    """What the index answers."""
    hidden = found.numbers_of(marks)
    filtered = found.traits.filtered
    count = min(count + (0 if filtered else len(hidden)), max(int(found.index.ntotal), 1))
    chosen = parameters(found.index, hidden, wide=wide) if filtered else None
    distances, numbers = found.index.search(query[None], count, params=chosen)
    best: dict[str, tuple[int, float]] = {}
    for number, distance in zip(numbers[0].tolist(), distances[0].tolist(), strict=True):
        # -1 fills up; a row with NaN is at no distance.
        if number >= 0 and math.isfinite(distance):
            place = found.place_of[number]
            if found.ids[place] not in marks:
                best.setdefault(found.ids[place], (place, distance))
    rows = found.rows([place for place, _ in best.values()])
    return tuple((row, value) for row, (_, value) in zip(rows, best.values(), strict=True))


def _everywhere(found: Collection, served: Sequence[str], query: FloatArray, depth: int) -> Found:
    name = distance_of(found.index)
    if name is None or not found.traits.readable:
        return ()
    pages = (found.rows(found.places_of(part)) for part in batched(served, PAGE_ROWS))
    exact = exact_nearest(pages, query, depth=depth, distance=DISTANCES[name])
    # An index gives the product itself.
    return tuple((row, 1.0 - value if name == "ip" else value) for row, value in exact)
