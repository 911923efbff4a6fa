"""Quarantine, renumbering, filter, one refill; every way out is stated in the trace."""

from __future__ import annotations

import numpy as np
import pytest

from builders import ranking, sentence
from ragsieve import (
    Action,
    CorpusDetector,
    Document,
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
    return QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder())


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
    pipeline = serial_defense(QueryDetector("paper"), policy=FilterPolicy(on_unavailable=resort))
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


@pytest.mark.parametrize("resort", list(Resort))
def test_repeats_that_are_kept_are_a_matter_of_evidence_and_not_of_depth(resort):
    # on_short is about rankings of fewer than n documents; this one has 30.
    names = ["d1", "d2", "d1", *[f"d{i}" for i in range(4, 31)]]
    policy = FilterPolicy(on_duplicates=Resort.KEEP, on_short=resort)
    outcome = serial_defense(detector(), policy=policy).run(ranking(texts(30), ids=names))
    assert outcome.removed_ids == ()
    assert any("more than once" in step.reason for step in outcome.trace)
    policy = FilterPolicy(on_duplicates=Resort.KEEP, on_unavailable=resort)
    pipeline = serial_defense(detector(), policy=policy)
    if resort is Resort.RAISE:
        with pytest.raises(RankingError, match="unavailable: answer_anchor"):
            pipeline.run(ranking(texts(30), ids=names))
        return
    left = pipeline.run(ranking(texts(30), ids=names)).survivors.entries
    assert ("d1" in ids(left)) is (resort is Resort.KEEP)


def corpus_scan(count, mixed=()):
    """A scan that flags exactly the documents whose text mixes scripts inside a word."""
    own = [Document(f"d{i}", "pаypal" if i in mixed else "plain") for i in range(1, count + 1)]
    scan = CorpusDetector("paper").scan(own, np.eye(count))
    assert scan.flagged_ids == tuple(f"d{i}" for i in mixed)
    return scan


@pytest.mark.parametrize("seed", range(8))
def test_the_trace_accounts_for_every_document(seed):
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(18, 40))
    flagged = sorted({int(i) for i in rng.integers(1, depth + 1, size=3)})
    bad = {int(i) for i in rng.integers(1, 9, size=3)}
    pipeline = serial_defense(detector(), scan=corpus_scan(depth, flagged))
    outcome = pipeline.run(ranking(texts(depth, bad=bad)))
    said = {(step.stage, step.action, step.document_id) for step in outcome.trace}
    assert all(step.reason for step in outcome.trace)
    assert set(outcome.quarantined_ids) == {f"d{i}" for i in flagged}
    for name in outcome.quarantined_ids:
        assert ("quarantine", Action.REMOVED, name) in said
    for name in outcome.removed_ids:
        assert ("sieve", Action.REMOVED, name) in said
    judged = {verdict.document_id for verdict in outcome.verdicts}
    assert judged.isdisjoint(outcome.quarantined_ids)
    first = {f"d{i}" for i in range(1, 6)}
    for name in ids(outcome.kept):
        action = Action.KEPT if name in first else Action.REFILLED
        assert ("refill", action, name) in said
    gone = {*outcome.quarantined_ids, *outcome.removed_ids}
    expected = [f"d{i}" for i in range(1, depth + 1) if f"d{i}" not in gone]
    assert ids(outcome.survivors.entries) == expected
    assert ids(outcome.kept) == expected[:5]
    assert [e.rank for e in outcome.survivors.entries] == list(range(1, len(expected) + 1))
    # What moved up after the judgement has no verdict of its own.
    late = set(ids(outcome.kept)) - judged
    assert len(late) == len(outcome.removed_ids)


def test_survivors_are_judged_as_if_the_rest_had_never_been_retrieved():
    everything = texts(30, bad={2})
    outcome = serial_defense(detector(), scan=corpus_scan(30, (1, 9))).run(ranking(everything))
    kept = [i for i in range(1, 31) if i not in {1, 9}]
    alone = ranking([everything[i - 1] for i in kept], ids=[f"d{i}" for i in kept])
    assert outcome.verdicts == detector().score(alone)
    assert outcome.verdicts != detector().score(ranking(everything))


def test_fewer_than_n_survivors_are_noted_and_leave_the_tail_unavailable():
    outcome = serial_defense(detector(), scan=corpus_scan(21, (20, 21))).run(ranking(texts(21)))
    assert outcome.partial
    reasons = [step.reason for step in outcome.trace if step.document_id is None]
    assert any("19 survivors, judging the retrieval needs 20" in reason for reason in reasons)
    assert any("insufficient tail" in reason for reason in reasons)
    assert not any(verdict.evidences[0].measured for verdict in outcome.verdicts)
    assert all(verdict.evidences[2].measured for verdict in outcome.verdicts)
    assert len(outcome.kept) == 5


@pytest.mark.parametrize("resort", list(Resort))
def test_a_document_newer_than_the_scan(resort):
    policy = FilterPolicy(on_unavailable=resort)
    pipeline = serial_defense(detector(), scan=corpus_scan(25), policy=policy)
    if resort is Resort.RAISE:
        with pytest.raises(RankingError, match="'d26' is not in the corpus scan"):
            pipeline.run(ranking(texts(26)))
        return
    outcome = pipeline.run(ranking(texts(26)))
    assert outcome.partial
    action = Action.NOTED if resort is Resort.KEEP else Action.REMOVED
    assert ("quarantine", action, "d26") in {
        (step.stage, step.action, step.document_id) for step in outcome.trace
    }
    assert ("d26" in outcome.quarantined_ids) is (resort is Resort.REMOVE)


def test_many_retrievals_are_defended_as_one_by_one():
    rankings = [ranking(texts(n, bad={2}), query_id=str(n)) for n in (30, 3, 12, 20, 25)]
    pipeline = serial_defense(detector(), scan=corpus_scan(30, (4,)))
    assert pipeline.run_many(rankings) == [pipeline.run(one) for one in rankings]
    assert pipeline.run_many([]) == []


def test_a_context_holds_at_least_one_document():
    with pytest.raises(ValueError, match="at least 1"):
        Pipeline([], context_size=0)
