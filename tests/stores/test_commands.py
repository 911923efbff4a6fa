"""`ragsieve scan ADDRESS`, hiding, and undoing it, over every real store."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ragsieve.cli.main import run
from ragsieve.connectors import open_store
from stores.planted import PLANTED, rows_of

pytestmark = pytest.mark.stores


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
    assert call("store", "prepare", address)[1]["filter"] != "None"
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
