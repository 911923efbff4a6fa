"""Every length a text can have at the edges of a window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragsieve.evidence.alignment import alignment_trace
from ragsieve.evidence.anchors import answer_anchors
from ragsieve.evidence.density import density_contrast
from ragsieve.evidence.scripts import script_integrity, script_profile
from ragsieve.evidence.surprisal import surprisal_evidence, surprisal_profile

GATE = 5 * math.log(2)


def ramp(count):
    return np.arange(count, dtype=float)


@pytest.mark.parametrize(
    ("count", "eight", "sixteen"),
    [
        # (burst, change) at each width, of the losses 0, 1, 2, ...
        (0, (0, 0), (0, 0)),
        (1, (0, 0), (0, 0)),
        (7, (0, 0), (0, 0)),  # fewer than a window: one mean, nothing to exceed
        (8, (0, 0), (0, 0)),
        (15, (4, 0), (0, 0)),  # means 3.5 .. 10.5, lower median 6.5 (8 means: the 4th)
        (16, (4, 8), (0, 0)),  # 9 means, median the 5th; one boundary, halves 8 apart
        (31, (12, 8), (8, 0)),  # 24 means: 26.5 - 14.5; 16 means: 22.5 - 14.5
        (32, (12, 8), (8, 16)),  # 25 means: 27.5 - 15.5; 17 means: 23.5 - 15.5
    ],
)
def test_surprisal_of_a_ramp(count, eight, sixteen):
    # The lower median of m means 3.5, 4.5, ... is the ((m - 1) // 2)-th from 0.
    for window, expected in ((8, eight), (16, sixteen)):
        seen = surprisal_profile(ramp(count), window)
        assert (seen.burst_nats, seen.change_nats) == pytest.approx(expected)
    ratio = max(max(eight) / (GATE * math.sqrt(2)), max(sixteen) / GATE)
    assert surprisal_evidence(ramp(count)).evidence == pytest.approx(max(0.0, ratio - 1))
    assert surprisal_evidence(ramp(count)).tokens == count


def test_boundaries_are_half_a_window_apart():
    # A step at 10 lies between the boundaries 8 and 12; the best of them is 12: 4 / 8 below.
    losses = np.array([0.0] * 10 + [8.0] * 22)
    assert surprisal_profile(losses, 8).change_nats == pytest.approx(6.0)
    # Its own boundary would have said 8.
    assert surprisal_profile(np.array([0.0] * 12 + [8.0] * 20), 8).change_nats == 8.0


@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [[1.0]]])
def test_losses_must_be_finite_and_flat(bad):
    with pytest.raises(ValueError, match="finite"):
        surprisal_evidence(np.array(bad))


def test_a_window_must_hold_two():
    with pytest.raises(ValueError, match="at least 2"):
        surprisal_profile(ramp(5), 1)


@pytest.mark.parametrize(
    ("tokens", "windows"),
    [(0, 0), (1, 1), (31, 1), (32, 1), (33, 2), (48, 2), (49, 3), (64, 3), (256, 15)],
)
def test_alignment_windows_end_flush(tokens, windows):
    states = np.tile(np.eye(3)[0], (tokens, 1))
    trace = alignment_trace(states, np.eye(3)[:1])
    assert trace.tolist() == pytest.approx([1.0] * windows)
    assert alignment_trace(states, np.empty((0, 3))).size == 0


def test_the_last_window_is_the_last_32_tokens():
    states = np.vstack([np.tile(np.eye(3)[1], (32, 1)), np.eye(3)[:1]])
    trace = alignment_trace(states, np.eye(3)[:1])
    # Precision 1 / 32, recall 1.
    assert trace.tolist() == pytest.approx([0.0, 2 * (1 / 32) / (1 + 1 / 32)])


def test_states_of_two_encoders_do_not_mix():
    with pytest.raises(ValueError, match="same dimension"):
        alignment_trace(np.eye(3), np.eye(4))


@pytest.mark.parametrize(
    ("word", "tested"),
    [("7", True), ("42", True), ("1975", True), ("ab", False), ("a1", False), ("abc", True)],
)
def test_short_words_are_tested_only_when_they_are_digits(word, tested):
    found = answer_anchors((), [{word}, {word}, set(), set(), set()], [set()] * 15)
    assert [anchor.word for anchor in found[0].anchors] == ([word] if tested else [])
    # P[both of its two documents are among the five of twenty].
    p = math.comb(18, 3) / math.comb(20, 5)
    expected = math.log(p) / math.log(1 / math.comb(20, 5)) if tested else 0.0
    assert found[0].evidence == pytest.approx(expected)
    assert found[4].evidence == 0.0


def test_the_strongest_possible_anchor_is_evidence_one():
    found = answer_anchors((), [{"paris"}] * 5, [set()] * 15)
    assert [one.evidence for one in found] == pytest.approx([1.0] * 5)
    everywhere = answer_anchors((), [{"paris"}] * 5, [{"paris"}] * 15)
    assert [one.evidence for one in everywhere] == [0.0] * 5
    asked = answer_anchors({"paris"}, [{"paris"}] * 5, [set()] * 15)
    assert [one.evidence for one in asked] == [0.0] * 5


@pytest.mark.parametrize(("candidates", "tail"), [([], [set()]), ([set()], [])])
def test_anchors_need_both_sides(candidates, tail):
    with pytest.raises(ValueError, match="at least one"):
        answer_anchors((), candidates, tail)


@pytest.mark.parametrize(
    ("text", "scripts", "share", "violates"),
    [
        ("", [], 0.0, False),
        ("12 ! 3", [], 0.0, False),
        ("plain", ["LATIN"], 0.0, False),
        ("ab вг", ["CYRILLIC", "LATIN"], 0.5, False),
        ("a в γ", ["CYRILLIC", "GREEK", "LATIN"], 2 / 3, True),
        ("日本ひカ한", ["EAST_ASIAN"], 0.0, False),
        ("word词", ["EAST_ASIAN", "LATIN"], 0.2, True),
        ("a\u200dв", ["CYRILLIC", "LATIN"], 0.5, False),  # a joiner is no letter between them
        ("ሀa", ["LATIN", "OTHER"], 0.5, True),
    ],
)
def test_scripts_of_a_text(text, scripts, share, violates):
    profile = script_profile(text)
    assert sorted(name for name, _ in profile.counts) == scripts
    assert profile.minority_share == pytest.approx(share)
    assert profile.violates_integrity is violates


@pytest.mark.parametrize(("above", "equal"), [(0, 0), (0, 15), (15, 0), (3, 5)])
def test_script_tail(above, equal):
    profile = script_profile("ab вг")
    shares = np.array([0.9] * above + [0.5] * equal + [0.0] * (15 - above - equal))
    found = script_integrity(profile, shares)
    p = (0.5 + above + 0.5 * equal) / 16
    assert found.probability == pytest.approx(p)
    assert found.evidence == pytest.approx(-math.log10(p) / math.log10(32))


@pytest.mark.parametrize(
    ("eligible", "background", "density"),
    [
        ([], 0.2, 0.0),
        ([0.9], 0.8, 0.5 * 0.5),
        ([0.9, 0.9], 0.8, 0.5),
        ([1.0, 1.0, 1.0], 0.0, 1.0),
        ([1.0, 1.0], 1.0, 0.0),  # a neighbourhood of copies has no contrast
        ([1.0, 1.0], 1 - 1e-9, 1e-9 / 1e-6),  # and its width is floored
        ([0.9, 0.9], 0.95, 0.0),
        ([0.86, 0.88, 0.9, 0.92, 0.94], 0.8, (0.91 - 0.8) / 0.2),  # the four nearest
    ],
)
def test_density_in_closed_form(eligible, background, density):
    found = density_contrast(np.array(eligible), background)
    assert found.density == pytest.approx(density, abs=1e-9)
    assert found.eligible == len(eligible)
    assert found.background == background
