"""What is decided when not everything is known, and what a fingerprint follows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from builders import clustered, documents, ranking, sentence
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.paper_corpus import PaperCorpusConfig, PaperCorpusRule
from ragsieve.detectors.paper_query import PaperQueryConfig, PaperQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.rules import Measurement, decide, fingerprint
from ragsieve.errors import BackendError, ConfigError, EmbeddingError, InputError
from ragsieve.records import Decision, Evidence, EvidenceColumn, Level, NeighborGraph
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder


class OneColumn:
    """A corpus rule that measures every other document and remembers what it was shown."""

    profile, neighbors, threshold, max_characters = "half", 2, 0.5, 4

    def __init__(self, value):
        self.value, self.seen = value, []

    def fingerprint(self):
        return "f"

    def combine(self, values):
        return sum(values)

    def measure(self, contents, graph, declared):
        self.seen = list(contents)
        values = np.full(len(contents), self.value)
        known = EvidenceColumn("known", values)
        gaps = np.where(np.arange(len(contents)) % 2, np.nan, 0.0)
        missing = EvidenceColumn("gaps", gaps, reason="odd rows are not measured")
        return Measurement((known, missing), notes=("looked twice",))

    def level(self, evidences, score):
        return Level.REVIEW if score < 0.55 else Level.QUARANTINE

    def details(self, documents, scan, row):
        return None, None


@pytest.mark.parametrize(
    ("value", "even", "odd"),
    [
        (0.6, Decision.FLAGGED, Decision.FLAGGED),
        (0.4, Decision.CLEAR, Decision.UNDECIDED),
        (0.5, Decision.FLAGGED, Decision.FLAGGED),
    ],
)
def test_a_scan_with_gaps(value, even, odd):
    rule = OneColumn(value)
    scan = CorpusDetector(rule).scan(documents(["one text", "two", "three", "four"]), np.eye(4))
    assert scan.decisions == (even, odd, even, odd)
    assert rule.seen == ["one ", "two", "thre", "four"]
    assert scan.truncated_characters.tolist() == [4, 0, 1, 0]
    gap = scan.verdict(1).evidences[1]
    assert gap == Evidence.unavailable("gaps", "odd rows are not measured")
    assert not scan.verdict(1).complete
    assert scan.verdict(0).complete
    flagged = Level.QUARANTINE if value > 0.55 else Level.REVIEW
    levels = {Decision.FLAGGED: flagged, Decision.CLEAR: Level.INFO}
    assert scan.levels == tuple(levels.get(one, Level.REVIEW) for one in scan.decisions)
    assert scan.flagged_at(Level.REVIEW) == scan.flagged_ids
    assert scan.flagged_at(Level.QUARANTINE) == (scan.flagged_ids if value > 0.55 else ())
    assert scan.notes == ("looked twice",)


@pytest.mark.parametrize("score", [0.0, 0.5, 0.999999, 1.0, 1.5])
@pytest.mark.parametrize("complete", [True, False])
def test_more_evidence_never_takes_a_flag_back(score, complete):
    now = decide(score, 1.0, complete=complete)
    later = decide(score + 0.25, 1.0, complete=True)
    assert now is not Decision.FLAGGED or later is Decision.FLAGGED
    assert (now is Decision.UNDECIDED) == (score < 1.0 and not complete)


def graph(indices, similarities):
    return NeighborGraph(np.array(indices), np.array(similarities, dtype=float))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (graph([[1], [0]], [[0.5], [0.5]]), "graph of 3 rows"),
        (graph([[1], [0], [1]], [[0.5, 0.4]] * 3), "graph of 3 rows"),
        (graph([[0], [0], [1]], [[0.5]] * 3), "its own neighbour"),
        (graph([[1], [0], [3]], [[0.5]] * 3), "outside 0..2"),
        (graph([[1], [0], [-1]], [[0.5]] * 3), "outside 0..2"),
        (graph([[1, 2], [0, 2], [0, 1]], [[0.5, 0.6]] * 3), "sorted"),
        (graph([[1, 2], [0, 2], [0, 1]], [[np.nan, 0.6]] * 3), "sorted"),
    ],
)
def test_a_graph_that_breaks_its_laws_is_refused(bad, words):
    with pytest.raises(InputError, match=words):
        CorpusDetector("paper").scan_graph(documents("abc"), bad)


def test_rows_must_fit_the_documents():
    with pytest.raises(EmbeddingError, match=r"one embedding row a document \(2\), found 3"):
        CorpusDetector("paper").scan(documents("ab"), np.eye(3))
    with pytest.raises(EmbeddingError, match="found 0"):
        CorpusDetector("paper").scan(documents("a"), np.float64(1.0))
    with pytest.raises(InputError, match="at least one document"):
        CorpusDetector("paper").scan([], np.empty((0, 3)))


def test_an_explanation_belongs_to_its_corpus():
    texts, rows = clustered(np.random.default_rng(1), 30)
    corpus, detector = documents(texts), CorpusDetector("paper")
    scan = detector.scan(corpus, rows)
    for row in range(30):
        verdict = detector.explain(corpus, scan, row)
        plain = scan.verdict(row)
        assert verdict.score == plain.score
        assert all(one.detail is not None for one in verdict.evidences)
        contrast = verdict.evidences[0].detail.contrast
        columns = dict(plain.evidences[0].components)
        assert contrast.density == columns["density_contrast"]
        assert contrast.eligible == columns["eligible_neighbors"]
    with pytest.raises(InputError, match="not those of the scan"):
        detector.explain(corpus[::-1], scan, 0)


def test_a_missing_column_is_a_key_error():
    scan = CorpusDetector("paper").scan(documents("ab"), np.eye(2))
    with pytest.raises(KeyError, match="surprisal"):
        scan.column("surprisal")


@pytest.mark.parametrize(
    "change",
    [{"neighbors": 8}, {"alert_budget": 0.1}, {"threshold": 0.4}, {"max_characters": 10}],
)
def test_the_corpus_fingerprint_follows_every_constant(change):
    plain = CorpusDetector("paper").fingerprint
    assert plain == CorpusDetector(PaperCorpusRule(PaperCorpusConfig())).fingerprint
    assert plain != CorpusDetector(PaperCorpusRule(PaperCorpusConfig(**change))).fingerprint
    assert len(plain) == 16


@pytest.mark.parametrize(
    "change", [{field.name: 7} for field in dataclasses.fields(PaperQueryConfig)]
)
def test_the_query_fingerprint_follows_every_constant(change):
    plain = QueryDetector("paper").fingerprint
    assert plain != QueryDetector(PaperQueryRule(PaperQueryConfig(**change))).fingerprint


def test_the_fingerprint_tells_models_and_their_roles_apart():
    causal, encoder = FakeCausalScorer(), FakeTokenEncoder()
    encoder.identity = causal.identity
    prints = {
        QueryDetector("paper", **models).fingerprint
        for models in ({}, {"causal": causal}, {"encoder": encoder})
    }
    assert len(prints) == 3
    assert fingerprint("a", None) != fingerprint(None, "a")


@pytest.mark.parametrize(
    "bad",
    [{"neighbors": 0}, {"alert_budget": 0}, {"alert_budget": 1}, {"threshold": 0}, {"threshold": 2},
     {"max_characters": 0}, {"alert_budget": float("nan")}, {"threshold": float("nan")}],
)  # fmt: skip
def test_impossible_corpus_constants_are_refused(bad):
    with pytest.raises(ConfigError, match="corpus"):
        PaperCorpusConfig(**bad)


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [sentence(rng, 40) for _ in range(count)]


def test_many_batches_are_as_one_by_one():
    def detector():
        return QueryDetector(
            "paper", causal=FakeCausalScorer(["river"]), encoder=FakeTokenEncoder()
        )

    # More than two batches; some rankings too short, one empty.
    sizes = [20, 30, 3, 0, 12] * 7
    rankings = [ranking(texts(n, seed), query_id=str(seed)) for seed, n in enumerate(sizes)]
    seen = []
    together = detector().score_many(rankings, progress=seen.append)
    assert sum(seen) == len(rankings)
    assert len(seen) == 3
    assert together == [detector().score(one) for one in rankings]
    assert detector().score_many([]) == []


def test_models_see_each_distinct_text_of_a_batch_once():
    causal, encoder = FakeCausalScorer(), FakeTokenEncoder()
    same = [ranking(texts(20), query_id=str(i)) for i in range(5)]
    QueryDetector("paper", causal=causal, encoder=encoder).score_many(same)
    assert len(causal.calls) == 1
    assert sorted(causal.calls[0]) == sorted(texts(20)[:5])
    documents_seen, queries_seen = encoder.calls
    assert sorted(documents_seen) == sorted(texts(20))
    assert queries_seen == ("who built the bridge",)


@pytest.mark.parametrize("broken", ["causal", "encoder"])
def test_one_failing_model_leaves_the_others_evidence(broken):
    models = {
        "causal": FakeCausalScorer(["zzz"], failing=broken == "causal"),
        "encoder": FakeTokenEncoder(failing=broken == "encoder"),
    }
    verdicts = QueryDetector("paper", **models).score(ranking(texts(20)))
    missing = {one.name for v in verdicts for one in v.evidences if not one.measured}
    assert missing == {"surprisal" if broken == "causal" else "query_alignment"}
    assert {verdict.decision for verdict in verdicts} == {Decision.UNDECIDED}
    reasons = {one.reason for v in verdicts for one in v.evidences if not one.measured}
    assert all("told to fail" in reason for reason in reasons)


def test_other_errors_of_a_model_are_not_swallowed():
    class Broken(FakeCausalScorer):
        def losses(self, texts):
            raise MemoryError

    with pytest.raises(MemoryError):
        QueryDetector("paper", causal=Broken()).score(ranking(texts(20)))


class NotFinite(FakeCausalScorer):
    """As a model in half precision can be."""

    def losses(self, texts):
        return [np.array([1.0, np.nan]) for _ in texts]


class NotFiniteStates(FakeTokenEncoder):
    """As a model in half precision can be."""

    def states(self, texts, *, max_tokens):
        return [np.full((40, 3), np.nan) for _ in texts]


@pytest.mark.parametrize(
    "models", [{"causal": NotFinite()}, {"encoder": NotFiniteStates()}], ids=["causal", "encoder"]
)
def test_numbers_that_are_not_finite_make_evidence_unavailable(models):
    verdict = QueryDetector("paper", **models).score(ranking(texts(20)))[0]
    assert verdict.decision is Decision.UNDECIDED


def test_the_fakes_say_when_they_are_told_to_fail():
    with pytest.raises(BackendError):
        FakeCausalScorer(failing=True).losses(["x"])
    with pytest.raises(BackendError):
        FakeTokenEncoder(failing=True).states(["x"], max_tokens=1)
