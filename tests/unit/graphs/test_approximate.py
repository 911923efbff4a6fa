"""Approximate graphs: exact similarities, honest recall, the laws of a graph."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from ragsieve.errors import ConfigError, EmbeddingError, MissingExtraError
from ragsieve.evidence.knn import cosine_knn, unit_graph, unit_rows
from ragsieve.evidence.shortlist import exact_similarities
from ragsieve.graphs.approximate import ApproximateConfig, approximate_graph
from ragsieve.graphs.partition import partitioned
from ragsieve.graphs.recall import Recall, recall_of, sampled_rows
from ragsieve.records import NeighborGraph

SIZE, K = 3000, 16


@pytest.fixture(scope="module")
def rows():
    """Forty clusters of unequal sizes, a twentieth of uniform rows, and copies."""
    rng = np.random.default_rng(7)
    weight = 1 / np.arange(1.0, 41)
    mine = rng.choice(40, SIZE, p=weight / weight.sum())
    made = rng.normal(size=(40, 32))[mine] + 0.6 * rng.normal(size=(SIZE, 32))
    made[rng.random(SIZE) < 0.05] = 0
    empty = ~made.any(axis=1)
    made[empty] = rng.normal(size=(empty.sum(), 32))
    made[200:260] = made[200]
    return made


@pytest.fixture(scope="module", params=["ivf", "hnsw"])
def found(request, rows):
    return approximate_graph(rows, K, ApproximateConfig(method=request.param, sample_rows=400))


def test_similarities_are_those_of_the_exact_search(rows, found):
    unit = unit_rows(rows)
    line = np.repeat(np.arange(SIZE), K)
    exact = exact_similarities(unit, unit, line, found.graph.indices.ravel())
    assert (exact == found.graph.similarities.ravel()).all()


def test_it_keeps_the_laws_of_a_graph(found):
    indices, similarities = found.graph.indices, found.graph.similarities
    assert indices.shape == (SIZE, K)
    assert (indices != np.arange(SIZE)[:, None]).all()
    assert all(len(set(line)) == K for line in indices.tolist())
    assert ((indices >= 0) & (indices < SIZE)).all()
    step = np.diff(similarities, axis=1)
    assert (step <= 0).all()
    # Ties by index.
    assert (np.diff(indices, axis=1)[step == 0] > 0).all()


def test_the_estimate_agrees_with_the_whole_truth(rows, found):
    whole = recall_of(found.graph, cosine_knn(rows, K))
    assert whole.share >= 0.98
    assert found.recall.low - 0.01 <= whole.share <= found.recall.high + 0.01
    assert found.recall.sampled_rows == 400
    assert found.reached == (found.recall.share >= 0.99)


def test_it_says_how_it_was_made(found):
    words = str(found)
    assert words.startswith(f"approximate neighbours ({found.method}: ")
    assert f"recall@16 {found.recall.share:.4f}" in words
    assert "on 400 rows" in words
    assert all(name in words for name, _ in found.parameters)


def test_copies_find_each_other(rows, found):
    assert found.graph.indices[230].tolist() == list(range(200, 216))
    assert found.graph.indices[200].tolist() == list(range(201, 217))


def test_the_same_seed_gives_the_same_graph(rows):
    first, second = (approximate_graph(rows, 4, ApproximateConfig(seed=3)) for _ in range(2))
    assert (first.graph.indices == second.graph.indices).all()
    assert first.recall == second.recall
    assert first.parameters == second.parameters


def test_it_looks_at_a_part_of_the_pairs_and_says_which(rows):
    easy = approximate_graph(rows, K, ApproximateConfig(target_recall=0.7))
    hard = approximate_graph(rows, K, ApproximateConfig(target_recall=0.999))
    shares = [dict(one.parameters)["pairs_examined_share"] for one in (easy, hard)]
    assert 0 < shares[0] < shares[1] < 1
    assert easy.recall.share < hard.recall.share


def test_below_the_target_is_said(found):
    poor = dataclasses.replace(found, recall=Recall(0.98, 0.97, 0.985, K, 400))
    assert not poor.reached
    assert str(poor).endswith(
        "recall@16 0.9800 [0.9700, 0.9850] on 400 rows, below the target 0.99"
    )


@pytest.mark.parametrize("size", [1, 2, 17, 150])
def test_a_small_corpus_is_searched_exactly(size):
    rows = np.random.default_rng(2).normal(size=(size, 5))
    made, exact = approximate_graph(rows, K), cosine_knn(rows, K)
    assert made.graph.indices.tolist() == exact.indices.tolist()
    assert (made.method, made.recall.share) == ("exact", 1.0)


def test_thousands_of_copies_of_few_rows():
    rows = np.random.default_rng(2).normal(size=(40, 5))[np.arange(4000) % 40]
    made, exact = approximate_graph(rows, 3), cosine_knn(rows, 3)
    assert (made.graph.indices == exact.indices).all()


def test_every_row_meets_enough_others(rows):
    unit = unit_rows(rows)
    partition = partitioned(unit, 60, seed=0)
    sizes = partition.sizes
    assert sizes.sum() == SIZE
    # Without a margin a row looks into its own list, and further only for want of rows.
    met = sizes[partition.list_of].copy()
    for number, asking in partition.probes(unit, slice(0, SIZE), 0.0, K):
        assert (partition.list_of[asking] != number).all()
        met[asking] += sizes[number]
    assert met.min() > K


def test_recall_by_hand():
    exact = NeighborGraph(np.zeros((2, 4), np.int64), np.array([[0.9, 0.8, 0.7, 0.6]] * 2))
    # The first row misses the third neighbour; in the second another at .6 is as good.
    found = NeighborGraph(
        np.ones((2, 4), np.int64), np.array([[0.9, 0.8, 0.6, 0.5], [0.9, 0.8, 0.7, 0.6]])
    )
    recall = recall_of(found, exact)
    assert recall.share == 0.875
    assert 0 < recall.low < 0.875 < recall.high <= 1
    assert (recall.k, recall.sampled_rows) == (4, 2)
    full = recall_of(exact, exact)
    # Wilson for 2 of 2: 2 / (2 + 1.96^2).
    assert (full.share, full.high) == (1.0, 1.0)
    assert full.low == pytest.approx(2 / (2 + 1.959964**2))


def test_more_rows_make_a_narrower_interval():
    rng = np.random.default_rng(0)
    exact = NeighborGraph(np.zeros((4000, 8), np.int64), np.ones((4000, 8)))
    found = NeighborGraph(exact.indices, 1.0 - (rng.random((4000, 8)) < 0.02))
    wide, narrow = (
        recall_of(
            NeighborGraph(found.indices[:n], found.similarities[:n]),
            NeighborGraph(exact.indices[:n], exact.similarities[:n]),
        )
        for n in (200, 4000)
    )
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3
    assert narrow.low < 0.98 < narrow.high


def test_a_sample_has_no_row_twice():
    rows = sampled_rows(50, 80, np.random.default_rng(0))
    assert rows.tolist() == list(range(50))
    assert len(set(sampled_rows(50, 20, np.random.default_rng(0)).tolist())) == 20


@pytest.mark.parametrize(
    ("field", "value"),
    [("method", "flat"), ("target_recall", 1.0), ("target_recall", 0.0), ("sample_rows", 1)],
)
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        ApproximateConfig(**{field: value})


def test_unusable_rows_are_refused():
    rows = np.ones((300, 4))
    rows[5, 0] = np.nan
    with pytest.raises(EmbeddingError, match="row 5"):
        approximate_graph(rows, 4)
    with pytest.raises(ValueError, match="at least 1"):
        approximate_graph(np.ones((3, 2)), 0)


def test_without_faiss_the_extra_is_named(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"ragsieve\[approximate\]"):
        approximate_graph(rows, 4)


def test_a_memory_mapped_file_will_do(tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows.astype(np.float16))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    seen = []
    made = approximate_graph(mapped, 4, ApproximateConfig(sample_rows=200), progress=seen.append)
    sample = np.arange(0, SIZE, 100)
    exact = unit_graph(unit_rows(mapped), 4, rows=sample)
    assert (
        recall_of(
            NeighborGraph(made.graph.indices[sample], made.graph.similarities[sample]), exact
        ).share
        > 0.95
    )
    assert sum(seen) == SIZE
