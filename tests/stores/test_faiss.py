"""FAISS with a file of texts, beyond the contract that all stores keep."""

from __future__ import annotations

import datetime
import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.connectors import open_store
from ragsieve.connectors.contract import Row
from ragsieve.connectors.faiss_rows import Names, line_of, metadata_of
from ragsieve.connectors.snapshot import take_snapshot
from ragsieve.errors import ConfigError, EmbeddingError, StoreError
from stores.makers import make_rows
from stores.makers_faiss import FIRST, MAKERS, build
from stores.snippets import run_snippet

pytestmark = pytest.mark.stores
NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)


def hide(store, ids, *, scan="scan-1"):
    return store.quarantine(ids, reason="why", scan_id=scan, since=NOW)


def made(folder, count=40, description="Flat", **options):
    rows = make_rows(MAKERS[0], count)
    return rows, open_store(build(folder, rows, description, **options))


def everything(store):
    return {row.id: row for page in store.pages() for row in page}


@pytest.mark.parametrize(
    ("description", "numbered", "lossy", "hides", "deletes"),
    [
        ("Flat", False, False, True, True),
        ("IDMap,Flat", True, False, True, True),
        ("IDMap2,Flat", True, False, True, True),
        ("IVF4,Flat", True, False, True, True),
        ("IVF4,Flat", False, False, True, False),
        ("HNSW8", False, False, True, False),
        ("IDMap2,HNSW8", True, False, True, False),
        ("SQ8", False, True, True, True),
        ("SQfp16", False, True, True, True),
        ("HNSW8,SQ8", False, True, True, False),
        ("PQ4x4", False, True, False, True),
        ("IVF4,PQ4x4", True, True, True, True),
        ("IVF4,SQ8", True, True, True, True),
        ("PCA8,Flat", False, True, True, True),
        ("PCA8,IVF4,Flat", True, True, True, True),
        ("IDMap2,IVF4,Flat", True, False, True, False),
        ("IVF4,PQ4x4,RFlat", False, False, True, False),
        ("LSH", False, True, False, False),
        ("IVF4,PQ4x4fs", True, True, False, False),
        ("NSG8,Flat", False, False, False, False),
    ],
)
def test_what_each_kind_can_do(tmp_path, description, numbered, lossy, hides, deletes):
    rows, store = made(tmp_path, 300, description, numbered=numbered)
    able = store.capabilities()
    assert (able.lossy_vectors, able.hides_in_search, able.deletes) == (lossy, hides, deletes)
    assert all(note.endswith(".") for note in able.notes)
    found = everything(store)
    assert {row.text for row in found.values()} == {row.text for row in rows}
    readable = not any("no vectors back" in note for note in able.notes)
    # A kind that is not known is not tried: it might end the process.
    assert readable is not (description in {"LSH", "IVF4,PQ4x4fs"})
    for row in rows[::25]:
        vector = found[row.id].vector
        if not readable:
            assert vector is None
        elif lossy:
            assert 1e-5 < np.abs(vector - row.vector).max() < 9
        else:
            np.testing.assert_array_equal(vector, row.vector)
    hidden = [row.id for row, _ in store.search(rows[0].vector, depth=20)]
    assert len(hidden) == 20
    hide(store, hidden)
    again = [row.id for row, _ in store.search(rows[0].vector, depth=20)]
    assert len(again) == 20
    assert not set(again) & set(hidden)
    if hides:
        index, chosen = store.index, store.retrieval_filter()
        numbers = index.search(rows[0].vector[None], 20, params=chosen)[1][0].tolist()
        first = FIRST if numbered else 0
        assert not {rows[n - first].id for n in numbers if n >= 0} & set(hidden)
    else:
        with pytest.raises(StoreError, match="cannot leave rows out"):
            store.retrieval_filter()
    bundle = store.export(hidden[:2])
    if deletes:
        assert set(store.delete(bundle)) == set(hidden[:2])
        assert store.fingerprint().count == 298
        assert set(store.restore(bundle)) == set(hidden[:2])
        back = everything(store)
        for item in bundle.rows:
            assert np.abs(back[item.row.id].vector - item.row.vector).max() < (2 if lossy else 1e-9)
    else:
        with pytest.raises(StoreError, match=r"build the index anew|'faiss_id'"):
            store.delete(bundle)
        assert store.fingerprint().count == 300


