"""Each equation on numbers small enough to do by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragsieve.evidence.alignment import alignment_evidence, alignment_jump, alignment_trace
from ragsieve.evidence.anchors import answer_anchors
from ragsieve.evidence.density import density_contrast, is_eligible
from ragsieve.evidence.scripts import script_integrity, script_profile
from ragsieve.evidence.surprisal import surprisal_evidence, surprisal_profile
from ragsieve.evidence.tails import (
    corpus_tail,
    excess_evidence,
    hypergeometric_tail,
    log_evidence,
    simes,
    upper_tail,
)
from ragsieve.evidence.tokens import jaccard, paper_words


def test_tails():
    assert upper_tail(2, [1, 2, 3]) == pytest.approx((0.5 + 1 + 0.5) / 4)
    assert corpus_tail(np.array([0.0, 0.0, 1.0])).tolist() == [3 / 4, 3 / 4, 1 / 4]
    assert simes([0.02, 0.03, 0.5]) == pytest.approx(1.5 * 0.03)
    assert simes([]) == 1.0
    assert hypergeometric_tail(5, 20, 5, 5) == pytest.approx(1 / math.comb(20, 5))
    assert hypergeometric_tail(0, 20, 5, 5) == 1.0
    assert log_evidence(0.01, 0.0001) == pytest.approx(0.5)
    assert excess_evidence(0.5 / 16, 0.05) == pytest.approx(0.15689, abs=1e-5)
    assert excess_evidence(0.5, 0.05) == 0.0


@pytest.mark.parametrize(
    "bad",
    [
        lambda: upper_tail(1, []),
        lambda: upper_tail(float("nan"), [1.0]),
        lambda: simes([0.0]),
        lambda: simes([1.5]),
        lambda: hypergeometric_tail(1, 5, 9, 2),
        lambda: log_evidence(0, 0.5),
        lambda: excess_evidence(1, 1),
    ],
)
def test_numbers_outside_their_range_are_refused(bad):
    with pytest.raises(ValueError):  # noqa: PT011 -- seven messages
        bad()


def test_words():
    assert paper_words("Don't STOP: ﬁve 2x naïve") == ["don", "t", "stop", "five", "2x", "na", "ve"]
    assert jaccard(frozenset("ab"), frozenset("bc")) == pytest.approx(1 / 3)
    assert jaccard(frozenset(), frozenset()) == 0.0


def test_anchor_words_have_three_characters_or_are_digits():
    candidates = [{"ab", "7", "abc", "asked"}] * 2 + [set()] * 3
    found = answer_anchors({"asked"}, candidates, [set()] * 15)
    assert {anchor.word for anchor in found[0].anchors} == {"7", "abc"}
    one = math.comb(18, 3) / math.comb(20, 5)
    assert found[0].anchors[0].probability == pytest.approx(one)
    assert found[0].probability == pytest.approx(one)
    assert found[2].probability == 1.0
    assert found[2].evidence == 0.0


def test_an_anchor_needs_two_candidates_and_pays_for_the_tail():
    found = answer_anchors(set(), [{"lone"}, {"both"}, {"both"}, set(), set()], [{"both"}] * 15)
    assert found[0].anchors == ()
    assert found[1].anchors[0].in_ranking == 17
    assert found[1].evidence == pytest.approx(
        -math.log(found[1].probability) / math.log(math.comb(20, 5))
    )


def test_scripts():
    mixed = script_profile("pаypal")
    assert mixed.first_transition == 1
    assert mixed.minority_share == pytest.approx(1 / 6)
    assert mixed.violates_integrity
    assert not script_profile("Привет world").violates_integrity
    assert script_profile("Привет мир αβγ world").violates_integrity
    assert script_profile("\ud800 a").counts == (("LATIN", 1),)
    tail = script_integrity(mixed, np.zeros(15))
    assert tail.probability == pytest.approx(0.5 / 16)
    assert tail.evidence == pytest.approx(1.0)


@pytest.mark.parametrize("count", [0, 1, 7, 15, 16, 31])
def test_flat_losses_are_no_evidence(count):
    found = surprisal_evidence(np.full(count, 3.0))
    assert found.evidence == 0.0
    assert all(w.burst_nats == w.change_nats == 0.0 for w in found.windows)


def test_surprisal_of_a_step():
    # Eight tokens at 10 nats, then 24 at 1: burst and change are 9 at width 8.
    losses = np.array([10.0] * 8 + [1.0] * 24)
    eight = surprisal_profile(losses, 8)
    assert eight.burst_nats == pytest.approx(9.0)
    assert eight.change_nats == pytest.approx(9.0)
    assert eight.gate_nats == pytest.approx(5 * math.log(2) * math.sqrt(2))
    assert surprisal_evidence(losses).evidence == pytest.approx(9 / eight.gate_nats - 1)
    # The lower of two middle window means is the median: 4 means, sorted 1 2 3 4 -> 2.
    assert surprisal_profile(np.array([1.0, 1, 3, 3, 5]), 2).burst_nats == pytest.approx(4 - 2)


def test_alignment_by_hand():
    query = np.eye(4)[:2]
    document = np.vstack([np.eye(4)[:1]] * 32 + [np.eye(4)[2:3]] * 16)
    trace = alignment_trace(document, query)
    # First window: precision 1, recall (1 + 0) / 2; last: half of its tokens match.
    assert trace.tolist() == pytest.approx([2 / 3, 0.5])
    assert alignment_jump(trace) == pytest.approx(1 / 6)
    assert alignment_jump(trace[:1]) == 0.0
    assert alignment_trace(np.zeros((40, 4)), query).shape == (2,)
    assert alignment_evidence(1.0, np.zeros(15)).evidence == pytest.approx(0.15689, abs=1e-5)


def test_density_by_hand():
    contrast = density_contrast(np.array([0.9, 0.95]), 0.5)
    assert contrast.density == pytest.approx((0.925 - 0.5) / 0.5)
    assert density_contrast(np.array([0.9]), 0.5).density == pytest.approx(0.5 * 0.8)
    assert density_contrast(np.array([]), 0.5).density == 0.0
    assert density_contrast(np.array([0.86, 0.87]), 0.95).density == 0.0
    five = density_contrast(np.array([0.86, 0.9, 0.9, 0.9, 0.9]), 0.8)
    assert five.mean_top == pytest.approx(0.9)
    assert is_eligible(0.85, 0.60)
    assert not is_eligible(0.8499, 0.1)
    assert not is_eligible(0.99, 0.61)
