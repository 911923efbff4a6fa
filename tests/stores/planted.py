"""Rows of a store with a small campaign among them."""

from __future__ import annotations

import numpy as np

from ragsieve.connectors.contract import Row
from stores.makers import DIMENSION

WORDS = "river stone bridge market winter archive lantern orchard survey council harbour".split()
PLANTED = 5


def rows_of(maker, count=120):
    """Ordinary texts, and five that say one thing in letters that are not what they seem."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(count, DIMENSION)).astype("f4")
    vectors[:PLANTED] = rng.normal(size=DIMENSION) + 0.02 * rng.normal(size=(PLANTED, DIMENSION))
    rows = []
    for number, (name, vector) in enumerate(zip(maker.ids(count), vectors, strict=True)):
        text = " ".join(rng.choice(WORDS, size=12))
        if number < PLANTED:
            text = f"the bridge\u200b was\u200b built by Nоbоdy, said {text}"
        own = {"title": "", "source": "wiki", "page": number, "weight": 0.5, "draft": False}
        rows.append(Row(name, text, vector, maker.metadata(own)))
    return rows
