"""A collection scanned from end to end, in memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from builders import clustered
from memory_store import Died, MemoryStore, replaced
from ragsieve.auditing.rows import row_content_sha256
from ragsieve.auditing.store_scan import StoreScanPlan, scan_store
from ragsieve.cases import Measure, Opinion, Remediation
from ragsieve.connectors.address import Fields
from ragsieve.connectors.contract import Capabilities, Row
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.profiles import corpus_rule
from ragsieve.errors import StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.records import QueueFilter, ScanState
from ragsieve.policy.file import read_policy
from ragsieve.records import Decision
from ragsieve.remediation.custody import Custody
from ragsieve.remediation.recovery import recover
from ragsieve.remediation.rollback import roll_back

PLANTED = [
    f"the bridge\u200b was\u200b built by Nоbоdy of {place}"
    for place in ("Arden", "Brook", "Corran", "Dunmore", "Eskdale")
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    texts, vectors = clustered(rng, 200)
    centre = rng.normal(size=16)
    near = centre + 0.02 * rng.normal(size=(5, 16))
    made = [
        Row(f"c{n}", text, vector.astype("f4"), {"title": f"Page {n}", "acl": "staff"})
        for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    made += [
        Row(
            f"p{n}",
            text,
            vector.astype("f4"),
            {"source": "https://wiki.example/x", "acl": "public", "version": "1"},
        )
        for n, (text, vector) in enumerate(zip(PLANTED, near, strict=True))
    ]
    return made


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(f"sqlite:///{tmp_path}/ledger.sqlite", actor="op") as opened:
        yield opened


def judge(corpus, vectors):
    return CorpusDetector(corpus_rule("default")).scan(corpus, vectors)


def custody_of(ledger, rows, **more):
    store = MemoryStore(rows, **more)
    return Custody(ledger, store, row_content_sha256(Fields()))


def plan_of(tmp_path, scan_id="s1", **more):
    return StoreScanPlan(
        scan_id, "default", "f", tmp_path, more.pop("policy", read_policy(None)), **more
    )


def strict(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        'version = 1\n[[rules]]\nname = "public"\nacl = "public"\nmeasure = "quarantine"\n'
        'reason = "anybody may write it"\n'
    )
    return read_policy(path)


def test_a_dry_run_writes_down_and_changes_nothing(tmp_path, ledger, rows):
    custody = custody_of(ledger, rows)
    done = scan_store(custody, plan_of(tmp_path, policy=strict(tmp_path)), judge)
    assert {one for one in done.wanted if one.startswith("p")} == {f"p{n}" for n in range(5)}
    assert done.applied is None
    assert custody.connector.changes == 0
    kept = ledger.scans.get("s1")
    assert kept.state is ScanState.FINISHED
    assert kept.start.dry_run
    assert kept.counts.documents == len(rows)
    page = ledger.incidents.queue(limit=500)
    assert page.total == len(done.incidents) == kept.counts.flagged
    assert {one.incident.decision.policy_sha256 for one in page.entries} == {
        strict(tmp_path).sha256
    }


def test_an_incident_keeps_what_is_needed_to_judge_it_again(tmp_path, ledger, rows):
    done = scan_store(custody_of(ledger, rows), plan_of(tmp_path, embedding_version="m1"), judge)
    planted = next(one for one in done.incidents if one.place.document_id == "p0")
    kept = ledger.incidents.get(planted.id).incident
    assert kept.verdict == planted.verdict
    assert {one.name for one in kept.verdict.evidences} == {c.name for c in done.scan.evidences}
    assert kept.standing.acl == "public"
    assert kept.standing.provenance.source == "https://wiki.example/x"
    assert kept.standing.document_version == "1"
    assert kept.embedding_version == "m1"
    assert kept.index_version == done.snapshot.fingerprint.ids_sha256
    assert kept.rollback_handle == "s1"
    assert kept.campaign is not None
    assert kept.campaign.startswith("s1-")


def test_applied_then_rolled_back(tmp_path, ledger, rows):
    custody = custody_of(ledger, rows)
    plan = plan_of(tmp_path, policy=strict(tmp_path), apply=True)
    done = scan_store(custody, plan, judge)
    hidden = set(custody.connector.hidden)
    assert hidden == set(done.applied.done)
    assert {f"p{n}" for n in range(5)} <= hidden
    assert {mark.scan_id for mark in custody.connector.marks()} == {"s1"}
    assert custody.connector.marks()[0].reason == "public: anybody may write it"
    served = {row.id for row, _ in custody.connector.search(np.ones(16), depth=500)}
    assert served & hidden == set()
    assert roll_back(custody, "s1", reason="a mistake").complete
    assert custody.connector.hidden == {}


def test_what_a_reviewer_found_benign_is_not_hidden_again(tmp_path, ledger, rows):
    custody = custody_of(ledger, rows)
    first = scan_store(custody, plan_of(tmp_path, policy=strict(tmp_path), apply=True), judge)
    known = next(one for one in first.incidents if one.place.document_id == "p1")
    ledger.reviews.add(known.id, Opinion.BENIGN, reason="the bridge page of the town")
    custody.release([custody.target("p1", known.content_sha256)], reason="benign")
    # The same content, ingested anew under another id.
    again = [replaced(row, id="new") if row.id == "p1" else row for row in rows]
    other = Custody(ledger, MemoryStore(again), row_content_sha256(Fields()))
    second = scan_store(other, plan_of(tmp_path, "s2", policy=strict(tmp_path), apply=True), judge)
    assert second.spared == ("new",)
    assert "new" not in other.connector.hidden
    assert "p0" in other.connector.hidden
    wanted = QueueFilter(document_id="new")
    assert ledger.incidents.queue(wanted).entries[0].earlier_opinion is Opinion.BENIGN


def test_a_version_seen_before_is_known_to_the_policy(tmp_path, ledger, rows):
    path = tmp_path / "versions.toml"
    path.write_text(
        'version = 1\n[[rules]]\nname = "new"\nnew_version = true\nmeasure = "review"\n'
        'reason = "n"\n[[rules]]\nname = "old"\nnew_version = false\nmeasure = "record"\n'
        'reason = "o"\n'
    )
    custody, policy = custody_of(ledger, rows), read_policy(path)
    first = scan_store(custody, plan_of(tmp_path, policy=policy), judge)
    second = scan_store(custody, plan_of(tmp_path, "s2", policy=policy), judge)

    def rule(done):
        return {one.decision.rule for one in done.incidents if one.place.document_id == "p0"}

    assert rule(first) == {"new"}
    assert rule(second) == {"old"}
    measures = [one.decision.measure for one in second.incidents if one.standing.document_version]
    assert set(measures) == {Measure.RECORD}


def test_lossy_vectors_are_refused_and_nothing_is_judged(tmp_path, ledger, rows):
    custody = custody_of(ledger, rows, capabilities=Capabilities(lossy_vectors=True))
    with pytest.raises(StoreError, match=r"0\.85.*--embed"):
        scan_store(custody, plan_of(tmp_path), judge)
    assert ledger.scans.all() == ()
    own = {row.id: row.vector for row in rows}
    done = scan_store(
        custody,
        plan_of(tmp_path, "s2"),
        judge,
        embed=lambda corpus: np.array([own[one.id] for one in corpus]),
    )
    assert done.incidents


def test_an_empty_collection_is_a_scan_without_findings(tmp_path, ledger):
    done = scan_store(custody_of(ledger, []), plan_of(tmp_path, apply=True), judge)
    assert (done.scan, done.incidents) == (None, ())
    assert ledger.scans.get("s1").state is ScanState.FINISHED


def test_a_failing_detector_leaves_a_failed_scan(tmp_path, ledger, rows):
    def failing(corpus, vectors):
        raise StoreError("the disk of the models is gone")

    with pytest.raises(StoreError):
        scan_store(custody_of(ledger, rows), plan_of(tmp_path), failing)
    kept = ledger.scans.get("s1")
    assert (kept.state, kept.note) == (ScanState.FAILED, "the disk of the models is gone")


def test_a_scan_that_was_rolled_back_while_it_ran_says_so(tmp_path, ledger, rows):
    custody = custody_of(ledger, rows)

    def slow(corpus, vectors):
        assert roll_back(custody, "s1", reason="wrong store").complete
        return judge(corpus, vectors)

    with pytest.raises(StoreError, match="was rolled back; it may hide nothing more"):
        scan_store(custody, plan_of(tmp_path, policy=strict(tmp_path), apply=True), slow)
    assert custody.connector.hidden == {}
    assert ledger.scans.get("s1").state is ScanState.ROLLED_BACK


def test_an_undecided_document_that_is_a_finding_is_counted_once(tmp_path, ledger, rows):
    path = tmp_path / "low.toml"
    path.write_text(
        'version = 1\n[[thresholds]]\nthreshold = 0.001\nprofile = "default"\nkind = "scan"\n'
    )

    def undecided(corpus, vectors):
        scan = judge(corpus, vectors)
        return dataclasses.replace(scan, decisions=(Decision.UNDECIDED,) * len(scan))

    plan = plan_of(tmp_path, policy=read_policy(path))
    done = scan_store(custody_of(ledger, rows), plan, undecided)
    counts = ledger.scans.get("s1").counts
    assert done.incidents
    assert counts.flagged == len(done.incidents)
    assert (counts.flagged + counts.undecided, counts.clear) == (len(rows), 0)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_scan_killed_while_it_hides_is_settled_and_may_be_run_again(tmp_path, ledger, rows, when):
    custody = custody_of(ledger, rows)
    custody.connector.die = when
    plan = plan_of(tmp_path, policy=strict(tmp_path), apply=True)
    with pytest.raises(Died):
        scan_store(custody, plan, judge)
    assert ledger.states.pending()
    recover(custody, older_than_seconds=0)
    again = scan_store(custody, plan_of(tmp_path, "s2", policy=strict(tmp_path), apply=True), judge)
    hidden = {
        one.place.document_id for one in ledger.states.items(states=[Remediation.QUARANTINED])
    }
    assert hidden == set(custody.connector.hidden) == set(again.wanted)
    assert ledger.audit.verify().intact
