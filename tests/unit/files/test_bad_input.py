"""Each bad input gives its own error: file, line, field, expectation."""

from __future__ import annotations

import json

import numpy as np
import pytest

from builders import documents, write_jsonl
from ragsieve._atomic import replacing
from ragsieve._jsonl import read_jsonl
from ragsieve._jsonl import write_jsonl as write_rows
from ragsieve.display import visible
from ragsieve.errors import EmbeddingError, InputError, OutputError, RecordError
from ragsieve.files.contexts import context_fields, read_contexts
from ragsieve.files.corpus import read_corpus, read_queries
from ragsieve.files.embeddings import manifest_path, read_embeddings, write_embeddings
from ragsieve.files.predictions import read_predictions

GOOD = b'{"id": "a", "text": "one"}\n'


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (b"{not json}\n", None, "expected one JSON object"),
        (b'{"id": "b", "text": NaN}\n', None, "NaN is not JSON"),
        (b"[1, 2]\n", None, "expected a JSON object, found a list"),
        (b'{"text": "no id"}\n', "id", "expected a non-empty string id"),
        (b'{"id": "", "text": "x"}\n', "id", "non-empty"),
        (b'{"id": 7, "text": "x"}\n', "id", "expected a string, found the number 7"),
        (b'{"id": "a", "text": "again"}\n', "id", "already stands in line 1"),
        (b'{"id": "b", "document_id": "c", "text": "x"}\n', "id", "disagree"),
        (b'{"id": "b"}\n', "text", "expected a string, found nothing"),
        (b'{"id": "b", "text": ["x"]}\n', "text", "expected a string, found a list"),
        (b'{"id": "b", "text": "x", "title": 3}\n', "title", "expected a string"),
        (b'{"id": "b", "text": "x", "metadata": "m"}\n', "metadata", "expected an object"),
        (b'{"id": "b", "text": "\\ud800"}\n', "text", "lone surrogate U+D800 at character 0"),
        (b'{"id": "b", "text": "\xff"}\n', None, "expected UTF-8, found byte 0xff"),
        (b'{"id": "b", "text": "' + b"[" * 3 + b'"\n', None, "expected one JSON object"),
        (b"[" * 200_000 + b"\n", None, "expected one JSON object"),
    ],
)
def test_a_broken_corpus_line(tmp_path, line, field, words):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(GOOD + line)
    with pytest.raises(RecordError) as caught:
        read_corpus(path)
    assert caught.value.line == 2
    assert caught.value.field == field
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path, content):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match="empty"):
        read_corpus(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_queries(tmp_path / "absent.jsonl")


def test_a_line_ends_at_a_newline_only(tmp_path):
    text = "one\u2028two\u2029three\u0085four\x0bfive"
    path = write_jsonl(tmp_path / "c.jsonl", [{"id": "a", "text": text}])
    assert read_corpus(path)[0].text == text
    write_rows(path, [{"id": "a", "text": text}])
    assert [row.text("text") for row in read_jsonl(path)] == [text]


def test_hostile_but_valid_text_is_kept_and_made_visible(tmp_path):
    text = "a\x00b\u202ec\u200bd\x1b[31me"
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"id": "a", "text": text}).encode() + b"\n")
    document = read_corpus(path)[0]
    assert document.text == text
    assert visible(document.text) == "a<U+0000>b<U+202E>c<U+200B>d<U+001B>[31me"
    assert visible("\ud800") == "<U+D800>"
    assert visible("abcdef", limit=3) == "abc…"


def test_an_empty_document_is_a_document(tmp_path):
    path = write_jsonl(tmp_path / "c.jsonl", [{"id": "a", "text": ""}])
    assert read_corpus(path)[0].content == ""


@pytest.mark.parametrize("ranks", [[1, 3], [2, 1], [0, 1], [1, 1]])
def test_ranks_out_of_order(tmp_path, ranks):
    rows = [{"id": f"d{i}", "rank": rank, "text": "x"} for i, rank in enumerate(ranks)]
    path = write_jsonl(tmp_path / "c.jsonl", [{"query_id": "q", "query": "?", "documents": rows}])
    with pytest.raises(RecordError, match=r"documents\[\d\]\.rank"):
        read_contexts(path)


