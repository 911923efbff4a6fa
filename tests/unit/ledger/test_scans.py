"""Scans begin once, end once, and say what they counted."""

from __future__ import annotations

import pytest

from ragsieve.errors import InputError
from ragsieve.ledger.faults import NotKeptError, StaleStateError
from ragsieve.ledger.records import ScanCounts, ScanKind, ScanState
from ragsieve.ledger.scans import new_scan_id
from unit.ledger.building import start


def test_a_scan_comes_back_as_it_was_begun(ledger):
    begun = start(
        new_scan_id(),
        kind=ScanKind.FILTER,
        config_sha256="c" * 64,
        policy_sha256="p" * 64,
        embedding_version="minilm@1",
        index_version="rows 12",
        note="nightly\x00\ud800",
    )
    entry = ledger.scans.begin(begun)
    assert entry.start == begun
    assert entry == ledger.scans.get(begun.id)
    assert entry.state is ScanState.RUNNING
    assert entry.finished is None
    assert entry.started.utcoffset().total_seconds() == 0


def test_finishing_counts_the_clear_ones(ledger):
    ledger.scans.begin(start())
    done = ledger.scans.finish("s1", ScanCounts(100, 7, 3), note="ok")
    assert done == ledger.scans.get("s1")
    assert done.counts.clear == 90
    assert done.finished > done.started
    with pytest.raises(StaleStateError, match="finished, not running"):
        ledger.scans.fail("s1", note="late")


def test_a_failed_scan_keeps_why(ledger):
    ledger.scans.begin(start())
    failed = ledger.scans.fail("s1", note="store gone", counts=ScanCounts(5, 1, 0))
    assert (failed.state, failed.note, failed.counts.documents) == ("failed", "store gone", 5)


def test_a_running_scan_is_taken_up_again_and_nothing_else(ledger):
    first = ledger.scans.begin(start())
    assert ledger.scans.begin(start()) == first
    with pytest.raises(StaleStateError, match="take a new id"):
        ledger.scans.begin(start(policy_sha256="x" * 64))
    ledger.scans.finish("s1", ScanCounts())
    with pytest.raises(StaleStateError):
        ledger.scans.begin(start())
    assert [entry.action for entry in ledger.audit.entries()] == ["scan.begin", "scan.finished"]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "\ud800"])
def test_an_impossible_id_is_refused(ledger, name):
    with pytest.raises(InputError, match="printable"):
        ledger.scans.begin(start(name))
    with pytest.raises(NotKeptError):
        ledger.scans.get(name)


def test_an_empty_tenant_is_refused(ledger):
    with pytest.raises(InputError, match="tenant's name is empty"):
        ledger.scans.begin(start(tenant=""))


def test_listing_is_newest_first_and_filtered(ledger):
    for name in ("s1", "s2", "s3"):
        ledger.scans.begin(start(name, kind=ScanKind.GUARD if name == "s2" else ScanKind.SCAN))
    ledger.scans.finish("s3", ScanCounts())
    assert [one.start.id for one in ledger.scans.all()] == ["s3", "s2", "s1"]
    assert [one.start.id for one in ledger.scans.all(limit=1, offset=1)] == ["s2"]
    assert [one.start.id for one in ledger.scans.all(kind=ScanKind.GUARD)] == ["s2"]
    assert [one.start.id for one in ledger.scans.all(state=ScanState.RUNNING)] == ["s2", "s1"]
    assert ledger.scans.all(store="elsewhere") == ()


def test_rolled_back_is_written_once(ledger):
    ledger.scans.begin(start())
    ledger.scans.finish("s1", ScanCounts(4, 1, 0))
    back = ledger.scans.rolled_back("s1", note="wrong store")
    assert back.state is ScanState.ROLLED_BACK
    assert back.counts.documents == 4
    assert ledger.scans.rolled_back("s1") == back
    assert [one.action for one in ledger.audit.entries()][-1] == "scan.rolled_back"
    assert len(ledger.audit.entries()) == 3
