from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

from ragsieve.connectors.address import Fields
from ragsieve.connectors.snapshot import open_snapshot, take_snapshot
from ragsieve.errors import InputError, OutputError, StoreError
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import read_embeddings
from ragsieve.records import Provenance

from .memory import Mark, MemoryStore, row


def test_a_snapshot_is_a_corpus_with_its_embeddings(tmp_path):
    store = MemoryStore(
        [
            row("a", "first\u2028text", (1, 2), title="T", source="wiki", version=3, extra=[1]),
            row("b", "second", (3, 4), meta={"by": "Ann"}),
        ]
    )
    taken = take_snapshot(
        store, tmp_path / "s", fields=Fields(author="meta.by"), embedding_version="minilm"
    )
    documents = read_corpus(taken.corpus_path)
    assert [(d.id, d.title, d.text) for d in documents] == [
        ("a", "T", "first\u2028text"),
        ("b", "", "second"),
    ]
    assert documents[0].provenance == Provenance(source="wiki", version="3")
    assert documents[1].provenance == Provenance(author="Ann")
    rows = read_embeddings(taken.embeddings_path, documents)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 2], [3, 4]]
    assert (taken.documents, taken.dimension, taken.embedding_version) == (2, 2, "minilm")
    assert (taken.partial, taken.lossy, taken.notes) == (False, False, ())
    assert taken.fingerprint == store.fingerprint()
    assert taken.address == store.address
    assert open_snapshot(tmp_path / "s") == taken
    assert not taken.embeddings().flags.writeable
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


BIG = np.array([1e300, 1.0])
SMALL = np.array([1e-300, 0.0])


def test_what_cannot_be_judged_is_named_and_counted(tmp_path):
    store = MemoryStore(
        [
            row("good"),
            row("good", "a second row of this id"),
            row("bare", vector=None),
            row("nan", vector=(np.nan, 1)),
            row("inf", vector=(np.inf, 1)),
            row("zero", vector=(0, 0)),
            row("long", vector=(1, 2, 3)),
            row("matrix", vector=((1, 2), (3, 4))),
            row("blank", " \n"),
            row("empty", ""),
            row("half", "left \ud800 alone"),
            row(""),
            row("\udfff"),
            row("pair", "astronaut \ud83e\uddd1"),
            row("nul", "b\0er Cloud"),
            row("titled", "", title="only a title"),
            row("odd", source="\ud800"),
        ]
    )
    for name, vector in (("huge", BIG), ("tiny", SMALL)):
        store.rows.append(type(store.rows[0])(name, "text", vector, {}))
    taken = take_snapshot(store, tmp_path / "s")
    assert [(item.id, item.reason) for item in taken.excluded] == [
        ("good", "id that stood before"),
        ("bare", "no vector"),
        ("nan", "vector with NaN or infinity"),
        ("inf", "vector with NaN or infinity"),
        ("zero", "vector of zeros"),
        ("long", "vector of another dimension"),
        ("matrix", "vector of another dimension"),
        ("blank", "no text"),
        ("empty", "no text"),
        ("half", "text with lone surrogates"),
        ("", "id that is empty or not valid Unicode"),
        ("\udfff", "id that is empty or not valid Unicode"),
        ("huge", "vector with NaN or infinity"),
        ("tiny", "vector of zeros"),
    ]
    documents = {d.id: d for d in read_corpus(taken.corpus_path)}
    assert list(documents) == ["good", "pair", "nul", "titled", "odd"]
    assert documents["pair"].text == "astronaut \U0001f9d1"
    assert documents["nul"].text == "b\0er Cloud"
    assert documents["odd"].provenance.source == "\\ud800"
    assert len(documents) == taken.documents == taken.embeddings().shape[0]
    assert taken.documents + len(taken.excluded) == len(store.rows) == taken.fingerprint.count
    assert dict(taken.reasons)["no text"] == 2
    assert taken.remarks == (("surrogates paired again", 1), ("text with NUL characters", 1))
    assert any("2 rows were left out and not judged: no text" in note for note in taken.notes)
    assert open_snapshot(tmp_path / "s") == taken


