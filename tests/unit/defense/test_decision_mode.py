"""A filter in decision mode takes out what the full one does, and says so with bounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from builders import ranking, sentence
from ragsieve.defense.policy import FilterPolicy, Resort
from ragsieve.defense.serial import Sieve, serial_defense
from ragsieve.detectors.query import Mode, QueryDetector
from ragsieve.errors import RankingError
from ragsieve.outcomes import Action
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder

BAD = " ".join(["start", *["zzz"] * 16, *["plain"] * 40])


def texts(count, bad=()):
    rng = np.random.default_rng(3)
    return [BAD if place in bad else sentence(rng, 40) for place in range(1, count + 1)]


def detector():
    return QueryDetector("paper", causal=FakeCausalScorer(["zzz"]), encoder=FakeTokenEncoder())


@pytest.mark.parametrize("bad", [(), (2, 6), (1, 3, 5)])
@pytest.mark.parametrize("count", [30, 20, 12, 3])
def test_the_outcome_is_the_full_ones_but_for_the_verdicts(bad, count):
    one = ranking(texts(count, bad))
    full = serial_defense(detector()).run(one)
    quick = serial_defense(detector(), mode=Mode.DECISION).run(one)
    assert quick.verdicts == ()
    for name in ("kept", "removed_ids", "quarantined_ids", "survivors", "partial"):
        assert getattr(quick, name) == getattr(full, name), name
    bare = [[dataclasses.replace(s, reason="") for s in o.trace] for o in (full, quick)]
    assert bare[0] == bare[1]


def test_the_trace_gives_bounds():
    documents = texts(30, {2})
    documents[2] += " Привет"
    trace = serial_defense(detector(), mode="decision").run(ranking(documents)).trace
    reasons = {step.document_id: step.reason for step in trace if step.stage == "sieve"}
    # One model was not asked, both were not asked, one was not asked.
    assert reasons["d2"].startswith("flagged: score 2.")
    assert reasons["d3"].startswith("flagged: score at least 1.000")
    assert " to " in reasons["d1"]
    assert reasons["d1"].startswith("clear: score ")


def test_what_cannot_be_judged_follows_the_policy():
    lame = QueryDetector("paper")
    kept = serial_defense(lame, mode=Mode.DECISION).run(ranking(texts(30)))
    assert kept.partial
    assert sum("unavailable: surprisal, query_alignment" in s.reason for s in kept.trace) == 5
    removing = FilterPolicy(on_unavailable=Resort.REMOVE)
    gone = serial_defense(lame, policy=removing, mode=Mode.DECISION).run(ranking(texts(30)))
    assert len(gone.removed_ids) == 5
    assert [s.action for s in gone.trace if s.stage == "sieve"] == [Action.REMOVED] * 5
    raising = FilterPolicy(on_unavailable=Resort.RAISE)
    with pytest.raises(RankingError, match="unavailable: surprisal, query_alignment"):
        serial_defense(lame, policy=raising, mode=Mode.DECISION).run(ranking(texts(30)))


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="hasty"):
        Sieve(detector(), mode="hasty")
