"""What is written is read back, and numbers, names and files of every odd kind have an answer."""

from __future__ import annotations

import dataclasses
import json
import os
import stat

import numpy as np
import pytest

from builders import clustered, documents, ranking, write_jsonl
from ragsieve._atomic import check_writable, replacing, write_text
from ragsieve._jsonl import read_jsonl
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.display import visible
from ragsieve.errors import EmbeddingError, InputError, OutputError, RecordError
from ragsieve.files.contexts import (
    Carried,
    ContextRow,
    context_fields,
    find_context,
    read_contexts,
)
from ragsieve.files.corpus import corpus_hash, read_corpus, read_queries
from ragsieve.files.embeddings import (
    encoder_of,
    manifest_path,
    read_embeddings,
    write_embeddings,
)
from ragsieve.files.predictions import (
    prediction_fields,
    query_fields,
    read_predictions,
    verdict_fields,
)
from ragsieve.testing import FakeCausalScorer

HOSTILE = 'nul\x00 bidi\u202e sep\u2028\u2029\u0085 zero\u200b quote" back\\ 词 🙂 \r\n\tend'


def prediction(**changes):
    return {
        "document_id": "a", "score": 0.5, "threshold": 1.0, "decision": "clear", "level": "info",
        "profile": "paper", "fingerprint": "f", "x_status": "measured", "x": 0.5,
    } | changes  # fmt: skip


def test_scan_predictions_round_trip(tmp_path):
    texts, rows = clustered(np.random.default_rng(6), 30)
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    written = [verdict_fields(verdict) for verdict in scan]
    read = list(read_predictions(write_jsonl(tmp_path / "s.jsonl", written)))
    assert [row.document_id for row in read] == list(scan.document_ids)
    assert [row.score for row in read] == scan.scores.tolist()
    assert tuple(row.decision for row in read) == scan.decisions
    columns = dict(scan.column("topology_score").components)
    for name, column in columns.items():
        assert [row.numbers[name] for row in read] == column.tolist()
    assert {row.query_id for row in read} == {None}
    assert {row.fingerprint for row in read} == {scan.fingerprint}


def test_query_predictions_round_trip(tmp_path):
    verdicts = QueryDetector("paper", causal=FakeCausalScorer()).score(
        ranking(["one two three"] * 20)
    )
    carried = Carried("set", "enc", "clean")
    written = [query_fields(one, "q", carried, removed=one.rank == 2) for one in verdicts]
    read = list(read_predictions(write_jsonl(tmp_path / "p.jsonl", written)))
    for row, verdict, fields in zip(read, verdicts, written, strict=True):
        assert (row.query_id, row.rank, row.carried) == ("q", verdict.rank, carried)
        assert row.removed is (verdict.rank == 2)
        for seen, made in zip(row.evidences, verdict.evidences, strict=True):
            assert seen == dataclasses.replace(made, detail=None)
        assert prediction_fields(row).items() <= fields.items()
    unavailable = read[0].evidence("query_alignment")
    assert unavailable.value is None
    assert "no token encoder" in unavailable.reason
    assert read[0].evidence("nothing") is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"document_id": None}, "document_id"),
        ({"score": None}, "score"),
        ({"score": "1"}, "score"),
        ({"score": True}, "score"),
        ({"threshold": None}, "threshold"),
        ({"decision": "guilty"}, "decision"),
        ({"level": "panic"}, "level"),
        ({"profile": None}, "profile"),
        ({"fingerprint": 3}, "fingerprint"),
        ({"rank": "first"}, "rank"),
        ({"rank": 1.5}, "rank"),
        ({"removed": "yes"}, "removed"),
        ({"x": None}, "x"),
        ({"x_probability": "small"}, "x_probability"),
        ({"dataset": 3}, "dataset"),
        ({"query_id": 3}, "query_id"),
    ],
)
def test_a_broken_prediction(tmp_path, change, field):
    path = write_jsonl(tmp_path / "p.jsonl", [prediction(), prediction(**change)])
    with pytest.raises(RecordError) as caught:
        list(read_predictions(path))
    assert (caught.value.line, caught.value.field) == (2, field)
    assert f"{path}:2" in str(caught.value)


