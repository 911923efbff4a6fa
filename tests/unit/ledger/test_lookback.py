"""One content has one history; a rollback is seen before it is done."""

from __future__ import annotations

import pytest

from ragsieve.cases import Measure, Opinion, Place, Remediation, Truth
from ragsieve.ledger.faults import NotKeptError
from ragsieve.ledger.records import ScanCounts, Target
from unit.ledger.building import STORE, context, hide, incident, place, release, sha, start, target


@pytest.fixture
def scanned(ledger):
    ledger.scans.begin(start())
    return ledger


def ids(items):
    return [one.place.document_id for one in items]


def test_history_follows_the_content_across_ids_and_scans(scanned, clock):
    first = incident("d1")
    scanned.incidents.record([first])
    review = scanned.reviews.add(first.id, Opinion.BENIGN, reason="a notice")
    check = scanned.truth.add(first.id, Truth.ACCURATE, reason="asked")
    hide(scanned, target("d1"))
    clock.skip(days=30)
    scanned.scans.begin(start("s2"))
    # Ingested anew under another id, and once more under the old one.
    scanned.incidents.record(
        [incident("uuid-9", scan_id="s2", score=4.0), incident("d1", scan_id="s2", score=5.0)]
    )
    known = scanned.history(sha("buy now"))
    assert (known.verdicts[0].scan_id, known.verdicts[0].verdict.score) == ("s1", 3.0)
    assert sorted(past.verdict.score for past in known.verdicts) == [3.0, 4.0, 5.0]
    assert known.reviews == (review,)
    assert known.truth_checks == (check,)
    assert [one.new for one in known.changes] == ["quarantining", "quarantined"]
    assert [(one.place.document_id, one.first_scan, one.last_scan) for one in known.placements] == [
        ("d1", "s1", "s2"),
        ("uuid-9", "s2", "s2"),
    ]
    assert known.placements[0].last_seen > known.placements[0].first_seen


def test_an_unknown_content_has_an_empty_history(scanned):
    known = scanned.history(sha("never seen"))
    assert (known.verdicts, known.reviews, known.placements) == ((), (), ())


def test_what_a_rollback_brings_back(scanned):
    scanned.exposures.add(
        STORE,
        [context(["d1", "d2"], "q1"), context(["d2", "x"], "q2"), context(["x"], "q3")],
    )
    scanned.exposures.add("elsewhere", [context(["d1"], "q4")])
    hide(scanned, target("d1"), target("d2", "two"))
    scanned.scans.finish("s1", ScanCounts(10, 2, 0))
    preview = scanned.rollback_preview("s1")
    assert sorted(ids(preview.brings_back)) == ["d1", "d2"]
    assert preview.contested == preview.left == ()
    assert (preview.queries_affected, preview.queries_kept) == (2, 3)
    assert preview.scan.counts.documents == 10


def test_deleted_ones_are_brought_back_too(scanned):
    hide(scanned, target())
    intent = scanned.states.intend([target()], Remediation.DELETING, reason="r", bundle="/b.zip")
    scanned.states.confirm(intent.items)
    (back,) = scanned.rollback_preview("s1").brings_back
    assert (back.state, back.bundle) == ("deleted", "/b.zip")


def test_what_stands_against_it(scanned):
    found = [incident(f"d{number}", f"text {number}") for number in range(6)]
    scanned.incidents.record(found)
    hide(scanned, *(target(f"d{number}", f"text {number}") for number in range(6)))
    nils = scanned.acting_as("nils")
    nils.reviews.add(found[0].id, Opinion.CONFIRMED, reason="planted")
    nils.reviews.add(found[1].id, Opinion.BENIGN, reason="a notice")
    scanned.scans.begin(start("s2"))
    scanned.incidents.record([incident("d2", "text 2", scan_id="s2")])
    scanned.incidents.record([incident("d1", "text 1", scan_id="s2", measure=Measure.REVIEW)])
    scanned.states.intend([target("d3", "text 3")], Remediation.RELEASING, reason="r")
    release(nils, target("d4", "text 4"))
    intent = nils.states.intend(
        [target("d5", "text 5")], Remediation.DELETING, reason="r", bundle="/b.zip"
    )
    nils.states.confirm(intent.items)
    preview = scanned.rollback_preview("s1")
    assert ids(preview.brings_back) == ["d1"]
    assert {one.item.place.document_id: one.reasons for one in preview.contested} == {
        "d0": ("reviewed as confirmed by nils",),
        "d2": ("found again by scan s2",),
        "d3": ("releasing by mara, not yet resolved",),
        "d5": ("deleting by nils", "deleted by nils"),
    }
    assert ids(preview.left) == ["d4"]


def test_a_scan_rolled_back_stands_against_nothing(scanned):
    hide(scanned, target())
    scanned.scans.begin(start("s2"))
    scanned.incidents.record([incident(scan_id="s2")])
    assert scanned.rollback_preview("s1").brings_back == ()
    scanned.scans.rolled_back("s2")
    assert ids(scanned.rollback_preview("s1").brings_back) == ["d1"]


def test_what_another_scan_hides_now_is_left_to_it(scanned):
    hide(scanned, target())
    release(scanned, target())
    scanned.scans.begin(start("s2"))
    hide(scanned, target(), scan_id="s2")
    assert scanned.rollback_preview("s1").brings_back == ()
    assert [one.scan_id for one in scanned.rollback_preview("s1").left] == ["s2"]
    assert ids(scanned.rollback_preview("s2").brings_back) == ["d1"]


def test_a_review_before_the_hiding_is_no_objection(scanned):
    one = incident()
    scanned.incidents.record([one])
    scanned.reviews.add(one.id, Opinion.CONFIRMED, reason="planted")
    hide(scanned, target())
    assert ids(scanned.rollback_preview("s1").brings_back) == ["d1"]


def test_a_scan_over_several_stores(scanned):
    other = Place("qdrant:///x", "d1")
    scanned.exposures.add("qdrant:///x", [context(["d1"])])
    hide(scanned, target(), Target(other, sha("buy now")))
    preview = scanned.rollback_preview("s1")
    assert len(preview.brings_back) == 2
    assert (preview.queries_affected, preview.queries_kept) == (1, 1)


def test_no_such_scan(scanned):
    with pytest.raises(NotKeptError):
        scanned.rollback_preview("s9")
    with pytest.raises(NotKeptError):
        scanned.rollback_preview("s1", tenant="acme")
    assert scanned.states.get(place()) is None
