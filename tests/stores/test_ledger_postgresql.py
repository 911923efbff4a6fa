"""The ledger's tests again, on a real PostgreSQL; and what only a server can do to a ledger."""

from __future__ import annotations

import itertools

import pytest
import sqlalchemy as sa

from ragsieve.errors import StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.connecting import address_of
from stores.postgres import running_server
from unit.ledger import (
    conftest,
    test_audit,
    test_crash,
    test_exposing,
    test_incidents,
    test_lookback,
    test_migrations,
    test_reviews,
    test_scans,
    test_states,
    test_tenants,
)
from unit.ledger.building import context, hide, incident, place, start, target, worker

pytestmark = pytest.mark.stores

SUITE = (
    test_audit,
    test_crash,
    test_exposing,
    test_incidents,
    test_lookback,
    test_migrations,
    test_reviews,
    test_scans,
    test_states,
    test_tenants,
)
FIXTURE = type(conftest.clock)
clock, ledger = conftest.clock, conftest.ledger
COUNT = itertools.count()


def taken(module):
    """A module's tests and fixtures; the addresses are this module's own."""
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith("test_") or isinstance(value, FIXTURE)
    }


NAMES = [name for module in SUITE for name in taken(module) if name.startswith("test_")]
for module in SUITE:
    globals().update(taken(module))


@pytest.fixture(scope="module")
def server():
    with running_server() as running:
        yield running


@pytest.fixture
def empty_url(server):
    # A schema, not a database: hundreds of those are slow to make and to remove.
    name = f"ledger_{next(COUNT)}"
    engine = sa.create_engine(address_of(server.url()), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{server.url()}&options=-csearch_path%3D{name}"


@pytest.fixture
def ledger_url(empty_url):
    open_ledger(empty_url, actor="nobody").close()
    return empty_url


def test_no_test_hides_another():
    assert len(NAMES) == len(set(NAMES))
    assert len(NAMES) > 60


def test_a_server_that_goes_and_comes_back(server, ledger):
    ledger.scans.begin(start())
    server.stop()
    try:
        with pytest.raises(StoreError, match="cannot be reached"):
            ledger.scans.begin(start("s2"))
        with pytest.raises(StoreError, match="nothing was written"):
            ledger.scans.all()
    finally:
        server.start()
    ledger.scans.begin(start("s2"))
    assert [one.start.id for one in ledger.scans.all()] == ["s2", "s1"]
    assert ledger.audit.verify().intact


def test_a_server_that_crashes_under_a_writer(server, ledger_url):
    process = worker(test_crash.WORKING, ledger_url, "w")
    assert process.stdout.readline() == "ready\n"
    for _ in range(5):
        process.stdout.readline()
    server.stop("immediate")
    try:
        said, told = process.communicate(timeout=60)
    finally:
        process.kill()
        server.start()
    assert "StoreError" in told
    with open_ledger(ledger_url, actor="mara") as ledger:
        assert ledger.audit.verify().intact
        lines = [line.split() for line in said.splitlines()]
        test_crash.check_nothing_is_lost(ledger, lines)
        test_crash.check_every_step_follows(ledger)


def test_a_writer_that_holds_on_is_named_after_the_wait(ledger_url):
    with (
        open_ledger(ledger_url, actor="first") as first,
        open_ledger(ledger_url, actor="second", busy_seconds=0.2) as second,
    ):
        with first._desk.writing():
            with pytest.raises(StoreError, match=r"writing the ledger for 0\.2 s"):
                second.scans.begin(start())
            assert second.scans.all() == ()
        assert second.scans.begin(start()).actor == "second"


def test_counting_does_not_wait_for_writers(ledger_url):
    with (
        open_ledger(ledger_url, actor="first") as first,
        open_ledger(ledger_url, actor="second", busy_seconds=0.2) as second,
        first._desk.writing(),
    ):
        second.exposures.add("store", [context(["a"])])
        assert len(second.exposures.recent(place("a", store="store"))) == 1


def test_truncating_is_refused(ledger):
    ledger.scans.begin(start())
    ledger.incidents.record([incident()])
    hide(ledger, target())
    for table in ("ledger_audit", "ledger_changes"):
        with pytest.raises(StoreError, match="only ever added"):
            run(ledger, f"TRUNCATE {table}")
    assert ledger.audit.verify().entries == 4


def run(ledger, statement):
    with ledger._desk.database.writing() as connection:
        connection.execute(sa.text(statement))


def test_a_server_that_refuses_tells_no_secret(server):
    url = server.url("no_such_database", user="mara:hunter2")
    with pytest.raises(StoreError) as caught:
        open_ledger(url, actor="mara")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__cause__)


LEAVING = """
ledger = open_ledger(sys.argv[1], actor="w")
with ledger._desk.writing() as pen:
    pen.note("half", "done", {}, tenant=None)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_writer_that_dies_lets_go(ledger_url):
    process = worker(LEAVING, ledger_url)
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=60)
    with open_ledger(ledger_url, actor="mara", busy_seconds=10) as ledger:
        ledger.scans.begin(start())
        assert ledger.audit.verify().entries == 1
