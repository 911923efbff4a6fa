"""The store in peace: what is kept is found, under its own fingerprint, within its bound."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.errors import ConfigError, OutputError
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FEWEST_BYTES, FeatureStore
from ragsieve.featurestore.upkeep import usage

ONE = Space("losses", "model@1 dtype=float32")
STATES = Space("states", "encoder@1")
KIB = 1024


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        self.now += 1000
        return self.now


def keep(store, texts, space=ONE, size=100):
    keys = space.keys(texts)
    store.keep(space, {key: bytes(size) for key in keys})
    return keys


@pytest.fixture
def path(tmp_path):
    return tmp_path / "features.sqlite"


def test_what_was_kept_is_found_again_by_another(path):
    keys = ONE.keys(["a", "b", "\ud800", ""])
    values = {key: os.urandom(row * 50_000) for row, key in enumerate(keys)}
    FeatureStore(path).keep(ONE, values)
    store = FeatureStore(path)
    assert store.fetch([*keys, *keys, *ONE.keys(["other"])]) == values
    assert store.report().hits == 4
    assert store.report().misses == 1
    assert store.holds([*keys, b"x"]) == set(keys)


def test_a_sound_value_stays(path):
    store = FeatureStore(path)
    (key,) = ONE.keys(["a"])
    store.keep(ONE, {key: b"first"})
    store.keep(ONE, {key: b"second"})
    assert store.fetch([key]) == {key: b"first"}


@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_another_kind_fingerprint_or_text_is_another_key(kind, other, mark, text, more):
    own = Space(kind, mark).keys([text])[0]
    assert len(own) == 32
    assert own == Space(kind, mark).keys([more, text])[1]
    for space in (Space(kind + "x", mark), Space(kind, mark + "x"), Space(kind + mark + "x", "")):
        assert space.keys([text])[0] != own
    assert Space(kind, mark).keys([text + "x"])[0] != own
    assert (Space(other, mark).keys([text])[0] == own) == (other == kind)


def test_a_stale_fingerprint_is_never_read(path):
    store = FeatureStore(path)
    keep(store, ["a", "b"])
    for stale in ("model@2 dtype=float32", "model@1 dtype=bfloat16", "model@1 dtype=float3"):
        assert store.fetch(Space("losses", stale).keys(["a", "b"])) == {}


def test_the_least_recently_used_go_first(path):
    clock = Clock()
    store = FeatureStore(path, max_bytes=FEWEST_BYTES, clock=clock)
    keys = [keep(store, [f"t{row}"], size=100 * KIB)[0] for row in range(10)]
    # Used again by another process: the first two are the newest then.
    with FeatureStore(path, clock=clock) as other:
        assert len(other.fetch(keys[:2])) == 2
    fresh = keep(store, ["new"], size=100 * KIB)
    # A little more than the excess goes, so that not every write has to prune.
    assert store.holds([*keys, *fresh]) == {*keys[:2], *keys[4:], *fresh}
    assert store.report().pruned == 2
    clock.now += 10_000
    for row in range(100):
        keep(store, [f"more {row}"], size=60 * KIB)
        assert usage(path).stored_bytes <= FEWEST_BYTES
    assert store.holds(keys) == set()
    # Room is used again: the file does not grow with what passed through it.
    store.close()
    assert path.stat().st_size < 2 * FEWEST_BYTES


def test_reading_alone_counts_as_use_even_when_nobody_closes(path):
    clock = Clock()
    store = FeatureStore(path, max_bytes=FEWEST_BYTES, clock=clock)
    keys = [keep(store, [f"t{row}"], size=100 * KIB)[0] for row in range(10)]
    reader = FeatureStore(path, clock=clock)
    reader.fetch(keys[:1])
    del reader
    keep(store, ["new"], size=100 * KIB)
    assert keys[0] in store.holds(keys)


def test_states_cannot_push_out_losses(path):
    store = FeatureStore(path, max_bytes=FEWEST_BYTES, states_share=0.5, clock=Clock())
    losses = keep(store, [f"t{row}" for row in range(20)], size=KIB)
    for row in range(30):
        keep(store, [f"t{row}"], STATES, size=100 * KIB)
    assert store.holds(losses) == set(losses)
    by_kind = {one.space.kind: one.stored_bytes for one in usage(path).spaces}
    assert 0.3 * FEWEST_BYTES < by_kind["states"] <= 0.5 * FEWEST_BYTES


def test_a_value_too_large_for_the_store_is_not_kept(path):
    store = FeatureStore(path, max_bytes=FEWEST_BYTES)
    small = keep(store, ["small"])
    large = keep(store, ["large"], size=FEWEST_BYTES)
    assert store.holds([*small, *large]) == set(small)
    assert store.report().unkept == 1


def test_totals_are_those_of_the_entries(path):
    store = FeatureStore(path)
    keep(store, ["a", "b"], size=500)
    keep(store, ["a"], STATES, size=70_000)
    found = usage(path)
    assert [(one.space, one.entries) for one in found.spaces] == [(STATES, 1), (ONE, 2)]
    assert 71_000 < found.stored_bytes < 72_000
    assert found.entries == 3
    assert (found.damaged, found.set_aside) == (0, None)


@pytest.mark.parametrize("name", ["corpus.jsonl", "features", "features.sqlite.gz"])
def test_only_a_name_of_a_store_is_taken(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(ConfigError, match=r"\.sqlite"):
        FeatureStore(tmp_path / name)
    assert (tmp_path / name).read_text() == "precious"


def test_a_store_needs_a_place(tmp_path):
    with pytest.raises(OutputError, match="create it first"):
        FeatureStore(tmp_path / "none" / "features.sqlite")
    (tmp_path / "folder.sqlite").mkdir()
    with pytest.raises(OutputError, match="is a directory"):
        FeatureStore(tmp_path / "folder.sqlite")


def test_bounds_must_make_sense(path):
    with pytest.raises(ConfigError, match="max_bytes"):
        FeatureStore(path, max_bytes=10)
    with pytest.raises(ConfigError, match="states_share"):
        FeatureStore(path, states_share=0.0)
