"""The store in trouble: damage is noticed, reported and made good; the caller never fails."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ragsieve.errors import ConfigError
from ragsieve.featurestore.database import Database
from ragsieve.featurestore.models import StoredCausalScorer
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore
from ragsieve.featurestore.upkeep import usage, verify
from ragsieve.testing import FakeCausalScorer

TEXTS = [f"{'word ' * (90 * row)}end {row}" for row in range(1, 13)]
EXPECTED = FakeCausalScorer().losses(TEXTS)
SPACE = Space("losses", "model")
NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "features.sqlite"
    with FeatureStore(place) as store:
        StoredCausalScorer(FakeCausalScorer(), store).losses(TEXTS)
    assert not place.with_name("features.sqlite-wal").exists()
    return place


def losses(place):
    """What a user gets, how many texts the model had to read for it, and the store's report."""
    scorer = FakeCausalScorer()
    with FeatureStore(place) as store:
        found = StoredCausalScorer(scorer, store).losses(TEXTS)
        report = store.report()
    assert all(np.array_equal(one, other) for one, other in zip(found, EXPECTED, strict=True))
    return sum(map(len, scorer.calls)), report


def flip(place, offset, mask=0x40):
    raw = bytearray(place.read_bytes())
    raw[offset] ^= mask
    place.write_bytes(raw)


def execute(place, statement, *values):
    connection = sqlite3.connect(place)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_a_flipped_bit_of_a_value_costs_that_value_alone(path):
    value = EXPECTED[7].tobytes()
    flip(path, path.read_bytes().index(value[:64]) + 20)
    computed, report = losses(path)
    assert (computed, report.damaged) == (1, 1)
    assert "damaged entries" in report.notes[0]
    # Made good, and remembered that it happened.
    assert losses(path)[0] == 0
    assert usage(path).damaged == 1