def test_the_dimension_is_that_of_most_rows(tmp_path):
    rows = [row("old", vector=(1, 2, 3)), *(row(f"d{n}") for n in range(5))]
    taken = take_snapshot(MemoryStore(rows), tmp_path / "s")
    assert taken.dimension == 2
    assert [(item.id, item.reason) for item in taken.excluded] == [
        ("old", "vector of another dimension")
    ]
    assert taken.embeddings().shape == (5, 2)


def test_an_empty_collection_is_a_snapshot_of_nothing(tmp_path):
    for number, rows in enumerate(([], [row("a", vector=None)])):
        taken = take_snapshot(MemoryStore(rows), tmp_path / str(number))
        assert taken.documents == 0
        assert taken.embeddings().shape == (0, 0)
        assert open_snapshot(taken.folder) == taken


def test_pages_are_passed_on_and_headers_fit_any_count(tmp_path):
    rows = [row(f"d{n}", vector=(n + 1, 1)) for n in range(1_003)]
    store = MemoryStore(rows)
    taken = take_snapshot(store, tmp_path / "s", page_rows=100)
    assert store.sizes == [100]
    assert taken.embeddings()[:, 0].tolist() == list(range(1, 1_004))


def come(store):
    store.rows.append(row(f"new{len(store.rows)}"))


def swap(store):
    store.rows[0] = row(f"new{store.rows[0].id}")


def test_a_collection_that_moved_once_is_read_again(tmp_path):
    for number, move in enumerate((come, swap)):
        store = MemoryStore([row("a"), row("b")], moves=[move])
        taken = take_snapshot(store, tmp_path / str(number))
        assert len(store.sizes) == 2
        assert not taken.partial
        assert [d.id for d in read_corpus(taken.corpus_path)] == [r.id for r in store.rows]


def test_one_that_keeps_moving_is_refused_or_taken_as_a_part(tmp_path):
    store = MemoryStore([row("a")], moves=[come] * 9)
    with pytest.raises(StoreError, match="--allow-moving"):
        take_snapshot(store, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []
    taken = take_snapshot(store, tmp_path / "s", allow_moving=True)
    assert taken.partial
    assert "part of it" in taken.notes[0]
    assert open_snapshot(tmp_path / "s").partial
    assert taken.documents == taken.fingerprint.count


def test_hidden_rows_are_read_unless_they_are_not_wanted(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    store = MemoryStore([row("a"), row("b")], marks=[Mark("a", "r", "s", now)], lossy=True)
    both = take_snapshot(store, tmp_path / "both")
    assert both.documents == 2
    assert "similarities are approximate" in both.notes[0]
    one = take_snapshot(store, tmp_path / "one", skip_hidden=True)
    assert one.reasons == (("hidden already", 1),)


def test_a_failure_leaves_nothing_behind(tmp_path):
    def break_off(store):
        raise StoreError("the store went away")

    with pytest.raises(StoreError, match="went away"):
        take_snapshot(MemoryStore([row("a")], moves=[break_off]), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "s").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        take_snapshot(MemoryStore([row("a")]), tmp_path / "s")
    with pytest.raises(OutputError, match="writable"):
        take_snapshot(MemoryStore([row("a")]), tmp_path / "no" / "s")


@pytest.mark.parametrize(
    "damage",
    [
        lambda home: (home / "snapshot.json").unlink(),
        lambda home: (home / "snapshot.json").write_text("[]"),
        lambda home: (home / "snapshot.json").write_text("{"),
        lambda home: (home / "excluded.jsonl").unlink(),
        lambda home: (home / "excluded.jsonl").write_text('{"id": "x"}\n'),
        lambda home: (home / "embeddings.npy").write_bytes(b""),
        lambda home: np.save(home / "embeddings.npy", np.ones((3, 2), np.float32)),
        lambda home: edit(home, format="other/1"),
        lambda home: edit(home, documents=7),
        lambda home: edit(home, fingerprint={"count": 1}),
        lambda home: edit(home, excluded=[["no vector", 2]]),
    ],
)
def test_a_damaged_snapshot_is_refused(tmp_path, damage):
    take_snapshot(MemoryStore([row("a"), row("b", vector=None)]), tmp_path / "s")
    damage(tmp_path / "s")
    with pytest.raises(InputError):
        open_snapshot(tmp_path / "s")


def edit(home, **fields):
    path = home / "snapshot.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
