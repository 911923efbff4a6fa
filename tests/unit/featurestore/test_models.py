"""The wrapped ports: the same numbers with and without, and nothing read twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.errors import BackendError, ConfigError, EmbeddingError
from ragsieve.featurestore import recall as module
from ragsieve.featurestore.models import (
    StoredCausalScorer,
    StoredTextEmbedder,
    StoredTokenEncoder,
)
from ragsieve.featurestore.reader import StoredReader
from ragsieve.featurestore.recall import Ensured
from ragsieve.featurestore.store import FEWEST_BYTES, FeatureStore
from ragsieve.featurestore.texts import DefaultReading, PaperReading
from ragsieve.ports import CausalScorer, TextEmbedder, TokenEncoder
from ragsieve.testing import FakeCausalScorer, FakeTextEmbedder, FakeTokenEncoder

TEXTS = ["a b c", "", "one", "a b c", "\ud800 lone", "d e f g"]


class CountingEmbedder(FakeTextEmbedder):
    def __init__(self):
        self.documents, self.queries = [], []

    def embed_documents(self, texts):
        self.documents += texts
        return super().embed_documents(texts)

    def embed_queries(self, texts):
        self.queries += texts
        return super().embed_documents(texts)


class CountingReading(DefaultReading):
    def __init__(self):
        super().__init__(600)
        self.seen = []

    def read(self, texts):
        self.seen += texts
        return super().read(texts)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "features.sqlite"


def same(found, expected):
    return all(
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        for one, other in zip(found, expected, strict=True)
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.text(st.characters(), max_size=30), max_size=6), max_size=4))
def test_losses_and_states_are_exactly_those_of_the_model(tmp_path_factory, calls):
    place = tmp_path_factory.mktemp("store") / "features.sqlite"
    for _ in range(2):
        with FeatureStore(place) as store:
            scorer = StoredCausalScorer(FakeCausalScorer(), store)
            encoder = StoredTokenEncoder(FakeTokenEncoder(), store, document_tokens=4)
            embedder = StoredTextEmbedder(FakeTextEmbedder(), store)
            for texts in calls:
                assert same(scorer.losses(texts), FakeCausalScorer().losses(texts))
                expected = FakeTokenEncoder().states(texts, max_tokens=4)
                assert same(encoder.states(texts, max_tokens=4), expected)
                rows = FakeTextEmbedder().embed_documents(texts)
                assert np.array_equal(embedder.embed_documents(texts), rows)
            assert store.report().notes == ()


def test_each_distinct_text_reaches_the_model_once(path):
    scorer = FakeCausalScorer()
    kept = StoredCausalScorer(scorer, FeatureStore(path))
    found = kept.losses(TEXTS)
    kept.losses(["one", "new", "a b c"])
    again = StoredCausalScorer(scorer, FeatureStore(path)).losses(TEXTS)
    assert sorted(scorer.calls[0]) == sorted(set(TEXTS))
    assert scorer.calls[1:] == [("new",)]
    assert same(found, again)
    assert not any(array.flags.writeable for array in [*found, *again])
    assert (kept.identity, kept.vocabulary_size) == ("fake-causal", 50_000)
    assert isinstance(kept, CausalScorer)


def test_a_model_of_another_identity_reads_for_itself(path):
    store = FeatureStore(path)
    StoredCausalScorer(FakeCausalScorer(), store).losses(["a b"])
    other = FakeCausalScorer(surprising=["b"])
    other.identity = "fake-causal@2"
    assert StoredCausalScorer(other, store).losses(["a b"])[0].tolist() == [12.0]


def test_what_users_ask_is_not_kept(path):
    store = FeatureStore(path)
    encoder = FakeTokenEncoder()
    kept = StoredTokenEncoder(encoder, store, document_tokens=256)
    for _ in range(2):
        kept.states(["a question"], max_tokens=64)
        kept.states(["a document"], max_tokens=256)
    assert encoder.calls == [("a question",), ("a document",), ("a question",)]
    embedder = CountingEmbedder()
    rows = StoredTextEmbedder(embedder, store)
    for _ in range(2):
        rows.embed_queries(["a question"])
        rows.embed_documents(["a question"])
    assert (embedder.documents, embedder.queries) == (["a question"], ["a question"] * 2)
    lab = StoredTextEmbedder(embedder, store, queries=True)
    lab.embed_queries(["a question"])
    lab.embed_queries(["a question"])
    assert len(embedder.queries) == 3
    assert isinstance(kept, TokenEncoder)
    assert isinstance(rows, TextEmbedder)


def test_states_cut_to_another_length_are_other_states(path):
    store = FeatureStore(path)
    for tokens in (2, 3):
        kept = StoredTokenEncoder(FakeTokenEncoder(), store, document_tokens=tokens)
        assert len(kept.states(["a b c d"], max_tokens=tokens)[0]) == tokens


def test_texts_of_similar_length_go_together_and_are_kept_chunk_by_chunk(path, monkeypatch):
    embedder = CountingEmbedder()
    told = []
    kept = StoredTextEmbedder(embedder, FeatureStore(path), progress=told.append, chunk_texts=2)
    texts = ["x" * 5, "x", "x" * 4, "x" * 2, "x" * 3]
    rows = kept.embed_documents(texts)
    assert [len(text) for text in embedder.documents] == [5, 4, 3, 2, 1]
    assert told == [2, 2, 1]
    assert np.array_equal(rows, FakeTextEmbedder().embed_documents(texts))
    with pytest.raises(ConfigError, match="chunk_texts"):
        StoredTextEmbedder(embedder, FeatureStore(path), chunk_texts=0)


def test_what_was_finished_before_a_failure_is_kept(path, monkeypatch):
    monkeypatch.setattr(module.Recall.__init__, "__kwdefaults__", {"chunk_texts": 2})

    class Failing(FakeCausalScorer):
        def losses(self, texts):
            if len(self.calls) == 2:
                raise BackendError("out of memory")
            return super().losses(texts)

    texts = [f"text {row}" for row in range(6)]
    with pytest.raises(BackendError, match="out of memory"):
        StoredCausalScorer(Failing(), FeatureStore(path)).losses(texts)
    scorer = FakeCausalScorer()
    StoredCausalScorer(scorer, FeatureStore(path)).losses(texts)
    assert scorer.calls == [("text 4", "text 5")]


def test_losses_that_are_not_finite_are_given_and_not_kept(path):
    class Broken(FakeCausalScorer):
        def losses(self, texts):
            super().losses(texts)
            return [np.array([np.nan, 1.0]) for _ in texts]

    scorer = Broken()
    kept = StoredCausalScorer(scorer, FeatureStore(path))
    assert np.isnan(kept.losses(["a"])[0][0])
    kept.losses(["a"])
    assert len(scorer.calls) == 2
    assert kept.ensure(["a"]) == Ensured(0, 1, 1)


@pytest.mark.parametrize("rows", [np.ones((1, 32)), np.full((2, 32), np.nan), np.ones((2, 3))])
def test_rows_that_do_not_fit_are_refused(path, rows):
    class Broken(FakeTextEmbedder):
        def embed_documents(self, texts):
            return rows

    store = FeatureStore(path)
    with pytest.raises(EmbeddingError, match="fake-embedder"):
        StoredTextEmbedder(Broken(), store).embed_documents(["a", "b"])
    assert store.report().kept == 0
    assert StoredTextEmbedder(Broken(), store).embed_documents([]).shape == (0, 32)


def test_ensuring_computes_what_is_missing_and_says_what_is_not_there(path):
    scorer, told = FakeCausalScorer(), []
    kept = StoredCausalScorer(scorer, FeatureStore(path))
    assert kept.ensure(TEXTS, told.append) == Ensured(0, 5, 0)
    assert kept.ensure([*TEXTS, "new"], told.append) == Ensured(5, 1, 0)
    assert sum(told) == 11
    assert scorer.calls[1:] == [("new",)]
    assert same(kept.losses(TEXTS), FakeCausalScorer().losses(TEXTS))
    assert len(scorer.calls) == 2
    small = FeatureStore(path.with_name("small.sqlite"), max_bytes=FEWEST_BYTES)
    encoder = StoredTokenEncoder(FakeTokenEncoder(), small, document_tokens=256)
    done = encoder.ensure([f"{'word ' * 200} {row}" for row in range(30)])
    assert done.computed == 30
    assert 0 < done.absent < 30


def test_readings_come_from_memory_then_the_store(path):
    texts = ["Who built it? 12 men.", "Δv word词", "", "\ud800"]
    plain = DefaultReading(600).read(texts)
    first, second = CountingReading(), CountingReading()
    reader = StoredReader(first, FeatureStore(path))
    assert reader.read([*texts, *texts]) == [*plain, *plain]
    assert reader.read(texts) == plain
    assert sorted(first.seen) == sorted(texts)
    assert StoredReader(second, FeatureStore(path)).read(texts) == plain
    assert second.seen == []
    # Both profiles in one store, each under its own fingerprint.
    paper = StoredReader(PaperReading(), FeatureStore(path))
    assert paper.read(texts) == PaperReading().read(texts)
    assert paper.space != reader.space
    assert paper.ensure([*texts, "more"]) == Ensured(4, 1, 0)


def test_memory_for_readings_is_bounded_and_needs_no_store():
    reading = CountingReading()
    reader = StoredReader(reading, memory_texts=2)
    reader.read(["a", "b", "a", "c"])
    reader.read(["c", "b"])
    assert reading.seen == ["a", "b", "c"]
    reader.read(["a"])
    assert reading.seen == ["a", "b", "c", "a"]
    assert reader.ensure(["a", "a", "b"]) == Ensured(0, 0, 2)