@pytest.mark.parametrize("rows", [{"documents": "x"}, {"documents": ["x"]}, {}])
def test_documents_must_be_objects(tmp_path, rows):
    path = write_jsonl(tmp_path / "c.jsonl", [{"query_id": "q", "query": "?", **rows}])
    with pytest.raises(RecordError, match="documents"):
        read_contexts(path)


def test_a_query_may_repeat_only_under_another_condition(tmp_path):
    row = {"query_id": "q", "query": "?", "documents": []}
    path = write_jsonl(tmp_path / "c.jsonl", [row, {**row, "condition": "clean"}])
    assert len(read_contexts(path)) == 2
    with pytest.raises(RecordError, match="stands twice"):
        read_contexts(write_jsonl(path, [row, row]))


def test_contexts_keep_metadata_and_drop_what_no_detector_may_see(tmp_path):
    entry = {
        "id": "d",
        "rank": 1,
        "text": "x",
        "similarity": 0.5,
        "metadata": {"source": "s", "n": 1},
    }
    row = {
        "query_id": "q",
        "query": "?",
        "dataset": "h",
        "condition": "clean",
        "documents": [entry],
    }
    marked = {**row, "documents": [{**entry, "poison": True}], "target_answer": "no"}
    path = write_jsonl(tmp_path / "c.jsonl", [marked])
    assert context_fields(read_contexts(path)[0]) == row


def test_predictions_need_evidence_with_a_status(tmp_path):
    with pytest.raises(RecordError, match="is this a prediction file"):
        list(
            read_predictions(write_jsonl(tmp_path / "p.jsonl", [{"document_id": "a", "score": 1}]))
        )


def test_embeddings_round_trip_with_their_manifest(tmp_path):
    path, corpus = tmp_path / "e.npy", documents(["a", "b"])
    write_embeddings(path, np.eye(2, dtype=np.float32), corpus, "m")
    assert read_embeddings(path, corpus).tolist() == np.eye(2).tolist()
    with pytest.raises(EmbeddingError, match="another corpus"):
        read_embeddings(path, documents(["a", "changed"]))
    with pytest.raises(EmbeddingError, match="expected 3 rows"):
        read_embeddings(path, documents(["a", "b", "c"]))
    np.save(path, np.eye(2))
    with pytest.raises(EmbeddingError, match="dtype"):
        read_embeddings(path, corpus)
    manifest_path(path).write_text("{")
    with pytest.raises(EmbeddingError, match="expected a JSON manifest"):
        read_embeddings(path, corpus)
    manifest_path(path).unlink()
    assert read_embeddings(path, corpus).shape == (2, 2)


@pytest.mark.parametrize("content", [b"", b"not numpy", b"\x93NUMPY\x01\x00"])
def test_a_file_that_holds_no_rows(tmp_path, content):
    (tmp_path / "e.npy").write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"expected a \.npy file"):
        read_embeddings(tmp_path / "e.npy", documents(["a"]))


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "e.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(EmbeddingError):
        read_embeddings(tmp_path / "e.npy", documents(["a"]))


def test_an_output_is_complete_or_absent(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("before")

    def rows():
        yield {"a": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(path, rows())
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    with pytest.raises(ValueError, match="JSON compliant"):
        write_rows(path, [{"a": float("nan")}])
    assert path.read_text() == "before"


def test_an_output_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"), replacing(tmp_path / "no" / "x"):
        pass
    with pytest.raises(OutputError, match="is a directory"), replacing(tmp_path):
        pass


def test_a_number_beyond_double_precision_is_refused(tmp_path):
    entry = '{"id": "d", "rank": 1, "text": "x", "similarity": 1' + "0" * 400 + "}"
    path = tmp_path / "c.jsonl"
    path.write_text('{"query_id": "q", "query": "?", "documents": [' + entry + "]}\n")
    with pytest.raises(RecordError, match="finite number"):
        read_contexts(path)


def test_a_damaged_archive_is_no_embedding_file(tmp_path):
    (tmp_path / "e.npy").write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(EmbeddingError, match=r"expected a \.npy file"):
        read_embeddings(tmp_path / "e.npy", documents(["a"]))
