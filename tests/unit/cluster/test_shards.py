"""Shards: their order, their shape, and noticing that they are not what they were."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragsieve.cluster.executors import SerialExecutor
from ragsieve.cluster.parquet import read_documents
from ragsieve.cluster.plan import Block, SearchPlan
from ragsieve.cluster.search import search
from ragsieve.cluster.shards import embeddings_digest, find_shards, survey
from ragsieve.errors import ConfigError, EmbeddingError, InputError


def rows_of(size, dimension=4, seed=0, kind=np.float32):
    return np.random.default_rng(seed).normal(size=(size, dimension)).astype(kind)


def parquet(path, rows, kind=None, **columns):
    kind = kind or pa.list_(pa.float32())
    table = pa.table({"embedding": pa.array(list(rows), type=kind), **columns})
    pq.write_table(table, path, row_group_size=3)


def test_files_of_a_folder_are_taken_in_the_order_of_their_names(tmp_path):
    for name in ("b.npy", "a.npy", "c.npy"):
        np.save(tmp_path / name, rows_of(3, seed=ord(name[0])))
    (tmp_path / ".d.npy").write_bytes(b"hidden")
    (tmp_path / "notes.txt").write_text("not a shard")
    shards = survey(tmp_path)
    assert [(one.path.rsplit("/", 1)[1], one.first) for one in shards] == [
        ("a.npy", 0),
        ("b.npy", 3),
        ("c.npy", 6),
    ]
    plan = SearchPlan(shards, 2)
    expected = np.concatenate([rows_of(3, seed=ord(name)) for name in "abc"])
    assert (plan.read(Block(2, 8)) == expected[2:8]).all()


def test_an_empty_shard_is_left_out(tmp_path):
    np.save(tmp_path / "a.npy", np.empty((0, 0), np.float32))
    np.save(tmp_path / "b.npy", rows_of(2))
    assert [one.rows for one in survey(tmp_path)] == [2]
    (tmp_path / "b.npy").unlink()
    with pytest.raises(EmbeddingError, match="found none"):
        survey(tmp_path)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.list_(pa.float32()), np.float32),
        (pa.large_list(pa.float64()), np.float64),
        (pa.list_(pa.float32(), 4), np.float32),
        (pa.list_(pa.float16()), np.float16),
    ],
)
def test_parquet_rows_come_back_as_they_were(tmp_path, kind, stored):
    rows = rows_of(11, kind=stored)
    parquet(tmp_path / "a.parquet", rows, kind)
    (shard,) = survey(tmp_path / "a.parquet")
    assert (shard.rows, shard.dimension) == (11, 4)
    for start, stop in ((0, 11), (2, 4), (3, 6), (5, 11), (10, 11)):
        found = shard.read(start, stop)
        assert found.dtype == stored
        assert (found == rows[start:stop]).all()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1.0, 2.0], None]), "row 1"),
        (pa.array([[1.0, 2.0], [1.0]]), "row 1"),
        (pa.array([[1.0, 2.0], [1.0, None]]), "without gaps"),
        (pa.array([[1, 2], [3, 4]]), "lists of floats"),
        (pa.array(["x", "y"]), "lists of floats"),
    ],
)
def test_unusable_parquet_columns_are_refused(tmp_path, column, message):
    pq.write_table(pa.table({"embedding": column}), tmp_path / "a.parquet")
    with pytest.raises(EmbeddingError, match=message):
        survey(tmp_path)[0].read(0, 2)


def test_a_parquet_file_without_the_column_is_refused(tmp_path):
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(EmbeddingError, match="no such column"):
        survey(tmp_path)


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_damaged_files_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00 nonsense")
    with pytest.raises(EmbeddingError, match=name):
        survey(tmp_path)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(EmbeddingError, match=r"a\.npy"):
        survey(tmp_path)


def test_what_is_no_embedding_is_refused(tmp_path):
    with pytest.raises(EmbeddingError, match="neither"):
        find_shards(tmp_path)
    np.save(tmp_path / "a.npy", rows_of(2))
    parquet(tmp_path / "b.parquet", rows_of(2))
    with pytest.raises(EmbeddingError, match="both"):
        find_shards(tmp_path)
    with pytest.raises(EmbeddingError, match="neither"):
        find_shards(tmp_path / "missing.npy")
    with pytest.raises(ConfigError, match="fingerprint"):
        survey(tmp_path / "a.npy", fingerprint="none")
    np.save(tmp_path / "c.npy", np.arange(4))
    with pytest.raises(EmbeddingError, match="floats of shape"):
        survey(tmp_path / "c.npy")


def test_shards_of_two_encoders_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(2, 4))
    np.save(tmp_path / "b.npy", rows_of(2, 5))
    with pytest.raises(EmbeddingError, match="one encoder"):
        survey(tmp_path)


@pytest.mark.parametrize("fingerprint", ["contents", "ends"])
def test_a_shard_that_changed_is_another_one(tmp_path, fingerprint):
    np.save(tmp_path / "a.npy", rows_of(3))
    before = survey(tmp_path, fingerprint=fingerprint)
    np.save(tmp_path / "a.npy", rows_of(3, seed=1))
    after = survey(tmp_path, fingerprint=fingerprint)
    assert embeddings_digest(before) != embeddings_digest(after)
    with pytest.raises(EmbeddingError, match="not the file the plan was made from"):
        search(SearchPlan(before, 2), SerialExecutor())
    (tmp_path / "a.npy").unlink()
    with pytest.raises(EmbeddingError, match="cannot be read on"):
        search(SearchPlan(after, 2), SerialExecutor())


def test_the_digest_is_of_the_rows_not_of_where_they_stand(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3))
    (tmp_path / "folder").mkdir()
    shutil.copy(tmp_path / "a.npy", tmp_path / "folder" / "z.npy")
    assert embeddings_digest(survey(tmp_path / "a.npy")) == embeddings_digest(
        survey(tmp_path / "folder")
    )


def test_a_change_in_the_middle_is_seen_by_contents_and_by_time(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((50_000, 2), np.float32))
    marks = [embeddings_digest(survey(path, fingerprint=kind)) for kind in ("contents", "ends")]
    with path.open("r+b") as handle:
        handle.seek(200_000)
        handle.write(b"\x01")
    os.utime(path, ns=(1, 1))
    again = [embeddings_digest(survey(path, fingerprint=kind)) for kind in ("contents", "ends")]
    assert marks[0] != again[0]
    assert marks[1] != again[1]


def test_texts_come_with_what_they_declare(tmp_path):
    parquet(
        tmp_path / "a.parquet",
        rows_of(2),
        id=["x", "y"],
        text=["one", "two"],
        title=["First", None],
        author=[None, "ann"],
    )
    first, second = read_documents(tmp_path / "a.parquet")
    assert first.content == "First\n\none"
    assert (second.title, second.provenance.author, first.provenance.author) == ("", "ann", None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["x"]}, "'text'"),
        ({"id": ["x"], "text": pa.array([None], pa.string())}, "row 0"),
        ({"id": [7], "text": ["a"]}, "'id'"),
        ({"id": ["x"], "text": ["a"], "source": [3]}, "'source'"),
    ],
)
def test_texts_that_are_none_are_refused(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        read_documents(tmp_path / "a.parquet")
