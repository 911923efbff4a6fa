from __future__ import annotations

import datetime

import numpy as np
import pytest

from ragsieve.connectors.contract import FLAG, REASON, SCAN, SINCE
from ragsieve.connectors.exchange import (
    check_deletable,
    check_restorable,
    make_bundle,
    mark_fields,
    mark_of,
    own_metadata,
    paged,
    telling,
)
from ragsieve.connectors.nearest import DISTANCES, exact_nearest
from ragsieve.connectors.opening import open_store
from ragsieve.errors import ConfigError, MissingExtraError, StoreError

from .memory import row

NOW = datetime.datetime(2026, 5, 4, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


def test_a_failure_names_store_and_act_and_shows_no_control_characters():
    said = r"memory://docs: reading failed \(RuntimeError: <U\+001B>"
    with pytest.raises(StoreError, match=said) as caught, telling("memory://docs", "reading"):
        raise RuntimeError("\x1b[31m" + "x" * 900)
    assert len(str(caught.value)) < 500
    with pytest.raises(ConfigError, match="mine"), telling("memory://docs", "reading"):
        raise ConfigError("mine")


def test_a_mark_is_read_back_in_utc():
    fields = mark_fields("because", "scan", NOW)
    mark = mark_of("a", {**fields, "page": 1})
    assert (mark.reason, mark.scan_id, mark.since) == ("because", "scan", NOW)
    assert mark.since.utcoffset() == datetime.timedelta(0)
    assert own_metadata({**fields, "page": 1}) == {"page": 1}
    assert own_metadata(None) == {}
    with pytest.raises(ValueError, match="zone"):
        mark_fields("because", "scan", datetime.datetime(2026, 1, 1))


@pytest.mark.parametrize("since", [None, "", "yesterday", "2026-05-04T00:00:00"])
def test_a_flag_that_another_wrote_hides_too(since):
    mark = mark_of("a", {FLAG: True, REASON: None, SCAN: 5, SINCE: since})
    assert (mark.reason, mark.scan_id) == ("", "5")
    assert mark.since.tzinfo is not None
    assert mark_of("a", {FLAG: False, SINCE: since}) is None
    assert mark_of("a", {FLAG: "true"}) is None


def test_repeated_ids_are_not_exported():
    with pytest.raises(StoreError, match="'a' stands more than once"):
        make_bundle("memory://docs", [row("a"), row("b"), row("a", "other")], {})


def test_checks_name_the_rows():
    bundle = make_bundle("memory://docs", [row(name) for name in "abcde"], {})
    assert check_deletable("s", [row("b")], bundle) == ("b",)
    with pytest.raises(StoreError, match=r"s: 'a', 'b', 'c' and 1 more changed"):
        check_deletable("s", [row(name, "other") for name in "abcd"], bundle)
    with pytest.raises(StoreError, match="'b', 'b' changed"):
        check_deletable("s", [row("b"), row("b")], bundle)
    assert [item.row.id for item in check_restorable("s", [row("b")], bundle)] == list("acde")
    with pytest.raises(StoreError, match="'e' came back with another content"):
        check_restorable("s", [row("e", "other")], bundle)


def test_pages_have_a_size():
    assert list(paged(range(5), 2)) == [(0, 1), (2, 3), (4,)]
    with pytest.raises(ValueError, match="page size"):
        list(paged([1], 0))


@pytest.mark.parametrize("space", sorted(DISTANCES))
def test_exact_nearest_is_the_sorted_list(space):
    rng = np.random.default_rng(3)
    rows = [row(f"d{n}", vector=rng.normal(size=4)) for n in range(50)]
    rows += [row("none", vector=None), row("long", vector=[1] * 5), row("nan", vector=[np.nan] * 4)]
    query = rng.normal(size=4).astype("f4")
    a, b = np.stack([r.vector for r in rows[:50]]).astype(float), query.astype(float)
    expected = {
        "cosine": 1 - a @ b / np.linalg.norm(a, axis=1) / np.linalg.norm(b),
        "l2": ((a - b) ** 2).sum(1),
        "ip": 1 - a @ b,
    }[space]
    order = [f"d{n}" for n in np.argsort(expected)]
    for depth in (1, 7, 100):
        found = exact_nearest(paged(rows, 8), query, depth=depth, distance=DISTANCES[space])
        assert [r.id for r, _ in found] == order[:depth]
    np.testing.assert_allclose([value for _, value in found], np.sort(expected), rtol=1e-6)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "chromadb", None)
    with pytest.raises(MissingExtraError, match=r"ragsieve\[chroma\]"):
        open_store("chroma:///srv/chroma?collection=docs")
    with pytest.raises(ConfigError, match="begins with"):
        open_store("docs.jsonl")
