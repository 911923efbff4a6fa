"""TrustRAG stage 1: the gate, its four outcomes, and lists that break the published code."""

from __future__ import annotations

import numpy as np
import pytest

from ragsieve.lab.comparators.trustrag import TrustRag, dropped, repeated, split

ZERO, ONE = [1, 0, 0], [0, 1, 0]


def never(left, right):
    return False


def unit(*rows):
    array = np.array(rows, dtype=float)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


LOOSE = ([1, 0, 0], [0.5, 0.8, 0.3])
TIGHT = ([0, 0, 1], [0, 0.1, 1])
TIGHT_TOO = ([1, 0, 0], [1, 0.1, 0])


@pytest.mark.parametrize("swap", [False, True])
class TestTwoClusters:
    def groups(self, swap):
        return np.array([1, 1, 0, 0] if swap else [0, 0, 1, 1])

    def test_both_tight_drops_all(self, swap):
        assert dropped(unit(*TIGHT, *TIGHT_TOO), self.groups(swap), never, 0.88) == {0, 1, 2, 3}

    def test_one_tight_drops_it(self, swap):
        assert dropped(unit(*TIGHT, *LOOSE), self.groups(swap), never, 0.88) == {0, 1}

    def test_one_tight_drops_it_and_what_repeats_in_the_other(self, swap):
        found = dropped(
            unit(*LOOSE, *TIGHT), self.groups(swap), lambda a, b: {a, b} == {0, 1}, 0.88
        )
        assert found == {0, 1, 2, 3}

    def test_none_tight_drops_repeats_within_each(self, swap):
        rows = unit(*LOOSE, [0, 0, 1], [0, 0.9, 0.5])
        assert dropped(rows, self.groups(swap), never, 0.88) == set()
        assert dropped(rows, self.groups(swap), lambda a, b: {a, b} == {2, 3}, 0.88) == {2, 3}
        # Texts that repeat each other across clusters are left alone.
        assert dropped(rows, self.groups(swap), lambda a, b: {a, b} == {1, 2}, 0.88) == set()


@pytest.mark.parametrize("swap", [False, True])
class TestSingleton:
    def groups(self, swap):
        return np.array([1, 0, 0] if swap else [0, 1, 1])

    def test_beside_a_tight_cluster_it_stays(self, swap):
        assert dropped(unit([1, 0, 0], *TIGHT), self.groups(swap), never, 0.88) == {1, 2}

    def test_beside_a_loose_cluster_it_goes(self, swap):
        assert dropped(unit([0, 0, 1], *LOOSE), self.groups(swap), never, 0.88) == {0}

    def test_near_a_tight_cluster_all_goes(self, swap):
        assert dropped(unit([0, 0.2, 1], *TIGHT), self.groups(swap), never, 0.88) == {0, 1, 2}


def test_two_singletons_keep_the_first_cluster():
    assert dropped(unit(ZERO, ONE), np.array([0, 1]), never, 0.88) == {1}
    assert dropped(unit(ZERO, ONE), np.array([1, 0]), never, 0.88) == {0}


def test_the_n_gram_filter_by_hand():
    pairs = {(0, 1), (0, 3), (2, 4)}

    def alike(left, right):
        return left == right or (min(left, right), max(left, right)) in pairs

    # 0 takes 1 with it; 2 takes 4; 3 repeats 0, the first hit.
    assert repeated([0, 1, 2, 3, 4], alike) == {0, 1, 2, 3, 4}
    assert repeated([1, 2, 4], alike) == {2, 4}
    assert repeated([1, 2, 3], alike) == set()


def test_without_a_repeating_pair_nothing_is_touched(view_of, table_embedder):
    embedder = table_embedder({})
    view = view_of(["river stone", "bridge market", "winter archive"])
    assert TrustRag(embedder).scores(view) == [0.0, 0.0, 0.0]
    assert embedder.seen == []


def test_the_gate_is_above_a_quarter(view_of):
    # Four words against four with one in common: ROUGE-L is 0.25 exactly, which is not above.
    quarter = ["river aa bb cc", "river dd ee ff", "gg hh"]
    above = ["river aa bb", "river dd ee ff", "gg hh"]
    rows = [[1, 0, 0], [1, 0.01, 0], [0, 0, 1]]
    assert TrustRag().scores(view_of(quarter, rows=rows)) == [0.0, 0.0, 0.0]
    assert TrustRag().scores(view_of(above, rows=rows)) == [1.0, 1.0, 0.0]


def test_five_documents_with_three_alike(view_of):
    texts = ["the bridge was built by a mason in spring"] * 3 + ["river stone", "winter market"]
    rows = [[1, 0.02, 0], [1, 0, 0.02], [1, 0, 0], [0, 1, 0], [0, 0.6, 0.8]]
    assert TrustRag().scores(view_of(texts, rows=rows)) == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_copies_throughout_are_one_tight_cluster(view_of):
    found = TrustRag().scores(view_of(["same words here"] * 4, rows=[[0.6, 0.8, 0]] * 4))
    assert found == [1.0] * 4


def test_the_split_is_that_of_the_library():
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    rows = unit(*np.random.default_rng(1).normal(size=(6, 5)))
    scaled = StandardScaler().fit_transform(rows)
    scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    labels = KMeans(n_clusters=2, n_init=10, max_iter=500, random_state=0).fit(scaled).labels_
    assert split(rows).tolist() == labels.tolist()
    assert split(rows).tolist() == split(rows).tolist()


def test_without_vectors_it_is_unavailable(view_of, table_embedder):
    view = view_of(["same words here"] * 2)
    evidence = TrustRag().measure([view])[0][0][0]
    assert evidence.value is None
    assert "no embeddings" in evidence.reason
    failing = TrustRag(table_embedder({}, failing=True)).measure([view])[0][0][0]
    assert failing.value is None
    assert "told to fail" in failing.reason
