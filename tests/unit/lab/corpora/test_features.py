"""The cache of embeddings: nothing twice, nothing lost, nothing damaged or another's used."""

from __future__ import annotations

import numpy as np
import pytest

from ragsieve.errors import EmbeddingError, OutputError
from ragsieve.featurestore.upkeep import usage
from ragsieve.lab.corpora import features as module
from ragsieve.lab.corpora.features import CachedEmbedder, features_of
from ragsieve.lab.corpora.records import Dataset
from ragsieve.ports import TextEmbedder
from ragsieve.records import Document, Query
from ragsieve.testing import FakeTextEmbedder

TEXTS = [f"text number {row}" for row in range(10)]


class Counting(FakeTextEmbedder):
    def __init__(self, identity="fake-embedder", fails_at=None):
        self.identity = identity
        self.seen = []
        self.fails_at = fails_at

    def embed_documents(self, texts):
        if self.fails_at is not None and len(self.seen) >= self.fails_at:
            raise KeyboardInterrupt
        self.seen += texts
        return super().embed_documents(texts)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)


def dataset(texts=TEXTS):
    return Dataset(
        name="velm",
        documents=tuple(Document(f"d{row}", text, "Title") for row, text in enumerate(texts)),
        queries=(Query("q1", "a question"), Query("q2", "another question")),
        targets=(),
        answers={},
        relevant={},
    )


def test_rows_are_those_of_the_encoder(tmp_path):
    found = features_of(dataset(), FakeTextEmbedder(), tmp_path / "cache")
    contents = [document.content for document in dataset().documents]
    assert np.array_equal(found.documents, FakeTextEmbedder().embed_documents(contents))
    asked = ["a question", "another question"]
    assert np.array_equal(found.queries, FakeTextEmbedder().embed_queries(asked))
    assert found.encoder == "fake-embedder"


def test_no_text_is_embedded_twice(tmp_path):
    first, second = Counting(), Counting()
    before = features_of(dataset([*TEXTS, *TEXTS[:3]]), first, tmp_path)
    assert len(first.seen) == len(set(first.seen)) == 12
    after = features_of(dataset([*reversed(TEXTS), "a new one"]), second, tmp_path)
    assert second.seen == ["Title\n\na new one"]
    assert np.array_equal(after.documents[:10], before.documents[9::-1])


def test_a_question_and_a_document_of_the_same_words_are_two_texts(tmp_path):
    embedder = Counting()
    kept = CachedEmbedder(embedder, tmp_path)
    kept.embed_documents(["words"])
    kept.embed_queries(["words"])
    assert embedder.seen == ["words", "words"]


def test_what_was_done_before_an_interruption_is_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        CachedEmbedder(Counting(fails_at=8), tmp_path).embed_documents(TEXTS)
    rest = Counting()
    rows = CachedEmbedder(rest, tmp_path).embed_documents(TEXTS)
    assert rest.seen == TEXTS[8:]
    assert np.array_equal(rows, FakeTextEmbedder().embed_documents(TEXTS))


def store(tmp_path):
    return tmp_path / "features.sqlite"


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty", "text"])
def test_a_damaged_cache_is_computed_again(tmp_path, kind):
    expected = CachedEmbedder(Counting(), tmp_path).embed_documents(TEXTS)
    raw = bytearray(store(tmp_path).read_bytes())
    raw[raw.index(expected[4].tobytes()) + 60] ^= 255
    changed = {"flipped": bytes(raw), "cut": bytes(raw[:-9000]), "empty": b"", "text": b"no"}
    store(tmp_path).write_bytes(changed[kind])
    again = Counting()
    assert np.array_equal(CachedEmbedder(again, tmp_path).embed_documents(TEXTS), expected)
    assert again.seen == ([TEXTS[4]] if kind == "flipped" else TEXTS)
    third = Counting()
    CachedEmbedder(third, tmp_path).embed_documents(TEXTS)
    assert third.seen == []


def test_another_encoder_has_rows_of_its_own(tmp_path):
    CachedEmbedder(Counting("one"), tmp_path).embed_documents(TEXTS)
    other = Counting("two")
    kept = CachedEmbedder(other, tmp_path)
    kept.embed_documents(TEXTS)
    assert other.seen == TEXTS
    assert (kept.identity, kept.dimension) == ("two", 32)


@pytest.mark.parametrize("rows", [np.ones((1, 32)), np.full((2, 32), np.nan), np.ones((2, 3))])
def test_unusable_rows_are_refused_and_not_kept(tmp_path, rows):
    class Broken(FakeTextEmbedder):
        def embed_documents(self, texts):
            return rows

    with pytest.raises(EmbeddingError, match="fake-embedder"):
        CachedEmbedder(Broken(), tmp_path).embed_documents(TEXTS[:2])
    assert usage(store(tmp_path)).entries == 0


def test_no_texts_give_no_rows_and_progress_is_told(tmp_path):
    told = []
    kept = CachedEmbedder(FakeTextEmbedder(), tmp_path, progress=told.append)
    assert kept.embed_documents([]).shape == (0, 32)
    kept.embed_documents(TEXTS)
    assert told == [4, 4, 2]
    assert isinstance(kept, TextEmbedder)


def test_a_cache_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(OutputError, match="cannot be created"):
        CachedEmbedder(FakeTextEmbedder(), tmp_path / "file")
