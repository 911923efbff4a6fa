"""Partial evidence, unusable rankings and failing models have stated outcomes."""

from __future__ import annotations

import numpy as np
import pytest

from builders import ranking, sentence
from ragsieve.detectors.paper_query import PaperQueryConfig, PaperQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.rules import decide
from ragsieve.errors import ConfigError
from ragsieve.records import Decision
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [sentence(rng, 40) for _ in range(count)]


def poisoned():
    # Sixteen surprising tokens in front of a plain text: a burst far above the gate.
    return [" ".join(["start", *["zzz"] * 16, *["plain"] * 40]), *texts(19)]


def by_name(verdict):
    return {one.name: one for one in verdict.evidences}


@pytest.mark.parametrize(
    ("score", "complete", "decision"),
    [
        (1.0, True, Decision.FLAGGED),
        (1.0, False, Decision.FLAGGED),
        (0.99, True, Decision.CLEAR),
        (0.99, False, Decision.UNDECIDED),
        (0.0, False, Decision.UNDECIDED),
    ],
)
def test_a_partial_score_is_a_lower_bound(score, complete, decision):
    assert decide(score, 1.0, complete=complete) is decision


def test_everything_measured_decides():
    detector = QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder())
    verdicts = detector.score(ranking(poisoned()))
    assert len(verdicts) == 5
    assert verdicts[0].decision is Decision.FLAGGED
    assert all(verdict.complete for verdict in verdicts)
    assert {verdict.decision for verdict in verdicts} == {Decision.FLAGGED, Decision.CLEAR}
    assert verdicts[0].score == pytest.approx(sum(one.value for one in verdicts[0].evidences))


def test_without_models_evidence_is_unavailable_and_not_zero():
    first = QueryDetector("paper").score(ranking(texts(20)))[0]
    assert first.decision is Decision.UNDECIDED
    assert by_name(first)["surprisal"].value is None
    assert "no causal language model" in by_name(first)["surprisal"].reason
    assert "no token encoder" in by_name(first)["query_alignment"].reason
    assert not first.flagged


@pytest.mark.parametrize(
    ("count", "word"), [(12, "insufficient tail"), (5, "missing tail"), (2, "missing tail")]
)
def test_a_short_ranking_leaves_tail_evidence_unavailable(count, word):
    detector = QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder())
    verdicts = detector.score(ranking(poisoned()[:count]))
    assert len(verdicts) == min(5, count)
    found = by_name(verdicts[0])
    for name in ("answer_anchor", "script_integrity", "query_alignment"):
        assert word in found[name].reason
    assert found["surprisal"].measured
    # What the document alone shows may suffice.
    assert verdicts[0].decision is Decision.FLAGGED
    assert verdicts[1].decision is Decision.UNDECIDED


def test_an_empty_ranking_has_no_verdict():
    assert QueryDetector("paper").score(ranking([])) == ()


def test_repeated_ids_leave_tail_evidence_unavailable():
    names = [f"d{i}" for i in range(19)] + ["d3"]
    verdict = QueryDetector("paper").score(ranking(texts(20), ids=names))[0]
    assert "more than once" in by_name(verdict)["answer_anchor"].reason


def test_a_failing_model_makes_its_evidence_unavailable_with_the_reason():
    detector = QueryDetector(
        "paper", causal=FakeCausalScorer(failing=True), encoder=FakeTokenEncoder(failing=True)
    )
    found = by_name(detector.score(ranking(texts(20)))[0])
    assert "told to fail" in found["surprisal"].reason
    assert "told to fail" in found["query_alignment"].reason
    assert found["answer_anchor"].measured


def test_many_at_once_are_as_one_by_one_and_models_see_each_text_once():
    causal, encoder = FakeCausalScorer(["zzz"]), FakeTokenEncoder()
    rankings = [ranking(poisoned(), query_id="a"), ranking(poisoned()[::-1], query_id="b")]
    together = QueryDetector("paper", causal=causal, encoder=encoder).score_many(rankings)
    for call in (*causal.calls, *encoder.calls):
        assert len(set(call)) == len(call)
    alone = [
        QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder()).score(
            one
        )
        for one in rankings
    ]
    assert [[v.score for v in vs] for vs in together] == [[v.score for v in vs] for vs in alone]


def test_the_fingerprint_follows_configuration_and_models():
    def fingerprint(config=None, **models):
        return QueryDetector(PaperQueryRule(config, **models)).fingerprint

    plain = fingerprint()
    assert plain == fingerprint(PaperQueryConfig())
    assert plain != fingerprint(PaperQueryConfig(threshold=0.9))
    assert plain != fingerprint(causal=FakeCausalScorer())


@pytest.mark.parametrize(
    "bad", [{"candidates": 20}, {"candidates": 0}, {"threshold": 0}, {"query_tokens": 0}]
)
def test_impossible_configurations_are_refused(bad):
    with pytest.raises(ConfigError, match="query"):
        PaperQueryConfig(**bad)


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="expected one of default, paper"):
        QueryDetector("papper")


def test_the_end_of_a_very_long_document_is_not_examined_and_that_is_stated():
    long = ["x" * 2_000_000, *texts(19)]
    verdict = QueryDetector("paper").score(ranking(long))[0]
    assert verdict.truncated_characters == 1_000_000


class BadOnce(FakeCausalScorer):
    def losses(self, texts):
        found = super().losses(texts)
        return [
            np.full(3, np.nan) if text == "bad text" else trace
            for text, trace in zip(texts, found, strict=True)
        ]


def test_one_text_a_model_fails_on_leaves_the_others_measured():
    rankings = [ranking(["bad text", *texts(19)]), ranking(texts(20, seed=9), query_id="z")]
    first, second = QueryDetector("paper", causal=BadOnce()).score_many(rankings)
    assert "no finite losses" in by_name(first[0])["surprisal"].reason
    assert all(by_name(verdict)["surprisal"].measured for verdict in (*first[1:], *second))
