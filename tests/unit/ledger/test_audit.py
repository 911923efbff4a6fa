"""The audit chain finds what was edited, removed, put in, reordered or cut off."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json

import pytest
import sqlalchemy as sa

from ragsieve.errors import StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.chain import NOTHING
from ragsieve.ledger.reports import AuditHead
from ragsieve.ledger.schema import audit
from unit.ledger.building import hide, incident, start, tamper, target


@pytest.fixture
def written(ledger):
    ledger.scans.begin(start())
    ledger.incidents.record([incident()])
    hide(ledger, target())
    ledger.audit.add("export.made", "b1", {"rows": 3, "share": 0.5, "odd": "\x00\ud800\\"})
    ledger.audit.add("login", "nils", {})
    return ledger


def test_entries_tell_who_did_what(written):
    entries = written.audit.entries()
    assert [one.seq for one in entries] == [1, 2, 3, 4, 5, 6]
    assert [one.action for one in entries] == [
        "scan.begin",
        "incidents.record",
        "state.quarantining",
        "state.confirm",
        "export.made",
        "login",
    ]
    assert {one.actor for one in entries} == {"mara"}
    assert entries[4].payload == {
        "rows": 3,
        "share": 0.5,
        "odd": "\x00\ud800\\",
        "tenant": None,
    }
    assert entries[2].payload["documents"][0][1] == "d1"
    assert entries[0].previous_sha256 == NOTHING
    assert written.audit.entries(action="login", newest_first=True) == entries[5:]
    assert written.audit.entries(after_seq=2, limit=2) == entries[2:4]


def test_the_hash_is_of_the_canonical_entry(written):
    entry = written.audit.entries()[0]
    text = json.dumps(
        {
            "seq": 1,
            "at": "2026-03-01T12:00:01.000000+00:00",
            "actor": "mara",
            "action": "scan.begin",
            "subject": "s1",
            "payload": dict(entry.payload),
            "previous": NOTHING,
        },
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    assert entry.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_a_whole_chain_holds(written):
    report = written.audit.verify()
    assert report.intact
    assert report.entries == 6
    assert report.head == written.audit.head()
    assert written.audit.verify(expected_head=report.head).intact
    # The chain may grow after its head was remembered.
    written.audit.add("login", "ann", {})
    assert written.audit.verify(expected_head=report.head).intact


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload", '{"tenant":null}'),
        ("payload", "not json"),
        ("payload", "[]"),
        ("actor", "nils"),
        ("action", "scan.finish"),
        ("subject", "other"),
        ("at", "2026-03-01T12:00:01.000001+00:00"),
        ("at", "yesterday"),
        ("tenant", "acme"),
        ("sha256", "f" * 64),
        ("previous_sha256", "f" * 64),
    ],
)
def test_an_edited_entry_is_named(written, ledger_url, column, value):
    forging = sa.update(audit).where(audit.c.seq == 3).values({column: value})
    tamper(ledger_url, forging)
    report = written.audit.verify()
    assert not report.intact
    assert report.first_bad == 3
    assert report.entries == 2
    assert "entry 3" in report.problem


def test_an_edit_that_computes_its_own_hash_breaks_the_next_link(written, ledger_url):
    entry = written.audit.entries()[2]
    forged = {
        "seq": 3,
        "at": entry.at.isoformat(timespec="microseconds"),
        "actor": "nils",
        "action": entry.action,
        "subject": entry.subject,
        "payload": dict(entry.payload),
        "previous": entry.previous_sha256,
    }
    text = json.dumps(forged, sort_keys=True, separators=(",", ":"))
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    tamper(ledger_url, sa.update(audit).where(audit.c.seq == 3).values(actor="nils", sha256=sha256))
    assert written.audit.verify().first_bad == 4


@pytest.mark.parametrize(
    ("statements", "first_bad"),
    [
        (["DELETE FROM ledger_audit WHERE seq = 1"], 1),
        (["DELETE FROM ledger_audit WHERE seq = 4"], 4),
        (
            [
                "DELETE FROM ledger_audit WHERE seq = 4",
                "UPDATE ledger_audit SET seq = 4 WHERE seq = 5",
                "UPDATE ledger_audit SET seq = 5 WHERE seq = 6",
            ],
            4,
        ),
        (
            [
                "UPDATE ledger_audit SET seq = 99 WHERE seq = 2",
                "UPDATE ledger_audit SET seq = 2 WHERE seq = 3",
                "UPDATE ledger_audit SET seq = 3 WHERE seq = 99",
            ],
            2,
        ),
        (
            [
                "INSERT INTO ledger_audit SELECT 0, tenant, at, actor, action, subject, payload, "
                "previous_sha256, sha256 FROM ledger_audit WHERE seq = 1"
            ],
            1,
        ),
        (
            [
                "INSERT INTO ledger_audit SELECT 7, tenant, at, actor, action, subject, payload, "
                "previous_sha256, sha256 FROM ledger_audit WHERE seq = 6"
            ],
            7,
        ),
    ],
    ids=["first removed", "removed", "gap closed", "swapped", "put before", "put after"],
)
def test_missing_and_moved_entries_are_named(written, ledger_url, statements, first_bad):
    tamper(ledger_url, *statements)
    assert written.audit.verify().first_bad == first_bad


def test_a_cut_off_tail_shows_only_against_a_remembered_head(written, ledger_url):
    head = written.audit.head()
    tamper(ledger_url, "DELETE FROM ledger_audit WHERE seq > 4")
    assert written.audit.verify().intact
    report = written.audit.verify(expected_head=head)
    assert report.first_bad == 5
    assert "5 to 6 are missing" in report.problem
    # A new end of the same length is another chain.
    written.audit.add("login", "eve", {})
    written.audit.add("login", "eve", {})
    assert written.audit.verify().intact
    assert written.audit.verify(expected_head=head).first_bad == 6


def test_an_emptied_chain(written, ledger_url):
    head = written.audit.head()
    tamper(ledger_url, "DELETE FROM ledger_audit")
    assert written.audit.verify().entries == 0
    assert written.audit.verify(expected_head=head).first_bad == 1
    assert not written.audit.verify(expected_head=AuditHead(0, NOTHING)).intact


@pytest.mark.parametrize("table", ["audit", "reviews", "changes", "truth_checks"])
@pytest.mark.parametrize("change", ["UPDATE ledger_{} SET at = at", "DELETE FROM ledger_{}"])
def test_the_database_refuses_to_change_what_is_only_added(written, table, change):
    found = written.incidents.queue().entries[0].incident.id
    written.reviews.add(found, "benign", reason="r")
    written.truth.add(found, "false", reason="r")
    database = written._desk.database
    with pytest.raises(StoreError), database.writing() as connection:
        connection.execute(sa.text(change.format(table)))
    assert written.audit.verify().entries == 8


def test_a_number_that_is_not_finite_is_refused(ledger):
    with pytest.raises(ValueError, match="JSON"):
        ledger.audit.add("x", "y", {"value": float("nan")})
    assert ledger.audit.head() is None


def test_threads_append_in_one_chain(ledger_url):
    with open_ledger(ledger_url, actor="many") as shared:

        def write(number):
            own = shared.acting_as(f"thread {number}")
            for turn in range(10):
                own.audit.add("turn", str(turn), {"number": number})

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        report = shared.audit.verify()
        assert report.intact
        assert report.entries == 60
        assert len({one.actor for one in shared.audit.entries()}) == 6
