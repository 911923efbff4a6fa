"""Retrieval honours the state of documents, at once, and while the ledger is away."""

from __future__ import annotations

import sqlite3

import pytest

from ragsieve.cases import Place, Remediation
from ragsieve.errors import StoreError
from ragsieve.ledger.records import QueueFilter, ScanCounts, ScanKind, ScanStart, Target
from ragsieve.service.withholding import Withheld, Withholding
from unit.service.keeping import ADDRESS, Kept, documents_of, scanned, until
from unit.service.making import asked, samples, served

IDS = [f"d{n}" for n in range(40)]


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def filtered(client, ids=IDS):
    answer = client.post("/v1/filter", json=asked(ids))
    assert answer.status_code == 200, answer.text
    return answer.json()


def hidden(ledger, names, *, store=ADDRESS, tenant=None, scan="m1"):
    """Written as hidden, by somebody beside the service."""
    ledger.scans.begin(ScanStart(scan, store, "manual", "manual", ScanKind.MANUAL, tenant))
    targets = [Target(Place(store, name, tenant), "0" * 64) for name in names]
    intent = ledger.states.intend(
        targets, Remediation.QUARANTINING, reason="somebody hides it", scan_id=scan
    )
    ledger.scans.finish(scan, ScanCounts(), tenant=tenant)
    return intent.items


def released(ledger, names, *, store=ADDRESS, tenant=None):
    targets = [Target(Place(store, name, tenant), "0" * 64) for name in names]
    return ledger.states.intend(targets, Remediation.RELEASING, reason="it is benign").items


def test_what_is_hidden_is_not_handed_over_and_comes_back(kept):
    with served(kept.parts()) as client:
        assert filtered(client)["kept"][0]["id"] == "d0"
        other = kept.opened("elsewhere")
        pending = hidden(other, ["d0", "d1"])
        # Pending or done: retrieval must not return it.
        found = until(lambda: (now := filtered(client))["withheld"] == ["d0", "d1"] and now)
        assert {"d0", "d1"}.isdisjoint(one["id"] for one in found["kept"])
        other.states.confirm(pending)
        assert filtered(client)["withheld"] == ["d0", "d1"]
        going = released(other, ["d0"])
        assert filtered(client)["withheld"] == ["d0", "d1"]
        other.states.confirm(going)
        found = until(lambda: (now := filtered(client))["withheld"] == ["d1"] and now)
        assert found["kept"][0]["id"] == "d0"


def test_a_review_counts_at_once(tmp_path):
    # Nothing is read by itself for an hour.
    kept = Kept(tmp_path, refresh_seconds=3_600)
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        found = client.get("/v1/reviews", params={"scan": job["id"], "document": "p1"}).json()
        shown = [
            {"id": one["id"], "version": one["version"], "item_version": one["item_version"]}
            for one in found["findings"]
        ]
        assert filtered(client, ["p1", *IDS])["withheld"] == []
        act = {"act": "quarantine", "reason": "a copy", "findings": shown}
        done = client.post("/v1/reviews/act", json=act)
        assert done.status_code == 200, done.text
        assert filtered(client, ["p1", *IDS])["withheld"] == ["p1"]
        undone = client.post("/v1/reviews/undo", json={"reason": "not that one"})
        assert undone.status_code == 200, undone.text
        assert filtered(client, ["p1", *IDS])["withheld"] == []


def test_nothing_of_another_tenant_or_store_is_withheld(tmp_path):
    kept = Kept(tmp_path, owners={"default": None, "ours": "acme"})
    hidden(kept.ledger, ["d0"], tenant="acme", scan="m1")
    hidden(kept.ledger, ["d1"], store=f"{ADDRESS}/ours", tenant="acme", scan="m2")
    with served(kept.parts()) as client:
        for name, gone in (("default", []), ("ours", ["d1"])):
            answer = client.post("/v1/filter", json=asked(IDS, collection=name)).json()
            assert answer["withheld"] == gone


