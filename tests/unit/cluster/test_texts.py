"""Texts read shard by shard give the features, statistics and verdicts of one machine."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clustered
from ragsieve.cluster.executors import ProcessExecutor, SerialExecutor
from ragsieve.cluster.plan import SearchPlan
from ragsieve.cluster.search import search
from ragsieve.cluster.shards import survey
from ragsieve.cluster.texts import learned_texts, paper_texts
from ragsieve.detectors.corpus import CorpusDetector, judged
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusConfig, PaperCorpusRule
from ragsieve.errors import InputError
from ragsieve.features.paper import paper_features
from ragsieve.features.statistics import TokenCounts
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.records import Document, Provenance


def made(folder, documents, rows, cuts):
    """Parquet shards of a corpus."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    bounds = [0, *cuts, len(documents)]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        mine = documents[start:stop]
        table = {
            "id": pa.array([one.id for one in mine], pa.string()),
            "text": pa.array([one.text for one in mine], pa.string()),
            "title": pa.array([one.title or None for one in mine], pa.string()),
            "source": pa.array([one.provenance.source for one in mine], pa.string()),
            "created": pa.array([one.provenance.created for one in mine], pa.string()),
            "embedding": pa.array(list(rows[start:stop]), pa.list_(pa.float64())),
        }
        pq.write_table(pa.table(table), folder / f"{number:03d}.parquet")
    return survey(folder)


def corpus(size, seed=4):
    """Clustered texts with numbers, sources, dates, copies, mixed scripts, hidden characters."""
    rng = np.random.default_rng(seed)
    texts, rows = clustered(rng, size)
    for row in range(0, size, 9):
        texts[row] += f" in {1900 + row}\u200b"
    texts[1] = "Who? " + texts[1]
    declared = [
        Provenance(source=f"s{rng.integers(3)}", created=f"2024-01-{1 + row % 28:02d}")
        if row % 3
        else Provenance()
        for row in range(size)
    ]
    return [
        Document(f"d{row}", text, "Bridges" if row % 4 == 0 else "", origin)
        for row, (text, origin) in enumerate(zip(texts, declared, strict=True))
    ], rows


def learned(shards, rule, executor=SerialExecutor(), memory=None):
    return learned_texts(
        shards,
        rule.read,
        executor,
        max_characters=rule.max_characters,
        pair_memory_bytes=memory or rule.config.pair_memory_bytes,
    )


def assert_same_ragged(one, other):
    assert np.array_equal(one.values, other.values)
    assert one.values.dtype == other.values.dtype
    assert np.array_equal(one.offsets, other.offsets)


def assert_as_one_machine(found, documents, rule, memory):
    vocabulary = Vocabulary()
    contents = [one.content[: rule.max_characters] for one in documents]
    features = rule.read(contents, vocabulary, [one.provenance for one in documents])
    counts = TokenCounts.empty(memory).extended(vocabulary.tokens, features.tokens)
    assert found.document_ids == tuple(one.id for one in documents)
    assert_same_ragged(found.features.tokens, features.tokens)
    assert_same_ragged(found.features.words, features.words)
    for name in ("questions", "mixing", "hidden"):
        assert np.array_equal(getattr(found.features, name), getattr(features, name))
    assert found.features.origins.sources == features.origins.sources
    assert found.features.origins.authors == features.origins.authors
    assert np.array_equal(found.features.origins.days, features.origins.days, equal_nan=True)
    assert found.counts.vocabulary == counts.vocabulary
    assert found.counts.documents == counts.documents
    assert np.array_equal(found.counts.frequencies, counts.frequencies)
    assert found.counts.pairs.exact == counts.pairs.exact
    own, other = found.counts.pairs.arrays(), counts.pairs.arrays()
    assert own.keys() == other.keys()
    for name, array in own.items():
        assert np.array_equal(array, other[name])
        assert array.dtype == other[name].dtype


# The same tokens again and again; figures, of which all but the derived 0 are ordinary tokens.
TEXTS = st.lists(
    st.sampled_from(["a", "b", "0", "7", "12", "?", "词", "Привет", "x1", "\u200b"]), max_size=8
).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=9),
    memory=st.sampled_from([1 << 20, 64]),
    data=st.data(),
)
def test_features_and_counts_are_those_of_one_machine(tmp_path_factory, texts, memory, data):
    documents = [Document(f"d{row}", text) for row, text in enumerate(texts)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=3)))
    rows = np.ones((len(texts), 2))
    shards = made(tmp_path_factory.getbasetemp() / "texts", documents, rows, cuts)
    rule = DefaultCorpusRule(DefaultCorpusConfig(max_characters=12))
    assert_as_one_machine(learned(shards, rule, memory=memory), documents, rule, memory)


