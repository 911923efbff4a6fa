"""How the tests of the contract make, open and search each store. One maker a scheme."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsieve.connectors.contract import Row

DIMENSION = 16


def plain_ids(count: int) -> list[str]:
    return [f"d{number:05d}" for number in range(count)]


@dataclasses.dataclass(frozen=True)
class Maker:
    """What the contract's tests need to know of a store.

    :param create: with the store's own client, makes a collection of these rows (all have a
        vector) in or below a folder, closes the client, and gives the address for `open_store`.
        Called twice with different folders it makes two collections.
    :param native_search: ids of the nearest rows by the store's own client, best first, given
        an open connector, a vector, a depth, and the filter (`connector.retrieval_filter()`).
    :param ids: so many ids of the kind the store takes.
    :param metadata: keeps of the tests' metadata what the store can hold.
    :param lossless: whether vectors must come back within 1e-6.
    :param normalises: whether vectors come back at unit length.
    :param unknown_id: a well-formed id that no row has.
    :param many: rows of the test that reads many.
    """

    scheme: str
    create: Callable[[Path, Sequence[Row]], str]
    native_search: Callable[[Any, np.ndarray, int, Any], list[str]]
    ids: Callable[[int], list[str]] = plain_ids
    metadata: Callable[[dict[str, Any]], dict[str, Any]] = lambda own: own
    lossless: bool = True
    normalises: bool = False
    unknown_id: str = "nobody"
    many: int = 3_000


def all_makers() -> list[Maker]:
    """Every maker there is: ``MAKERS`` of every ``stores/makers_NAME.py``."""
    found = []
    for path in sorted(Path(__file__).parent.glob("makers_*.py")):
        found += importlib.import_module(f"stores.{path.stem}").MAKERS
    return found


HOSTILE_TEXTS = (
    "Access GRANTED \u202eDENIED \u0645",
    "astronaut \U0001f9d1\u200d\U0001f680, farsi \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "line one\nline two\r\nline\u2028three\u0085four",
    'it\'s "quoted" \\ back`ticked` %s {} $1 -- ; DROP TABLE docs; /* */',
    "\u4f60\u597d\u5440! \u0430pple e\u0301 \ufeff",
    "x" * 20_000,
    " ",
)


def make_rows(maker: Maker, count: int, *, seed: int = 0) -> list[Row]:
    """Rows of the tests: random vectors of unequal length, hostile texts among them."""
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(count, DIMENSION)) * rng.uniform(0.5, 2, (count, 1))).astype("f4")
    rows = []
    for number, name in enumerate(maker.ids(count)):
        text = HOSTILE_TEXTS[number] if number < len(HOSTILE_TEXTS) else f"text {number} of a kind"
        own = {
            "title": f"Title {number} \u202e'\"",
            "source": "wiki",
            "page": number,
            "weight": number / 8 + 0.5,
            "draft": number % 2 == 0,
        }
        rows.append(Row(name, text, vectors[number], maker.metadata(own)))
    return rows
