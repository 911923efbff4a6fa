"""Quarantine, renumbering, filter, one refill; every way out is stated in the trace."""

from __future__ import annotations

import numpy as np
import pytest

from builders import ranking, sentence
from ragsieve import (
    Action,
    FilterPolicy,
    Pipeline,
    Quarantine,
    QueryDetector,
    RankingError,
    Resort,
    serial_defense,
)
from ragsieve.defense.serial import Sieve
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder

BAD = " ".join(["start", *["zzz"] * 16, *["plain"] * 40])


def texts(count, bad=()):
    rng = np.random.default_rng(3)
    return [BAD if place in bad else sentence(rng, 40) for place in range(1, count + 1)]


def detector():
    return QueryDetector(causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder())


def ids(entries):
    return [entry.document.id for entry in entries]


def test_flagged_candidates_go_and_the_same_ranking_refills_once():
    outcome = serial_defense(detector()).run(ranking(texts(30, bad={2, 6})))
    assert "d2" in outcome.removed_ids
    judged = {verdict.document_id for verdict in outcome.verdicts}
    assert judged == {"d1", "d2", "d3", "d4", "d5"}
    # d6 is as bad as d2 and moves up all the same: replacements are not scored again.
    assert ids(outcome.kept) == ["d1", "d3", "d4", "d5", "d6"]
    assert [entry.rank for entry in outcome.kept] == [1, 2, 3, 4, 5]
    steps = {(step.action, step.document_id) for step in outcome.trace}
    assert (Action.REMOVED, "d2") in steps
    assert (Action.REFILLED, "d6") in steps
    assert not outcome.partial


def test_quarantine_renumbers_and_survivors_are_judged_against_survivors():
    stage = Quarantine(["d1", "d7"], needed=20)
    pipeline = Pipeline([stage, Sieve(detector())])
    outcome = pipeline.run(ranking(texts(30, bad={2})))
    assert outcome.quarantined_ids == ("d1", "d7")
    assert [verdict.document_id for verdict in outcome.verdicts] == ["d2", "d3", "d4", "d5", "d6"]
    assert [verdict.rank for verdict in outcome.verdicts] == [1, 2, 3, 4, 5]
    assert outcome.removed_ids == ("d2",)
    assert ids(outcome.kept) == ["d3", "d4", "d5", "d6", "d8"]
    assert not outcome.partial


def test_too_few_survivors_to_judge_is_stated():
    outcome = Pipeline([Quarantine(["d1"], needed=20)]).run(ranking(texts(20)))
    assert outcome.partial
    assert any("19 survivors" in step.reason for step in outcome.trace)


@pytest.mark.parametrize(("resort", "left"), [(Resort.KEEP, "d3"), (Resort.REMOVE, None)])
def test_a_document_the_scan_never_saw(resort, left):
    seen = [f"d{i}" for i in range(1, 31) if i != 3]
    stage = Quarantine(["d1"], scanned_ids=seen, on_unavailable=resort)
    outcome = Pipeline([stage]).run(ranking(texts(30)))
    assert outcome.partial
    assert ("d3" in ids(outcome.kept)) is (left == "d3")
    assert any("not in the corpus scan" in step.reason for step in outcome.trace)


def test_a_document_the_scan_never_saw_may_raise():
    with pytest.raises(RankingError, match="'d3' is not in the corpus scan"):
        Pipeline([Quarantine([], scanned_ids=["d1", "d2"], on_unavailable=Resort.RAISE)]).run(
            ranking(texts(3))
        )


@pytest.mark.parametrize("resort", list(Resort))
def test_undecided_candidates(resort):
    pipeline = serial_defense(QueryDetector(), policy=FilterPolicy(on_unavailable=resort))
    if resort is Resort.RAISE:
        with pytest.raises(RankingError, match="unavailable: surprisal, query_alignment"):
            pipeline.run(ranking(texts(30)))
        return
    outcome = pipeline.run(ranking(texts(30)))
    assert outcome.partial
    assert len(outcome.removed_ids) == (5 if resort is Resort.REMOVE else 0)
    assert sum("undecided" in step.reason for step in outcome.trace) == 5


@pytest.mark.parametrize("resort", list(Resort))
def test_short_rankings(resort):
    pipeline = serial_defense(detector(), policy=FilterPolicy(on_short=resort))
    if resort is Resort.RAISE:
        with pytest.raises(RankingError, match="insufficient tail"):
            pipeline.run(ranking(texts(12)))
        return
    outcome = pipeline.run(ranking(texts(12)))
    assert outcome.partial
    assert len(outcome.removed_ids) == (5 if resort is Resort.REMOVE else 0)
    assert any("insufficient tail" in step.reason for step in outcome.trace)


@pytest.mark.parametrize("resort", list(Resort))
def test_repeated_documents(resort):
    names = ["d1", "d2", "d1", *[f"d{i}" for i in range(4, 31)]]
    pipeline = serial_defense(detector(), policy=FilterPolicy(on_duplicates=resort))
    if resort is Resort.RAISE:
        with pytest.raises(RankingError, match="'d1' stand more than once"):
            pipeline.run(ranking(texts(30), ids=names))
        return
    outcome = pipeline.run(ranking(texts(30), ids=names))
    assert ids(outcome.kept).count("d1") == (1 if resort is Resort.REMOVE else 2)
    assert outcome.partial is (resort is Resort.KEEP)
    if resort is Resort.REMOVE:
        assert any("repeats an id" in step.reason for step in outcome.trace)
        assert all(verdict.complete for verdict in outcome.verdicts)


@pytest.mark.parametrize("resort", list(Resort))
def test_fewer_survivors_than_the_context_holds(resort):
    policy = FilterPolicy(on_few_survivors=resort)
    pipeline = serial_defense(detector(), policy=policy)
    if resort is Resort.RAISE:
        with pytest.raises(RankingError, match="3 documents survive"):
            pipeline.run(ranking(texts(3)))
        return
    outcome = pipeline.run(ranking(texts(3)))
    assert outcome.partial
    assert len(outcome.kept) == (0 if resort is Resort.REMOVE else 3)
    assert any("3 documents survive" in step.reason for step in outcome.trace)


def test_nothing_retrieved_is_stated():
    outcome = serial_defense(detector()).run(ranking([]))
    assert outcome.kept == ()
    assert outcome.partial


def test_a_repeat_further_down_cannot_bring_a_removed_document_back():
    names = ["d1", "d2", *[f"d{i}" for i in range(3, 30)], "d2"]
    policy = FilterPolicy(on_duplicates=Resort.KEEP)
    bad = texts(30, bad={2, 30})
    outcome = serial_defense(detector(), policy=policy).run(ranking(bad, ids=names))
    assert "d2" in outcome.removed_ids
    assert "d2" not in ids(outcome.survivors.entries)