def test_removal_behind_a_map_of_lists_gives_other_rows_and_is_refused(tmp_path):
    import faiss

    rows, store = made(tmp_path, 300, "IDMap2,IVF4,Flat", numbered=True)
    with pytest.raises(StoreError, match=r"IndexIDMap2.IndexIVFFlat"):
        store.delete(store.export([rows[3].id]))
    # What FAISS does when it is asked all the same.
    index = faiss.read_index(str(tmp_path / "docs.faiss"))
    faiss.extract_index_ivf(index).nprobe = 4
    index.remove_ids(np.array([FIRST + 3]))
    wanted = np.stack([row.vector for row in rows[4:]])
    right = index.search(wanted, 1)[1][:, 0] == np.arange(FIRST + 4, FIRST + 300)
    assert right.mean() < 0.5


def test_a_filter_searches_as_widely_as_the_index(tmp_path):
    import faiss

    rows, _ = made(tmp_path, 300, "IVF8,Flat", numbered=True)
    path = tmp_path / "docs.faiss"
    index = faiss.read_index(str(path))
    index.nprobe = 5
    faiss.write_index(index, str(path))
    store = open_store(f"faiss://{path}?texts={tmp_path / 'docs.jsonl'}")
    assert store.retrieval_filter().nprobe == 5
    query = rows[0].vector[None]
    plain = index.search(query, 20)[1]
    np.testing.assert_array_equal(
        index.search(query, 20, params=store.retrieval_filter())[1], plain
    )


@pytest.mark.parametrize("description", ["IVF16,Flat", "HNSW8", "Flat"])
def test_the_depth_is_kept_where_nearly_all_is_hidden(tmp_path, description):
    rows, store = made(tmp_path, 600, description)
    order = sorted(rows, key=lambda row: float(((row.vector - rows[0].vector) ** 2).sum()))
    hide(store, [row.id for row in order[:580]])
    found = store.search(rows[0].vector, depth=20)
    assert [row.id for row, _ in found] == [row.id for row in order[580:]]


def test_the_documented_snippet_leaves_hidden_rows_out(tmp_path):
    rows, store = made(tmp_path)
    hide(store, [rows[3].id])
    names = run_snippet("FAISS", address=store.address, query=rows[3].vector)
    assert len(names["nearest"]) == 20
    assert 3 not in names["nearest"]


def test_reading_makes_no_file(tmp_path):
    rows, store = made(tmp_path)
    everything(store), store.marks(), store.fingerprint(), store.capabilities()
    store.search(rows[0].vector, depth=3), store.retrieval_filter(), store.export([rows[0].id])
    assert hide(store, []) == ()
    assert {path.name for path in tmp_path.iterdir()} <= {
        "docs.faiss",
        "docs.jsonl",
        "docs.faiss.ragsieve-lock",
    }


def test_rows_that_are_counted_move_up(tmp_path):
    for numbered_later in (False, True):
        folder = tmp_path / str(numbered_later)
        rows, store = made(folder)
        if numbered_later:
            texts = folder / "docs.jsonl"
            lines = [json.loads(line) for line in texts.read_text("utf-8").split("\n") if line]
            lines = [line | {"faiss_id": at} for at, line in enumerate(lines)]
            texts.write_text("".join(json.dumps(line) + "\n" for line in lines))
        hide(store, [rows[30].id])
        store.delete(store.export([rows[4].id, rows[20].id]))
        for row in (rows[5], rows[25], rows[39]):
            assert store.search(row.vector, depth=1)[0][0].id == row.id
        # The mark went with its row, not with its number.
        assert rows[30].id not in {row.id for row, _ in store.search(rows[30].vector, depth=40)}


