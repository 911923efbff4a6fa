"""Processes killed, databases gone, disks full, two writers: nothing lost, nothing done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ragsieve.cases import Remediation
from ragsieve.connectors import open_store
from ragsieve.errors import StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.records import ScanState
from ragsieve.remediation.recovery import end_interrupted_scans, recover
from ragsieve.remediation.rollback import roll_back
from stores import changing
from stores.makers import all_makers
from stores.makers_pgvector import create_plain, database, server
from stores.planted import PLANTED, rows_of

pytestmark = [pytest.mark.stores, pytest.mark.timeout(240)]

COUNT = 48
WORKER = Path(changing.__file__)
PATH = str(WORKER.parents[1])


def start(store, ledger, bundles, what, ids, folder, *, scan_id="scan1", limit_bytes=None):
    listed = folder / "ids.txt"
    listed.write_text("\n".join(ids), "utf-8")
    limit = [] if limit_bytes is None else [str(limit_bytes)]
    return subprocess.Popen(
        [sys.executable, WORKER, store, ledger, bundles, what, scan_id, listed, *limit],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PATH, "HOME": str(folder)},
        text=True,
    )


def killed(process, after_seconds):
    assert process.stdout.readline().strip() == "ready", process.stderr.read()[-2000:]
    time.sleep(after_seconds)
    process.kill()
    process.communicate()


def contents(connector):
    return {
        row.id: (row.text, np.asarray(row.vector)) for page in connector.pages() for row in page
    }


def check_agreement(custody, before):
    """Ledger and store say the same of every document, and none is lost."""
    states = {one.place.document_id: one.state for one in custody.ledger.states.items()}
    present = contents(custody.connector)
    hidden = {one.id for one in custody.connector.marks()}
    for name, (text, vector) in before.items():
        state = states.get(name, Remediation.NONE)
        assert not state.pending
        assert (name in present) is (state is not Remediation.DELETED)
        assert (name in hidden) is (state is Remediation.QUARANTINED)
        if name in present:
            assert present[name][0] == text
            assert np.allclose(present[name][1], vector, atol=1e-6)
    # A mark twice, or a state without its audit entry, would show here.
    assert len(hidden) == sum(state is Remediation.QUARANTINED for state in states.values())
    assert custody.ledger.audit.verify().intact


@pytest.fixture
def ledger_url(request, tmp_path):
    """PostgreSQL where the store is PostgreSQL, else SQLite."""
    if request.node.callspec.params["maker"].scheme.startswith("postgresql"):
        return database().replace("postgresql://", "postgresql+psycopg://")
    return f"sqlite:///{tmp_path}/ledger.sqlite"


STEPS = [
    ("quarantine", "scan1"),
    ("rollback", "scan1"),
    ("quarantine", "scan2"),
    ("delete", "scan2"),
    ("restore", "scan2"),
    ("rollback", "scan2"),
]


def test_kill_at_random_points(maker, opened, ledger_url, tmp_path):
    rows, connector = opened(COUNT)
    before = contents(connector)
    if not connector.capabilities().deletes:
        pytest.fail("every maker of this suite can delete; give one that cannot its own test")
    connector.close()
    ids, bundles = [row.id for row in rows], tmp_path / "bundles"
    chance = np.random.default_rng(7)
    with open_ledger(ledger_url, actor="op") as ledger:
        for scan_id in ("scan1", "scan2"):
            changing.begin(ledger, connector.address, scan_id)
    for what, scan_id in STEPS:
        process = start(opened.address, ledger_url, bundles, what, ids, tmp_path, scan_id=scan_id)
        killed(process, chance.uniform(0.0, 0.25))
        with open_ledger(ledger_url, actor="op") as ledger:
            custody = changing.custody_of(opened.address, ledger, bundles)
            recover(custody, older_than_seconds=0)
            check_agreement(custody, before)
            # Asked again, the work is finished.
            changing.work(custody, what, ids, scan_id)
            check_agreement(custody, before)
            custody.connector.close()
        if what == "rollback":
            with open_ledger(ledger_url, actor="op") as ledger:
                assert ledger.states.items(states=[Remediation.QUARANTINED]) == ()


@pytest.mark.parametrize("scheme", ["faiss", "postgresql", "lancedb"])
def test_a_scan_killed_at_random_points(scheme, tmp_path):
    """The whole command, from reading the store to hiding rows and writing the ledger."""
    maker = next(one for one in all_makers() if one.scheme.startswith(scheme) and one.lossless)
    rows = rows_of(maker)
    address = maker.create(tmp_path, rows)
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    command = [sys.executable, "-m", "ragsieve", "scan", address, "--apply", "--ledger", url]
    whole = subprocess.run(
        [*command[:-1], f"{tmp_path}/other.sqlite", "--dry-run"], capture_output=True, check=False
    )
    assert whole.returncode == 1, whole.stderr
    connector = open_store(address)
    before = contents(connector)
    connector.close()
    chance = np.random.default_rng(11)
    for _ in range(5):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(1.0, 3.5))
        process.kill()
        process.communicate()
        with open_ledger(url, actor="op") as ledger:
            custody = changing.custody_of(address, ledger, tmp_path / "bundles")
            recover(custody, older_than_seconds=0)
            end_interrupted_scans(custody, older_than_seconds=0)
            check_agreement(custody, before)
            custody.connector.close()
    last = subprocess.run([*command, "--json"], capture_output=True, check=False, text=True)
    assert last.stdout, last.stderr
    done = json.loads(last.stdout)
    assert set(done["hidden"]) | set(done["already_hidden"]) == set(done["quarantine"])
    assert {row.id for row in rows[:PLANTED]} <= set(done["quarantine"])
    with open_ledger(url, actor="op") as ledger:
        custody = changing.custody_of(address, ledger, tmp_path / "bundles")
        check_agreement(custody, before)
        assert ledger.scans.all(state=ScanState.RUNNING) == ()
        # One waiting finding for each document, however often it was found.
        page = ledger.incidents.queue(limit=500)
        places = [one.incident.place.document_id for one in page.entries]
        assert len(places) == len(set(places)) == done["findings"]
        custody.connector.close()


def test_a_retriever_honours_every_state(maker, opened, ledger_url, tmp_path):
    rows, connector = opened(COUNT)
    connector.close()
    with open_ledger(ledger_url, actor="op") as ledger:
        custody = changing.custody_of(opened.address, ledger, tmp_path / "bundles")
        changing.begin(ledger, custody.connector.address)
        query = np.asarray(rows[9].vector)

        def found():
            native = maker.native_search(
                custody.connector, query, COUNT, custody.connector.retrieval_filter()
            )
            own = [row.id for row, _ in custody.connector.search(query, depth=COUNT)]
            assert sorted(own) == sorted(native)
            return own

        # Once, so that a store which adds its columns with the first mark has them.
        changing.work(custody, "quarantine", [rows[0].id])
        changing.work(custody, "rollback", [])
        everything = found()
        assert len(everything) == COUNT
        nearest = everything[0]
        changing.begin(ledger, custody.connector.address, "scan2")
        changing.work(custody, "quarantine", [nearest], "scan2")
        assert found() == everything[1:]
        roll_back(custody, "scan2", reason="a mistake")
        assert found() == everything
        custody.connector.close()


def test_two_writers_hide_each_document_once(maker, opened, ledger_url, tmp_path):
    rows, connector = opened(COUNT)
    several = connector.capabilities().several_processes
    before = contents(connector)
    connector.close()
    ids, bundles = [row.id for row in rows], tmp_path / "bundles"
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with open_ledger(ledger_url, actor="op") as ledger:
        changing.begin(ledger, connector.address)
    both = [
        start(opened.address, ledger_url, bundles, "quarantine", ids, folder) for folder in folders
    ]
    ended = [process.communicate(timeout=120) for process in both]
    if several:
        assert [process.returncode for process in both] == [0, 0], ended
    else:
        # One of them is told that the store is open elsewhere, and may come again.
        assert 0 in [process.returncode for process in both], ended
    with open_ledger(ledger_url, actor="op") as ledger:
        custody = changing.custody_of(opened.address, ledger, bundles)
        recover(custody, older_than_seconds=0)
        check_agreement(custody, before)
        hidden = [
            one for one in ledger.audit.entries(limit=10_000) if one.action == "state.confirm"
        ]
        named = [name for one in hidden for _, name, _, _ in one.payload["documents"]]
        assert sorted(named) == sorted(ids)
        custody.connector.close()


def test_a_full_disk_changes_nothing_it_does_not_say(opened_full, tmp_path):
    address, ids, before = opened_full
    ledger_url, bundles = f"sqlite:///{tmp_path}/ledger.sqlite", tmp_path / "bundles"
    with open_ledger(ledger_url, actor="op") as ledger:
        custody = changing.custody_of(address, ledger, bundles)
        changing.begin(ledger, custody.connector.address)
        custody.connector.close()
    size = sum(one.stat().st_size for one in tmp_path.glob("ledger.sqlite"))
    process = start(
        address, ledger_url, bundles, "quarantine", ids, tmp_path, limit_bytes=size + 40_000
    )
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "StoreError" in said
    with open_ledger(ledger_url, actor="op") as ledger:
        custody = changing.custody_of(address, ledger, bundles)
        recover(custody, older_than_seconds=0)
        check_agreement(custody, before)
        changing.work(custody, "quarantine", ids)
        check_agreement(custody, before)
        custody.connector.close()


@pytest.fixture
def opened_full(tmp_path):
    from stores.makers import make_rows

    maker = next(one for one in all_makers() if one.scheme.startswith("postgresql"))
    rows = make_rows(maker, 400)
    address = create_plain(tmp_path, rows)
    connector = open_store(address)
    before = contents(connector)
    connector.close()
    return address, [row.id for row in rows], before


def test_the_database_goes_and_comes_back(tmp_path):
    from stores.makers import make_rows

    maker = next(one for one in all_makers() if one.scheme.startswith("postgresql"))
    rows = make_rows(maker, COUNT)
    address = create_plain(tmp_path, rows)
    ledger_url = database().replace("postgresql://", "postgresql+psycopg://")
    ids = [row.id for row in rows]
    with open_ledger(ledger_url, actor="op") as ledger:
        custody = changing.custody_of(address, ledger, tmp_path / "bundles")
        changing.begin(ledger, custody.connector.address)
        changing.work(custody, "quarantine", ids[:10])
        before = contents(custody.connector)
        server().stop("immediate")
        try:
            with pytest.raises(StoreError):
                changing.work(custody, "quarantine", ids)
            with pytest.raises(StoreError):
                ledger.audit.verify()
        finally:
            server().start()
        # The same objects go on; no process was started anew.
        recover(custody, older_than_seconds=0)
        check_agreement(custody, before)
        changing.work(custody, "quarantine", ids)
        check_agreement(custody, before)
        assert len(custody.connector.marks()) == COUNT
        custody.connector.close()
    again = open_store(address)
    assert len(again.marks()) == COUNT
    again.close()
