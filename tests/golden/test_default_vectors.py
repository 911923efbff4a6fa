"""Profile default, with the published script classes, reproduces the golden figures (1e-5)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.default_query import DefaultQueryConfig, DefaultQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.records import (
    Decision,
    Document,
    DocumentFeatures,
    RankedDocument,
    Ranking,
    Surroundings,
)

VECTORS = Path(__file__).parent / "vectors"


def cases(name):
    loaded = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))["cases"]
    assert loaded
    return loaded


def close(value):
    return pytest.approx(value, abs=1e-5)


class CaseFeatures:
    """The embeddings and alien runs of one case, by the documents' places."""

    def __init__(self, case):
        rows = np.array(case["embeddings"])
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self.runs = case["alien_run"]
        self.surroundings = Surroundings(case["t_g"], None)

    def features(self, document_ids):
        return tuple(DocumentFeatures(self.rows[int(i)], self.runs[int(i)]) for i in document_ids)


@pytest.mark.parametrize("case", cases("default_ingest"), ids=lambda case: str(len(case["texts"])))
def test_ingest(case):
    documents = [Document(str(row), text) for row, text in enumerate(case["texts"])]
    rule = DefaultCorpusRule(DefaultCorpusConfig(scripts="paper"))
    scan = CorpusDetector(rule).scan(documents, np.array(case["embeddings"]))
    statistics = scan.knowledge.statistics
    assert scan.knowledge.gaps.gap.tolist() == close(case["g"])
    assert rule.gap_threshold(statistics) == close(case["t_g"])
    assert [run.ratio_nats for run in scan.knowledge.runs] == close(case["alien_run"])
    assert rule.run_threshold(statistics) == close(case["t_l"])
    assert scan.column("neighbor_gap").values.tolist() == close(case["E_t"])
    assert scan.column("alien_run").values.tolist() == close(case["E_l"])
    assert scan.column("script_mixing").values.tolist() == close(case["E_i"])
    assert scan.scores.tolist() == close(case["score"])
    assert [decision is Decision.FLAGGED for decision in scan.decisions] == case["flagged"]
    assert 0 < sum(case["flagged"]) < len(documents)


@pytest.mark.parametrize("case", cases("default_query"), ids=lambda case: case["mode"])
def test_query(case):
    entries = tuple(
        RankedDocument(Document(str(place), text), place + 1)
        for place, text in enumerate(case["texts"])
    )
    rule = DefaultQueryRule(DefaultQueryConfig(scripts="paper", query_copy=case["mode"]))
    detector = QueryDetector(rule, features=CaseFeatures(case))
    verdicts = detector.score(Ranking("q", case["query"], entries))
    assert all(verdict.complete for verdict in verdicts)
    assert [verdict.score for verdict in verdicts] == close(case["score"])
