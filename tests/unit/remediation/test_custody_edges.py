"""Store and ledger where somebody else moved first: re-ingestion, foreign bundles, slow processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_store import Died, MemoryStore, replaced, rows_of
from ragsieve.cases import Remediation, content_sha256
from ragsieve.errors import InputError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.faults import IllegalMoveError, StaleStateError
from ragsieve.ledger.records import ScanStart
from ragsieve.records import Document
from ragsieve.remediation.custody import Custody
from ragsieve.remediation.recovery import recover
from ragsieve.remediation.rollback import roll_back


def sha(row):
    return content_sha256(Document(row.id, row.text))


@pytest.fixture
def custody(tmp_path):
    with open_ledger(f"sqlite:///{tmp_path}/ledger.sqlite", actor="op") as ledger:
        store = MemoryStore(rows_of([f"text {place}" for place in range(3)]))
        for scan_id in ("scan1", "scan2"):
            ledger.scans.begin(ScanStart(scan_id, store.address, "default", "f"))
        yield Custody(ledger, store, sha, bundles=tmp_path / "bundles")


def targets(custody, *names):
    return [custody.target(row.id, sha(row)) for row in custody.connector.fetch(names)]


def hide(custody, *names, scan_id="scan1"):
    return custody.quarantine(targets(custody, *names), reason="dense", scan_id=scan_id)


def state(custody, name):
    return custody.ledger.states.get(custody.place(name)).state


def test_a_deleted_row_that_was_ingested_anew_is_hidden(custody):
    row = custody.connector.rows["d0"]
    hide(custody, "d0")
    custody.delete(targets(custody, "d0"), reason="confirmed")
    custody.connector.rows["d0"] = row
    assert hide(custody, "d0", scan_id="scan2").already == ("d0",)
    assert set(custody.connector.hidden) == {"d0"}


def test_one_damaged_bundle_leaves_the_rows_of_the_others_where_they_are(custody):
    hide(custody, "d0", "d1")
    wanted = targets(custody, "d0", "d1")
    for one in wanted:
        custody.delete([one], reason="confirmed")
    path = custody.ledger.states.get(custody.place("d1")).bundle
    Path(path).write_text(Path(path).read_text() + "{\n")
    with pytest.raises(InputError):
        custody.restore(wanted, reason="mistake")
    assert set(custody.connector.rows) == {"d2"}
    assert {state(custody, name) for name in ("d0", "d1")} == {Remediation.DELETED}


def test_a_bundle_without_the_row_restores_nothing_and_says_so(custody, tmp_path):
    hide(custody, "d0", "d1")
    wanted = targets(custody, "d0", "d1")
    for one in wanted:
        custody.delete([one], reason="confirmed")
    first, other = (custody.ledger.states.get(custody.place(n)).bundle for n in ("d0", "d1"))
    Path(first).write_bytes(Path(other).read_bytes())
    with pytest.raises(InputError, match="'d0'"):
        custody.restore(wanted[:1], reason="mistake")
    assert state(custody, "d0") is Remediation.DELETED
    assert set(custody.connector.rows) == {"d2"}


def test_a_row_that_lost_its_mark_comes_back_hidden(custody):
    hide(custody, "d0")
    custody.connector.hidden.clear()
    wanted = targets(custody, "d0")
    custody.delete(wanted, reason="confirmed")
    custody.restore(wanted, reason="mistake")
    (mark,) = custody.connector.marks()
    assert (mark.id, mark.reason, mark.scan_id) == ("d0", "dense", "scan1")


def test_a_damaged_bundle_keeps_nothing_else_of_a_rollback_hidden(custody):
    hide(custody, "d0", "d1")
    custody.delete(targets(custody, "d0"), reason="confirmed")
    Path(custody.ledger.states.get(custody.place("d0")).bundle).write_text("{}")
    with pytest.raises(InputError):
        roll_back(custody, "scan1", reason="a mistake")
    assert (state(custody, "d0"), state(custody, "d1")) == (
        Remediation.DELETED,
        Remediation.RELEASED,
    )
    assert custody.connector.hidden == {}


def test_a_row_that_goes_while_it_is_exported_is_missing_and_not_deleted(custody):
    hide(custody, "d0", "d1")
    wanted, plain = targets(custody, "d0", "d1"), custody.connector.export

    def export(ids):
        del custody.connector.rows["d0"]
        return plain(ids)

    custody.connector.export = export
    applied = custody.delete(wanted, reason="confirmed")
    assert (applied.done, applied.missing) == (("d1",), ("d0",))
    assert state(custody, "d0") is Remediation.QUARANTINED


def test_a_refused_deletion_leaves_no_text_behind(custody):
    hide(custody, "d0")
    custody.release(targets(custody, "d0"), reason="benign")
    with pytest.raises(IllegalMoveError):
        custody.delete(targets(custody, "d0"), reason="confirmed")
    assert list(custody.bundles.iterdir()) == []


def test_a_scan_that_was_rolled_back_hides_nothing_more(custody):
    hide(custody, "d0")
    assert roll_back(custody, "scan1", reason="a mistake").complete
    with pytest.raises(IllegalMoveError, match="rolled back"):
        hide(custody, "d1")
    assert custody.connector.hidden == {}
    # A release is taken back through the scan that hid the document first.
    assert hide(custody, "d0").done == ("d0",)


def test_bundles_lie_in_a_folder_of_their_owner_alone(custody):
    hide(custody, "d0")
    custody.delete(targets(custody, "d0"), reason="confirmed")
    assert custody.bundles.stat().st_mode & 0o077 == 0


def test_an_intent_that_was_abandoned_meanwhile_is_not_taken_for_done(custody):
    plain = custody.connector.quarantine

    def slow(*arguments, **more):
        custody.connector.quarantine = plain
        assert recover(custody, older_than_seconds=0).abandoned == ("d0",)
        return plain(*arguments, **more)

    custody.connector.quarantine = slow
    with pytest.raises(StaleStateError, match="d0"):
        hide(custody, "d0")
    assert hide(custody, "d0").done == ("d0",)
    assert state(custody, "d0") is Remediation.QUARANTINED
    assert set(custody.connector.hidden) == {"d0"}


def test_an_intent_that_was_confirmed_meanwhile_counts_as_already_done(custody):
    plain = custody.connector.quarantine

    def slow(*arguments, **more):
        done = plain(*arguments, **more)
        assert recover(custody, older_than_seconds=0).confirmed == ("d0",)
        return done

    custody.connector.quarantine = slow
    assert hide(custody, "d0").already == ("d0",)
    assert state(custody, "d0") is Remediation.QUARANTINED


def test_an_intent_for_another_content_is_not_taken_over(custody):
    store = custody.connector
    store.die = "before"
    with pytest.raises(Died):
        hide(custody, "d0")
    store.rows["d0"] = replaced(store.rows["d0"], text="another text")
    with pytest.raises(StaleStateError, match="resolve what was left pending"):
        hide(custody, "d0", scan_id="scan2")
    recover(custody, older_than_seconds=0)
    assert hide(custody, "d0", scan_id="scan2").done == ("d0",)
    kept = custody.ledger.states.get(custody.place("d0"))
    assert (kept.content_sha256, kept.scan_id) == (sha(store.rows["d0"]), "scan2")


def test_an_abandoned_intent_gives_back_when_the_document_was_hidden(custody):
    store = custody.connector
    hide(custody, "d0")
    before = custody.ledger.states.get(custody.place("d0"))
    store.rows["d0"] = replaced(store.rows["d0"], text="another text")
    store.hidden.clear()
    store.die = "before"
    with pytest.raises(Died):
        hide(custody, "d0", scan_id="scan2")
    recover(custody, older_than_seconds=0)
    after = custody.ledger.states.get(custody.place("d0"))
    assert (after.scan_id, after.content_sha256) == (before.scan_id, before.content_sha256)
    assert after.hidden_at == before.hidden_at
