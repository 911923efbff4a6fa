"""Decision mode: which models are asked, what is reported, and rules that cannot stop early."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from builders import ranking, sentence
from ragsieve.detectors.paper_query import PaperQueryConfig, PaperQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.outcomes import Bounds
from ragsieve.records import Decision, Evidence, Level
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder


def texts(count=20, seed=0):
    rng = np.random.default_rng(seed)
    return [sentence(rng, 40) for _ in range(count)]


def anchored():
    """Five candidates with three words of their own, and a tail without: E_a is 1."""
    return [f"{text} zanzibar seventeen gold" for text in texts()[:5]] + texts()[5:]


def near():
    """Two candidates share words of their own: the others stay far below any threshold."""
    return [f"{text} zanzibar gold" for text in texts()[:2]] + texts()[2:]


def just_above(documents, add):
    """A threshold that only the encoder could bring the strongest candidate to."""
    models = {"causal": FakeCausalScorer(), "encoder": FakeTokenEncoder()}
    scored = QueryDetector("paper", **models).score(ranking(documents))
    return max(sum(one.value for one in v.evidences[:3]) for v in scored) + add, scored


BURST = " ".join(["start", *["zzz"] * 16, *["plain"] * 40])


def test_no_model_is_asked_about_a_ranking_that_is_already_flagged():
    causal, encoder = FakeCausalScorer(), FakeTokenEncoder()
    rulings = QueryDetector("paper", causal=causal, encoder=encoder).decide(ranking(anchored()))
    assert [one.decision for one in rulings] == [Decision.FLAGGED] * 5
    assert {one.level for one in rulings} == {Level.QUARANTINE}
    assert causal.calls == encoder.calls == []
    assert {one.skipped for one in rulings} == {("surprisal", "query_alignment")}
    assert all(one.bounds.lower >= 1 and math.isinf(one.bounds.upper) for one in rulings)


def test_only_candidates_whose_flag_is_open_reach_the_language_model():
    causal = FakeCausalScorer(["zzz"])
    mixed = [*texts()]
    mixed[2] += " Привет"
    rulings = QueryDetector("paper", causal=causal, encoder=FakeTokenEncoder()).decide(
        ranking(mixed)
    )
    assert rulings[2].flagged
    assert causal.calls == [(mixed[0], mixed[1], mixed[3], mixed[4])]
    assert [one.name for one in rulings[2].evidences] == ["script_integrity"]
    assert rulings[2].skipped == ("answer_anchor", "surprisal", "query_alignment")


def test_the_encoder_is_asked_only_where_its_small_share_could_matter():
    encoder = FakeTokenEncoder()
    detector = QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=encoder)
    clear = detector.decide(ranking(texts()))
    assert encoder.calls == []
    assert {one.decision for one in clear} == {Decision.CLEAR}
    for one in clear:
        # E_s adds at most .157 with fifteen documents in the tail.
        assert one.bounds.upper - one.bounds.lower == pytest.approx(0.157, abs=1e-3)
        assert one.skipped == ("query_alignment",)
        assert not one.bounds.exact


def test_near_the_threshold_the_encoder_decides_and_the_tail_is_read():
    threshold, scored = just_above(near(), 0.1)
    encoder = FakeTokenEncoder()
    config = PaperQueryConfig(threshold=threshold)
    detector = QueryDetector(PaperQueryRule(config, causal=FakeCausalScorer(), encoder=encoder))
    rulings = detector.decide(ranking(near()))
    documents, query = encoder.calls
    assert [one.skipped for one in rulings] == [(), (), *[("query_alignment",)] * 3]
    assert set(documents) == {*near()[:2], *near()[5:]}
    assert query == ("who built the bridge",)
    for ruling, verdict in zip(rulings[:2], scored, strict=False):
        assert ruling.bounds == Bounds(verdict.score, verdict.score)
        assert ruling.bounds.exact


def test_one_failing_call_leaves_the_whole_batch_undecided_as_in_full_mode():
    threshold, _ = just_above(near(), 0.1)
    config = PaperQueryConfig(threshold=threshold)
    encoder = FakeTokenEncoder(failing=True)
    detector = QueryDetector(PaperQueryRule(config, causal=FakeCausalScorer(), encoder=encoder))
    rulings = detector.decide(ranking(near()))
    assert len(encoder.calls) == 1
    # The last three did not need the encoder; full mode would have missed it all the same.
    assert {one.decision for one in rulings} == {Decision.UNDECIDED}
    assert all("told to fail" in one.evidences[-1].reason for one in rulings)
    assert all(math.isinf(one.bounds.upper) for one in rulings)


def test_an_encoder_that_fails_on_one_candidate_leaves_the_others_measured():
    class Uneven(FakeTokenEncoder):
        def states(self, texts, *, max_tokens):
            found = super().states(texts, max_tokens=max_tokens)
            return [
                np.full((40, 32), np.nan) if text.startswith("odd") else states
                for text, states in zip(texts, found, strict=True)
            ]

    documents = [f"odd {texts()[0]}", *texts()[1:]]
    verdicts = QueryDetector("paper", causal=FakeCausalScorer(), encoder=Uneven()).score(
        ranking(documents)
    )
    measured = [verdict.evidences[3].measured for verdict in verdicts]
    assert measured == [False, True, True, True, True]
    behind = QueryDetector("paper", causal=FakeCausalScorer(), encoder=Uneven()).score(
        ranking([*texts()[:19], f"odd {texts()[19]}"])
    )
    assert not any(verdict.evidences[3].measured for verdict in behind)


def test_what_a_model_said_of_a_text_is_remembered():
    causal = FakeCausalScorer(["zzz"])
    detector = QueryDetector("paper", causal=causal, encoder=FakeTokenEncoder())
    first = detector.score(ranking(texts()))
    assert detector.score(ranking(texts())) == first
    assert len(causal.calls) == 1


class Plain:
    """A rule without stages."""

    profile, candidates, documents, fewest_documents = "plain", 2, 4, 4
    threshold, max_characters = 1.0, 9

    def fingerprint(self):
        return "f"

    def combine(self, values):
        return sum(values)

    def annotate(self, view):
        return ((),) * len(view.candidates)

    def level(self, evidences, score):
        return Level.REVIEW

    def measure(self, views):
        return [
            tuple(
                (
                    Evidence("length", len(text) / 5),
                    Evidence("luck", None, reason="none today", optional=text == "short"),
                )
                for text in view.candidates
            )
            for view in views
        ]


def test_a_rule_that_cannot_stop_early_is_measured_in_full():
    rulings = QueryDetector(Plain()).decide(ranking(["longer text", "abc", "c", "d"]))
    assert [one.decision for one in rulings] == [Decision.FLAGGED, Decision.UNDECIDED]
    assert [one.level for one in rulings] == [Level.REVIEW, Level.REVIEW]
    assert rulings[0].bounds == Bounds(1.8, math.inf)
    assert rulings[0].truncated_characters == 2
    assert rulings[0].skipped == ()


@pytest.mark.parametrize("profile", ["paper", "default"])
def test_many_rankings_are_as_one_by_one(profile):
    rankings = [ranking(texts(n, n), query_id=str(n)) for n in (40, 20, 12, 0, 5) * 4]
    seen = []
    together = QueryDetector(profile).decide_many(rankings, progress=seen.append)
    assert seen == [16, 4]
    assert together == [QueryDetector(profile).decide(one) for one in rankings]
    assert QueryDetector(profile).decide_many([]) == []


def test_a_ruling_says_where_it_comes_from():
    detector = QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder())
    (first, *_) = detector.decide(ranking([BURST, *texts(19)]))
    assert (first.document_id, first.rank, first.profile) == ("d1", 1, "paper")
    assert first.fingerprint == detector.fingerprint
    assert first.threshold == 1.0
    assert [one.name for one in first.evidences] == [
        "answer_anchor", "script_integrity", "surprisal",
    ]  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.decision = Decision.CLEAR
