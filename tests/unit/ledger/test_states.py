"""A document's state is intended, then confirmed or abandoned; two hands never both hold it."""

from __future__ import annotations

import itertools

import pytest

from ragsieve.cases import Remediation
from ragsieve.errors import InputError
from ragsieve.ledger.faults import IllegalMoveError, NotKeptError, StaleStateError
from ragsieve.ledger.records import Target
from unit.ledger.building import STORE, hide, place, release, sha, start, target

HIDE, FREE = Remediation.QUARANTINING, Remediation.RELEASING
DROP, BRING = Remediation.DELETING, Remediation.RESTORING


@pytest.fixture
def scanned(ledger):
    ledger.scans.begin(start())
    return ledger


def intend(ledger, to, *targets, **others):
    needed = {"scan_id": "s1"} if to is HIDE else {}
    needed |= {"bundle": "/b/one.zip"} if to is DROP else {}
    return ledger.states.intend(
        list(targets or [target()]), to, **({"reason": "because"} | needed | others)
    )


def steps(ledger, content="buy now"):
    return [(one.old, one.new) for one in ledger.history(sha(content)).changes]


def test_there_and_back(scanned):
    assert scanned.states.get(place()) is None
    intent = intend(scanned, HIDE)
    (pending,) = intent.items
    assert (pending.state, pending.before, pending.version) == (HIDE, "none", 1)
    assert scanned.states.pending() == (pending,)
    assert scanned.states.hidden(STORE) == {"d1"}
    (hidden,) = scanned.states.confirm(intent.items)
    assert scanned.states.get(place()) == hidden
    assert (hidden.state, hidden.scan_id, hidden.reason) == ("quarantined", "s1", "because")
    assert scanned.states.pending() == ()
    (free,) = release(scanned, target())
    assert free.state is Remediation.RELEASED
    assert scanned.states.hidden(STORE) == frozenset()
    assert steps(scanned) == [
        ("none", "quarantining"),
        ("quarantining", "quarantined"),
        ("quarantined", "releasing"),
        ("releasing", "released"),
    ]
    again = hide(scanned, target())
    assert again[0].version == 6


def test_deleting_needs_a_bundle_and_is_undone_hidden(scanned):
    hide(scanned, target())
    with pytest.raises(InputError, match="bundle"):
        intend(scanned, DROP, bundle=None)
    (gone,) = scanned.states.confirm(intend(scanned, DROP).items)
    assert (gone.state, gone.bundle) == ("deleted", "/b/one.zip")
    (back,) = scanned.states.confirm(intend(scanned, BRING).items)
    assert (back.state, back.bundle) == ("quarantined", "/b/one.zip")


@pytest.mark.parametrize("to", [HIDE, FREE, DROP, BRING])
def test_an_abandoned_intent_leaves_the_state_before(scanned, to):
    if to is not HIDE:
        hide(scanned, target())
    if to is BRING:
        scanned.states.confirm(intend(scanned, DROP).items)
    before = scanned.states.get(place())
    pending = intend(scanned, to).items
    (after,) = scanned.states.abandon(pending, reason="the store refused")
    assert after.state == (before.state if before else "none")
    assert after == scanned.states.get(place())
    if before:
        assert (after.scan_id, after.reason, after.bundle) == (
            before.scan_id,
            before.reason,
            before.bundle,
        )
    assert scanned.states.pending() == ()


def test_an_abandoned_second_hiding_keeps_the_first_handle(scanned):
    scanned.scans.begin(start("s2"))
    hide(scanned, target())
    pending = intend(scanned, HIDE, target(text="rewritten"), scan_id="s2").items
    (after,) = scanned.states.abandon(pending, reason="gone already")
    assert (after.content_sha256, after.scan_id, after.state) == (
        sha("buy now"),
        "s1",
        "quarantined",
    )


FROM = {
    "none": [],
    "quarantined": [HIDE],
    "released": [HIDE, FREE],
    "deleted": [HIDE, DROP],
}
LEGAL = {
    ("none", HIDE): "quarantined",
    ("released", HIDE): "quarantined",
    ("quarantined", FREE): "released",
    ("quarantined", DROP): "deleted",
    ("deleted", BRING): "quarantined",
}
THERE = {
    ("quarantined", HIDE),
    ("deleted", HIDE),
    ("released", FREE),
    ("deleted", DROP),
    ("quarantined", BRING),
}


@pytest.mark.parametrize(("state", "to"), list(itertools.product(FROM, [HIDE, FREE, DROP, BRING])))
def test_every_pair_of_state_and_intent(scanned, state, to):
    for step in FROM[state]:
        scanned.states.confirm(intend(scanned, step).items)
    before = scanned.states.get(place())
    entries = len(scanned.audit.entries())
    if (state, to) in LEGAL:
        intent = intend(scanned, to)
        assert intent.already == ()
        (done,) = scanned.states.confirm(intent.items)
        assert done.state == LEGAL[state, to]
    elif (state, to) in THERE:
        intent = intend(scanned, to)
        assert intent.items == ()
        assert intent.already == (before,)
        assert len(scanned.audit.entries()) == entries
    else:
        with pytest.raises(IllegalMoveError):
            intend(scanned, to)
        assert scanned.states.get(place()) == before
        assert len(scanned.audit.entries()) == entries


