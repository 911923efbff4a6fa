"""Milvus Lite, beyond the contract that all stores keep."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
import sys

import numpy as np
import pytest

from ragsieve.connectors import open_store
from ragsieve.connectors.contract import BundledRow, Row
from ragsieve.connectors.hashing import row_sha256
from ragsieve.connectors.milvus import SERVED
from ragsieve.connectors.milvus_schema import quoted
from ragsieve.connectors.snapshot import take_snapshot
from ragsieve.errors import EmbeddingError, StoreError
from stores.makers import DIMENSION, make_rows
from stores.makers_milvus import MAKERS, create
from stores.snippets import run_snippet

pytestmark = pytest.mark.stores
NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)


def hide(store, ids, *, reason="why"):
    return store.quarantine(ids, reason=reason, scan_id="scan-1", since=NOW)


def matching(store, chosen):
    return len(
        store.client.query(store.collection, filter=chosen, output_fields=["key"], limit=9_999)
    )


@pytest.fixture
def opened(tmp_path, request):
    def make(rows):
        store = open_store(create(tmp_path, rows))
        request.addfinalizer(store.close)
        return store

    return make


@pytest.fixture
def client(tmp_path):
    from pymilvus import MilvusClient

    made = MilvusClient(str(tmp_path / "own.db"))
    yield made
    made.close()


def own_collection(client, *, dynamic=True, auto=False):
    from pymilvus import DataType

    schema = client.create_schema(auto_id=auto, enable_dynamic_field=dynamic)
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("text", DataType.VARCHAR, max_length=100, nullable=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=4)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="IP")
    client.create_collection("docs", schema=schema, index_params=index)


def address_of(folder):
    return f"milvus://{folder}/own.db?collection=docs"


def test_the_naive_filter_hides_everything_and_ours_does_not(opened):
    rows = make_rows(MAKERS[0], 200)
    store = opened(rows)
    hide(store, [rows[7].id])
    flag = "ragsieve_quarantined"
    assert matching(store, f"{flag} != true") == 0
    assert matching(store, f"not ({flag} == true)") == 0
    assert store.retrieval_filter() == SERVED == f"not exists {flag}"
    assert matching(store, SERVED) == 199
    hide(store, [row.id for row in rows[:50]])
    store.release([row.id for row in rows[10:40]])
    assert matching(store, SERVED) == 180
    # A released row carries nothing of ours that a reader of the collection could see as set.
    raw = store.client.query(
        store.collection, filter=f"key == {quoted(rows[20].id)}", output_fields=["*"]
    )
    assert {
        key: value for key, value in raw[0].items() if "ragsieve" in key and value is not None
    } == {}
    before = {row.id: row for row in rows}
    for row in store.fetch([row.id for row in rows[:50]]):
        assert dict(row.metadata) == dict(before[row.id].metadata)


def test_a_reopened_collection_is_loaded(tmp_path):
    from pymilvus import MilvusClient, MilvusException

    rows = make_rows(MAKERS[0], 20)
    address = create(tmp_path, rows)
    plain = MilvusClient(str(tmp_path / "milvus.db"))
    # So every file is when another process opens it again.
    plain.release_collection("docs")
    with pytest.raises(MilvusException, match="released"):
        plain.query("docs", filter="key == 'd00001'")
    plain.close()
    store = open_store(address)
    hide(store, ["d00001"])
    store.close()
    again = open_store(address)
    assert [mark.id for mark in again.marks()] == ["d00001"]
    assert len(again.search(rows[1].vector, depth=30)) == 19
    again.release(["d00001"])
    again.close()
    last = open_store(address)
    assert last.marks() == ()
    assert matching(last, SERVED) == 20
    last.close()


def test_the_documented_snippet_leaves_hidden_rows_out(opened, tmp_path):
    rows = make_rows(MAKERS[0], 30)
    store = opened(rows)
    hide(store, ["d00003"])
    names = run_snippet("Milvus Lite", address=store.address, query=rows[3].vector)
    names["store"].close()
    assert len(names["nearest"]) == 20
    assert "d00003" not in names["nearest"]


def test_nan_is_accepted_said_and_never_found(opened, tmp_path):
    rows = make_rows(MAKERS[0], 30)
    rows[4].vector[2] = np.nan
    store = opened(rows)
    assert any("NaN" in note for note in store.capabilities().notes)
    (kept,) = store.fetch([rows[4].id])
    assert np.isnan(kept.vector[2])
    found = [row.id for row, _ in store.search(rows[0].vector, depth=30)]
    assert len(found) == 29
    assert rows[4].id not in found
    snapshot = take_snapshot(store, tmp_path / "snapshot")
    assert [item.id for item in snapshot.excluded] == [rows[4].id]
    with pytest.raises(EmbeddingError):
        store.search(np.full(DIMENSION, np.nan), depth=3)
    assert hide(store, [rows[4].id]) == (rows[4].id,)


def test_a_collection_without_dynamic_fields_is_read_and_not_hidden_in(client, tmp_path):
    own_collection(client, dynamic=False)
    client.insert(
        "docs",
        [{"pk": n, "text": None if n == 2 else "t", "vector": [n, 1, 0, 0]} for n in range(4)],
    )
    store = open_store(address_of(tmp_path))
    able = store.capabilities()
    assert not able.hides_in_search
    assert any("enable_dynamic_field=True" in note for note in able.notes)
    with pytest.raises(StoreError, match="enable_dynamic_field=True"):
        hide(store, ["1"])
    assert hide(store, ["99"]) == ()
    assert store.marks() == store.release(["1"]) == ()
    assert [row.id for row, _ in store.search(np.array([1.0, 0, 0, 0]), depth=9)] == [
        "3",
        "2",
        "1",
        "0",
    ]
    bundle = store.export(["1", "2"])
    assert store.delete(bundle) == ("1", "2")
    assert store.restore(bundle) == ("1", "2")
    store.close()


def test_ids_made_by_the_store_stay(client, tmp_path):
    own_collection(client, auto=True)
    client.insert("docs", [{"text": "t", "vector": [n, 1, 0, 0], "n": n} for n in range(5)])
    store = open_store(address_of(tmp_path))
    before = store.fingerprint()
    (first, *_) = [row.id for page in store.pages() for row in page]
    assert hide(store, [first]) == (first,)
    bundle = store.export([first])
    store.delete(bundle)
    store.restore(bundle)
    store.release([first])
    assert store.fingerprint() == before
    assert dict(store.fetch([first])[0].metadata) == {"n": 0}
    store.close()


HOSTILE = [
    "x'] || key not in ['zz",
    'x"] || key not in ["zz',
    'a"b',
    "a'b",
    "a\\",
    "a\\n",
    "new\nline\r\t",
    "\u2028\u202e",
    "%s {x}",
    " ",
]


def test_ids_are_never_read_as_a_filter(opened):
    rows = make_rows(MAKERS[0], 30)
    store = opened(
        [
            *rows[:20],
            *(Row(name, "t", row.vector, {}) for name, row in zip(HOSTILE, rows[20:], strict=True)),
        ]
    )
    plain = [row.id for row in rows[:20]]
    assert [row.id for row in store.fetch(HOSTILE)] == HOSTILE
    assert hide(store, HOSTILE) == tuple(HOSTILE)
    assert {mark.id for mark in store.marks()} == set(HOSTILE)
    bundle = store.export(HOSTILE)
    assert set(store.delete(bundle)) == set(HOSTILE)
    assert store.fetch(HOSTILE) == ()
    assert [row.id for row in store.fetch(plain)] == plain
    assert set(store.restore(bundle)) == set(HOSTILE)
    assert store.fingerprint().count == 30
    # What the client makes of such an id by itself.
    store.client.delete(store.collection, ids=[HOSTILE[0]])
    assert store.fingerprint().count == 0


def test_metadata_comes_back_as_it_was(opened):
    rows = make_rows(MAKERS[0], 6)
    odd = [
        {},
        {"none": None, "deep": {"a": [1, {"b": None, "c": 0.1}], "d": ""}},
        {"list": [], "object": {}, "big": 2**53 + 1, "true": True, "real": 0.1},
        {"title": "a\0b \u202e", "mixed": [1, "a", None, 2.5]},
        {"none": 3},
        {"Ünï": "x"},
    ]
    rows = [dataclasses.replace(row, metadata=own) for row, own in zip(rows, odd, strict=True)]
    store = opened(rows)
    ids = [row.id for row in rows]
    first = {row.id: dict(row.metadata) for row in store.fetch(ids)}
    assert first == {row.id: dict(row.metadata) for row in rows}
    hide(store, ids[:3], reason="odd \ud800 \0")
    assert store.marks()[0].reason == "odd \\ud800 \0"
    bundle = store.export(ids)
    store.delete(bundle)
    store.restore(bundle)
    store.release(ids)
    assert {row.id: dict(row.metadata) for row in store.fetch(ids)} == first


def test_another_process_is_told_that_the_file_is_open(opened):
    store = opened(make_rows(MAKERS[0], 3))
    assert not store.capabilities().several_processes
    code = (
        "import sys\nfrom ragsieve.connectors import open_store\nfrom ragsieve.errors import StoreError\n"
        "try: open_store(sys.argv[1])\nexcept StoreError as error: sys.exit(str(error))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, store.address], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "another process may have it open" in done.stderr


def test_a_row_without_a_vector_is_not_restored(opened):
    rows = make_rows(MAKERS[0], 5)
    store = opened(rows)
    bundle = store.export([rows[0].id, rows[1].id])
    store.delete(bundle)
    bare = dataclasses.replace(bundle.rows[1].row, vector=None)
    wrong = dataclasses.replace(
        bundle, rows=(bundle.rows[0], BundledRow(bare, row_sha256(bare), None))
    )
    with pytest.raises(StoreError, match="has no vector"):
        store.restore(wrong)
    assert store.fingerprint().count == 3


def test_a_collection_that_cannot_be_used_is_refused(client, tmp_path):
    from pymilvus import DataType

    schema = client.create_schema(enable_dynamic_field=False)
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=4)
    client.create_collection("docs", schema=schema)
    with pytest.raises(StoreError, match="parameter text"):
        open_store(address_of(tmp_path))
    for extra, words in (("&vector=pk", "float vectors"), ("&id=text", "primary key 'pk'")):
        with pytest.raises(StoreError, match=words):
            open_store(address_of(tmp_path) + extra)
    with pytest.raises(StoreError, match="it has docs"):
        open_store(f"milvus://{tmp_path}/own.db?collection=other")
    with pytest.raises(StoreError, match="no such file"):
        open_store(f"milvus://{tmp_path}/none.db?collection=docs")
    assert not (tmp_path / "none.db").exists()
