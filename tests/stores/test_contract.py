"""The contract of `ragsieve.connectors.contract`, the same for every store."""

from __future__ import annotations

import dataclasses
import datetime

import numpy as np
import pytest

from ragsieve.connectors import open_store, parse_address
from ragsieve.connectors.bundles import read_bundle, write_bundle
from ragsieve.connectors.contract import RESERVED, Bundle, BundledRow
from ragsieve.connectors.hashing import ids_fingerprint, row_sha256, same_row
from ragsieve.errors import ConfigError, EmbeddingError, StoreError
from stores.makers import DIMENSION, make_rows

pytestmark = pytest.mark.stores
NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(days=2)
REASON = "copies of one \u202e'text' \"; DROP"


def hide(connector, ids, *, scan="scan-1", since=NOW):
    return connector.quarantine(ids, reason=REASON, scan_id=scan, since=since)


def everything(connector, size=1_000):
    return [row for page in connector.pages(size) for row in page]


def assert_same(maker, found, rows):
    """The rows, whatever their order, with text, metadata and vector."""
    found = {row.id: row for row in found}
    assert set(found) == {row.id for row in rows}
    for row in rows:
        got = found[row.id]
        assert got.text == row.text
        assert dict(got.metadata) == dict(row.metadata)
        assert not set(got.metadata) & RESERVED
        if maker.lossless:
            expected = row.vector
            if maker.normalises:
                expected = expected / np.linalg.norm(expected)
            np.testing.assert_allclose(got.vector, expected, rtol=0, atol=1e-6)
        else:
            assert got.vector.shape == row.vector.shape


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_pages_hold_every_row_once(maker, opened, size):
    rows, connector = opened(25)
    pages = list(connector.pages(size))
    assert all(1 <= len(page) <= size for page in pages)
    ids = [row.id for page in pages for row in page]
    assert sorted(ids) == sorted(row.id for row in rows)
    assert_same(maker, [row for page in pages for row in page], rows)


