"""Store and ledger changed together: whatever dies between them, nothing is lost or done twice."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_store import Died, MemoryStore, replaced, rows_of
from ragsieve.cases import Place, Remediation, content_sha256
from ragsieve.connectors.contract import Capabilities
from ragsieve.errors import InputError, StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.faults import NotKeptError, StaleStateError
from ragsieve.ledger.records import ScanStart, ScanState, Target
from ragsieve.records import Document
from ragsieve.remediation.custody import Custody
from ragsieve.remediation.recovery import end_interrupted_scans, recover
from ragsieve.remediation.rollback import roll_back

NAMES = [f"d{place}" for place in range(6)]


class Clock:
    def __init__(self):
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self):
        self.now += datetime.timedelta(seconds=1)
        return self.now


def sha(row):
    return content_sha256(Document(row.id, row.text))


@pytest.fixture
def custody(tmp_path):
    with open_ledger(f"sqlite:///{tmp_path}/ledger.sqlite", actor="op", clock=Clock()) as ledger:
        store = MemoryStore(rows_of([f"text {place}" for place in range(6)]))
        begin(ledger, store)
        yield Custody(ledger, store, sha, bundles=tmp_path / "bundles")


def begin(ledger, store, scan_id="scan1"):
    ledger.scans.begin(ScanStart(scan_id, store.address, "default", "f"))


def targets(custody, names=NAMES[:3]):
    return [custody.target(row.id, sha(row)) for row in custody.connector.fetch(names)]


def hide(custody, names=NAMES[:3], scan_id="scan1"):
    return custody.quarantine(targets(custody, names), reason="dense", scan_id=scan_id)


def states(custody):
    return {
        one.place.document_id: one.state
        for one in custody.ledger.states.items(tenant=custody.tenant)
    }


def test_hidden_then_released(custody):
    assert hide(custody).done == ("d0", "d1", "d2")
    assert set(custody.connector.hidden) == {"d0", "d1", "d2"}
    mark = custody.connector.marks()[0]
    assert (mark.reason, mark.scan_id) == ("dense", "scan1")
    assert hide(custody).already == ("d0", "d1", "d2")
    assert custody.release(targets(custody), reason="benign").done == ("d0", "d1", "d2")
    assert custody.connector.hidden == {}
    assert set(states(custody).values()) == {Remediation.RELEASED}
    assert custody.ledger.audit.verify().intact


def test_what_changed_or_left_since_it_was_judged_is_not_touched(custody):
    wanted = targets(custody)
    row = custody.connector.rows["d1"]
    custody.connector.rows["d1"] = replaced(row, text="another text")
    del custody.connector.rows["d2"]
    applied = custody.quarantine(wanted, reason="dense", scan_id="scan1")
    assert (applied.done, applied.changed, applied.missing) == (("d0",), ("d1",), ("d2",))
    assert set(custody.connector.hidden) == {"d0"}


def test_a_row_ingested_anew_is_hidden_again(custody):
    hide(custody)
    custody.connector.hidden.clear()
    assert hide(custody).already == ("d0", "d1", "d2")
    assert set(custody.connector.hidden) == {"d0", "d1", "d2"}


def test_deleted_with_a_bundle_and_brought_back_hidden(custody):
    hide(custody)
    before = {name: custody.connector.rows[name] for name in NAMES[:3]}
    wanted = targets(custody)
    assert custody.delete(wanted, reason="confirmed").done == ("d0", "d1", "d2")
    assert set(custody.connector.rows) == {"d3", "d4", "d5"}
    assert len(list(custody.bundles.iterdir())) == 1
    assert custody.restore(wanted, reason="mistake").done == ("d0", "d1", "d2")
    for name, row in before.items():
        assert custody.connector.rows[name].text == row.text
        assert (custody.connector.rows[name].vector == row.vector).all()
    assert set(custody.connector.hidden) == {"d0", "d1", "d2"}
    assert custody.release(wanted, reason="mistake").done == ("d0", "d1", "d2")


def test_deleting_is_refused_without_a_folder_or_where_the_store_cannot(custody, tmp_path):
    hide(custody)
    bare = Custody(custody.ledger, custody.connector, sha)
    with pytest.raises(InputError, match="folder for the bundles"):
        bare.delete(targets(custody), reason="x")
    fixed = MemoryStore(custody.connector.rows.values(), capabilities=Capabilities(deletes=False))
    with pytest.raises(StoreError, match="cannot delete rows"):
        Custody(custody.ledger, fixed, sha, bundles=tmp_path).delete([], reason="x")


def test_a_damaged_bundle_changes_nothing(custody):
    hide(custody)
    wanted = targets(custody)
    custody.delete(wanted, reason="confirmed")
    (path,) = custody.bundles.iterdir()
    path.write_text(path.read_text().replace("text 1", "text X"))
    with pytest.raises(InputError):
        custody.restore(wanted, reason="mistake")
    assert set(states(custody).values()) == {Remediation.DELETED}


MOVES = {
    "quarantine": (Remediation.QUARANTINED, Remediation.NONE),
    "release": (Remediation.RELEASED, Remediation.QUARANTINED),
    "delete": (Remediation.DELETED, Remediation.QUARANTINED),
    "restore": (Remediation.QUARANTINED, Remediation.DELETED),
}


def bring_to_start(custody, move):
    wanted = targets(custody)
    if move != "quarantine":
        hide(custody)
    if move == "restore":
        custody.delete(wanted, reason="confirmed")
    return wanted


def make(custody, move, wanted):
    if move == "quarantine":
        return custody.quarantine(wanted, reason="dense", scan_id="scan1")
    return getattr(custody, move)(wanted, reason="because")


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("when", ["before", "after", "fail"])
def test_a_crash_between_ledger_and_store_is_settled_by_what_the_store_shows(custody, move, when):
    wanted = bring_to_start(custody, move)
    custody.connector.die = when
    with pytest.raises((Died, StoreError)):
        make(custody, move, wanted)
    assert all(state.pending for state in states(custody).values())
    assert recover(custody).waiting == ("d0", "d1", "d2")
    settled = recover(custody, older_than_seconds=0)
    done, undone = MOVES[move]
    assert settled.confirmed == (("d0", "d1", "d2") if when == "after" else ())
    assert set(states(custody).values()) == {done if when == "after" else undone}
    # Asking again ends where the first call would have ended.
    make(custody, move, wanted)
    assert set(states(custody).values()) == {done}
    assert recover(custody, older_than_seconds=0).confirmed == ()
    assert custody.ledger.audit.verify().intact


@pytest.mark.parametrize("move", MOVES)
def test_a_killed_change_may_simply_be_called_again(custody, move):
    wanted = bring_to_start(custody, move)
    custody.connector.die = "after" if move != "delete" else "before"
    with pytest.raises(Died):
        make(custody, move, wanted)
    if move == "delete":  # an export may be stale by now, so a deletion is settled first
        recover(custody, older_than_seconds=0)
    assert make(custody, move, wanted).done == ("d0", "d1", "d2")
    assert set(states(custody).values()) == {MOVES[move][0]}


def test_a_decision_made_on_an_older_state_is_refused(custody):
    hide(custody)
    seen = custody.ledger.states.get(custody.place("d0"))
    old = Target(seen.place, seen.content_sha256, seen.version)
    custody.release([old], reason="benign")
    hide(custody, ["d0"])
    with pytest.raises(StaleStateError, match="changed"):
        custody.release([old], reason="again")
    assert set(custody.connector.hidden) == {"d0", "d1", "d2"}


def test_a_scan_is_rolled_back_whole(custody):
    hide(custody)
    custody.delete(targets(custody, ["d1"]), reason="confirmed")
    done = roll_back(custody, "scan1", reason="a mistake")
    assert done.complete
    assert done.restored.done == ("d1",)
    assert set(done.released.done) == {"d0", "d1", "d2"}
    assert custody.connector.hidden == {}
    assert set(custody.connector.rows) == set(NAMES)
    again = roll_back(custody, "scan1", reason="again")
    assert again.complete
    assert again.released.done == ()
    with pytest.raises(NotKeptError):
        roll_back(custody, "none", reason="x")


@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rollback_that_died_goes_on_where_it_stood(custody, step, when):
    hide(custody)
    custody.delete(targets(custody, ["d1"]), reason="confirmed")
    store, calls = custody.connector, []
    plain = store._changing

    def counted(change):
        calls.append(change)
        if len(calls) - 1 == step:
            store.die = when
        return plain(change)

    store._changing = counted
    try:
        roll_back(custody, "scan1", reason="a mistake")
    except Died:
        recover(custody, older_than_seconds=0)
    assert roll_back(custody, "scan1", reason="a mistake").complete
    assert store.hidden == {}
    assert set(store.rows) == set(NAMES)
    assert custody.ledger.audit.verify().intact


def test_a_scan_that_runs_no_more_is_written_down_as_failed(custody):
    assert end_interrupted_scans(custody) == ()
    assert end_interrupted_scans(custody, older_than_seconds=0) == ("scan1",)
    assert custody.ledger.scans.get("scan1").state is ScanState.FAILED
    assert end_interrupted_scans(custody, older_than_seconds=0) == ()


def test_tenants_do_not_see_each_other(custody):
    hide(custody)
    other = Custody(custody.ledger, custody.connector, sha, tenant="b")
    assert states(other) == {}
    with pytest.raises(NotKeptError):
        roll_back(other, "scan1", reason="x")
    assert Place(custody.connector.address, "d0", "b") == other.place("d0")


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["quarantine", "release", "delete", "restore"]),
            st.sets(st.sampled_from(NAMES), min_size=1),
            st.sampled_from([None, None, "before", "after", "fail"]),
        ),
        max_size=8,
    )
)
def test_ledger_and_store_agree_after_any_sequence(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("ledger")
    with open_ledger(f"sqlite:///{folder}/l.sqlite", actor="op", clock=Clock()) as ledger:
        store = MemoryStore(rows_of([f"text {place}" for place in range(6)]))
        begin(ledger, store)
        custody = Custody(ledger, store, sha, bundles=folder / "bundles")
        everything = {row.id: custody.target(row.id, sha(row)) for row in store.rows.values()}
        for move, names, die in steps:
            store.die = die
            try:
                make(custody, move, [everything[name] for name in sorted(names)])
            except (Died, StoreError):
                recover(custody, older_than_seconds=0)
            store.die = None
        assert not ledger.states.pending()
        kept = states(custody)
        for name in NAMES:
            state = kept.get(name, Remediation.NONE)
            assert (name in store.rows) is (state is not Remediation.DELETED)
            assert (name in store.hidden) is (state is Remediation.QUARANTINED)
        assert ledger.audit.verify().intact