def test_an_unknown_evidence_layout(tmp_path):
    row = {key: value for key, value in prediction().items() if not key.startswith("x")}
    path = write_jsonl(tmp_path / "p.jsonl", [row | {"evidence": {"x": 0.5}}])
    with pytest.raises(RecordError, match=r"p\.jsonl:1: expected evidence fields with a status"):
        list(read_predictions(path))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400])
@pytest.mark.parametrize("field", ["similarity", "score"])
def test_numbers_beyond_double_precision(tmp_path, number, field):
    path = tmp_path / "x.jsonl"
    if field == "similarity":
        entry = f'{{"id": "d", "rank": 1, "text": "x", "similarity": {number}}}'
        path.write_text(f'{{"query_id": "q", "query": "?", "documents": [{entry}]}}\n')
        read = read_contexts
    else:
        path.write_text(json.dumps(prediction(score="N")).replace('"N"', number) + "\n")
        read = read_predictions
    with pytest.raises(RecordError, match="expected a finite number") as caught:
        list(read(path))
    assert caught.value.field == field


def test_a_whole_number_of_no_interest_may_be_large(tmp_path):
    path = write_jsonl(tmp_path / "p.jsonl", [prediction(serial=10**400)])
    assert next(read_predictions(path)).document_id == "a"


def context(**changes):
    entry = {"id": "d", "rank": 1, "text": "x"}
    return {"query_id": "q", "query": "?", "documents": [entry | changes]}


@pytest.mark.parametrize(
    "raw",
    [
        '{"id": "d", "rank": 1, "text": "x", "metadata": {"a": "\\ud800"}}',
        '{"id": "d", "rank": 1, "text": "x", "metadata": {"a": 1e999}}',
    ],
    ids=["surrogate", "infinity"],
)
def test_metadata_that_cannot_be_written_is_refused_on_reading(tmp_path, raw):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"query_id": "q", "query": "?", "documents": [{raw}]}}\n')
    with pytest.raises(RecordError, match="metadata"):
        read_contexts(path)


def test_quarantined_ids_are_valid_unicode(tmp_path):
    path = tmp_path / "x.jsonl"
    row = context() | {"quarantined_document_ids": ["\ud800"]}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(RecordError, match="quarantined_document_ids"):
        read_contexts(path)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"query_id": None}, "query_id"),
        ({"query_id": 3}, "query_id"),
        ({"query": None}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"documents": None}, "documents"),
        ({"documents": [3]}, "documents[0]"),
        ({"documents": [{"id": "d", "text": "x"}]}, "rank"),
        ({"documents": [{"id": "d", "text": "x", "rank": True}]}, "rank"),
        ({"documents": [{"id": "d", "text": "x", "rank": 2}]}, "documents[0].rank"),
        ({"documents": [{"rank": 1, "text": "x"}]}, "id"),
        ({"documents": [{"id": "d", "rank": 1}]}, "text"),
        ({"documents": [{"id": "d", "rank": 1, "text": "x", "similarity": "1"}]}, "similarity"),
        ({"documents": [{"id": "d", "rank": 1, "text": "x", "metadata": []}]}, "metadata"),
        ({"quarantined_document_ids": "d"}, "quarantined_document_ids"),
        ({"quarantined_document_ids": [1]}, "quarantined_document_ids"),
        ({"condition": 1}, "condition"),
    ],
)
def test_a_broken_context(tmp_path, change, field):
    path = tmp_path / "x.jsonl"
    rows = [context(), context() | {"query_id": "q2"} | change]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RecordError) as caught:
        read_contexts(path)
    assert (caught.value.line, caught.value.field) == (2, field)


