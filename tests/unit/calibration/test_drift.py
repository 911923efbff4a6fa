"""Drift is found where traffic changed and nowhere else; recall by campaign."""

from __future__ import annotations

import numpy as np
import pytest

from ragsieve.calibration.drift import compare
from ragsieve.calibration.recall import Replayed, recall_at
from ragsieve.calibration.samples import sample
from ragsieve.calibration.sketch import POINTS, Sketch, sketch_of
from ragsieve.calibration.thresholds import alarms_at
from ragsieve.errors import InputError


def drift(before, after, threshold, **more):
    then, now = sample(before), sample(after)
    return compare(sketch_of(then), alarms_at(then, threshold, 0.95), now, **more)


def test_the_same_distribution_has_not_drifted():
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(300):
        before, after = rng.exponential(size=600), rng.exponential(size=500)
        found += drift(before, after, 3.0).drifted
    assert found / 300 <= 0.03


def test_tied_scores_of_one_distribution_have_not_drifted():
    rng = np.random.default_rng(5)
    found = sum(
        drift(*(np.round(rng.exponential(size=(2, 600)), 1)), 3.0).drifted for _ in range(200)
    )
    assert found / 200 <= 0.03


def test_a_shift_is_found_even_where_no_alarm_changes():
    rng = np.random.default_rng(6)
    seen = drift(rng.normal(1, 0.2, 800).clip(0), rng.normal(1.3, 0.2, 800).clip(0), 9.0)
    assert seen.drifted
    assert seen.change.low <= 0 <= seen.change.high
    assert seen.stability_index > 0.1
    assert "distribution" in seen.reasons[0]


def test_a_tail_that_grew_is_found_though_the_distribution_hardly_moved():
    rng = np.random.default_rng(7)
    before, after = rng.random(3000), rng.random(3000)
    after[:150] = 5.0
    seen = drift(before, after, 2.0)
    assert [reason for reason in seen.reasons if reason.startswith("alarms at 2 went")]
    assert seen.before.value == 0
    assert seen.now.value == 0.05
    assert seen.change.low > 0


def test_a_significant_difference_that_is_small_is_no_drift():
    before, after = np.linspace(0, 1, 100_000), np.linspace(0.02, 1, 100_000)
    seen = drift(before, after, 2.0)
    assert seen.p_value < 0.001
    assert not seen.drifted


def test_dependent_documents_make_a_difference_less_certain():
    before, after = np.linspace(0, 1, 500), np.linspace(0.15, 1.15, 500)
    tied = sample(after, np.repeat(np.arange(10), 50))
    then = sample(before)
    sure = compare(sketch_of(then), alarms_at(then, 5.0, 0.95), sample(after))
    unsure = compare(sketch_of(then), alarms_at(then, 5.0, 0.95), tied)
    assert sure.statistic == unsure.statistic
    assert sure.p_value < 0.01 < unsure.p_value


def test_many_slices_at_once_ask_for_more():
    rng = np.random.default_rng(11)
    before, after = rng.random(500), rng.random(500)
    after[:12] = 5.0
    assert drift(before, after, 2.0).drifted
    assert not drift(before, after, 2.0, comparisons=1000).drifted


def test_the_statistic_of_a_complete_sketch_is_the_two_sample_one():
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(2)
    before = np.round(rng.exponential(size=500), 1)
    after = np.round(rng.exponential(1.2, size=300), 1)
    assert drift(before, after, 1.0).statistic == pytest.approx(ks_2samp(before, after).statistic)
    # A partial one is never above it, and close.
    full = rng.exponential(size=20_000)
    part = drift(full, after, 1.0).statistic
    whole = ks_2samp(full, after).statistic
    assert whole - 0.02 <= part <= whole + 1e-12


def test_all_mass_moving_below_the_only_score_is_seen():
    assert drift(np.ones(200), np.full(200, 0.5), 0.9).statistic == 1


def test_a_sketch_is_small_and_exact_where_it_speaks():
    rng = np.random.default_rng(3)
    scores = rng.exponential(size=50_000)
    made = sketch_of(sample(scores))
    assert len(made.scores) <= POINTS
    for row in (0, 100, len(made.scores) - 1):
        assert made.upto[row] == np.mean(scores <= made.scores[row])
        assert made.below[row] == np.mean(scores < made.scores[row])
    assert made.scores[-1] == scores.max()
    assert made.quantile(0.5) == pytest.approx(np.log(2), abs=0.03)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scores": (1.0, 1.0)},
        {"upto": (1.0, 0.5)},
        {"below": (0.0,)},
        {"effective": 0},
        {"upto": (0.5, 1.5)},
        {"scores": (), "below": (), "upto": ()},
    ],
)
def test_an_impossible_sketch_is_refused(wrong):
    fields = {
        "size": 4,
        "effective": 4,
        "scores": (1.0, 2.0),
        "below": (0.0, 0.5),
        "upto": (0.5, 1.0),
    }
    assert Sketch(**fields).quantile(1) == 2.0
    with pytest.raises(InputError):
        Sketch(**(fields | wrong))


def test_recall_counts_documents_and_campaigns_of_each_size():
    scores = [2.0, 0.1, 0.1, 0.1, 0.1, 3.0, 3.0, 0.2]
    groups = [0, 0, 0, 0, 0, 1, 2, 3]
    sizes = np.array([5, 5, 5, 5, 5, 1, 1, 1])
    found = recall_at(Replayed(sample(scores, groups), sizes, 4), 1.0, 0.95)
    assert (found.documents.found, found.documents.of, found.not_judged) == (3, 8, 4)
    assert (found.campaigns.found, found.campaigns.of) == (3, 4)
    assert [(one.size, one.documents.found, one.documents.of) for one in found.by_size] == [
        (1, 2, 3),
        (5, 1, 5),
    ]
    # Five documents of one campaign say as much as one.
    assert found.by_size[1].documents.share.high > 0.9
    lower = recall_at(Replayed(sample(scores, groups), sizes), 0.05, 0.95)
    assert lower.documents.share.value == 1
    unknown = recall_at(Replayed(sample(scores, groups), np.zeros(8, dtype=np.int64)), 1.0, 0.95)
    assert [one.size for one in unknown.by_size] == [None]