def test_many_rows_are_read_and_hidden_whole(maker, opened):
    rows, connector = opened(maker.many)
    # Far above what any store answers in one request, which a page must not depend on.
    pages = list(connector.pages(250_000))
    found = [row for page in pages for row in page]
    assert len(found) == maker.many
    assert_same(maker, found, rows)
    assert connector.fingerprint() == ids_fingerprint(row.id for row in rows)
    asked = [row.id for row in rows[: maker.many // 2]]
    assert hide(connector, asked) == tuple(asked)
    assert [mark.id for mark in connector.marks()] == sorted(asked)
    assert sorted(connector.release(asked)) == sorted(asked)
    assert connector.marks() == ()


def test_fetch_gives_rows_in_the_order_asked(maker, opened):
    rows, connector = opened()
    asked = [rows[9].id, maker.unknown_id, rows[2].id, rows[30].id]
    assert [row.id for row in connector.fetch(asked)] == [rows[n].id for n in (9, 2, 30)]
    assert_same(maker, connector.fetch([row.id for row in rows]), rows)
    assert connector.fetch([]) == ()
    assert connector.fetch([maker.unknown_id, "", "no 'such' id\u202e"]) == ()


def test_a_fingerprint_follows_ids_and_not_marks(maker, opened):
    rows, connector = opened()
    first = connector.fingerprint()
    assert first == ids_fingerprint(row.id for row in rows)
    hide(connector, [rows[0].id, rows[5].id])
    assert connector.fingerprint() == first
    bundle = connector.export([rows[0].id])
    connector.delete(bundle)
    fewer = connector.fingerprint()
    assert fewer == ids_fingerprint(row.id for row in rows[1:])
    connector.restore(bundle)
    assert connector.fingerprint() == first


def test_quarantine_and_release_say_what_they_changed(maker, opened):
    rows, connector = opened()
    a, b, c = (rows[number].id for number in (3, 4, 5))
    assert connector.marks() == ()
    assert connector.release([a]) == ()
    assert hide(connector, [a, b, a, maker.unknown_id]) == (a, b)
    # The first mark stays, whoever comes after.
    assert hide(connector, [b, c], scan="scan-2", since=LATER) == (c,)
    marks = {mark.id: mark for mark in connector.marks()}
    assert {name: mark.scan_id for name, mark in marks.items()} == {
        a: "scan-1",
        b: "scan-1",
        c: "scan-2",
    }
    assert [mark.id for mark in connector.marks()] == sorted(marks)
    assert {mark.reason for mark in marks.values()} == {REASON}
    assert (marks[a].since, marks[c].since) == (NOW, LATER)
    assert set(connector.release([c, maker.unknown_id, a, a])) == {a, c}
    assert connector.release([a, c]) == ()
    assert [mark.id for mark in connector.marks()] == [b]
    assert hide(connector, []) == ()
    assert connector.release([]) == ()


def test_hidden_rows_are_still_read_and_released_rows_are_as_before(maker, opened):
    rows, connector = opened()
    before = {row.id: row for row in everything(connector)}
    ids = [row.id for row in rows[:10]]
    hide(connector, ids)
    assert_same(maker, everything(connector), rows)
    connector.release(ids)
    for row in everything(connector):
        assert row_sha256(row) == row_sha256(before[row.id])


def test_retrieval_honours_state(maker, opened):
    """The store's own client, with our filter, as a user's retriever would ask."""
    rows, connector = opened()
    query = rows[7].vector
    nearest = [row.id for row, _ in connector.search(query, depth=3)]
    assert len(nearest) == 3
    hidden = nearest[:2]
    hide(connector, hidden)
    served = {row.id for row in rows} - set(hidden)
    found = maker.native_search(connector, query, len(rows), connector.retrieval_filter())
    # Nothing hidden, and nothing else lost: a naive filter hides the whole corpus in one store.
    assert set(found) == served
    assert found[0] == nearest[2]
    assert next(row.id for row, _ in connector.search(query, depth=1)) == nearest[2]
    connector.release(hidden)
    found = maker.native_search(connector, query, len(rows), connector.retrieval_filter())
    assert set(found) == served | set(hidden)
    assert found[:3] == nearest


def test_a_filtered_search_keeps_its_depth(maker, opened):
    rows, connector = opened(200)
    query = rows[0].vector
    order = [row.id for row, _ in connector.search(query, depth=200)]
    assert sorted(order) == sorted(row.id for row in rows)
    hide(connector, order[:180])
    assert [row.id for row, _ in connector.search(query, depth=20)] == order[180:]
    assert [row.id for row, _ in connector.search(query, depth=50)] == order[180:]
    hide(connector, order[180:])
    assert connector.search(query, depth=5) == ()


def test_a_search_gives_rows_with_everything(maker, opened):
    rows, connector = opened()
    hide(connector, [rows[1].id])
    found = connector.search(rows[0].vector, depth=len(rows))
    assert_same(maker, [row for row, _ in found], [rows[0], *rows[2:]])
    scores = [score for _, score in found]
    assert scores in (sorted(scores), sorted(scores, reverse=True))
    for bad in (np.full(DIMENSION, np.nan), np.zeros(DIMENSION), np.ones((2, DIMENSION))):
        with pytest.raises(EmbeddingError):
            connector.search(bad, depth=3)
    with pytest.raises(ValueError, match="depth"):
        connector.search(rows[0].vector, depth=0)


def test_export_delete_restore_brings_everything_back(maker, opened, tmp_path):
    rows, connector = opened()
    ids = [row.id for row in rows[:12]]
    hide(connector, ids[:5])
    before = {row.id: row for row in everything(connector)}
    bundle = connector.export([*ids, maker.unknown_id])
    assert [item.row.id for item in bundle.rows] == ids
    assert bundle.store == connector.address
    assert [item.mark is not None for item in bundle.rows] == [True] * 5 + [False] * 7
    write_bundle(tmp_path / "bundle.jsonl", bundle)
    kept = read_bundle(tmp_path / "bundle.jsonl")
    assert set(connector.delete(kept)) == set(ids)
    assert connector.delete(kept) == ()
    assert {row.id for row in everything(connector)} == set(before) - set(ids)
    connector.close()
    connector = opened.again()
    assert set(connector.restore(kept)) == set(ids)
    assert connector.restore(kept) == ()
    after = {row.id: row for row in everything(connector)}
    assert set(after) == set(before)
    tolerance = 1e-6 if maker.lossless else float("inf")
    assert all(same_row(after[name], row, tolerance=tolerance) for name, row in before.items())
    assert [mark.id for mark in connector.marks()] == sorted(ids[:5])
    assert {(mark.reason, mark.scan_id, mark.since) for mark in connector.marks()} == {
        (REASON, "scan-1", NOW)
    }
    found = {row.id for row, _ in connector.search(rows[0].vector, depth=len(rows))}
    assert found == set(before) - set(ids[:5])


def forged(bundle, number, **changes):
    row = dataclasses.replace(bundle.rows[number].row, **changes)
    items = list(bundle.rows)
    items[number] = BundledRow(row, row_sha256(row), items[number].mark)
    return dataclasses.replace(bundle, rows=tuple(items))


def test_delete_refuses_rows_that_changed(maker, opened):
    rows, connector = opened()
    bundle = connector.export([row.id for row in rows[:3]])
    row = bundle.rows[1].row
    other = {**row.metadata, "source": "elsewhere"}
    changes = [{"text": "other"}, {"metadata": other}]
    if maker.lossless:
        changes.append({"vector": row.vector + np.float32(0.01)})
    for change in changes:
        with pytest.raises(StoreError, match="changed since"):
            connector.delete(forged(bundle, 1, **change))
    assert len(everything(connector)) == len(rows)


def test_restore_refuses_another_content_and_changes_nothing(maker, opened):
    rows, connector = opened()
    bundle = connector.export([row.id for row in rows[:3]])
    connector.delete(connector.export([rows[0].id]))
    with pytest.raises(StoreError, match="another content"):
        connector.restore(forged(bundle, 1, text="another content"))
    assert len(everything(connector)) == len(rows) - 1
    assert connector.restore(bundle) == (rows[0].id,)


def test_a_damaged_bundle_is_refused(maker, opened):
    rows, connector = opened()
    bundle = connector.export([rows[0].id])
    item = bundle.rows[0]
    lie = BundledRow(dataclasses.replace(item.row, text="other"), item.sha256, None)
    for damaged in (Bundle(bundle.store, (lie,), bundle.made), twice(bundle)):
        with pytest.raises(StoreError, match="intact"):
            connector.delete(damaged)
        with pytest.raises(StoreError, match="intact"):
            connector.restore(damaged)
    assert len(everything(connector)) == len(rows)


def twice(bundle):
    return dataclasses.replace(bundle, rows=bundle.rows * 2)


def test_marks_outlive_the_connection(maker, opened):
    rows, connector = opened()
    hide(connector, [rows[0].id])
    first = connector.fingerprint()
    connector.close()
    connector.close()
    again = opened.again()
    assert again.address == connector.address
    assert again.fingerprint() == first
    assert [(mark.id, mark.since) for mark in again.marks()] == [(rows[0].id, NOW)]
    assert_same(maker, everything(again), rows)
    assert again.release([rows[0].id]) == (rows[0].id,)


def test_opening_and_reading_change_nothing(maker, opened):
    """A dry run leaves no trace: no mark, no reserved key in what the store shows."""
    rows, connector = opened()
    connector.capabilities()
    connector.fingerprint()
    everything(connector)
    connector.search(rows[0].vector, depth=3)
    connector.export([rows[0].id])
    assert connector.marks() == ()
    connector.close()
    again = opened.again()
    assert_same(maker, everything(again), rows)


def test_the_address_is_the_public_one(maker, tmp_path):
    address = parse_address(maker.create(tmp_path, make_rows(maker, 3)))
    connector = open_store(address)
    assert connector.address == address.public == parse_address(address.public).public
    if address.secret:
        assert address.secret not in connector.address
        assert address.secret not in repr(address)
    connector.close()


def test_a_collection_that_is_not_there_is_said_and_not_made(maker, tmp_path):
    address = parse_address(maker.create(tmp_path, make_rows(maker, 3)))
    for wrong in (
        dataclasses.replace(address, name="nothing_here"),
        dataclasses.replace(address, path=str(tmp_path / "nowhere")) if address.path else None,
    ):
        if wrong is not None:
            with pytest.raises((StoreError, ConfigError)):
                open_store(wrong).fingerprint()
    assert not (tmp_path / "nowhere").exists()
    connector = open_store(address)
    assert connector.fingerprint().count == 3
    connector.close()


def test_two_writers_see_each_other(maker, opened):
    rows, connector = opened()
    if not connector.capabilities().several_processes:
        assert connector.capabilities().notes
        return
    other = opened.again()
    ids = [row.id for row in rows]
    assert set(hide(connector, ids[:10])) == set(ids[:10])
    assert set(hide(other, ids[5:15], scan="scan-2")) == set(ids[10:15])
    assert connector.marks() == other.marks()
    assert len(connector.marks()) == 15
    assert set(connector.release(ids[12:15])) == set(ids[12:15])
    assert other.release(ids[12:15]) == ()
    bundle = connector.export([ids[0]])
    assert other.delete(bundle) == (ids[0],)
    assert connector.delete(bundle) == ()
    assert connector.restore(bundle) == (ids[0],)
    assert connector.fingerprint() == other.fingerprint()


def test_changing_while_reading_loses_nothing(maker, opened):
    """Rows may move in their order when they are written; a reader gets each of them all the same."""
    rows, connector = opened(60)
    seen = []
    for page in connector.pages(7):
        seen += [row.id for row in page]
        hide(connector, [page[0].id])
    assert sorted(seen) == sorted(row.id for row in rows)


def test_capabilities_say_what_to_know(maker, opened):
    _, connector = opened(3)
    able = connector.capabilities()
    assert able.lossy_vectors is not maker.lossless
    assert able.hides_in_search
    assert able.deletes
    assert all(note.endswith(".") for note in able.notes)
