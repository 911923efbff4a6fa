"""A whole review over files of FAISS: what a reviewer hides is gone from its search, and comes back."""

from __future__ import annotations

import pytest

from ragsieve.errors import ConfigError
from ragsieve.ledger import open_ledger
from ragsieve.service.desk.routes import router as desk
from ragsieve.service.reviewing import Reviewing
from ragsieve.service.reviews import router as reviews
from ragsieve.service.stores import Stores, declare
from stores.makers_faiss import build
from unit.service.making import parts, served
from unit.service.reviewed import record, rows


class Rows:
    """What `record` looks at of a store."""

    def __init__(self, address, found):
        self.address, self.rows = address, {row.id: row for row in found}


def test_a_campaign_vanishes_from_a_real_index_and_comes_back(tmp_path):
    found = rows()
    declared = declare(build(tmp_path / "index", found))
    stores = Stores([declared])
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", actor="scanner")
    record(ledger, Rows(declared.address, found))
    reviewing = Reviewing(ledger, stores)
    topic = next(row.vector for row in found if row.id == "p0")

    def retrieved():
        def search(custody):
            return [row.id for row, _ in custody.connector.search(topic, depth=8)]

        return stores.run(declared.address, None, ledger, search)

    made = parts(
        routers=(reviews(reviewing), desk(reviewing)), on_stop=(stores.close, ledger.close)
    )
    with served(made) as client:
        client.get("/desk")
        listed = client.get("/v1/reviews").json()["findings"]
        assert {"p0", "p1", "p2", "p3", "p4"} <= set(retrieved())
        page = client.get(f"/desk/cases/{listed[0]['id']}/beside").text
        assert page.count("same campaign") == 4
        assert page.count("cosine 0.9") >= 4
        seen = [{name: one[name] for name in ("id", "version", "item_version")} for one in listed]
        body = {"act": "quarantine", "reason": "five copies", "findings": seen}
        assert len(client.post("/v1/reviews/act", json=body).json()["changed"]) == 5
        assert not {name for name in retrieved() if name.startswith("p")}
        page = client.get(f"/desk/cases/{listed[0]['id']}/beside").text
        assert page.count('<span class="chip hides">hidden</span>') == 4
        assert client.post("/v1/reviews/undo", json={"reason": "no"}).status_code == 200
        assert {"p0", "p1", "p2", "p3", "p4"} <= set(retrieved())
        assert ledger.audit.verify().intact


def test_a_store_that_is_not_there_is_said_and_the_rest_works(tmp_path):
    found = rows()
    address = build(tmp_path / "index", found)
    declared = declare(address)
    for one in (tmp_path / "index").iterdir():
        one.unlink()
    stores = Stores([declared])
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", actor="scanner")
    record(ledger, Rows(declared.address, found))
    reviewing = Reviewing(ledger, stores)
    made = parts(
        routers=(reviews(reviewing), desk(reviewing)), on_stop=(stores.close, ledger.close)
    )
    with served(made) as client:
        client.get("/desk")
        listed = client.get("/v1/reviews").json()["findings"]
        page = client.get(f"/desk/cases/{listed[0]['id']}/beside")
        assert (page.status_code, "cannot be asked" in page.text) == (200, True)
        seen = [{name: listed[0][name] for name in ("id", "version", "item_version")}]
        body = {"act": "quarantine", "reason": "r", "findings": seen}
        assert client.post("/v1/reviews/act", json=body).status_code == 503
        assert client.post("/v1/reviews/act", json=body | {"act": "duplicate"}).status_code == 200
        build(tmp_path / "index", found)
        again = client.get("/v1/reviews", params={"document": listed[0]["document_id"]}).json()
        seen = [{name: again["findings"][0][name] for name in ("id", "version", "item_version")}]
        done = client.post("/v1/reviews/act", json=body | {"findings": seen})
        assert done.status_code == 200, done.text


def test_addresses_are_shown_without_their_secret():
    declared = declare("qdrant://:hunter2@localhost:6333/docs", "acme")
    stores = Stores([declared])
    assert stores.addresses("acme") == ("qdrant://localhost:6333/docs",)
    assert stores.addresses(None) == ()
    assert "hunter2" not in repr(declared)


def test_one_store_of_two_tenants_is_refused():
    address = "faiss:///srv/docs.faiss?texts=/srv/docs.jsonl"
    with pytest.raises(ConfigError, match="two tenants"):
        Stores([declare(address, "a"), declare(address, "b")])
    assert Stores([declare(address, "a"), declare(address, "a")]).addresses("a") != ()
