"""A SQLite file: made private, never silently another one, and full or gone without damage."""

from __future__ import annotations

import datetime
import sqlite3
import stat
import threading

import pytest
from sqlalchemy import event

from ragsieve.errors import ConfigError, InputError, StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.connecting import address_of, shown
from ragsieve.ledger.schema import documents
from unit.ledger.building import incident, start


def test_a_bare_file_name_will_do(tmp_path):
    path = tmp_path / "what 100%? [it] is#.db"
    with open_ledger(str(path), actor="mara") as ledger:
        ledger.scans.begin(start())
    with open_ledger(f"sqlite:///{tmp_path}/second.db", actor="mara") as ledger:
        assert ledger.scans.all() == ()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("what")] == [path.name]


def test_it_writes_ahead_and_waits_for_the_disk(ledger, ledger_url):
    with ledger._desk.database.reading() as connection:
        modes = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert modes == ["wal", 2, 1]


def test_a_missing_directory(tmp_path):
    with pytest.raises(StoreError, match="existing, writable directory"):
        open_ledger(str(tmp_path / "no" / "ledger.db"), actor="mara")


def test_a_file_that_is_no_ledger(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 200)
    with pytest.raises(StoreError, match="not a ledger"):
        open_ledger(str(path), actor="mara")
    assert path.read_text() == "dear diary, " * 200


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_memory_forgets(url):
    with pytest.raises(ConfigError, match="forgotten"):
        open_ledger(url, actor="mara")


@pytest.mark.parametrize("actor", ["", "  "])
def test_somebody_must_sign(ledger_url, actor):
    with pytest.raises(InputError, match="actor"):
        open_ledger(ledger_url, actor=actor)


def test_a_file_that_has_gone_is_no_new_ledger(ledger, tmp_path):
    ledger.scans.begin(start())
    for path in tmp_path.glob("ledger.db*"):
        path.rename(path.with_name("away-" + path.name))
    with pytest.raises(StoreError, match="cannot be reached"):
        ledger.scans.begin(start("s2"))
    with pytest.raises(StoreError):
        ledger.scans.all()
    assert not (tmp_path / "ledger.db").exists()
    for path in tmp_path.glob("away-*"):
        path.rename(path.with_name(path.name.removeprefix("away-")))
    ledger.scans.begin(start("s2"))
    assert len(ledger.scans.all()) == 2


def test_a_file_that_was_replaced_is_read_anew(ledger, ledger_url, tmp_path):
    ledger.scans.begin(start())
    with open_ledger(str(tmp_path / "other.db"), actor="mara") as other:
        other.scans.begin(start("of the other"))
    ledger.close()
    ledger.scans.all()
    (tmp_path / "other.db").rename(tmp_path / "ledger.db")
    for rest in ("ledger.db-wal", "ledger.db-shm"):
        (tmp_path / rest).unlink(missing_ok=True)
    assert [one.start.id for one in ledger.scans.all()] == ["of the other"]


def test_a_full_disk_leaves_nothing_half_written(ledger):
    ledger.scans.begin(start())
    ledger.incidents.record([incident("d0", "first")])
    head = ledger.audit.head()
    engine = ledger._desk.database.engine

    def no_room(connection, record, proxy):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 2}")

    event.listen(engine, "checkout", no_room)
    found = [incident(f"d{number}", "x" * 100 + str(number)) for number in range(1, 400)]
    with pytest.raises(StoreError, match="no room is left"):
        ledger.incidents.record(found)
    event.remove(engine, "checkout", no_room)
    engine.dispose()
    assert ledger.incidents.queue().total == 1
    assert ledger.audit.head() == head
    assert ledger.incidents.record(found) == 399
    assert ledger.audit.verify().intact


def test_a_writer_that_holds_on_is_named_after_the_wait(ledger_url, tmp_path):
    with open_ledger(ledger_url, actor="mara", busy_seconds=0.05) as ledger:
        other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"writing the ledger for 0\.05 s"):
            ledger.scans.begin(start())
        # Readers do not wait for writers.
        assert ledger.scans.all() == ()
        other.execute("ROLLBACK")
        other.close()
        ledger.scans.begin(start())


def test_a_short_wait_is_waited(ledger, tmp_path):
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, other.execute, ["ROLLBACK"])
    timer.start()
    assert ledger.scans.begin(start()).start.id == "s1"
    timer.join()
    other.close()


def test_a_damaged_file_is_said_to_be(ledger, tmp_path):
    ledger.scans.begin(start())
    ledger.close()
    path = tmp_path / "ledger.db"
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        ledger.scans.all()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mara:hunter2@db.example:5432/ledger?sslpassword=hunter2",
        "postgres://mara:hunter2@db.example/ledger",
        "postgresql+psycopg://mara:hunter2@/ledger?host=/run&password=hunter2",
    ],
)
def test_an_address_is_shown_without_its_secrets(url):
    address = address_of(url)
    assert address.drivername == "postgresql+psycopg"
    assert "hunter2" not in shown(address)
    assert "mara" in shown(address)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mara:hunter2/x@db.example:port/ledger",
        "mysql://mara:hunter2@db.example/ledger",
        "://hunter2",
        "nonsense hunter2://",
    ],
)
def test_an_impossible_address_repeats_no_secret(url):
    with pytest.raises(ConfigError) as caught:
        open_ledger(url, actor="mara")
    told = str(caught.value)
    assert "hunter2" not in told.split("cannot lie in", maxsplit=1)[0]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "postgresql://" in told


def write_document(desk, **values):
    with desk.writing() as pen:
        row = {"content_sha256": "x", "first_seen": pen.at} | values
        pen.connection.execute(documents.insert(), [row, row])


def test_what_is_refused_by_the_database_repeats_no_text(ledger):
    with pytest.raises(StoreError) as caught:
        write_document(ledger.incidents.desk, characters="a secret of the house")
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.__cause__)


def test_a_time_without_a_zone_is_refused(ledger):
    naive = datetime.datetime(2026, 1, 1)
    with pytest.raises(InputError, match="time zone"):
        write_document(ledger.incidents.desk, first_seen=naive)
    assert ledger.audit.head() is None