@pytest.mark.parametrize("to", [HIDE, FREE, DROP, BRING])
def test_what_is_pending_is_in_somebody_elses_hands(scanned, to):
    intend(scanned, HIDE)
    with pytest.raises(StaleStateError, match="hands of mara"):
        intend(scanned.acting_as("nils"), to)
    assert len(scanned.states.pending()) == 1


def test_a_pending_intent_is_taken_over_only_when_asked(scanned):
    left = intend(scanned, HIDE).items
    taken = intend(scanned.acting_as("nils"), HIDE, resume=True).items
    assert [(one.place, one.state, one.changed_by) for one in taken] == [(place(), HIDE, "nils")]
    with pytest.raises(StaleStateError):
        intend(scanned, FREE, resume=True)
    with pytest.raises(StaleStateError, match="changed by nils"):
        scanned.states.confirm(left)
    scanned.states.confirm(taken)
    with pytest.raises(StaleStateError):
        scanned.states.confirm(taken)
    with pytest.raises(StaleStateError):
        scanned.states.abandon(taken, reason="late")
    assert steps(scanned) == [("none", "quarantining"), ("quarantining", "quarantined")]


def test_a_version_read_earlier_is_stale(scanned):
    seen = hide(scanned, target())[0].version
    release(scanned.acting_as("nils"), target())
    hide(scanned.acting_as("nils"), target())
    with pytest.raises(StaleStateError, match="changed by nils"):
        intend(scanned, FREE, target(version=seen))
    with pytest.raises(StaleStateError):
        intend(scanned, HIDE, target("d2", version=1))
    assert intend(scanned, HIDE, target("d2", version=0)).items


def test_another_content_is_another_document(scanned):
    hide(scanned, target())
    with pytest.raises(StaleStateError, match="content"):
        intend(scanned, FREE, target(text="rewritten"))
    (anew,) = hide(scanned, target(text="rewritten"))
    assert anew.content_sha256 == sha("rewritten")


def test_all_or_nothing(scanned):
    hide(scanned, target("d2", "two"))
    with pytest.raises(IllegalMoveError):
        intend(scanned, DROP, target("d2", "two"), target("d1"))
    assert scanned.states.get(place("d2")).state is Remediation.QUARANTINED
    pending = intend(scanned, HIDE, target("d3", "3"), target("d4", "4")).items
    scanned.states.confirm(pending[:1])
    with pytest.raises(StaleStateError):
        scanned.states.confirm(pending)
    assert scanned.states.pending() == pending[1:]


def test_what_is_missing_or_twice_is_refused(scanned):
    with pytest.raises(InputError, match="scan"):
        intend(scanned, HIDE, scan_id=None)
    with pytest.raises(InputError, match="outcome"):
        intend(scanned, Remediation.QUARANTINED)
    with pytest.raises(InputError, match="twice"):
        intend(scanned, HIDE, target(), target())
    with pytest.raises(NotKeptError):
        intend(scanned, HIDE, scan_id="s9")
    with pytest.raises(NotKeptError):
        intend(scanned, HIDE, target(tenant="acme"))
    assert scanned.states.items() == ()


def test_a_dry_run_changes_nothing(scanned):
    scanned.scans.begin(start("dry", dry_run=True))
    with pytest.raises(IllegalMoveError, match="dry run"):
        intend(scanned, HIDE, scan_id="dry")
    assert scanned.states.items() == ()


def test_the_same_id_in_two_stores_or_of_two_tenants_is_two_documents(scanned):
    scanned.scans.begin(start("s2", tenant="acme"))
    hide(scanned, target())
    hide(scanned, Target(place(store="qdrant:///other"), sha("buy now")))
    hide(scanned, target(tenant="acme"), scan_id="s2")
    assert len(scanned.states.items()) == 2
    assert len(scanned.states.items(tenant="acme")) == 1
    assert scanned.states.hidden("qdrant:///other") == {"d1"}


def test_listing_is_filtered_and_paged(scanned):
    scanned.scans.begin(start("s2"))
    hide(scanned, *(target(f"d{number}", str(number)) for number in range(1_100)))
    hide(scanned, target("e", "e"), scan_id="s2")
    release(scanned, target("d3", "3"))
    assert len(scanned.states.items()) == 1_101
    assert len(scanned.states.items(scan_id="s2")) == 1
    assert [
        one.place.document_id for one in scanned.states.items(states=[Remediation.RELEASED])
    ] == ["d3"]
    first = scanned.states.items(limit=600)
    rest = scanned.states.items(limit=600, offset=600)
    assert len({one.place for one in first + rest}) == 1_101
    assert len(scanned.states.hidden(STORE)) == 1_100


def test_odd_and_long_ids_are_kept_apart(scanned):
    odd = ["\x00", "\\0000", "\ud83d\ude00", "\U0001f600", "x" * 20_000, "", " ", "\u202ex"]
    hide(scanned, *(target(name, "same") for name in odd))
    assert scanned.states.hidden(STORE) == set(odd)
    for name in odd:
        assert scanned.states.get(place(name)).place.document_id == name