def test_a_flipped_bit_anywhere_is_survived(path, tmp_path):
    size = path.stat().st_size
    noticed = 0
    for offset in sorted({*range(0, 130, 7), *range(130, size, size // 25)}):
        place = tmp_path / "copy.sqlite"
        for leftover in tmp_path.glob("copy*"):
            leftover.unlink()
        shutil.copyfile(path, place)
        flip(place, offset)
        computed, report = losses(place)
        noticed += bool(report.notes)
        assert computed == 0 or report.notes or report.misses
        assert losses(place)[0] == 0
    assert noticed > 5


@pytest.mark.parametrize("length", [0, 1, 100, 5000, 8192, 30_000, -8192, -1])
def test_a_cut_file_is_survived(path, length):
    os.truncate(path, length if length >= 0 else path.stat().st_size + length)
    losses(path)
    assert losses(path)[0] == 0


@pytest.mark.parametrize("content", [b"\0" * 20_000, b"not a database " * 2000, b"SQLite format 3"])
def test_what_is_no_database_is_set_aside_and_made_anew(path, content):
    path.write_bytes(content)
    computed, report = losses(path)
    assert computed == len(TEXTS)
    assert "set aside as features.sqlite.damaged" in report.notes[0]
    assert path.with_name("features.sqlite.damaged").read_bytes() == content
    assert usage(path).set_aside == "features.sqlite.damaged"
    assert losses(path)[0] == 0
    # One is kept, not one for each time.
    path.write_bytes(content)
    losses(path)
    assert len(list(path.parent.glob("*damaged*"))) == 1


def test_damage_under_an_open_store_is_survived(path):
    scorer = FakeCausalScorer()
    store = FeatureStore(path)
    kept = StoredCausalScorer(scorer, store)
    path.write_bytes(b"\xff" * path.stat().st_size)
    found = kept.losses(TEXTS)
    assert np.array_equal(found[3], EXPECTED[3])
    assert "set aside" in store.report().notes[0]
    kept.losses(TEXTS)
    assert len(scorer.calls) == 1


def test_a_file_another_process_replaced_is_opened_not_set_aside(path):
    store = FeatureStore(path)
    kept = StoredCausalScorer(FakeCausalScorer(), store)
    other = path.with_name("other.sqlite")
    shutil.copyfile(path, other)
    path.write_bytes(b"\xff" * path.stat().st_size)
    other.replace(path)
    scorer = FakeCausalScorer()
    assert len(StoredCausalScorer(scorer, store).losses(TEXTS)) == len(TEXTS)
    assert scorer.calls == []
    assert kept.losses(TEXTS)[0].size
    assert not list(path.parent.glob("*damaged*"))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payloads SET value = (SELECT value FROM payloads WHERE id = 2), checksum = "
        "(SELECT checksum FROM payloads WHERE id = 2) WHERE id = 1",
        "UPDATE payloads SET value = 7 WHERE id = 1",
        "UPDATE payloads SET checksum = 'x' WHERE id = 1",
        "DELETE FROM payloads WHERE id = 1",
    ],
    ids=["moved", "type", "checksum", "gone"],
)
def test_rows_that_were_not_written_like_this_are_damage(path, statement):
    execute(path, statement)
    assert verify(path).damaged == 1
    computed, report = losses(path)
    assert (computed, report.damaged) == (1, 1)
    assert verify(path).sound


def test_bytes_of_another_layout_are_computed_again(path):
    store = FeatureStore(path)
    kept = StoredCausalScorer(FakeCausalScorer(), store)
    (key,) = kept.space.keys(["new text here"])
    store.keep(kept.space, {key: b"whole, and no array"})
    assert kept.losses(["new text here"])[0].size == 2
    assert store.report().damaged == 1
    assert FeatureStore(path).fetch([key])[key][:4] == b"RSA1"


def test_tables_that_are_gone_or_of_another_format_are_set_aside(path):
    execute(path, "DROP TABLE payloads")
    assert losses(path)[0] == len(TEXTS)
    execute(path, "PRAGMA user_version = 9")
    computed, report = losses(path)
    assert computed == len(TEXTS)
    assert "format 1" in report.notes[0]


def test_another_programs_database_is_not_touched(tmp_path):
    place = tmp_path / "theirs.sqlite"
    execute(place, "CREATE TABLE songs (name TEXT)")
    before = place.read_bytes()
    with pytest.raises(ConfigError, match="belongs to another program"):
        FeatureStore(place)
    assert place.read_bytes() == before


def test_a_full_disk_costs_nothing_but_the_keeping(path, monkeypatch):
    original = Database._connected

    def small(self):
        connection = original(self)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    monkeypatch.setattr(Database, "_connected", small)
    told = []
    store = FeatureStore(path, note=told.append)
    kept = StoredCausalScorer(FakeCausalScorer(), store)
    texts = [f"{'new ' * 30_000} {row}" for row in range(3)]
    for _ in range(2):
        found = kept.losses([*texts, TEXTS[0]])
        assert [one.size for one in found[:3]] == [30_000] * 3
    assert len(told) == 1
    assert "full" in told[0]
    assert store.report().unkept == 6
    assert store.report().kept == 0
    store.close()
    monkeypatch.undo()
    assert losses(path)[0] == 0
    assert verify(path).sound


def test_a_writer_that_does_not_let_go_costs_nothing_but_the_keeping(path, monkeypatch):
    monkeypatch.setattr("ragsieve.featurestore.database.BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = FeatureStore(path)
    kept = StoredCausalScorer(FakeCausalScorer(), store)
    assert kept.losses([TEXTS[0], "a new text"])[1].size == 2
    assert "locked" in store.report().notes[0]
    other.execute("ROLLBACK")
    other.close()
    kept.losses(["a new text"])
    assert store.report().kept == 1


@pytest.fixture
def readable():
    """A folder that somebody else may read and not write; tests may run as root."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("folder_mode", [0o555, 0o777], ids=["folder too", "file alone"])
def test_a_read_only_file_is_read(path, readable, folder_mode):
    place = readable / "features.sqlite"
    shutil.copyfile(path, place)
    place.chmod(0o444)
    readable.chmod(folder_mode)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        scorer = FakeCausalScorer()
        store = FeatureStore(place)
        found = StoredCausalScorer(scorer, store).losses([*TEXTS, "a new text"])
        report = store.report()
        store.close()
    finally:
        os.seteuid(user)
    assert scorer.calls == [("a new text",)]
    assert len(found) == len(TEXTS) + 1
    assert (report.hits, report.unkept) == (len(TEXTS), 1)
    assert "read-only" in report.notes[0]


def test_a_folder_that_lets_no_file_be_made_leaves_the_user_without_a_store(readable):
    readable.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        store = FeatureStore(readable / "features.sqlite")
        found = StoredCausalScorer(FakeCausalScorer(), store).losses(["a new text"])
        report = store.report()
    finally:
        os.seteuid(user)
    assert found[0].size == 2
    assert "cannot be opened" in report.notes[0]
    assert report.unkept == 1
