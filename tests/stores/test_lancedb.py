"""What is LanceDB's alone."""

from __future__ import annotations

import datetime
import threading

import numpy as np
import pytest

from ragsieve.connectors import open_store
from ragsieve.connectors.contract import RESERVED
from ragsieve.connectors.lancedb import LanceConnector
from ragsieve.connectors.snapshot import take_snapshot
from ragsieve.errors import StoreError
from stores import makers_lancedb
from stores.makers import make_rows

pytestmark = pytest.mark.stores
(MAKER,) = makers_lancedb.MAKERS
NOW = datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)


def hide(connector, ids, scan="scan"):
    return connector.quarantine(ids, reason="why", scan_id=scan, since=NOW)


@pytest.fixture
def table(tmp_path):
    """Makes a table of these columns; vectors of two numbers unless given."""
    import lancedb
    import pyarrow as pa

    def make(**columns):
        count = len(columns["id"])
        if "vector" not in columns:
            flat = pa.array(np.arange(2 * count, dtype="f4") + 1)
            columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, 2)
        columns.setdefault("text", ["text"] * count)
        return lancedb.connect(str(tmp_path / "lance")).create_table("docs", pa.table(columns))

    return make


def test_many_flags_are_few_versions(tmp_path):
    rows = make_rows(MAKER, 3_000)
    connector = open_store(MAKER.create(tmp_path, rows))
    before = connector.table.version
    ids = [row.id for row in rows]
    assert len(hide(connector, ids)) == 3_000
    connector.table.checkout_latest()
    # The columns, the flags, and what joining small files takes.
    assert connector.table.version - before <= 4
    assert connector.table.stats()["fragment_stats"]["num_fragments"] == 1
    # Nobody's history was removed.
    assert before in {version["version"] for version in connector.table.list_versions()}
    columns = connector.table.schema.names
    assert len([name for name in columns if name in RESERVED]) == 4
    connector.release(ids)
    hide(connector, ids[:1])
    assert connector.table.schema.names == columns


def test_reading_makes_no_version(tmp_path):
    connector = open_store(MAKER.create(tmp_path, make_rows(MAKER, 5)))
    before = connector.table.version
    take_snapshot(connector, tmp_path / "s")
    connector.search(np.ones(16), depth=2)
    assert (connector.marks(), hide(connector, ["nobody"]), connector.release(["d00001"])) == (
        (), (), (),
    )  # fmt: skip
    assert connector.table.version == before


def test_prepare_makes_the_filter_valid_and_is_harmless_twice(table):
    connector = LanceConnector(table(id=["a", "b"]))
    connector.prepare()
    version = connector.table.version
    connector.prepare()
    assert connector.table.version == version
    found = connector.table.search(np.ones(2)).where(connector.retrieval_filter(), prefilter=True)
    assert found.to_arrow().num_rows == 2
    assert connector.marks() == ()


def test_a_scan_is_tagged_when_asked(tmp_path):
    address = MAKER.create(tmp_path, make_rows(MAKER, 5))
    plain = open_store(address)
    hide(plain, ["d00000"])
    assert not plain.table.tags.list()
    connector = open_store(f"{address}&tags=true")
    before = connector.table.version
    hide(connector, ["d00001"], scan="scan/7 \u202e")
    hide(connector, ["d00002"], scan="scan/7 \u202e")
    assert {name: tag["version"] for name, tag in connector.table.tags.list().items()} == {
        "ragsieve-scan-7--": before
    }


def test_ids_may_be_numbers(table):
    connector = LanceConnector(table(key=[1, -2, 2**63 - 1], id=["x", "y", "z"]), id_column="key")
    ids = ["1", "-2", str(2**63 - 1)]
    assert [row.id for row in connector.fetch([*ids, "01", "x", "1 OR 1=1", str(2**63)])] == ids
    assert connector.fetch(["1"])[0].metadata == {"id": "x"}
    assert hide(connector, ["-2", "nobody"]) == ("-2",)
    bundle = connector.export(ids)
    assert connector.delete(bundle) == tuple(ids)
    assert connector.restore(bundle) == tuple(ids)
    assert [mark.id for mark in connector.marks()] == ["-2"]


def test_ids_are_never_code(table):
    ids = ["it's", "' OR '1'='1", "a\\'b", "`", "a\0b", "\u202e", "", "--", "x" * 3_000]
    connector = LanceConnector(table(id=ids))
    for name in ids:
        assert [row.id for row in connector.fetch([name])] == [name]
    assert hide(connector, [ids[1]]) == (ids[1],)
    assert [mark.id for mark in connector.marks()] == [ids[1]]
    bundle = connector.export(ids)
    assert connector.delete(bundle) == tuple(ids)
    assert connector.restore(bundle) == tuple(ids)


def test_rows_of_one_id_are_hidden_together_and_never_deleted(table, tmp_path):
    connector = LanceConnector(table(id=["a", "a", "b"], text=["one", "two", "three"]))
    assert [row.text for row in connector.fetch(["b", "a"])] == ["three", "one", "two"]
    assert sum(map(len, connector.pages())) == 3
    assert hide(connector, ["a"]) == ("a",)
    assert [row.id for row, _ in connector.search(np.ones(2), depth=3)] == ["b"]
    assert [mark.id for mark in connector.marks()] == ["a"]
    with pytest.raises(StoreError, match="more than once"):
        connector.export(["a"])
    assert take_snapshot(connector, tmp_path / "s").reasons == (("id that stood before", 1),)


