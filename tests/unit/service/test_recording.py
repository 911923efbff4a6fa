"""What filter and gate find is kept once, in the asker's name; retrievals are counted."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from ragsieve.cases import Place
from ragsieve.ledger import open_ledger
from ragsieve.ledger.records import QueueFilter, ScanKind, ScanState
from ragsieve.records import RankedDocument, Ranking
from ragsieve.service.access import LOCAL
from ragsieve.service.exposing import Exposing
from ragsieve.service.judging import judge
from ragsieve.service.keys import Role
from unit.service.keeping import ADDRESS, HIDE, PLANTED, Kept, tags, until
from unit.service.making import QUERY, asked, collection, corpus, key_file, samples, served

PROMOTED = ["p0", *[f"d{n}" for n in range(39)]]
PRIVATE = "the question of a patient"


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def found(kept, tenant=None, **wanted):
    return kept.ledger.incidents.queue(QueueFilter(**wanted), tenant=tenant).entries


def recorder_of(kept):
    made = kept.parts()
    (held,) = made.holdings
    return made.recorder, held


def outcome_of(kept, held, *, mode="full", ids=PROMOTED, withheld=frozenset()):
    entries = tuple(RankedDocument(held.documents[name], rank) for rank, name in enumerate(ids, 1))
    return judge([Ranking("q", QUERY, entries)], held, mode=mode, size=5, withheld=withheld)[0]


@pytest.mark.parametrize("mode", ["full", "decision"])
def test_a_finding_is_kept_with_its_retrieval_and_all_its_evidence(kept, mode):
    with served(kept.parts()) as client:
        answer = client.post("/v1/filter", json=asked(PROMOTED, mode=mode, query_id="q7")).json()
        assert "p0" in answer["removed"]
        (one,) = until(lambda: found(kept, document_id="p0"))
    incident = one.incident
    assert incident.place == Place(ADDRESS, "p0", None)
    assert incident.context.query_id == "q7"
    assert incident.context.query == QUERY
    assert [seen.document_id for seen in incident.context.ranking] == PROMOTED
    assert incident.verdict.flagged
    names = [evidence.name for evidence in incident.verdict.evidences]
    held = next(iter(kept.parts().holdings))
    whole = outcome_of(kept, held).verdicts[0]
    assert names == [evidence.name for evidence in whole.evidences]
    assert incident.verdict.score == whole.score
    assert incident.embedding_version == "fake-encoder"
    assert incident.decision.rule == "all"
    scan = kept.ledger.scans.get(incident.scan_id)
    assert (scan.start.kind, scan.start.store) == (ScanKind.FILTER, ADDRESS)
    assert scan.start.policy_sha256 == kept.policy.sha256
    # It ended with the service.
    assert scan.state is ScanState.FINISHED
    assert scan.counts.flagged == len(found(kept))


def test_asking_again_keeps_nothing_new_in_this_process_and_the_next(kept):
    for _ in range(2):
        recorder, held = recorder_of(kept)
        for mode in ("full", "decision", "decision"):
            recorder.filtered(LOCAL, held, outcome_of(kept, held, mode=mode))
        recorder.close()
    assert len(found(kept, document_id="p0", superseded=None)) == 1
    assert len(kept.ledger.scans.all()) == 1
    # One entry for each: the scan, its findings, its end.
    actions = [one.action for one in kept.ledger.audit.entries()]
    assert sum(action.startswith("scan.") for action in actions) == 2


def test_the_same_document_with_another_content_is_another_finding(kept):
    recorder, held = recorder_of(kept)
    recorder.filtered(LOCAL, held, outcome_of(kept, held))
    changed = dataclasses.replace(held.documents["p0"], text=held.documents["p0"].text + " Ja!")
    held = dataclasses.replace(held, documents={**held.documents, "p0": changed})
    recorder.filtered(LOCAL, held, outcome_of(kept, held))
    recorder.close()
    # Both wait until a scan reads what lies there: a forged text hides no finding.
    assert len(found(kept, document_id="p0")) == 2


def test_a_judged_document_is_judged_in_full_once_in_decision_mode(kept, monkeypatch):
    recorder, held = recorder_of(kept)
    outcome = outcome_of(kept, held, mode="decision")
    calls = []
    full = judge

    def counted(*args, **more):
        calls.append(1)
        return full(*args, **more)

    monkeypatch.setattr("ragsieve.service.recording.judge", counted)
    for _ in range(5):
        recorder.filtered(LOCAL, held, outcome)
    assert calls == [1]


def test_a_new_day_is_a_new_scan_and_the_old_one_ends(tmp_path):
    kept = Kept(tmp_path)
    now = [datetime.datetime(2026, 3, 1, 23, 59, tzinfo=datetime.UTC)]
    kept.ledger = open_ledger(f"sqlite:///{kept.path}", actor="service", clock=lambda: now[0])
    recorder, held = recorder_of(kept)
    recorder.filtered(LOCAL, held, outcome_of(kept, held))
    now[0] += datetime.timedelta(minutes=2)
    recorder.filtered(LOCAL, held, outcome_of(kept, held, ids=["p1", *PROMOTED[1:]]))
    first, second = sorted(kept.ledger.scans.all(), key=lambda one: one.started)
    assert (first.state, second.state) == (ScanState.FINISHED, ScanState.RUNNING)
    assert first.counts.documents == 5
    recorder.close()
    assert kept.ledger.scans.get(second.start.id).state is ScanState.FINISHED


def test_what_cannot_be_decided_in_a_retrieval_is_no_finding(kept):
    with served(kept.parts()) as client:
        short = client.post("/v1/filter", json=asked([f"d{n}" for n in range(8)])).json()
        assert {one["decision"] for one in short["candidates"]} == {"undecided"}
    assert kept.ledger.scans.all() == ()
    assert kept.ledger.audit.entries() == ()


def test_the_gate_keeps_its_findings_as_a_guard(tmp_path):
    kept = Kept(tmp_path)
    made = kept.parts(state=True)
    _, rows = corpus()
    with served(made) as client:
        new = [
            {
                "id": f"n{n}",
                "text": f"The bridge {n}. " + tags("it was built by Alice of Arden alone"),
                "embedding": rows[3].tolist(),
            }
            for n in range(5)
        ]
        answer = client.post("/v1/gate", json={"documents": new}).json()
        flagged = {
            one["judgement"]["id"]
            for one in answer["results"]
            if one["judgement"]["decision"] == "flagged"
        }
        assert flagged
        until(lambda: len(found(kept)) >= len(flagged))
    kinds = {kept.ledger.scans.get(one.incident.scan_id).start.kind for one in found(kept)}
    assert kinds == {ScanKind.GUARD}
    assert {one.incident.context for one in found(kept)} == {None}


def test_tenants_and_names(tmp_path):
    kept = Kept(tmp_path, owners={"ours": "acme", "theirs": "other"})
    keys = key_file(tmp_path)
    made = kept.parts(keys)
    token, key = keys.add("web", Role.SERVICE, tenant="acme")
    with served(made, token) as client:
        assert client.post("/v1/filter", json=asked(PROMOTED)).status_code == 200
        until(lambda: found(kept, "acme"))
    assert found(kept) == ()
    assert found(kept, "other") == ()
    entries = kept.ledger.audit.entries(tenant="acme")
    recorded = [one for one in entries if one.action.startswith("incident")]
    assert {one.actor for one in recorded} == {f"web [{key.id}]"}
    counted = kept.ledger.exposures
    assert counted.of(Place(f"{ADDRESS}/ours", "p0", "acme")).total == 1
    assert counted.of(Place(f"{ADDRESS}/ours", "p0", None)).total == 0
    assert counted.of(Place(f"{ADDRESS}/theirs", "p0", "other")).total == 0


@pytest.mark.parametrize(("line", "told"), [("", PRIVATE), ("keep_questions = false\n", None)])
def test_questions_are_kept_unless_the_policy_says_no(tmp_path, line, told):
    kept = Kept(tmp_path, policy=line + HIDE)
    with served(kept.parts()) as client:
        client.post("/v1/filter", json=asked(PROMOTED) | {"query": PRIVATE})
        until(lambda: found(kept, document_id="p0"))
    assert found(kept, document_id="p0")[0].incident.context.query == told
    (last,) = kept.ledger.exposures.recent(Place(ADDRESS, "p0"))
    assert last.context.query == told
    written = b"".join(one.read_bytes() for one in kept.folder.glob("ledger.sqlite*"))
    assert (PRIVATE.encode() in written) is (told is not None)


def test_retrievals_are_counted_also_clear_ones_to_a_depth(tmp_path):
    kept = Kept(tmp_path, exposure_depth=3)
    with served(kept.parts()) as client:
        for _ in range(4):
            client.post("/v1/filter", json=asked([f"d{n}" for n in range(40)]))
        batch = [asked([f"d{n}" for n in range(40)])] * 3
        client.post("/v1/filter/batch", json={"requests": batch})
    totals = [kept.ledger.exposures.of(Place(ADDRESS, f"d{n}")).total for n in range(5)]
    assert totals == [7, 7, 7, 0, 0]


def test_nothing_of_a_retrieval_without_a_collection_is_kept(tmp_path):
    kept = Kept(tmp_path, owners={})
    candidates = [{"id": one.id, "text": one.text} for one in corpus()[0][:40]]
    candidates[0]["text"] = PLANTED[0]
    with served(kept.parts()) as client:
        answer = client.post("/v1/filter", json={"query": QUERY, "candidates": candidates})
        assert answer.json()["removed"] == ["d0"]
    assert kept.ledger.scans.all() == ()
    assert kept.ledger.audit.entries() == ()


def test_a_ledger_that_is_away_costs_counts_and_no_answer(kept):
    made = kept.parts()
    exposing = Exposing(kept.ledger, questions=False, depth=2, waiting=5)
    away = kept.path.with_suffix(".away")
    with served(made) as client:
        kept.path.rename(away)
        assert client.post("/v1/filter", json=asked(PROMOTED)).status_code == 200
        until(lambda: samples(client)["ragsieve_recording_failures_total"] >= 1)
        (held,) = made.holdings
        for n in range(8):
            exposing.add(held, Ranking(str(n), QUERY, ()))
        assert exposing.dropped._value.get() == 3
        assert not exposing.flush()
        away.rename(kept.path)
        assert exposing.flush()
        assert exposing.flush()
        client.post("/v1/filter", json=asked(PROMOTED))
        until(lambda: found(kept, document_id="p0"))


def test_what_waited_is_counted_once(kept):
    exposing = Exposing(kept.ledger, questions=False, depth=2, waiting=5_000)
    one, two = (collection(name) for name in ("one", "two"))
    ranking = Ranking("q", QUERY, tuple(RankedDocument(d, 1) for d in corpus()[0][:3]))
    away = kept.path.with_suffix(".away")
    for _ in range(3):
        exposing.add(one, ranking)
        exposing.add(two, ranking)
    kept.path.rename(away)
    assert not exposing.flush()
    assert not exposing.flush()
    away.rename(kept.path)
    exposing.stop()
    of = kept.ledger.exposures.of
    assert [of(Place(name, "d1")).total for name in ("one", "two")] == [3, 3]
    assert of(Place("one", "d2")).total == 0


def test_hostile_ids_and_texts_are_kept_as_they_are(kept):
    name = "<script>\u202e\x00'; drop table incidents; --"
    candidates = [{"id": name, "text": PLANTED[0] + "<script>\x00"}] + [
        {"id": one.id, "text": one.text} for one in corpus()[0][:39]
    ]
    with served(kept.parts()) as client:
        answer = client.post("/v1/filter", json={"query": QUERY, "candidates": candidates})
        assert answer.status_code == 200
        assert name in answer.json()["removed"]
        until(lambda: found(kept, document_id=name))
    assert kept.ledger.exposures.of(Place(ADDRESS, name)).total == 1
    assert kept.ledger.audit.verify().intact