def test_contexts_round_trip_with_everything_they_carry(tmp_path):
    entry = {"id": "d", "rank": 1, "title": "T", "text": HOSTILE, "similarity": -0.25,
             "metadata": {"source": "s", "nested": {"n": [1, None, 2.5]}}}  # fmt: skip
    row = {"query_id": "q", "query": HOSTILE, "dataset": "h", "encoder": "e", "condition": "c",
           "documents": [entry], "quarantined_document_ids": ["z", "y"]}  # fmt: skip
    path = write_jsonl(tmp_path / "x.jsonl", [row])
    (read,) = read_contexts(path)
    assert context_fields(read) == row
    assert read.ranking.entries[0].document.provenance.source == "s"
    assert find_context((read,), "q") is read
    with pytest.raises(InputError, match="no context has query_id 'z'"):
        find_context((read,), "z")
    plain = ContextRow(ranking(["a"]))
    assert set(context_fields(plain)) == {"query_id", "query", "documents"}


def test_a_corpus_keeps_hostile_text_in_every_field(tmp_path):
    row = {"document_id": HOSTILE, "title": HOSTILE, "text": HOSTILE + "."}
    (document,) = read_corpus(write_jsonl(tmp_path / "c.jsonl", [row]))
    assert (document.id, document.title, document.text) == (HOSTILE, HOSTILE, HOSTILE + ".")
    # The text starts with the title, so the title is not put in front again.
    assert document.content == HOSTILE + "."


def test_windows_line_ends_blank_lines_and_a_missing_last_newline(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "text": "1"}\r\n\r\n \n{"id": "b", "text": "2"}')
    assert [(row.line, row.fields["id"]) for row in read_jsonl(path)] == [(1, "a"), (4, "b")]


def test_a_byte_order_mark_belongs_at_the_start_only(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "a", "text": "1"}\n\xef\xbb\xbf{"id": "b", "text": "2"}\n')
    with pytest.raises(RecordError) as caught:
        list(read_jsonl(path))
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("row", "field"),
    [({"text": "?"}, "id"), ({"id": "q"}, "text"), ({"id": "a", "text": "again"}, "id")],
)
def test_a_broken_query(tmp_path, row, field):
    path = write_jsonl(tmp_path / "q.jsonl", [{"id": "a", "text": "?", "answers": ["x"]}, row])
    with pytest.raises(RecordError) as caught:
        read_queries(path)
    assert (caught.value.line, caught.value.field) == (2, field)


def test_both_names_of_an_id_may_stand_when_they_agree(tmp_path):
    row = {"id": "a", "document_id": "a", "text": "x"}
    assert read_corpus(write_jsonl(tmp_path / "c.jsonl", [row]))[0].id == "a"


@pytest.mark.parametrize(
    "change", [{"id": "other"}, {"text": "other"}, {"title": "other"}, {"text": "ab", "id": ""}]
)
def test_the_corpus_hash_follows_whatever_is_embedded(change):
    (one,) = documents(["b"])
    assert corpus_hash([one]) != corpus_hash([dataclasses.replace(one, **change)])
    two = documents(["x", "y"])
    assert corpus_hash(two) != corpus_hash(two[::-1])


def header(text):
    raw = text.encode().ljust(118)
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + bytes(64)


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 no archive",
        b"\x80\x04N.",
        header("{'descr': '<f8', 'fortran_order': False, 'shape': ("),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 99999999999999999999), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 9999999), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, -3), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, True), }"),
        header("{'descr': 'q!', 'fortran_order': False, 'shape': (1, 1), }"),
        header("{[]: 1}"),
        header("'''"),
        header("(" * 110),
    ],
)
def test_a_damaged_embedding_file(tmp_path, content):
    (tmp_path / "e.npy").write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"e\.npy: expected a \.npy file of floats"):
        read_embeddings(tmp_path / "e.npy", documents(["a"]))


