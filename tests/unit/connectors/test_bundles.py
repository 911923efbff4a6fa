from __future__ import annotations

import datetime
import decimal
import json
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.connectors.bundles import read_bundle, write_bundle
from ragsieve.connectors.contract import Bundle, BundledRow, Mark, Row
from ragsieve.connectors.hashing import ids_fingerprint, row_sha256, same_row
from ragsieve.connectors.values import array_packed, array_unpacked, decoded, encoded
from ragsieve.errors import InputError, OutputError, RecordError, StoreError

NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, 7, tzinfo=datetime.UTC)
ODD = {
    "when": NOW,
    "day": NOW.date(),
    "time": datetime.time(1, 2),
    "span": datetime.timedelta(days=-1, microseconds=3),
    "price": decimal.Decimal("1.10"),
    "uuid": uuid.UUID(int=7),
    "raw": b"\0\xff",
    "nan": float("-inf"),
    "half": "\ud800",
    "nested": {"$type": "bytes", "value": [1, 1.0, None, True]},
    "array": np.arange(6, dtype=np.int16).reshape(2, 3),
    "numpy": np.float32(0.1),
    "\udfff": 1,
}


def bundle_of(*rows, mark=None):
    items = tuple(BundledRow(row, row_sha256(row), mark) for row in rows)
    return Bundle("memory://docs", items, NOW)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_a_bundle_comes_back_bit_by_bit(tmp_path, dtype):
    vector = np.array([0.1, -0.0, np.nan, np.inf, 1e-40], dtype=dtype)
    rows = [
        Row("a\u202e", "text\0 \ud800 \u2028\n", vector, ODD),
        Row("b", "", None, {}),
    ]
    mark = Mark("a\u202e", "because \ud800", "scan", NOW)
    bundle = Bundle(
        "memory://docs",
        (
            BundledRow(rows[0], row_sha256(rows[0]), mark),
            BundledRow(rows[1], row_sha256(rows[1]), None),
        ),
        NOW,
    )
    path = tmp_path / "bundle.jsonl"
    write_bundle(path, bundle)
    back = read_bundle(path)
    assert (back.store, back.made) == (bundle.store, NOW)
    assert [item.mark for item in back.rows] == [mark, None]
    first, second = (item.row for item in back.rows)
    assert (first.id, first.text) == (rows[0].id, rows[0].text)
    assert first.vector.astype(dtype).tobytes() == vector.tobytes()
    assert first.vector.dtype.itemsize == vector.dtype.itemsize
    assert second == rows[1]
    assert [item.sha256 for item in back.rows] == [row_sha256(row) for row in rows]
    for key, value in ODD.items():
        if key == "array":
            assert np.array_equal(first.metadata[key], value)
        else:
            assert first.metadata[key] == value
            assert key == "numpy" or type(first.metadata[key]) is type(value)


def test_an_empty_bundle_is_a_bundle(tmp_path):
    write_bundle(tmp_path / "b", bundle_of())
    assert read_bundle(tmp_path / "b") == bundle_of()


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(text="other"),
        lambda row: row.update(id="other"),
        lambda row: row["metadata"].update(page=2),
        lambda row: row.update(vector=None),
        lambda row: row["vector"].update(base64="AAAAAAAAAAA="),
        lambda row: row["vector"].update(base64="AAA"),
        lambda row: row["vector"].update(dtype="O"),
        lambda row: row["vector"].update(shape=[3]),
        lambda row: row.pop("mark"),
        lambda row: row.update(metadata={"x": {"$type": "module", "value": "os"}}),
        lambda row: row.update(metadata=5),
        lambda row: row.update(sha256=""),
    ],
)
def test_a_changed_row_is_refused(tmp_path, change):
    path = tmp_path / "bundle.jsonl"
    write_bundle(path, bundle_of(Row("a", "text", np.ones(2, np.float32), {"page": 1})))
    head, line = path.read_text().splitlines()
    fields = json.loads(line)
    change(fields)
    path.write_text(f"{head}\n{json.dumps(fields)}\n")
    with pytest.raises(RecordError, match=r"bundle\.jsonl:2.*intact"):
        read_bundle(path)