def test_nan_is_said_and_never_found(tmp_path):
    rows = make_rows(MAKERS[0], 200)
    rows[7].vector[3] = np.nan
    for number, (description, numbered) in enumerate([("Flat", False), ("IVF4,Flat", True)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        import faiss

        index = faiss.index_factory(16, description)
        vectors = np.stack([row.vector for row in rows])
        index.train(np.nan_to_num(vectors))
        ids = np.arange(200)
        index.add_with_ids(vectors, ids) if numbered else index.add(vectors)
        build(folder, rows, "Flat")
        texts = folder / "docs.jsonl"
        if numbered:
            lines = [json.loads(line) for line in texts.read_text("utf-8").split("\n") if line]
            lines = [line | {"faiss_id": at} for at, line in enumerate(lines)]
            texts.write_text("".join(json.dumps(line) + "\n" for line in lines))
        faiss.write_index(index, str(folder / "docs.faiss"))
        store = open_store(f"faiss://{folder}/docs.faiss?texts={texts}")
        assert any(note.startswith("1 rows have no vector") for note in store.capabilities().notes)
        found = [row.id for row, _ in store.search(rows[0].vector, depth=200)]
        assert len(found) == 199
        assert rows[7].id not in found
        snapshot = take_snapshot(store, folder / "snapshot")
        assert [item.id for item in snapshot.excluded] == [rows[7].id]
        assert snapshot.documents == 199
        for query in (np.full(16, np.nan), np.zeros(16)):
            with pytest.raises(EmbeddingError):
                store.search(query, depth=3)
        # It can be hidden and brought back like any other, unless the index would lose it.
        assert hide(store, [rows[7].id]) == (rows[7].id,)
        bundle = store.export([rows[7].id])
        assert store.delete(bundle) == (rows[7].id,)
        if numbered:
            with pytest.raises(StoreError, match="no vector"):
                store.restore(bundle)
        else:
            assert store.restore(bundle) == (rows[7].id,)
            assert np.isnan(everything(store)[rows[7].id].vector[3])


KILLED = """
import os, pathlib, sys
from ragsieve.connectors import open_store
from ragsieve.connectors.bundles import read_bundle
address, action, bundle, last = sys.argv[1:]
store = open_store(address)
steps = 0
def dying(original):
    def step(*arguments, **options):
        global steps
        steps += 1
        if steps > int(last):
            os._exit(9)
        return original(*arguments, **options)
    return step
pathlib.Path.replace = dying(pathlib.Path.replace)
pathlib.Path.unlink = dying(pathlib.Path.unlink)
getattr(store, action)(read_bundle(bundle))
"""


def test_a_process_killed_at_any_step_leaves_all_or_nothing(tmp_path):
    from ragsieve.connectors.bundles import write_bundle

    rows, store = made(tmp_path, 30, "IDMap2,Flat", numbered=True)
    hide(store, [rows[1].id, rows[2].id])
    bundle = store.export([rows[1].id, rows[4].id])
    write_bundle(tmp_path / "bundle", bundle)
    before = everything(store)
    outcomes = []
    # Unlinking what others left, three new files, the note; three renamings, the note's end.
    for last in range(20):
        arguments = [store.address, "delete", str(tmp_path / "bundle"), str(last)]
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
        again = open_store(store.address)
        found = everything(again)
        marked = {mark.id for mark in again.marks()}
        if rows[4].id in found:
            assert found.keys() == before.keys()
            assert marked == {rows[1].id, rows[2].id}
        else:
            assert found.keys() == before.keys() - {rows[1].id, rows[4].id}
            assert marked == {rows[2].id}
        outcomes.append(rows[4].id in found)
        for row in list(found.values())[::9]:
            assert again.search(row.vector, depth=1)[0][0].id == row.id or row.id in marked
        again.restore(bundle)
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {
            "bundle",
            "docs.faiss",
            "docs.jsonl",
            "docs.faiss.ragsieve.json",
            "docs.faiss.ragsieve-lock",
        }
        if done.returncode == 0:
            break
    assert done.returncode == 0
    # Killed early it did not happen, killed late it did, and never the other way round.
    assert outcomes == sorted(outcomes, reverse=True)
    assert outcomes.count(True) >= 4
    assert outcomes.count(False) >= 4


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_a_full_disk_changes_nothing(tmp_path, monkeypatch, failing):
    rows, store = made(tmp_path)
    hide(store, [rows[1].id])
    bundle = store.export([rows[0].id, rows[1].id])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ragsieve._atomic.os.fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            store.delete(bundle)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(everything(store)) == 40
    assert set(store.delete(bundle)) == {rows[0].id, rows[1].id}


WRITER = """
import datetime, json, sys
from ragsieve.connectors import open_store
store = open_store(sys.argv[1])
now = datetime.datetime.now(datetime.UTC)
done = []
for name in json.loads(sys.argv[3]):
    done += store.quarantine([name], reason="r", scan_id=sys.argv[2], since=now)
sys.stdout.write(json.dumps(done))
"""


def test_two_processes_lose_no_mark_and_make_none_twice(tmp_path):
    rows, store = made(tmp_path, 60)
    ids = [row.id for row in rows]
    parts = {"one": ids[:40], "two": ids[:19:-1]}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, store.address, scan, json.dumps(wanted)],
            stdout=subprocess.PIPE,
        )
        for scan, wanted in parts.items()
    ]
    done = [json.loads(process.communicate()[0]) for process in started]
    assert sorted(done[0] + done[1]) == ids
    assert {mark.id: mark.scan_id for mark in store.marks()} == {
        **dict.fromkeys(done[0], "one"),
        **dict.fromkeys(done[1], "two"),
    }


