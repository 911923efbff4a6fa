"""Findings leave as pages and files: filtered, of one tenant, with an entry in the audit trail."""

from __future__ import annotations

import json

import pytest

from ragsieve.cases import Opinion
from ragsieve.findings.export import Format, export
from ragsieve.findings.native import read_findings
from ragsieve.service.exports import ACTION
from ragsieve.service.keys import Role
from unit.service.keeping import ADDRESS, PLANTED, Kept, scanned, until
from unit.service.making import QUERY, key_file, served


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def all_of(kept, tenant=None):
    return [one.incident for one in kept.ledger.incidents.queue(tenant=tenant, limit=500).entries]


def test_pages_in_the_order_of_the_queue(kept):
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        whole = client.get("/v1/findings", params={"limit": 500}).json()
        assert whole["total"] == len(whole["findings"]) == job["found"]["findings"]
        assert "not that it is false" in whole["meaning"]
        pages = [
            client.get("/v1/findings", params={"limit": 2, "offset": start}).json()["findings"]
            for start in range(0, whole["total"], 2)
        ]
        assert [one["id"] for page in pages for one in page] == [
            one["id"] for one in whole["findings"]
        ]
        one = whole["findings"][0]
        assert one["format"] == "ragsieve-finding"
        assert one["rollback_handle"] == job["id"]
        assert one["verdict"]["evidences"]
        beyond = client.get("/v1/findings", params={"offset": 10_000}).json()
        assert beyond["findings"] == []


def test_filters(kept):
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        chosen = all_of(kept)[0]
        kept.ledger.reviews.add(chosen.id, Opinion.CONFIRMED, reason="seen")

        def total(**asked):
            return client.get("/v1/findings", params=asked).json()["total"]

        every = job["found"]["findings"]
        assert total(scan=job["id"], store=ADDRESS, state="none", days=1) == every
        assert total(document=chosen.place.document_id) == 1
        assert total(opinion="confirmed") == total(reviewed=True) == 1
        assert total(source="https://wiki.example/x") == 5
        assert total(scan="another") == total(store="elsewhere") == total(author="eve") == 0
        assert total(level="quarantine") + total(level="review") + total(level="info") == every


@pytest.mark.parametrize("kind", list(Format))
def test_a_file_is_what_the_command_writes(kept, kind):
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        answer = client.get("/v1/findings/export", params={"format": kind})
        assert answer.status_code == 200
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert answer.headers["x-total-findings"] == str(job["found"]["findings"])
    assert answer.text == "".join(export(all_of(kept), kind))
    if kind is Format.JSONL:
        path = kept.folder / "found.jsonl"
        path.write_bytes(answer.content)
        assert [one.id for one in read_findings(path)] == [one.id for one in all_of(kept)]
    if kind is Format.SARIF:
        assert json.loads(answer.text)["version"] == "2.1.0"
    (entry,) = kept.ledger.audit.entries(action=ACTION)
    assert entry.payload["findings"] == job["found"]["findings"]
    assert entry.payload["format"] == kind
    assert entry.actor == "local"


def test_an_export_is_bounded_and_goes_on_where_it_ended(tmp_path):
    kept = Kept(tmp_path, most_exported=3)
    with served(kept.parts()) as client:
        scanned(client, collection="default")
        every = [one.id for one in all_of(kept)]
        found = []
        while len(found) < len(every):
            answer = client.get("/v1/findings/export", params={"offset": len(found)})
            assert answer.headers["x-total-findings"] == str(len(every))
            lines = answer.text.splitlines()
            assert 0 < len(lines) <= 3
            found += [json.loads(line)["id"] for line in lines]
        assert found == every
        assert client.get("/v1/findings/export", params={"limit": 4}).status_code == 422


def test_tenants_and_roles(tmp_path):
    kept = Kept(tmp_path, owners={"ours": "acme", "theirs": "other"})
    keys = key_file(tmp_path)
    made = kept.parts(keys)
    tokens = {
        tenant: keys.add(f"reviewer of {tenant}", Role.REVIEWER, tenant=tenant)[0]
        for tenant in ("acme", "other", None)
    }
    service, _ = keys.add("web", Role.SERVICE, tenant="acme")
    with served(made, tokens["acme"]) as client:
        job = scanned(client, collection="ours")
        assert client.get("/v1/findings").json()["total"] == job["found"]["findings"]
    for tenant in ("other", None):
        with served(made, tokens[tenant]) as client:
            for asked in ({}, {"scan": job["id"]}, {"store": f"{ADDRESS}/ours"}):
                assert client.get("/v1/findings", params=asked).json()["total"] == 0
                assert client.get("/v1/findings/export", params=asked).text == ""
    with served(made, service) as client:
        assert client.get("/v1/findings").status_code == 403
        assert client.get("/v1/findings/export").status_code == 403
    with served(made) as client:
        assert client.get("/v1/findings").status_code == 401
    assert kept.ledger.audit.entries(action=ACTION, tenant="acme") == ()
    assert len(kept.ledger.audit.entries(action=ACTION, tenant="other")) == 3


@pytest.mark.parametrize(
    "asked",
    [
        {"format": "pdf"},
        {"limit": 0},
        {"limit": -1},
        {"offset": -1},
        {"state": "gone"},
        {"evidence_at_least": "nan"},
        {"days": 0},
        {"store": ""},
        {"store": "x" * 2_000},
    ],
)
def test_what_cannot_be_used_is_refused(kept, asked):
    with served(kept.parts()) as client:
        answer = client.get("/v1/findings/export", params=asked)
    assert answer.status_code == 422
    assert kept.ledger.audit.entries() == ()


@pytest.mark.parametrize("kind", list(Format))
def test_hostile_documents_break_no_file(kept, kind):
    name = '"},{"id":"forged\u202e\x00</script><script>alert(1)</script>'
    hostile = "</script><script>alert(1)</script>\x00\n\n{}" + PLANTED[0]
    texts = {row.id: row.text for row in kept.rows}
    candidates = [{"id": name, "text": hostile, "title": hostile}] + [
        {"id": f"d{n}", "text": texts[f"d{n}"]} for n in range(39)
    ]
    with served(kept.parts()) as client:
        client.post("/v1/filter", json={"query": QUERY, "candidates": candidates})
        until(lambda: kept.ledger.incidents.queue().total)
        answer = client.get("/v1/findings/export", params={"format": kind})
        assert answer.status_code == 200
        if kind is Format.HTML:
            assert "<script>alert" not in answer.text
        elif kind is Format.SARIF:
            json.loads(answer.text)
        else:
            assert all(json.loads(line) for line in answer.text.splitlines())
        page = client.get("/v1/findings").json()
        assert [one["place"]["document_id"] for one in page["findings"]] == [name]