def test_a_cut_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "bundle.jsonl"
    write_bundle(path, bundle_of(Row("a", "x", None, {}), Row("b", "x", None, {})))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(InputError, match="expected 2 rows, found 1"):
        read_bundle(path)
    path.write_text('{"id": "a", "text": "corpus"}\n')
    with pytest.raises(RecordError, match="no bundle"):
        read_bundle(path)
    path.write_text("")
    with pytest.raises(InputError, match="empty"):
        read_bundle(path)
    with pytest.raises(OutputError):
        write_bundle(tmp_path / "no" / "folder", bundle_of())


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "bundle.jsonl"
    path.write_text("before")
    good = Row("a", "x", None, {})
    bad = BundledRow(Row("b", "x", None, {"what": object()}), "", None)
    with pytest.raises(StoreError, match="hidden but not deleted"):
        write_bundle(path, Bundle("s", (BundledRow(good, row_sha256(good), None), bad), NOW))
    assert path.read_text() == "before"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.just(datetime.UTC))
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$type"), inner),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_comes_back(value):
    line = json.dumps(encoded(value), allow_nan=False)
    line.encode("utf-8")
    assert decoded(json.loads(line)) == value


def test_arrays_are_numbers_alone():
    packed = array_packed(np.zeros((2, 0), np.float32))
    assert array_unpacked(packed).shape == (2, 0)
    for bad in ({}, None, {**packed, "dtype": "O"}, {**packed, "dtype": "V8"}):
        with pytest.raises(ValueError, match="numbers"):
            array_unpacked(bad)


def test_a_hash_is_of_content_alone():
    base = Row("a", "text", np.array([1, 2], np.float32), {"x": 1, "y": [2.5]})
    same = Row("a", "text", np.array([1, 2], np.float64), {"y": [2.5], "x": 1})
    assert row_sha256(base) == row_sha256(same)
    others = [
        Row("b", "text", base.vector, base.metadata),
        Row("at", "ext", base.vector, base.metadata),
        Row("a", "text ", base.vector, base.metadata),
        Row("a", "text", None, base.metadata),
        Row("a", "text", np.array([1, 3], np.float32), base.metadata),
        Row("a", "text", base.vector, {"x": 1}),
        Row("a", "text", base.vector, {"x": "1", "y": [2.5]}),
        Row("a", "text", base.vector, {"x": True, "y": [2.5]}),
    ]
    assert len({row_sha256(row) for row in (base, *others)}) == len(others) + 1
    assert not any(same_row(base, other) for other in others)


def test_a_vector_may_move_by_a_last_bit():
    vector = np.array([300.0, 1.0, 0.0], np.float32)
    base = Row("a", "", vector, {})

    def moved(by):
        return Row("a", "", vector + np.float32(by), {})

    assert same_row(base, moved(1e-4))
    assert not same_row(base, moved(1e-2))
    assert same_row(base, moved(1e-2), tolerance=float("inf"))
    assert not same_row(base, Row("a", "", vector[:2], {}), tolerance=float("inf"))
    nan = Row("a", "", np.array([np.nan, 1.0]), {})
    assert same_row(nan, nan)
    assert not same_row(nan, Row("a", "", np.array([1.0, 1.0]), {}))


@given(st.lists(st.text(st.characters(), max_size=3)), st.randoms())
def test_a_fingerprint_is_of_a_bag_of_ids(ids, random):
    shuffled = list(ids)
    random.shuffle(shuffled)
    assert ids_fingerprint(ids) == ids_fingerprint(shuffled)
    assert ids_fingerprint([*ids, "more"]) != ids_fingerprint(ids)
    assert ids_fingerprint(["ab", "c"]) != ids_fingerprint(["a", "bc"])