def test_a_row_may_go_while_pages_are_read(tmp_path):
    """FAISS ends the process when it is asked for a vector that went."""
    rows, store = made(tmp_path, 40, "IVF1,Flat", numbered=True)
    pages = store.pages(10)
    seen = list(next(pages))
    store.delete(store.export([row.id for row in rows[5:35]]))
    seen += [row for page in pages for row in page]
    assert [row.id for row in seen] == [row.id for row in rows]
    assert all(row.vector is not None for row in seen)
    assert store.fingerprint().count == 10


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": "other", "marks": {}}', '{"marks": 1}']
)
def test_damaged_marks_never_count_as_none(tmp_path, content):
    rows, store = made(tmp_path)
    hide(store, [rows[0].id])
    store.files.marks.write_text(content)
    for call in (
        store.marks,
        store.retrieval_filter,
        lambda: store.search(rows[0].vector, depth=3),
        lambda: hide(store, [rows[1].id]),
    ):
        with pytest.raises(StoreError, match="marks"):
            call()
    assert store.files.marks.read_text() == content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:-1], "not written together"),
        (lambda lines: [*lines, lines[0]], "not written together"),
        (lambda lines: [{**lines[0], "faiss_id": 0}, *lines[1:]], "number all rows"),
        (lambda lines: [{**line, "faiss_id": 0} for line in lines], "two rows"),
        (lambda lines: [{**line, "faiss_id": at + 1} for at, line in enumerate(lines)], "together"),
        (lambda lines: [{**line, "faiss_id": True} for line in lines], "'faiss_id'"),
        (lambda lines: [{**line, "id": None} for line in lines], "'id'"),
        (lambda lines: [[1], *lines[1:]], "JSON object"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tmp_path, change, words):
    rows = make_rows(MAKERS[0], 10)
    address = build(tmp_path, rows)
    texts = tmp_path / "docs.jsonl"
    lines = [json.loads(line) for line in texts.read_text("utf-8").split("\n") if line]
    texts.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
    with pytest.raises(StoreError, match=words):
        open_store(address)


def test_a_file_that_is_no_index_is_refused(tmp_path):
    address = build(tmp_path, make_rows(MAKERS[0], 3))
    (tmp_path / "docs.faiss").write_bytes(b"not an index")
    with pytest.raises(StoreError, match="opening failed"):
        open_store(address)


def test_the_distance_of_an_address_must_be_that_of_the_index(tmp_path):
    address = build(tmp_path, make_rows(MAKERS[0], 3))
    open_store(address + "&distance=l2")
    with pytest.raises(ConfigError, match="l2"):
        open_store(address + "&distance=ip")


def test_an_id_on_two_rows(tmp_path):
    rows = make_rows(MAKERS[0], 10)
    rows[4] = Row(rows[3].id, rows[4].text, rows[4].vector, rows[4].metadata)
    store = open_store(build(tmp_path, rows))
    assert [row.text for row in store.fetch([rows[3].id])] == [rows[3].text, rows[4].text]
    assert len(store.search(rows[0].vector, depth=10)) == 9
    assert hide(store, [rows[3].id]) == (rows[3].id,)
    assert len(store.search(rows[0].vector, depth=10)) == 8
    with pytest.raises(StoreError, match="more than once"):
        store.export([rows[3].id])


def test_a_link_stays_a_link(tmp_path):
    rows, store = made(tmp_path / "real")
    (tmp_path / "link.faiss").symlink_to(store.files.index)
    linked = open_store(f"faiss://{tmp_path}/link.faiss?texts={store.files.texts}")
    hide(linked, [rows[0].id])
    linked.delete(linked.export([rows[1].id]))
    assert (tmp_path / "link.faiss").is_symlink()
    assert store.fingerprint().count == 39
    assert [mark.id for mark in store.marks()] == [rows[0].id]
    assert Path(tmp_path / "link.faiss").resolve() == store.files.index


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.sampled_from(["id", "text", "metadata", "faiss_id", "title", "a"]) | st.text(max_size=3)


@settings(max_examples=200, deadline=None)
@given(own=st.dictionaries(keys, values, max_size=5), nested=st.booleans())
def test_metadata_is_read_as_it_was_written(own, nested):
    names = Names()
    metadata = metadata_of({"id": "a", "text": "b", **own}, names)
    line = line_of(Row("a", "b", None, metadata), 3, names, nested=nested)
    assert metadata_of(json.loads(json.dumps(line)), names) == metadata
    assert (line["id"], line["text"], line["faiss_id"]) == ("a", "b", 3)
