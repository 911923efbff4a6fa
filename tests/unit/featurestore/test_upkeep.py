"""What operators do: look, verify, prune; here what fails says so."""

from __future__ import annotations

import random

import pytest

from ragsieve.errors import ConfigError, InputError
from ragsieve.featurestore.records import Pruned, Space
from ragsieve.featurestore.store import FeatureStore
from ragsieve.featurestore.upkeep import prune, usage, verify

OLD, NEW, TEXT = Space("losses", "old"), Space("losses", "new"), Space("text", "any")


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "features.sqlite"
    for day, space in enumerate((OLD, NEW, TEXT)):
        with FeatureStore(place, clock=lambda day=day: 86_400.0 * (100 + day)) as store:
            for row in range(10):
                store.keep(space, {space.keys([str(row)])[0]: value(row)})
    return place


def value(row):
    return random.Random(row).randbytes(20_000)  # noqa: S311


def left(place):
    return {one.space: one.entries for one in usage(place).spaces if one.entries}


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    place = tmp_path / "none.sqlite"
    for action in (usage, verify, lambda one: prune(one, max_bytes=0)):
        with pytest.raises(InputError, match="no such feature store"):
            action(place)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_said_and_left_alone_until_repair(path):
    garbage = b"x" * 50_000
    path.write_bytes(garbage)
    for action in (usage, lambda one: prune(one, max_bytes=0)):
        with pytest.raises(InputError, match="verify --repair"):
            action(path)
    found = verify(path)
    assert not found.sound
    assert not found.repaired
    assert "not a database" in found.structure
    assert path.read_bytes() == garbage
    assert verify(path, repair=True).repaired
    assert not path.exists()
    assert path.with_name("features.sqlite.damaged").read_bytes() == garbage


def test_a_damaged_page_is_found(path):
    raw = bytearray(path.read_bytes())
    # A page in the middle becomes another one: every page is a chain's or a tree's.
    raw[8192 * 12 : 8192 * 13] = raw[8192 * 40 : 8192 * 41]
    path.write_bytes(raw)
    assert not verify(path).sound
    verify(path, repair=True)
    assert not path.exists() or verify(path).sound


def test_damaged_entries_are_counted_and_removed(path):
    raw = bytearray(path.read_bytes())
    for row in (3, 7):
        raw[raw.index(value(row)[10_000:10_100])] ^= 1
    path.write_bytes(raw)
    told = []
    found = verify(path, progress=told.append)
    assert (found.entries, found.damaged, found.repaired, sum(told)) == (30, 2, False, 30)
    assert verify(path, repair=True).damaged == 2
    again = verify(path)
    assert (again.entries, again.sound) == (28, True)
    assert usage(path).damaged == 2


def test_pruning_to_a_size_takes_the_oldest_and_shrinks_the_file(path):
    before = usage(path)
    removed = prune(path, max_bytes=before.stored_bytes // 3)
    assert removed.entries == 20
    assert left(path) == {TEXT: 10}
    assert usage(path).file_bytes < before.file_bytes / 2
    assert usage(path).stored_bytes == before.stored_bytes - removed.stored_bytes


def test_pruning_by_age(path):
    def now():
        return 86_400.0 * 102

    assert prune(path, older_than_days=1.5, clock=now).entries == 10
    assert left(path) == {NEW: 10, TEXT: 10}
    assert prune(path, older_than_days=30, clock=now) == Pruned(0, 0)


def test_pruning_by_fingerprint_and_what_is_stale(path):
    assert prune(path, fingerprint="ol").entries == 0
    assert prune(path, stale_but={"losses": {"new"}}).entries == 10
    # A kind that is not named is none of its business.
    assert left(path) == {NEW: 10, TEXT: 10}
    assert prune(path, fingerprint="any").entries == 10
    assert [one.space for one in usage(path).spaces] == [NEW]
    assert verify(path).sound


def test_an_open_store_sees_what_was_pruned(path):
    store = FeatureStore(path)
    keys = NEW.keys([str(row) for row in range(10)])
    assert len(store.fetch(keys)) == 10
    prune(path, fingerprint="new")
    assert store.fetch(keys) == {}
    store.keep(NEW, {keys[0]: b"again"})
    assert store.fetch(keys) == {keys[0]: b"again"}


@pytest.mark.parametrize("wanted", [{}, {"max_bytes": -1}, {"older_than_days": -0.5}])
def test_pruning_says_what_it_needs(path, wanted):
    with pytest.raises(ConfigError, match="prune"):
        prune(path, **wanted)
    assert sum(left(path).values()) == 30
