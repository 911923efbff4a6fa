"""Every comparator declares itself, is built by name, and says what it misses."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from builders import WORDS, clustered, documents, ranking
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import ConfigError, MissingExtraError
from ragsieve.lab.comparators.base import CleanPair, ControlPoint
from ragsieve.lab.comparators.registry import (
    ComparatorNeeds,
    corpus_comparator,
    declarations,
    generation_defense,
    query_comparator,
    required,
)
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.testing import FakeCausalScorer, FakeTextEmbedder

BY_POINT = {
    ControlPoint.RETRIEVAL: query_comparator,
    ControlPoint.INGEST: corpus_comparator,
    ControlPoint.GENERATION: generation_defense,
}
NEED_OF = {
    "causal": Need.CAUSAL,
    "gradients": Need.GRADIENTS,
    "masked": Need.MASKED,
    "calibration": Need.CLEAN_REFERENCE,
    "chat": Need.CHAT,
    "embedder": Need.EMBEDDER,
    "rows": Need.EMBEDDER,
    "retrieve": Need.EMBEDDER,
}
BINARY = {"trustrag", "cleanbase", "duplicates"}
TEXTS, ROWS = clustered(np.random.default_rng(0), 40)


class BagGradients:
    identity, vocabulary = "bag", [*WORDS, "in", "the", "old", "town"]

    def token_ids(self, text):
        return [self.vocabulary.index(word) for word in text.split() if word in self.vocabulary]

    def encode_ids(self, batch):
        return np.ones((len(batch), 4)) / 2

    def gradient(self, ids, objective):
        return np.array([[1.0 + one] for one in ids])


def needs():
    return ComparatorNeeds(
        embedder=FakeTextEmbedder(),
        causal=FakeCausalScorer(),
        rows=ROWS,
        calibration=[
            CleanPair("who built it", text + " in the old town") for text in TEXTS + TEXTS
        ],
        chat=object(),
        gradients=BagGradients(),
        masked="none/here",
        retrieve=lambda text: ranking([text]),
    )


NAMES = [one.name for one in declarations()]
BUILT = [one for one in declarations() if one.name not in {"gmtp", "robustrag-keyword"}]


def test_declarations_are_complete():
    assert len(NAMES) == len(set(NAMES)) == 22
    for one in declarations():
        assert one.name
        assert len(one.native_rule) > 20
        assert len(one.source) > 10
        assert isinstance(one.fidelity, Fidelity)
        assert all(isinstance(need, Need) for need in one.needs)
    assert {one.name for one in declarations() if one.binary} == BINARY
    assert [one.name for one in declarations() if not one.decides] == ["knn-distance"]
    assert {one.control_point for one in declarations()} == set(ControlPoint)


def test_what_is_required_is_declared():
    for one in declarations():
        assert {NEED_OF[field] for field in required(one.name)} <= one.needs, one.name


@pytest.mark.parametrize("declared", BUILT, ids=lambda one: one.name)
def test_built_by_name_with_what_it_requires_alone(declared):
    fields = required(declared.name)
    alone = ComparatorNeeds(**{field: getattr(needs(), field) for field in fields})
    built = BY_POINT[declared.control_point](declared.name, alone)
    assert built.declaration == declared
    again = BY_POINT[declared.control_point](declared.name, needs())
    assert built.fingerprint() == again.fingerprint()


@pytest.mark.parametrize("declared", declarations(), ids=lambda one: one.name)
def test_a_missing_need_is_named(declared):
    for field in required(declared.name):
        less = dataclasses.replace(needs(), **{field: None})
        with pytest.raises(ConfigError, match=rf"{declared.name}: needs {field}, found none"):
            BY_POINT[declared.control_point](declared.name, less)


def test_names_that_are_none():
    for make in BY_POINT.values():
        with pytest.raises(ConfigError, match="expected one of"):
            make("nobody", needs())
    with pytest.raises(ConfigError, match="expected one of"):
        query_comparator("cleanbase", needs())
    with pytest.raises(ConfigError, match="expected one of"):
        required("nobody")


def test_robustrag_fails_loudly_without_spacy(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match="spaCy"):
        generation_defense("robustrag-keyword", needs())


@pytest.mark.parametrize(
    "name", [one.name for one in BUILT if one.control_point is ControlPoint.RETRIEVAL]
)
def test_retrieval_comparators_run_in_the_detector(name):
    found = []
    for _ in range(2):
        rule = query_comparator(name, needs())
        verdicts = QueryDetector(rule).score(ranking(TEXTS[:30]))
        assert len(verdicts) == rule.candidates == 5
        assert all(one.evidences[0].name == name for one in verdicts)
        assert all(one.score >= 0 for one in verdicts)
        found.append([(one.score, one.decision) for one in verdicts])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "name", [one.name for one in BUILT if one.control_point is ControlPoint.INGEST]
)
def test_index_comparators_run_in_the_detector(name):
    scans = [
        CorpusDetector(corpus_comparator(name, needs())).scan(documents(TEXTS), ROWS)
        for _ in range(2)
    ]
    assert scans[0].scores.tolist() == scans[1].scores.tolist()
    assert scans[0].decisions == scans[1].decisions
    assert (scans[0].scores >= 0).all()
    assert scans[0].profile == name
