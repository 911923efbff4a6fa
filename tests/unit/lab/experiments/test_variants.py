"""Ablated verdicts and searches that miss neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from builders import clustered, documents, ranking
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.errors import ConfigError
from ragsieve.evidence.knn import cosine_knn
from ragsieve.lab.experiments.spec import Method, MethodKind
from ragsieve.lab.experiments.variants import (
    deeper,
    recombined,
    thinned_graph,
    thinned_ranking,
)


def scan():
    texts, rows = clustered(np.random.default_rng(1), 80)
    return CorpusDetector("paper").scan(documents(texts), rows)


def ablated(**kept):
    return Method(MethodKind.RSG, "rsg", "paper", **kept)


def test_published_corpus_ablations():
    rule = PaperCorpusRule()
    for verdict in scan():
        tail = dict(verdict.evidences[0].components)["upper_tail_probability"]
        alone = recombined(verdict, rule, ablated(alone="topology_score"))
        assert alone.score == pytest.approx(min(1.0, 0.5 * 0.05 / tail))
        scripts = recombined(verdict, rule, ablated(alone="script_integrity"))
        assert scripts.score == verdict.evidences[1].value
        assert scripts.flagged == (scripts.score >= 0.5)
        without = recombined(verdict, rule, ablated(without=("script_integrity",)))
        assert without.score == verdict.evidences[0].value


def test_an_unknown_evidence_is_an_error():
    with pytest.raises(ConfigError, match="expected one of topology_score"):
        recombined(next(iter(scan())), PaperCorpusRule(), ablated(without=("magic",)))


@pytest.mark.parametrize("recall", [0.6, 0.9])
def test_a_thinned_graph_has_the_recall_it_is_given(recall):
    rows = np.random.default_rng(0).normal(size=(400, 8))
    exact = cosine_knn(rows, deeper(10, recall))
    thin = thinned_graph(exact, 10, recall, np.random.default_rng(5))
    again = thinned_graph(exact, 10, recall, np.random.default_rng(5))
    assert np.array_equal(thin.indices, again.indices)
    assert thin.indices.shape == (400, 10)
    assert (np.diff(thin.similarities, axis=1) <= 0).all()
    kept = [
        len(set(found) & set(true[:10])) / 10
        for found, true in zip(thin.indices.tolist(), exact.indices.tolist(), strict=True)
    ]
    assert np.mean(kept) == pytest.approx(recall, abs=0.02)
    assert all(len(set(row)) == 10 for row in thin.indices.tolist())


def test_a_thinned_ranking_keeps_order_and_length():
    exact = ranking([f"text {row}" for row in range(60)])
    thin = thinned_ranking(exact, 20, 0.7, np.random.default_rng(2))
    names = [int(one.id[1:]) for one in thin.documents]
    assert names == sorted(names)
    assert len(thin) == 20
    assert [entry.rank for entry in thin.entries] == list(range(1, 21))
    short = thinned_ranking(exact.renumbered(exact.entries[:3]), 20, 0.1, np.random.default_rng(2))
    assert len(short) == 3
