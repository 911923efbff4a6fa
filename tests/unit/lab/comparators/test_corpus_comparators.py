"""CleanBase, hubness, outliers, duplicates and perplexity over an index."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from builders import clustered, documents
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.errors import ConfigError
from ragsieve.evidence.knn import cosine_knn, unit_rows
from ragsieve.lab.comparators.cleanbase import (
    CleanBase,
    CleanBaseConfig,
    CleanBaseTriangle,
    edge_threshold,
    triangle_bottlenecks,
    undirected_edges,
)
from ragsieve.lab.comparators.duplicates import ExactDuplicates, MinHashDuplicates, shingles
from ragsieve.lab.comparators.hubness import (
    Hubness,
    HubnessConfig,
    cluster_spread,
    robust_zscores,
    weighted_hits,
)
from ragsieve.lab.comparators.outliers import (
    IsolationForest,
    LocalOutlierFactor,
    NeighborDistance,
)
from ragsieve.lab.comparators.perplexity import PerplexityIndex
from ragsieve.records import Decision, NeighborGraph

ALL = CleanBaseConfig(neighbors=2, sampled=1.0, deviations=0.0)


def rows_of(size, dimension=8, seed=0):
    return np.random.default_rng(seed).normal(size=(size, dimension))


def index(size=60, seed=0):
    texts, rows = clustered(np.random.default_rng(seed), size)
    return documents(texts), rows


def graph_of(weights, k):
    """The k nearest of each row of a symmetric table of weights."""
    table = np.array(weights, dtype=float)
    np.fill_diagonal(table, -np.inf)
    indices = np.argsort(-table, axis=1, kind="stable")[:, :k]
    return NeighborGraph(indices, np.take_along_axis(table, indices, axis=1))


# Three documents in a triangle of .9, .8 and .7, a fourth that hangs on by .2.
TRIANGLE = graph_of(
    [[0, 0.9, 0.8, 0.2], [0.9, 0, 0.7, 0.1], [0.8, 0.7, 0, 0.1], [0.2, 0.1, 0.1, 0]], 2
)


class TestCleanBase:
    def test_edges_belong_to_either_end(self):
        assert undirected_edges(TRIANGLE) == {
            (0, 1): 0.9, (0, 2): 0.8, (0, 3): 0.2, (1, 2): 0.7, (1, 3): 0.1,
        }  # fmt: skip

    def test_the_threshold_by_hand(self):
        edges = {(0, 1): 0.2, (0, 2): 0.4}
        config = CleanBaseConfig(sampled=1.0)
        assert edge_threshold(edges, config) == pytest.approx(0.3 + 2.5 * 0.1)
        assert edge_threshold({}, config) == math.inf

    def test_the_sample_is_half_and_seeded(self):
        edges = {(0, number): number / 100 for number in range(1, 41)}
        first = edge_threshold(edges, CleanBaseConfig())
        assert first == edge_threshold(edges, CleanBaseConfig())
        assert first != edge_threshold(edges, CleanBaseConfig(seed=1))
        weights = np.random.default_rng(2026).choice(list(edges.values()), 20, replace=False)
        assert first == pytest.approx(weights.mean() + 2.5 * weights.std())

    def test_triangles_by_hand(self):
        found = triangle_bottlenecks(undirected_edges(TRIANGLE), 4)
        # 3 stands in a triangle with 0 and 1, whose weakest edge is .1.
        assert found.tolist() == [0.7, 0.7, 0.7, 0.1]

    @pytest.mark.parametrize("seed", range(5))
    def test_triangles_against_all_triples(self, seed):
        edges = undirected_edges(cosine_knn(rows_of(25, seed=seed), 4))
        best = np.full(25, -np.inf)
        for triple in itertools.combinations(range(25), 3):
            pairs = list(itertools.combinations(triple, 2))
            if all(pair in edges for pair in pairs):
                weakest = min(edges[pair] for pair in pairs)
                for member in triple:
                    best[member] = max(best[member], weakest)
        assert triangle_bottlenecks(edges, 25).tolist() == best.tolist()

    def test_the_score_is_relative_to_the_threshold(self):
        # The mean of .9, .8, .2, .7, .1 is .54.
        found = CleanBaseTriangle(ALL).scores(["a"] * 4, TRIANGLE)
        assert found == pytest.approx([0.7 / 0.54, 0.7 / 0.54, 0.7 / 0.54, 0.1 / 0.54])

    def test_at_the_threshold_is_not_above_it(self):
        graph = graph_of(np.full((3, 3), 0.5), 2)
        assert (CleanBaseTriangle(ALL).scores(["a"] * 3, graph) < 1).all()

    def test_cliques_by_hand(self):
        assert CleanBase(ALL).scores(["a"] * 4, TRIANGLE).tolist() == [1, 1, 1, 0]

    def test_a_clique_that_is_too_large_or_of_copies_escapes(self):
        rows = np.concatenate([rows_of(30), np.tile(rows_of(1, seed=9), (4, 1))])
        graph = cosine_knn(rows, 10)
        config = CleanBaseConfig(sampled=1.0)
        assert CleanBase(config).scores(["a"] * 34, graph)[30:].tolist() == [0, 0, 0, 0]
        assert (CleanBaseTriangle(config).scores(["a"] * 34, graph)[30:] > 1).all()
        near = rows.copy()
        near[30:] += 0.05 * rows_of(4, seed=5)
        graph = cosine_knn(near, 10)
        assert CleanBase(config).scores(["a"] * 34, graph)[30:].tolist() == [1, 1, 1, 1]
        small = CleanBaseConfig(sampled=1.0, largest=3)
        assert CleanBase(small).scores(["a"] * 34, graph)[30:].tolist() == [0, 0, 0, 0]

    @pytest.mark.parametrize("seed", range(4))
    def test_both_agree_where_no_clique_is_exempt(self, seed):
        rows = rows_of(60, seed=seed)
        rows[:5] = rows[5] + 0.2 * rows_of(5, seed=seed + 50)
        graph = cosine_knn(rows, 10)
        config = CleanBaseConfig(largest=1000)
        cliques = CleanBase(config).scores(["a"] * 60, graph)
        triangles = CleanBaseTriangle(config).scores(["a"] * 60, graph)
        assert (triangles >= 1).tolist() == (cliques == 1).tolist()

    def test_a_graph_that_is_too_shallow_is_said_so(self):
        graph = cosine_knn(rows_of(30), 5)
        column = CleanBase().measure(["a"] * 30, graph, ()).columns[0]
        assert np.isnan(column.values).all()
        assert "5 neighbours a document, 10 are needed" in column.reason

    def test_tiny_corpora(self):
        for size in (1, 2):
            scan = CorpusDetector(CleanBase()).scan(documents(["a"] * size), rows_of(size))
            assert scan.scores.tolist() == [0.0] * size


class TestHubness:
    def test_hits_by_hand(self):
        found = np.array([[0, 1], [0, 2]])
        cosines = np.array([[0.8, 0.6], [0.5, -0.2]])
        assert weighted_hits(found, cosines, 4) == pytest.approx([1.3 / 2, 0.3 / 2, 0.0, 0.0])

    def test_zscores_by_hand(self):
        # Median 2; absolute differences 1, 1, 0, 0, 8: their median is 1.
        found = robust_zscores(np.array([1.0, 3.0, 2.0, 2.0, 10.0]))
        unit = 1.4826
        assert found == pytest.approx([-1 / unit, 1 / unit, 0, 0, 8 / unit])

    def test_without_spread_all_are_zero_and_far_values_are_clipped(self):
        assert robust_zscores(np.array([1.0, 1.0, 1.0, 9.0])).tolist() == [0, 0, 0, 0]
        assert robust_zscores(np.array([0.0, 1.0, 2.0, 1e9])).max() == 100.0

    def test_spread_by_hand(self):
        # Document 0 is hit once by each of two clusters, 1 three times by one, 2 never.
        found = np.array([[0, 1], [0, 1], [1, 3]])
        spread = cluster_spread(found, np.array([0, 1, 1]), 4)
        thirds = -(1 / 3 * math.log(1 / 3) + 2 / 3 * math.log(2 / 3)) / math.log(2)
        assert spread == pytest.approx([1.0, thirds, 0.0, 0.0])
        assert cluster_spread(found, np.zeros(3, dtype=int), 4).tolist() == [0, 0, 0, 0]

    def test_a_hub_stands_out(self):
        # Around a common direction, that direction is near everything.
        rows = rows_of(300, dimension=24) + 0.8
        rows[7] = unit_rows(rows).mean(axis=0)
        scan = CorpusDetector(Hubness(rows, HubnessConfig(probes=200))).scan(
            documents(["a"] * 300), rows
        )
        assert int(np.argmax(scan.scores)) == 7
        assert scan.decisions[7] is Decision.FLAGGED
        components = dict(scan.column("ahd").components)
        assert components["hub_z"][7] >= 6
        flagged = np.array([one is Decision.FLAGGED for one in scan.decisions])
        high = components["hub_risk"] >= np.percentile(components["hub_risk"], 99.9)
        assert flagged.tolist() == (high | (components["hub_z"] >= 6)).tolist()
        assert (scan.scores >= 0).all()

    def test_the_same_seed_gives_the_same_numbers(self):
        rows = rows_of(80)
        config = HubnessConfig(probes=40)
        graph = cosine_knn(rows, 5)
        first = Hubness(rows, config).scores(["a"] * 80, graph)
        assert first.tolist() == Hubness(rows, config).scores(["a"] * 80, graph).tolist()
        other = Hubness(rows, HubnessConfig(probes=40, seed=1)).scores(["a"] * 80, graph)
        assert first.tolist() != other.tolist()

    def test_copies_and_tiny_corpora(self):
        for size in (2, 3, 12):
            rows = np.tile(rows_of(1), (size, 1))
            scan = CorpusDetector(Hubness(rows)).scan(documents(["a"] * size), rows)
            assert np.isfinite(scan.scores).all()
        lone = CorpusDetector(Hubness(rows_of(1))).scan(documents(["a"]), rows_of(1))
        assert lone.decisions == (Decision.UNDECIDED,)

    def test_rows_of_another_corpus_are_refused(self):
        with pytest.raises(ConfigError, match=r"one embedding row a document \(4\), found 5"):
            Hubness(rows_of(5)).scores(["a"] * 4, cosine_knn(rows_of(4), 2))


class TestOutliers:
    def test_the_forest_is_that_of_the_library(self):
        from sklearn.ensemble import IsolationForest as Library

        docs, rows = index()
        scan = CorpusDetector(IsolationForest(rows)).scan(docs, rows)
        unit = unit_rows(rows)
        model = Library(random_state=42).fit(unit)
        assert scan.scores == pytest.approx(-model.score_samples(unit))
        flagged = [one is Decision.FLAGGED for one in scan.decisions]
        assert flagged == (model.predict(unit) == -1).tolist()

    @pytest.mark.parametrize("seed", range(3))
    def test_lof_is_that_of_the_library(self, seed):
        from sklearn.neighbors import LocalOutlierFactor as Library

        rows = rows_of(70, seed=seed)
        model = Library(n_neighbors=20, metric="cosine", algorithm="brute")
        labels = model.fit_predict(unit_rows(rows).astype(float))
        scan = CorpusDetector(LocalOutlierFactor()).scan(documents(["a"] * 70), rows)
        assert scan.scores == pytest.approx(-model.negative_outlier_factor_, rel=1e-4)
        assert [one is Decision.FLAGGED for one in scan.decisions] == (labels == -1).tolist()

    def test_lof_of_copies_is_finite(self):
        rows = np.tile(rows_of(1), (30, 1))
        scan = CorpusDetector(LocalOutlierFactor()).scan(documents(["a"] * 30), rows)
        assert np.isfinite(scan.scores).all()

    def test_the_distance_is_that_of_the_library_and_flags_nothing(self):
        from sklearn.neighbors import NearestNeighbors

        docs, rows = index()
        unit = unit_rows(rows).astype(float)
        near, _ = NearestNeighbors(n_neighbors=21, metric="cosine").fit(unit).kneighbors(unit)
        scan = CorpusDetector(NeighborDistance()).scan(docs, rows)
        assert scan.scores == pytest.approx(near[:, -1], abs=1e-6)
        assert set(scan.decisions) == {Decision.CLEAR}
        assert not NeighborDistance.declaration.decides

    def test_the_outlier_direction_stays_when_plants_are_dense(self):
        rows = rows_of(60)
        rows[:22] = rows[22] + 0.01 * rows_of(22, seed=4)
        scan = CorpusDetector(NeighborDistance()).scan(documents(["a"] * 60), rows)
        assert scan.scores[:22].max() < np.median(scan.scores[23:])

    def test_one_document(self):
        for rule in (NeighborDistance(), LocalOutlierFactor()):
            assert CorpusDetector(rule).scan(documents(["a"]), rows_of(1)).scores[0] <= 1

    def test_a_deeper_graph_is_cut(self):
        rows = rows_of(60)
        deep, exact = (cosine_knn(rows, k) for k in (30, 20))
        own = LocalOutlierFactor().scores(["a"] * 60, deep)
        assert own.tolist() == LocalOutlierFactor().scores(["a"] * 60, exact).tolist()

    def test_forests_refuse_rows_of_another_corpus(self):
        with pytest.raises(ConfigError, match="rows of this corpus"):
            IsolationForest(rows_of(5)).scores(["a"] * 4, cosine_knn(rows_of(4), 2))


class TestDuplicates:
    GRAPH = NeighborGraph(np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0)))

    def test_the_first_of_equal_texts_stays(self):
        found = ExactDuplicates().scores(["a", "b", "a", "A", "a", "\ud800", "\ud800"], self.GRAPH)
        assert found.tolist() == [0, 0, 1, 0, 1, 0, 1]

    def test_near_copies_by_minhash(self):
        words = [f"word{number}" for number in range(60)]
        near = [*words[:59], "changed"]
        texts = [" ".join(words), " ".join(near), " ".join(reversed(words)), ""]
        found = MinHashDuplicates().scores(texts, self.GRAPH)
        # 57 of 59 distinct shingles are shared.
        assert found[1] == pytest.approx(57 / 59, abs=0.1)
        assert found[[0, 2, 3]].tolist() == [0, 0, 0]
        assert found.tolist() == MinHashDuplicates().scores(texts, self.GRAPH).tolist()

    def test_the_estimate_is_that_of_the_library(self):
        from datasketch import MinHash

        words = [f"word{number}" for number in range(40)]
        texts = [" ".join(words), " ".join([*words[:20], "changed", *words[21:]])]
        signatures = []
        for text in texts:
            signature = MinHash(num_perm=128, seed=1)
            for run in shingles(text, 3):
                signature.update(run)
            signatures.append(signature)
        expected = signatures[0].jaccard(signatures[1])
        assert MinHashDuplicates().scores(texts, self.GRAPH)[1] == pytest.approx(expected)

    def test_shingles(self):
        assert shingles("A b c d", 3) == [b"a b c", b"b c d"]
        assert shingles("a b", 3) == [b"a b"]


class TestPerplexity:
    def test_each_distinct_text_once(self, word_losses):
        scan = CorpusDetector(PerplexityIndex(word_losses({"odd": 9.0}))).scan(
            documents(["a odd", "a b", "a odd", "word"]), rows_of(4)
        )
        assert scan.scores[:3] == pytest.approx([math.exp(9), math.e, math.exp(9)])
        assert [one.value for one in scan.decisions] == ["flagged", "clear", "flagged", "undecided"]

    def test_a_failing_model_leaves_all_unavailable(self, word_losses):
        rule = PerplexityIndex(word_losses(failing=True))
        scan = CorpusDetector(rule).scan(documents(["a b", "c d"]), rows_of(2))
        assert set(scan.decisions) == {Decision.UNDECIDED}
        assert "told to fail" in scan.verdict(0).evidences[0].reason
