"""Laws that hold for any input: tails, neighbours, the scan under permutation and addition."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clustered, documents, ranking
from ragsieve import records
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import EmbeddingError
from ragsieve.evidence.knn import cosine_knn
from ragsieve.evidence.tails import corpus_tail, simes, upper_tail
from ragsieve.records import Document, Provenance

numbers = st.floats(-1e6, 1e6, allow_nan=False)
samples = st.lists(numbers, min_size=1, max_size=30)
some = settings(max_examples=60, deadline=None)
few = settings(max_examples=12, deadline=None)


@some
@given(numbers, numbers, samples)
def test_upper_tail_is_bounded_and_monotone(one, other, reference):
    low, high = sorted((one, other))
    bounds = 0.5 / (len(reference) + 1), (len(reference) + 0.5) / (len(reference) + 1)
    assert bounds[0] <= upper_tail(high, reference) <= upper_tail(low, reference) <= bounds[1]


@some
@given(samples)
def test_corpus_tail_orders_as_the_values_do(values):
    array = np.array(values)
    tail = corpus_tail(array)
    assert (tail >= 1 / (len(values) + 1)).all()
    assert (tail <= len(values) / (len(values) + 1)).all()
    order = np.argsort(array, kind="stable")
    assert (np.diff(tail[order]) <= 0).all()


@some
@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=20))
def test_simes_lies_between_the_smallest_and_bonferroni(values):
    combined = simes(values)
    assert min(values) * 0.999999 <= combined <= min(1.0, len(values) * min(values)) * 1.000001


@few
@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 20))
def test_neighbour_graph_laws(seed, size, k):
    _, rows = clustered(np.random.default_rng(seed), size)
    graph = cosine_knn(rows, k)
    assert graph.k == min(k, size - 1)
    assert not (graph.indices == np.arange(size)[:, None]).any()
    assert (np.diff(graph.similarities, axis=1) <= 0).all()
    seen = {}
    for row in range(size):
        near = graph.indices[row].tolist()
        assert len(set(near)) == len(near)
        pairs = list(zip(graph.similarities[row].tolist(), near, strict=True))
        assert pairs == sorted(pairs, key=lambda p: (-p[0], p[1]))
        for other, similarity in zip(near, graph.similarities[row].tolist(), strict=True):
            assert seen.setdefault(frozenset((row, other)), similarity) == similarity


def test_ties_are_broken_by_index_among_many_copies():
    rows = np.tile(np.random.default_rng(0).normal(size=8), (700, 1))
    graph = cosine_knn(rows, 4)
    assert graph.indices[0].tolist() == [1, 2, 3, 4]
    assert graph.indices[699].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_float_dtype(dtype):
    rows = np.random.default_rng(1).normal(size=(30, 6)).astype(dtype)
    graph = cosine_knn(rows, 5)
    unit = rows.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    full = unit @ unit.T
    np.fill_diagonal(full, -2)
    assert graph.similarities == pytest.approx(np.sort(full, axis=1)[:, ::-1][:, :5], abs=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_unusable_rows_are_refused_by_number(bad):
    rows = np.ones((5, 3))
    rows[3] = bad
    with pytest.raises(EmbeddingError, match="row 3"):
        cosine_knn(rows, 2)


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((3, 0)), np.ones((3, 2), dtype=int)])
def test_unusable_shapes_are_refused(bad):
    with pytest.raises(EmbeddingError, match="expected"):
        cosine_knn(bad, 1)


@few
@given(st.integers(0, 10_000))
def test_scores_do_not_depend_on_the_order_of_the_corpus(seed):
    rng = np.random.default_rng(seed)
    # Distinct vectors: among exact copies the neighbour with the lower index is taken by law.
    texts, _ = clustered(rng, 80)
    rows = rng.normal(size=(8, 16))[rng.integers(8, size=80)] + 0.2 * rng.normal(size=(80, 16))
    order = rng.permutation(80)
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    shuffled = CorpusDetector("paper").scan(documents([texts[i] for i in order]), rows[order])
    assert shuffled.scores.tolist() == scan.scores[order].tolist()


@few
@given(st.integers(0, 10_000))
def test_a_far_document_moves_scores_only_through_the_size(seed):
    rng = np.random.default_rng(seed)
    texts, rows = clustered(rng, 60)
    wide = np.hstack([rows, np.zeros((60, 1))])
    far = np.zeros((1, wide.shape[1]))
    far[0, -1] = 1.0
    before = dict(
        CorpusDetector("paper").scan(documents(texts), wide).column("topology_score").components
    )
    after = dict(
        CorpusDetector("paper")
        .scan(documents([*texts, "plain far away text"]), np.vstack([wide, far]))
        .column("topology_score")
        .components
    )
    # Neighbourhoods with a negative last similarity would let the far document in.
    graph = cosine_knn(wide, 16)
    inside = graph.similarities[:, -1] > 0
    assert (before["density_contrast"][inside] == after["density_contrast"][:60][inside]).all()
    if inside.all():
        counts = before["upper_tail_probability"] * 61
        moved = after["upper_tail_probability"][:60] * 62 - counts
        assert np.isin(np.round(moved, 6), [0.0, 1.0]).all()


@few
@given(st.integers(0, 10_000))
def test_ids_and_metadata_move_nothing(seed):
    rng = np.random.default_rng(seed)
    texts, rows = clustered(rng, 40)
    plain = documents(texts)
    dressed = [
        Document(
            f"x{40 - row}", one.text, provenance=Provenance(str(rng.random()), "a", "t", "1", "now")
        )
        for row, one in enumerate(plain)
    ]
    assert (
        CorpusDetector("paper").scan(plain, rows).scores.tolist()
        == CorpusDetector("paper").scan(dressed, rows).scores.tolist()
    )
    first = QueryDetector("paper").score(ranking(texts[:20]))
    second = QueryDetector("paper").score(
        ranking(texts[:20], ids=[f"poison{i}" for i in range(20)], query_id="z")
    )
    assert [v.score for v in first] == [v.score for v in second]


def test_no_runtime_record_can_hold_a_label():
    forbidden = ("poison", "label", "target", "correct", "attack")
    found = [
        (kind.__name__, field.name)
        for kind in vars(records).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        for field in dataclasses.fields(kind)
        if any(word in field.name for word in forbidden)
    ]
    assert found == []