def test_long_texts_are_cut_as_on_one_machine(tmp_path):
    documents = [
        Document("a", "word " * 700 + "end 3"),
        Document("b", "short 4 0"),
        Document("c", "3"),
    ]
    shards = made(tmp_path / "s", documents, np.ones((3, 2)), [1, 2])
    rule = DefaultCorpusRule()
    assert_as_one_machine(learned(shards, rule), documents, rule, rule.config.pair_memory_bytes)
    short = DefaultCorpusRule(DefaultCorpusConfig(max_characters=20))
    assert learned(shards, short).truncated_characters.tolist() == [3485, 0, 0]


def test_paper_features_say_the_same_of_every_text(tmp_path):
    documents, rows = corpus(40)
    shards = made(tmp_path / "s", documents, rows, [13, 30])
    found = paper_texts(shards, SerialExecutor(), max_characters=1000)
    expected = paper_features([one.content for one in documents], Vocabulary())
    assert_same_ragged(found.features.words, expected.words)
    assert np.array_equal(found.features.integrity, expected.integrity)


def assert_same_scan(found, expected):
    assert found.document_ids == expected.document_ids
    assert found.decisions == expected.decisions
    assert found.levels == expected.levels
    assert np.array_equal(found.scores, expected.scores)
    assert found.fingerprint == expected.fingerprint
    assert np.array_equal(found.truncated_characters, expected.truncated_characters)
    for one, other in zip(found.evidences, expected.evidences, strict=True):
        assert one.name == other.name
        assert np.array_equal(one.values, other.values, equal_nan=True)
        for (name, column), (known, wanted) in zip(one.components, other.components, strict=True):
            assert name == known
            assert np.array_equal(column, wanted, equal_nan=True)


def test_a_paper_scan_of_shards_is_the_scan(tmp_path):
    executor = SerialExecutor()
    documents, rows = corpus(150)
    shards = made(tmp_path / "s", documents, rows, [60, 61])
    rule = PaperCorpusRule(PaperCorpusConfig(max_characters=60))
    graph = search(SearchPlan(shards, rule.neighbors, 40), executor).graph
    texts = paper_texts(shards, executor, max_characters=rule.max_characters)
    found = judged(
        rule,
        texts.document_ids,
        graph,
        rule.judge(texts.features, graph),
        texts.truncated_characters,
    )
    expected = CorpusDetector(rule).scan(documents, rows)
    assert_same_scan(found, expected)
    assert expected.flagged_ids


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(2)], ids=["serial", "two"])
def test_a_default_scan_of_shards_is_the_scan(tmp_path, executor):
    documents, rows = corpus(150)
    shards = made(tmp_path / "s", documents, rows, [60, 61])
    rule = DefaultCorpusRule()
    graph = search(SearchPlan(shards, rule.neighbors, 40), executor).graph
    texts = learned(shards, rule, executor)
    knowledge = rule.learn(texts.features, texts.counts, graph)
    measured = rule.judge([one.content for one in documents], knowledge)
    found = judged(rule, texts.document_ids, graph, measured, texts.truncated_characters)
    expected = CorpusDetector(rule).scan(documents, rows)
    assert_same_scan(found, expected)
    assert expected.flagged_ids
    own, other = knowledge.statistics, expected.knowledge.statistics
    for name in ("alien_share", "gap", "run_nats", "question_share", "everyday", "documents"):
        assert getattr(own, name) == getattr(other, name)
    assert own.habits.source == other.habits.source
    assert np.array_equal(own.habits.days_apart, other.habits.days_apart)


def test_an_id_in_two_shards_is_refused(tmp_path):
    documents = [Document("a", "one"), Document("a", "two")]
    shards = made(tmp_path / "s", documents, np.ones((2, 2)), [1])
    with pytest.raises(InputError, match="'a' stands in the shards twice"):
        paper_texts(shards, SerialExecutor(), max_characters=10)


def test_shards_without_texts_are_refused(tmp_path):
    np.save(tmp_path / "e.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match="columns id and text"):
        paper_texts(survey(tmp_path / "e.npy"), SerialExecutor(), max_characters=10)


def test_progress_counts_texts(tmp_path):
    documents, rows = corpus(20)
    seen = []
    shards = made(tmp_path / "s", documents, rows, [5])
    paper_texts(shards, SerialExecutor(), max_characters=10, progress=seen.append)
    assert seen == [5, 15]