def test_columns_of_any_type_come_back(table):
    import decimal

    import pyarrow as pa

    own = {
        "when": pa.array([NOW, None], pa.timestamp("us", "UTC")),
        "day": pa.array([NOW.date(), None]),
        "price": pa.array([decimal.Decimal("1.10"), None]),
        "raw": pa.array([b"\0", None]),
        "tags": pa.array([["a", None], None]),
        "deep": pa.array([{"x": 1}, None]),
        "odd name '": pa.array(["x", None]),
        "nan": pa.array([float("nan"), 1.0]),
    }
    connector = LanceConnector(table(id=["a", "b"], **own))
    before = connector.table.to_arrow()
    bundle = connector.export(["a", "b"])
    assert bundle.rows[1].row.metadata == {"nan": 1.0}
    connector.delete(bundle)
    assert connector.restore(bundle) == ("a", "b")
    after = connector.table.to_arrow().select(before.schema.names)
    assert str(after.to_pylist()) == str(before.to_pylist())
    assert connector.restore(bundle) == ()


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_vectors_keep_their_type(table, kind):
    import pyarrow as pa

    flat = pa.array(np.array([0.1, 0.2, 0.3, 0.4], dtype=kind))
    connector = LanceConnector(
        table(id=["a", "b"], vector=pa.FixedSizeListArray.from_arrays(flat, 2))
    )
    bundle = connector.export(["b"])
    assert bundle.rows[0].row.vector.dtype == kind
    connector.delete(bundle)
    connector.restore(bundle)
    assert connector.export(["b"]).rows[0].sha256 == bundle.rows[0].sha256


def test_vectors_that_are_missing_are_read_and_come_back(table, tmp_path):
    import pyarrow as pa

    native = table(id=["z"])
    more = pa.table({"id": ["a", "b"], "vector": [[3.0, 4.0], None], "text": ["one", "two"]})
    native.add(more, on_bad_vectors="null")
    connector = LanceConnector(native)
    found = connector.fetch(["a", "b"])
    assert found[0].vector.tolist() == [3, 4]
    assert found[1].vector is None
    assert take_snapshot(connector, tmp_path / "s").reasons == (("no vector", 1),)
    bundle = connector.export(["a", "b"])
    connector.delete(bundle)
    assert connector.restore(bundle) == ("a", "b")
    assert connector.restore(bundle) == ()
    assert connector.fetch(["b"])[0].vector is None


def test_an_index_that_looks_into_some_parts_is_made_up_for(table):
    import pyarrow as pa
    from lancedb.index import IvfFlat

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2_000, 8)).astype("f4")
    ids = [f"d{n}" for n in range(2_000)]
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    native = table(id=ids, vector=flat)
    native.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=16))
    connector = LanceConnector(native)
    assert connector._index_distance() == "cosine"
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    order = [ids[n] for n in np.argsort(-(unit @ unit[0]))]
    # Far more than the parts that are looked into hold.
    assert len(connector.search(vectors[0], depth=2_000)) == 2_000
    hide(connector, order[:1_500])
    found = connector.search(vectors[0], depth=400)
    assert [row.id for row, _ in found][:400] == order[1_500:1_900]
    assert connector.fetch(ids[:1])[0].vector.tolist() == vectors[0].tolist()


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    rows = make_rows(MAKER, 60)
    address = MAKER.create(tmp_path, rows)
    ids = [row.id for row in rows]
    failures = []

    def write(part):
        connector = open_store(address)
        try:
            for name in part:
                hide(connector, [name], scan=f"scan-{part[0]}")
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(ids[n::3][:6],)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    connector = open_store(address)
    assert {mark.id for mark in connector.marks()} == {n for k in range(3) for n in ids[k::3][:6]}
    assert connector.fingerprint().count == 60


def test_a_table_that_does_not_fit_is_refused(table, tmp_path):
    import pyarrow as pa

    native = table(id=["a"], real=[1.5], second=pa.array([[1.0, 2.0]]))
    with pytest.raises(StoreError, match=r"parameter 'vector'.*second"):
        LanceConnector(native)
    for options, said in (
        ({"id_column": "key"}, "no column 'key'.*parameter 'id'"),
        ({"id_column": "real"}, "strings or whole numbers"),
        ({"text_column": "body"}, "no column 'body'"),
        ({"vector_column": "real"}, "vectors of floats"),
    ):
        with pytest.raises(StoreError, match=said):
            LanceConnector(native, **{"vector_column": "vector", **options})
    with pytest.raises(StoreError, match="it has docs"):
        open_store(f"lancedb://{tmp_path / 'lance'}?table=dogs")
    with pytest.raises(StoreError, match="no folder"):
        open_store(f"lancedb://{tmp_path / 'nowhere'}?table=docs")


def test_a_column_that_was_dropped_is_missed_before_anything_changes(table):
    connector = LanceConnector(table(id=["a", "b"], page=[1, 2]))
    bundle = connector.export(["a"])
    connector.delete(bundle)
    connector.table.drop_columns(["page"])
    with pytest.raises(StoreError, match="no column 'page' any more"):
        connector.restore(bundle)
    assert connector.fingerprint().count == 1
