"""Neighbours are exact, and depend on nothing but the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clustered
from ragsieve.errors import EmbeddingError
from ragsieve.evidence import knn
from ragsieve.evidence.knn import cosine_knn, nearest_rows, unit_rows

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 100_000)


def brute(rows, k):
    """By sorting every row's exact similarities, ties by index."""
    unit = unit_rows(rows).astype(np.float64)
    near = []
    for row in range(len(unit)):
        exact = np.clip(np.einsum("ij,j->i", unit, unit[row], optimize=False), -1.0, 1.0)
        others = [j for j in range(len(unit)) if j != row]
        order = sorted(others, key=lambda j: (-exact[j], j))[:k]
        near.append((order, exact[order].tolist()))
    return near


@few
@given(seeds, st.integers(1, 70), st.integers(1, 20))
def test_exactly_what_sorting_everything_gives(seed, size, k):
    # Clusters hold exact copies too.
    _, rows = clustered(np.random.default_rng(seed), size, dimension=9)
    graph = cosine_knn(rows, k)
    assert graph.k == min(k, size - 1)
    assert len(graph) == size
    for row, (indices, similarities) in enumerate(brute(rows, k)):
        assert graph.indices[row].tolist() == indices
        assert graph.similarities[row].tolist() == similarities


@few
@given(seeds, st.integers(2, 50))
def test_a_pair_has_one_similarity(seed, size):
    _, rows = clustered(np.random.default_rng(seed), size, dimension=7)
    graph = cosine_knn(rows, size - 1)
    full = np.full((size, size), np.nan)
    np.put_along_axis(full, graph.indices, graph.similarities, axis=1)
    np.fill_diagonal(full, 1.0)
    assert not np.isnan(full).any()
    assert (full == full.T).all()
    assert np.abs(full).max() <= 1.0


@few
@given(seeds, st.integers(2, 60))
def test_reordering_the_corpus_reorders_the_graph(seed, size):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, 8))
    order = rng.permutation(size)
    first, second = cosine_knn(rows, 6), cosine_knn(rows[order], 6)
    assert (first.similarities[order] == second.similarities).all()
    assert (first.indices[order] == order[second.indices]).all()


@few
@given(seeds, st.floats(1e-30, 1e30))
def test_length_means_nothing(seed, factor):
    rows = np.random.default_rng(seed).normal(size=(30, 6))
    plain, scaled = cosine_knn(rows, 5), cosine_knn(rows * factor, 5)
    assert scaled.similarities == pytest.approx(plain.similarities, abs=1e-6)


def test_the_block_size_changes_nothing(monkeypatch):
    _, rows = clustered(np.random.default_rng(4), 90)
    whole = cosine_knn(rows, 16)
    monkeypatch.setattr(knn, "BLOCK_BYTES", 4 * 7 * 7)
    seen = []
    pieces = cosine_knn(rows, 16, progress=seen.append)
    assert sum(seen) == 90
    assert len(seen) > 10
    assert (whole.indices == pieces.indices).all()
    assert (whole.similarities == pieces.similarities).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_copies_are_at_one_in_every_dtype(dtype):
    rows = np.tile(np.random.default_rng(2).normal(size=(3, 5)), (2, 1)).astype(dtype)
    graph = cosine_knn(rows, 1)
    assert graph.indices[:, 0].tolist() == [3, 4, 5, 0, 1, 2]
    assert graph.similarities[:, 0] == pytest.approx(np.ones(6), abs=1e-6)
    assert graph.similarities.max() <= 1.0


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.complex128, object])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(EmbeddingError, match="floating point"):
        cosine_knn(np.ones((3, 2)).astype(dtype), 1)


def test_the_first_unusable_row_is_named_across_blocks(monkeypatch):
    monkeypatch.setattr(knn, "BLOCK_BYTES", 8 * 3 * 4)
    rows = np.ones((20, 3))
    rows[13, 1] = np.nan
    rows[17] = 0.0
    with pytest.raises(EmbeddingError, match=r"row 13 \(from 0\) holds NaN"):
        cosine_knn(rows, 2)
    rows[13, 1] = 1.0
    with pytest.raises(EmbeddingError, match=r"row 17 \(from 0\) is all zeros"):
        cosine_knn(rows, 2)


@pytest.mark.parametrize("size", [0, 1])
def test_a_corpus_without_neighbours(size):
    graph = cosine_knn(np.ones((size, 3)), 16)
    assert graph.indices.shape == (size, 0)
    assert graph.k == 0


def test_at_least_one_neighbour_must_be_wanted():
    with pytest.raises(ValueError, match="at least 1"):
        cosine_knn(np.ones((3, 2)), 0)


@few
@given(seeds, st.integers(1, 40))
def test_retrieval_agrees_with_the_graph(seed, size):
    rows = np.random.default_rng(seed).normal(size=(size, 6))
    indices, similarities = nearest_rows(rows, rows, 5)
    assert indices.shape == (size, min(5, size))
    # A row's nearest row is itself; the rest are its neighbours in the graph.
    assert indices[:, 0].tolist() == list(range(size))
    assert similarities[:, 0] == pytest.approx(np.ones(size), abs=1e-6)
    graph = cosine_knn(rows, 4)
    assert (indices[:, 1:] == graph.indices).all()


def test_queries_of_another_dimension_are_refused():
    with pytest.raises(EmbeddingError, match="dimension 3, documents 2"):
        nearest_rows(np.ones((1, 3)), np.ones((4, 2)), 1)


def test_hundreds_of_near_copies_have_exact_neighbours():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=32)[None] + 1e-3 * rng.normal(size=(600, 32))
    graph = cosine_knn(rows, 16)
    assert [near for near, _ in brute(rows, 16)] == graph.indices.tolist()
