"""Findings are kept once, exactly, and queued by what is most pressing."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from ragsieve.cases import Measure, Opinion, Remediation, RiskTier, Truth
from ragsieve.errors import InputError
from ragsieve.ledger.faults import NotKeptError
from ragsieve.ledger.records import Judged, QueueFilter, ScanKind
from ragsieve.records import Decision, Evidence, Level
from unit.ledger.building import (
    START,
    STORE,
    context,
    hide,
    incident,
    place,
    sha,
    start,
    target,
    verdict,
)


@pytest.fixture
def scanned(ledger):
    ledger.scans.begin(start())
    return ledger


def names(ledger, **wanted):
    return [one.incident.place.document_id for one in queue(ledger, **wanted).entries]


def queue(ledger, **wanted):
    return ledger.incidents.queue(QueueFilter(**wanted))


def test_an_incident_comes_back_as_it_was(scanned):
    whole = incident(
        "d\x00\\\ud83d\ude00\U0001f600",
        "\u202eevil \udfff text\x00",
        source="https://news.example\\0",
        author="аnna",
        context=context(["a", "d\ud800"]),
        campaign="c1",
        embedding_version="minilm@1",
        index_version="12 rows",
    )
    assert scanned.incidents.record([whole]) == 1
    kept = scanned.incidents.get(whole.id)
    assert kept.incident == whole
    assert kept.version == 1
    assert kept.item is None
    assert kept.earlier_opinion is None
    assert not kept.superseded
    assert queue(scanned).entries == (kept,)


def test_recording_again_changes_nothing(scanned):
    found = [incident(f"d{number}", f"text {number}") for number in range(3)]
    assert scanned.incidents.record(found[:2]) == 2
    scanned.reviews.add(found[0].id, Opinion.BENIGN, reason="a notice")
    before = len(scanned.audit.entries())
    assert scanned.incidents.record(found[:2]) == 0
    assert len(scanned.audit.entries()) == before
    assert scanned.incidents.record([*found, *found]) == 1
    assert scanned.incidents.get(found[0].id).incident.opinion is Opinion.BENIGN
    assert queue(scanned).total == 3


def test_many_are_recorded(scanned):
    found = (incident(f"d{number}", f"text {number}") for number in range(1_203))
    assert scanned.incidents.record(found) == 1_203
    assert queue(scanned).total == 1_203


@pytest.mark.parametrize(
    "changed",
    [
        {"opinion": Opinion.BENIGN},
        {"truth": Truth.FALSE},
        {"remediation": Remediation.QUARANTINED},
        {"reviewer": "ann"},
        {"decided_at": datetime.datetime(2026, 1, 1)},
        {"id": "x" * 65},
        {"id": ""},
    ],
)
def test_what_cannot_be_new_is_refused(scanned, changed):
    with pytest.raises(InputError):
        scanned.incidents.record([dataclasses.replace(incident(), **changed)])
    assert queue(scanned).total == 0


def test_its_scan_must_have_begun_for_its_tenant(scanned):
    with pytest.raises(NotKeptError):
        scanned.incidents.record([incident(scan_id="s9")])
    with pytest.raises(NotKeptError):
        scanned.incidents.record([incident(tenant="acme")])
    assert queue(scanned).total == 0


def test_one_place_waits_once(scanned):
    scanned.scans.begin(start("s2"))
    first, second = incident(), incident(scan_id="s2", text="another text")
    scanned.incidents.record([first])
    scanned.incidents.record([second])
    assert [one.incident.id for one in queue(scanned).entries] == [second.id]
    assert queue(scanned, superseded=None).total == 2
    assert queue(scanned, superseded=True).entries[0].incident.id == first.id
    # The older scan hands its finding in again: it does not come back to the front.
    scanned.incidents.record([first])
    assert [one.incident.id for one in queue(scanned).entries] == [second.id]


def test_a_retrieval_takes_no_finding_of_another_content_out_of_the_queue(scanned):
    """Whoever asks tells the texts: a forged one must not hide the finding of the real one."""
    scanned.scans.begin(start("f1", kind=ScanKind.FILTER))
    scanned.scans.begin(start("s2"))
    real, forged = incident(), incident(scan_id="f1", text="something else")
    scanned.incidents.record([real])
    scanned.incidents.record([forged])
    assert {one.incident.id for one in queue(scanned).entries} == {real.id, forged.id}
    again = incident(scan_id="s2")
    scanned.incidents.record([again])
    assert [one.incident.id for one in queue(scanned).entries] == [again.id]
    scanned.scans.begin(start("f2", kind=ScanKind.FILTER))
    same = incident(scan_id="f2")
    scanned.incidents.record([same])
    assert [one.incident.id for one in queue(scanned).entries] == [same.id]


def test_an_earlier_opinion_on_the_same_content_is_known(scanned):
    scanned.scans.begin(start("s2"))
    first, moved = incident(), incident("another-id", scan_id="s2")
    scanned.incidents.record([first])
    scanned.reviews.add(first.id, Opinion.CONFIRMED, reason="planted")
    scanned.reviews.add(first.id, Opinion.BENIGN, reason="no, a notice")
    scanned.incidents.record([moved])
    assert scanned.incidents.get(moved.id).earlier_opinion is Opinion.BENIGN
    assert names(scanned, known=True) == ["another-id"]
    assert names(scanned, known=False) == ["d1"]


def test_risk_times_exposure_comes_first(scanned, clock):
    scanned.incidents.record(
        [
            incident("quiet", "a", score=6.0),
            incident("busy", "b", score=3.0),
            incident("grave", "c", score=4.0, tier=RiskTier.HIGH),
            incident("small", "d", score=9.0, tier=RiskTier.LOW),
        ]
    )
    # score / 1.5 x weight: 4, 2, 5.33, 3
    assert names(scanned) == ["grave", "quiet", "small", "busy"]
    scanned.exposures.add(STORE, [context(["busy"], f"q{number}") for number in range(3)])
    assert names(scanned) == ["busy", "grave", "quiet", "small"]
    first = queue(scanned).entries[0]
    assert (first.exposure, first.priority) == (3, 8.0)
    clock.skip(days=40)
    assert names(scanned) == ["grave", "quiet", "small", "busy"]


def test_equal_ones_are_paged_in_one_order(scanned):
    found = [
        incident(f"d{number}", f"t{number}", decided_at=START + datetime.timedelta(hours=number))
        for number in range(7)
    ]
    scanned.incidents.record(reversed(found))
    pages = [scanned.incidents.queue(limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert {page.total for page in pages} == {7}
    shown = [one.incident.id for page in pages for one in page.entries]
    assert shown == [one.id for one in found]


def test_filters(scanned):
    scanned.scans.begin(start("s2"))
    late = START + datetime.timedelta(days=2)
    one = incident("one", "1", source="blog", author="ann", campaign="c1")
    two = incident("two", "2", scan_id="s2", measure=Measure.REVIEW, decided_at=late)
    three = incident(
        "three",
        "3",
        evidences=(Evidence("scripts", 0.4), Evidence.unavailable("surprisal", "no model")),
    )
    scanned.incidents.record([one, two, three])
    hide(scanned, target("one", "1"))
    scanned.reviews.add(two.id, Opinion.NEEDS_INFO, reason="ask the author")
    scanned.truth.add(two.id, Truth.CHECKING, reason="asked")
    assert names(scanned, source="blog") == ["one"]
    assert names(scanned, author="ann") == ["one"]
    assert names(scanned, author="nobody") == []
    assert names(scanned, campaign="c1") == ["one"]
    assert names(scanned, scan_id="s2") == ["two"]
    assert names(scanned, decided_after=late) == ["two"]
    assert sorted(names(scanned, decided_before=late)) == ["one", "three"]
    assert names(scanned, opinion=Opinion.NEEDS_INFO) == ["two"]
    assert names(scanned, reviewed=True) == ["two"]
    assert sorted(names(scanned, reviewed=False)) == ["one", "three"]
    assert names(scanned, truth=Truth.CHECKING) == ["two"]
    assert names(scanned, measure=Measure.REVIEW) == ["two"]
    assert names(scanned, state=Remediation.QUARANTINED) == ["one"]
    assert sorted(names(scanned, state=Remediation.NONE)) == ["three", "two"]
    assert names(scanned, evidence="scripts") == ["three"]
    assert names(scanned, evidence="scripts", evidence_at_least=0.5) == []
    assert names(scanned, evidence="surprisal") == []
    assert names(scanned, document_id="three", store=STORE) == ["three"]
    assert names(scanned, content_sha256=sha("3")) == ["three"]
    assert sorted(names(scanned, level=Level.REVIEW)) == ["one", "three", "two"]
    assert names(scanned, level=Level.INFO) == []
    assert queue(scanned, source="blog", measure=Measure.REVIEW).total == 0


def test_the_state_belongs_to_the_content_that_was_hidden(scanned):
    scanned.scans.begin(start("s2"))
    old, new = incident(), incident(text="rewritten", scan_id="s2")
    scanned.incidents.record([old])
    hide(scanned, target())
    scanned.incidents.record([new])
    assert scanned.incidents.get(old.id).incident.remediation is Remediation.QUARANTINED
    assert scanned.incidents.get(new.id).incident.remediation is Remediation.NONE


def test_undecided_verdicts_are_kept_and_clear_ones_refused(scanned):
    open_one = verdict("d7", decision=Decision.UNDECIDED, evidences=(Evidence("density", None),))
    found = [Judged(place("d7"), sha("seven"), open_one)]
    assert scanned.incidents.judge("s1", found) == 1
    assert scanned.incidents.judge("s1", found) == 0
    assert [past.verdict for past in scanned.history(sha("seven")).verdicts] == [open_one]
    assert queue(scanned).total == 0
    with pytest.raises(InputError, match="counted"):
        scanned.incidents.judge("s1", [Judged(place(), sha("x"), verdict(decision=Decision.CLEAR))])
    with pytest.raises(InputError, match="belongs to tenant"):
        scanned.incidents.judge("s1", [Judged(place(tenant="acme"), sha("x"), open_one)])


@pytest.mark.parametrize("name", ["nothing", "\x00", "\ud800", ""])
def test_an_unknown_incident_is_not_kept(scanned, name):
    with pytest.raises(NotKeptError):
        scanned.incidents.get(name)
    with pytest.raises(NotKeptError):
        scanned.reviews.add(name, Opinion.BENIGN, reason="?")


@pytest.mark.parametrize("score", [float("inf"), 1e308, 0.0])
def test_odd_scores_are_kept_and_ordered(scanned, score):
    odd = incident(score=score, evidences=(Evidence("density", score),))
    scanned.incidents.record([odd])
    kept = scanned.incidents.get(odd.id)
    assert kept.incident == odd
    assert 0 <= kept.priority <= 1e6