def test_an_archive_is_not_a_matrix(tmp_path):
    np.savez(tmp_path / "e.npz", a=np.ones((1, 2)))
    with pytest.raises(EmbeddingError, match=r"e\.npz: expected"):
        read_embeddings(tmp_path / "e.npz", documents(["a"]))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.array([[1.0, 0.0], [np.nan, 1.0]]), "row 1 .* NaN"),
        (np.array([[np.inf, 0.0], [1.0, 1.0]]), "row 0 .* NaN or infinity"),
        (np.array([[1.0, 0.0], [0.0, 0.0]]), "row 1 .* all zeros"),
        (np.array([1.0, 1.0]), r"expected shape \(rows, dimension\)"),
        (np.ones((2, 2), dtype=np.int32), "floating point"),
        (np.ones((3, 2)), "expected 2 rows, one a document, found 3"),
        (np.ones((2, 0)), "expected embeddings of shape"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, rows, words):
    np.save(tmp_path / "e.npy", rows)
    corpus = documents(["a", "b"])
    with pytest.raises(EmbeddingError, match=words):
        CorpusDetector("paper").scan(corpus, read_embeddings(tmp_path / "e.npy", corpus))


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"[]", b"{", b"3"])
def test_an_unreadable_manifest(tmp_path, content):
    path = tmp_path / "e.npy"
    np.save(path, np.ones((1, 2)))
    assert encoder_of(path) is None
    manifest_path(path).write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"e\.manifest\.json"):
        read_embeddings(path, documents(["a"]))
    with pytest.raises(EmbeddingError, match="embed again"):
        encoder_of(path)


@pytest.mark.parametrize("field", ["rows", "dimension", "dtype", "corpus_sha256"])
def test_a_manifest_is_checked_field_by_field(tmp_path, field):
    path, corpus = tmp_path / "e.npy", documents(["a", "b"])
    write_embeddings(path, np.eye(2, dtype=np.float32), corpus, "model-1")
    assert encoder_of(path) == "model-1"
    manifest = json.loads(manifest_path(path).read_text())
    manifest_path(path).write_text(json.dumps(manifest | {field: "other"}))
    with pytest.raises(EmbeddingError, match="another corpus" if "sha" in field else field):
        read_embeddings(path, corpus)


def test_a_pipe_or_a_folder_is_no_place_for_a_result(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OutputError, match="expected a file name"):
            check_writable(tmp_path / name)
        with pytest.raises(OutputError, match="expected a file name"):
            write_text(tmp_path / name, "x")
    assert (tmp_path / "pipe").is_fifo()


def test_a_result_has_the_permissions_of_any_new_file(tmp_path):
    write_text(tmp_path / "made", "x")
    (tmp_path / "plain").write_text("x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("made", "plain")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("x")])
def test_a_failure_half_way_keeps_the_earlier_file(tmp_path, error):
    path = tmp_path / "out"
    path.write_text("before")
    expected = OutputError if isinstance(error, OSError) else RuntimeError

    def fail_half_way():
        with replacing(path) as handle:
            handle.write(b"half")
            raise error

    with pytest.raises(expected):
        fail_half_way()
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "character", ["\x00", "\x07", "\x1b", "\x7f", "\x9b", "\u200b", "\u200e", "\u202e", "\u2066",
                  "\u2028", "\ufeff", "\ue000", "\ud800", "\U000e0041", "\u00ad"],
)  # fmt: skip
def test_what_cannot_be_seen_is_spelled_out(character):
    assert visible(f"a{character}b") == f"a<U+{ord(character):04X}>b"


@pytest.mark.parametrize(
    "character", ["\u3164", "\u115f", "\uffa0", "\ufe0f", "\u034f", "\U000e0100"]
)
def test_default_ignorable_letters_are_spelled_out(character):
    assert f"U+{ord(character):04X}" in visible(f"a{character}b")


def test_what_can_be_seen_stays():
    text = "Größe 词 नमस्ते שלום 🙂 ½"
    assert visible(text) == text
    assert visible("a\n\tb") == "a  b"
    assert visible("abc", limit=3) == "abc"
