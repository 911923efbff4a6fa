"""`ragsieve scan ADDRESS`, hiding, and undoing it, over every real store."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ragsieve.cli.main import run
from ragsieve.connectors import open_store
from ragsieve.connectors.contract import Row
from stores.makers import DIMENSION

pytestmark = pytest.mark.stores

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


def test_a_store_is_scanned_from_end_to_end(maker, tmp_path, capsys):
    rows = rows_of(maker)
    address = maker.create(tmp_path, rows)
    planted = {row.id for row in rows[:PLANTED]}
    ledger = ["--ledger", f"{tmp_path}/ledger.sqlite"]

    def call(*arguments):
        code = run([*arguments, "--json"])
        said = capsys.readouterr()
        assert said.out, said.err
        return code, json.loads(said.out)

    if not maker.lossless:
        # Cosines of such vectors are not those of the texts: refused, and nothing is judged.
        assert run(["scan", address, *ledger]) == 2
        assert "0.85" in capsys.readouterr().err
        assert call("findings", "list", *ledger)[1]["total"] == 0
        return
    code, dry = call("scan", address, *ledger)
    assert code == 1
    assert planted <= set(dry["quarantine"])
    assert dry["hidden"] is None
    assert call("store", "marks", address)[1]["hidden"] == []
    code, done = call("scan", address, *ledger, "--apply")
    assert set(done["hidden"]) == set(done["quarantine"]) == set(dry["quarantine"])
    connector = open_store(address)
    query = np.asarray(rows[0].vector)
    served = maker.native_search(connector, query, len(rows), connector.retrieval_filter())
    connector.close()
    assert set(served).isdisjoint(done["hidden"])
    assert len(served) == len(rows) - len(done["hidden"])
    secret = ["--store", address]
    assert call("rollback", done["scan"], *ledger, *secret, "--apply")[1]["complete"]
    assert call("store", "marks", address)[1]["hidden"] == []
    assert call("audit", "verify", *ledger)[1]["intact"]
