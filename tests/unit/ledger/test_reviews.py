"""Opinions and truth checks are added, never changed, and never on something stale."""

from __future__ import annotations

import pytest

from ragsieve.cases import Opinion, Remediation, Truth
from ragsieve.ledger.faults import NotKeptError, StaleStateError
from ragsieve.ledger.records import QueueFilter
from unit.ledger.building import incident, start


@pytest.fixture
def found(ledger):
    ledger.scans.begin(start())
    one = incident()
    ledger.incidents.record([one, incident("d2", "two"), incident("d3", "three")])
    return one


def test_a_review_stands_beside_the_finding(ledger, found):
    review = ledger.reviews.add(found.id, Opinion.CONFIRMED, reason="planted\x00\ud800")
    kept = ledger.incidents.get(found.id)
    assert (kept.incident.opinion, kept.incident.reviewer, kept.version) == (
        Opinion.CONFIRMED,
        "mara",
        2,
    )
    assert kept.incident.truth is Truth.UNVERIFIED
    assert kept.incident.remediation is Remediation.NONE
    assert ledger.reviews.of(found.id) == (review,)


def test_of_two_reviewers_the_second_is_told(ledger, found):
    seen = ledger.incidents.get(found.id).version
    nils = ledger.acting_as("nils")
    nils.reviews.add(found.id, Opinion.BENIGN, reason="a notice", expected_version=seen)
    with pytest.raises(StaleStateError, match="nils said benign"):
        ledger.reviews.add(found.id, Opinion.CONFIRMED, reason="no", expected_version=seen)
    assert [one.reviewer for one in ledger.reviews.of(found.id)] == ["nils"]
    seen = ledger.incidents.get(found.id).version
    ledger.reviews.add(found.id, Opinion.CONFIRMED, reason="still", expected_version=seen)
    assert [one.opinion for one in ledger.reviews.of(found.id)] == ["benign", "confirmed"]


def test_a_campaign_is_reviewed_whole_or_not_at_all(ledger, found):
    ids = [one.incident.id for one in ledger.incidents.queue().entries]
    stale = dict.fromkeys(ids, 1) | {ids[-1]: 7}
    with pytest.raises(StaleStateError):
        ledger.reviews.add_many(stale, Opinion.DUPLICATE, reason="one campaign")
    assert ledger.incidents.queue(QueueFilter(reviewed=True)).total == 0
    made = ledger.reviews.add_many(
        dict.fromkeys(ids, 1), Opinion.DUPLICATE, reason="one campaign", reviewer="nils"
    )
    assert {one.reviewer for one in made} == {"nils"}
    assert ledger.incidents.queue(QueueFilter(reviewed=True)).total == 3


def test_truth_is_a_track_of_its_own(ledger, found):
    check = ledger.truth.add(found.id, Truth.ACCURATE, reason="asked the publisher")
    kept = ledger.incidents.get(found.id)
    assert (kept.incident.truth, kept.incident.opinion) == (Truth.ACCURATE, None)
    assert ledger.truth.of(found.id) == (check,)
    with pytest.raises(StaleStateError):
        ledger.truth.add(found.id, Truth.FALSE, reason="no", expected_version=1)


def test_what_is_not_kept_cannot_be_reviewed(ledger, found):
    with pytest.raises(NotKeptError):
        ledger.reviews.add("0" * 32, Opinion.BENIGN, reason="?")
    with pytest.raises(NotKeptError):
        ledger.truth.add(found.id, Truth.FALSE, reason="?", tenant="acme")
    with pytest.raises(NotKeptError):
        ledger.reviews.add_many({found.id: 1}, Opinion.BENIGN, reason="?", tenant="acme")
    assert ledger.incidents.get(found.id).version == 1


def test_every_decision_is_in_the_audit_trail(ledger, found):
    ledger.reviews.add(found.id, Opinion.BENIGN, reason="a notice")
    ledger.truth.add(found.id, Truth.ACCURATE, reason="asked")
    entries = ledger.audit.entries(subject=found.id)
    assert [one.action for one in entries] == ["review.add", "truth.add"]
    assert entries[0].payload["opinion"] == "benign"
    assert entries[0].payload["reason"] == "a notice"
    assert ledger.audit.verify().intact
