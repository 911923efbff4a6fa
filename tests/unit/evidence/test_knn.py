"""Exact neighbours stay exact where candidates crowd, copies abound and memory is short."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clustered
from ragsieve.evidence import knn, shortlist
from ragsieve.evidence.copies import find_copies
from ragsieve.evidence.knn import cosine_knn, joined_graph, nearest_rows, unit_graph, unit_rows
from ragsieve.evidence.shortlist import exact_similarities
from ragsieve.evidence.tiles import Float32Product
from ragsieve.records import NeighborGraph

few = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 100_000)


def sorted_exactly(unit, row, k):
    """Neighbours of one row by sorting all exact similarities, ties by index."""
    every = np.arange(len(unit))
    exact = exact_similarities(unit, unit, np.full(len(unit), row), every)
    order = np.lexsort((every, -exact))
    order = order[order != row][:k]
    return order.tolist(), exact[order].tolist()


def assert_exact(rows, graph, k, checked):
    unit = unit_rows(rows)
    for row in checked:
        assert (graph.indices[row].tolist(), graph.similarities[row].tolist()) == sorted_exactly(
            unit, row, k
        )


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-7, 3e-8])
def test_a_thousand_near_copies_have_exact_neighbours(spread, monkeypatch):
    rng = np.random.default_rng(0)
    base = rng.normal(size=24)
    rows = np.concatenate(
        [base + spread * rng.normal(size=(1000, 24)), rng.normal(size=(500, 24))]
    )[rng.permutation(1500)]
    monkeypatch.setattr(knn, "BLOCK_BYTES", 4 * 400 * 400)
    assert_exact(rows, cosine_knn(rows, 16), 16, range(0, 1500, 50))


def test_one_side_of_one_is_a_tie():
    # Rounded to float32 unit rows are a little longer or shorter than one: their cosines
    # beyond one are cut to one, and the lower index comes first.
    rng = np.random.default_rng(3)
    rows = rng.normal(size=32) + 1e-7 * rng.normal(size=(900, 32))
    graph = cosine_knn(rows, 5)
    assert (graph.similarities == 1.0).mean() > 0.3
    assert_exact(rows, graph, 5, range(0, 900, 30))


def test_thousands_of_ties_that_are_no_copies(monkeypatch):
    # Rows of two orthogonal planes, on a circle each: as far as float64 sums, hundreds tie at 0.
    monkeypatch.setattr(shortlist, "_PENDING", 1)
    angle = np.linspace(0.01, 1.5, 300)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rows = np.zeros((302, 4))
    rows[:300, :2] = circle
    rows[300, 2] = rows[301, 3] = 1.0
    graph = cosine_knn(rows, 3)
    assert graph.indices[300].tolist() == [0, 1, 2]
    assert graph.similarities[300].tolist() == [0.0, 0.0, 0.0]
    assert_exact(rows, graph, 3, range(302))


class Rough:
    """A product that is off by up to its error."""

    error = 0.05

    def __init__(self, left, right):
        self._fine = Float32Product(left, right)
        self._rng = np.random.default_rng(0)

    def __call__(self, rows, columns):
        tile = self._fine(rows, columns)
        return tile + self._rng.uniform(-0.049, 0.049, tile.shape).astype(np.float32)


@few
@given(seeds, st.integers(1, 150), st.integers(1, 20))
def test_a_rough_product_with_an_honest_bound_changes_nothing(seed, size, k):
    _, rows = clustered(np.random.default_rng(seed), size, dimension=6)
    rough, fine = cosine_knn(rows, k, product=Rough), cosine_knn(rows, k)
    assert (rough.indices == fine.indices).all()
    assert (rough.similarities == fine.similarities).all()


@few
@given(seeds, st.integers(1, 1200))
def test_the_bound_on_float32_products_holds(seed, dimension):
    rng = np.random.default_rng(seed)
    unit = unit_rows(rng.normal(size=(12, dimension)) ** 3)
    product = Float32Product(unit, unit)
    pairs = np.divmod(np.arange(144), 12)
    exact = exact_similarities(unit, unit, *pairs)
    off = np.abs(product(slice(0, 12), slice(0, 12)).ravel().clip(-1, 1) - exact)
    assert off.max() <= product.error


@few
@given(seeds, st.integers(2, 80), st.integers(1, 12), st.integers(3, 40))
def test_small_tiles_and_many_copies(seed, size, k, side):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, size=(size, 3)) + 0.001 * (rng.random((size, 1)) < 0.3)
    rows = rows + 0.01
    before, knn.BLOCK_BYTES = knn.BLOCK_BYTES, 4 * side * side
    try:
        graph = cosine_knn(rows, k)
        wanted = rng.permutation(size)[: size // 2 + 1]
        some = cosine_knn(rows, k, rows=wanted)
        near, _ = nearest_rows(rows, rows, k + 1)
    finally:
        knn.BLOCK_BYTES = before
    assert_exact(rows, graph, min(k, size - 1), range(size))
    assert (some.indices == graph.indices[wanted]).all()
    assert near.shape == (size, min(k + 1, size))
    assert all(len(set(line)) == len(line) for line in near.tolist())


@few
@given(seeds, st.integers(1, 60), st.integers(0, 30), st.integers(1, 8), st.integers(3, 90))
def test_a_grown_corpus_has_the_graph_of_a_fresh_one(seed, old, new, k, side):
    _, rows = clustered(np.random.default_rng(seed), old + new, dimension=5)
    unit = unit_rows(unit_rows(unit_rows(rows)))
    before, knn.BLOCK_BYTES = knn.BLOCK_BYTES, 4 * side * side
    # A graph with more neighbours than wanted will do.
    try:
        joined = joined_graph(unit, cosine_knn(unit[:old], k + 2), k)
    finally:
        knn.BLOCK_BYTES = before
    fresh = cosine_knn(unit, k)
    assert joined.indices.tolist() == fresh.indices.tolist()
    assert joined.similarities.tolist() == fresh.similarities.tolist()


@pytest.mark.parametrize("wanted", [None, np.array([7, 7, 3, 59, 0])])
def test_progress_adds_up_to_the_rows(wanted, monkeypatch):
    monkeypatch.setattr(knn, "BLOCK_BYTES", 4 * 8 * 8)
    _, rows = clustered(np.random.default_rng(8), 60)
    rows[10:40] = rows[10]
    seen = []
    cosine_knn(rows, 4, rows=wanted, progress=seen.append)
    assert sum(seen) == (60 if wanted is None else 5)


def test_memory_is_blocks_not_a_square(tmp_path):
    size = 10_000
    path = tmp_path / "rows.npy"
    np.save(path, np.random.default_rng(0).normal(size=(size, 8)).astype(np.float32))
    rows = np.load(path, mmap_mode="r")
    tracemalloc.start()
    try:
        graph = cosine_knn(rows, 16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(graph) == size
    # All similarities would take 400 MB in float32 alone.
    assert peak < 160e6


def test_copies_are_grouped_by_their_lowest_row():
    unit = unit_rows(np.array([[1.0, 0], [0, 1], [2, 0], [1, 1], [0, 3], [5, 0]]))
    copies = find_copies(unit)
    assert copies.first.tolist() == [0, 1, 3]
    assert copies.group.tolist() == [0, 1, 0, 2, 1, 0]
    assert copies.members.tolist() == [0, 2, 5, 1, 4, 3]
    assert find_copies(unit[[0, 1, 3]]) is None


def test_rows_that_collide_are_no_copies(monkeypatch):
    from ragsieve.evidence import copies

    monkeypatch.setattr(copies, "_marks", lambda unit: np.zeros(len(unit), dtype=np.uint64))
    _, rows = clustered(np.random.default_rng(5), 80, dimension=4)
    graph = cosine_knn(rows, 6)
    assert_exact(rows, graph, 6, range(80))


def test_what_is_handed_in_is_left_alone():
    rows = unit_rows(np.random.default_rng(1).normal(size=(50, 4)))
    rows[10:30] = rows[3]
    before = rows.copy()
    unit_graph(rows, 5)
    cosine_knn(rows, 5)
    assert (rows == before).all()


def test_no_row_asked_for():
    graph = unit_graph(unit_rows(np.ones((3, 2))), 2, rows=np.array([], dtype=np.int64))
    assert isinstance(graph, NeighborGraph)
    assert graph.indices.shape == (0, 2)