def test_a_released_document_is_not_withheld_for_an_old_scan(kept):
    settled = kept.ledger.states.confirm(hidden(kept.ledger, ["d0"]))
    assert settled
    kept.ledger.states.confirm(released(kept.ledger, ["d0"]))
    found = Withheld(kept.ledger, "default", ADDRESS, None, predicted=frozenset({"d0", "d1"}))
    assert found() == {"d1"}


def test_the_database_goes_and_comes_back(kept):
    hidden(kept.ledger, ["d0"])
    with served(kept.parts()) as client:
        assert filtered(client)["withheld"] == ["d0"]
        assert client.get("/readyz").status_code == 200
        away = kept.path.with_suffix(".away")
        kept.path.rename(away)
        ready = until(lambda: (now := client.get("/readyz")).status_code == 503 and now)
        (reason,) = ready.json()["reasons"]
        assert reason.startswith("ledger: cannot be read; what is withheld is")
        assert str(kept.folder) not in reason
        # The filter goes on with what it knew; what cannot be done without is refused.
        assert filtered(client)["withheld"] == ["d0"]
        assert samples(client)['ragsieve_withheld_age_seconds{collection="default"}'] > 0.3
        for path in ("/v1/reviews", "/v1/findings", "/v1/scans", "/v1/findings/export"):
            refused = client.get(path)
            assert refused.status_code == 503, path
            assert refused.headers["content-type"] == "application/problem+json"
            assert str(kept.folder) not in refused.text
        assert client.post("/v1/scans", json={}).status_code == 503
        away.rename(kept.path)
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/v1/reviews").status_code == 200
        hidden(kept.opened("elsewhere"), ["d1"], scan="m2")
        until(lambda: filtered(client)["withheld"] == ["d0", "d1"])
        # The scan that could not be asked for holds no place.
        assert scanned(client, collection="default")["state"] == "finished"
    assert not kept.path.with_suffix(".away").exists()


def test_a_ledger_that_somebody_locks(kept):
    with served(kept.parts()) as client:
        holder = sqlite3.connect(kept.path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        assert filtered(client)["withheld"] == []
        # Readers go on; writers are told to come again.
        assert client.get("/v1/findings").status_code == 200
        assert client.get("/v1/findings/export").status_code == 503
        holder.execute("ROLLBACK")
        holder.close()
        assert client.get("/v1/findings/export").status_code == 200


def test_the_queue_is_counted_once_it_is_known(kept, monkeypatch):
    monkeypatch.setattr("ragsieve.service.withholding.QUEUE_SECONDS", 0.1)
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        waiting = job["found"]["findings"]
        assert until(lambda: samples(client).get("ragsieve_review_queue_documents") == waiting)


def test_a_reading_that_fails_keeps_what_was_known(kept):
    hidden(kept.ledger, ["d0"])
    time = [0.0]
    found = Withheld(kept.ledger, "default", ADDRESS, None, clock=lambda: time[0])
    keeper = Withholding(kept.ledger, [found], tenants=[None], seconds=2)
    assert keeper.problem() is None
    kept.path.rename(kept.path.with_suffix(".away"))
    time[0] = 7.0
    keeper.invalidate(None)
    assert found() == {"d0"}
    assert found.age_seconds == 7.0
    assert keeper.problem() == "cannot be read; what is withheld is 7 s old"
    with pytest.raises(StoreError):
        Withheld(kept.ledger, "default", ADDRESS, None)


def test_documents_that_entered_the_store_later_are_known_by_id(kept):
    # Not a document of the collection: whole candidates are withheld by id too.
    hidden(kept.ledger, ["new"])
    texts = documents_of(kept.rows)
    candidates = [{"id": "new", "text": "something new"}] + [
        {"id": name, "text": texts[name].text} for name in IDS
    ]
    with served(kept.parts()) as client:
        answer = client.post("/v1/filter", json={"query": "a bridge", "candidates": candidates})
        assert answer.json()["withheld"] == ["new"]
    assert kept.ledger.incidents.queue(QueueFilter(document_id="new")).total == 0
