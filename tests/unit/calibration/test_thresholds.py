"""A threshold keeps to its rate, and its intervals hold whatever the scores look like."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.calibration.intervals import (
    Interval,
    difference,
    fewest,
    quantile_ranks,
    share_interval,
)
from ragsieve.calibration.samples import sample
from ragsieve.calibration.thresholds import Aim, alarms_at, choose
from ragsieve.errors import ConfigError, InputError

scores_of_any_kind = st.lists(
    st.one_of(st.floats(0, 1e9), st.sampled_from([0.0, 1.0, 2.5, 5e-324])),
    min_size=40,
    max_size=60,
)


def test_clopper_pearson_against_published_figures():
    # Textbook values for 10 of 100, and the rule of three's exact form for none of 100.
    assert share_interval(10, 100, 0.95).low == pytest.approx(0.0490047, abs=1e-6)
    assert share_interval(10, 100, 0.95).high == pytest.approx(0.1762226, abs=1e-6)
    assert share_interval(0, 100, 0.95) == Interval(0, 0, pytest.approx(1 - 0.025 ** (1 / 100)))
    assert share_interval(100, 100, 0.95).high == 1
    with pytest.raises(ValueError, match="hits"):
        share_interval(3, 2, 0.95)


@pytest.mark.parametrize(("of", "rate"), [(60, 0.1), (400, 0.01), (1000, 0.02), (7, 0.5)])
def test_the_enclosing_order_statistics_are_the_tightest_that_hold(of, rate):
    upper, lower = quantile_ranks(of, rate, 0.95)

    def below(count):
        return sum(math.comb(of, j) * rate**j * (1 - rate) ** (of - j) for j in range(count))

    assert below(upper) <= 0.025 + 1e-12 < below(upper + 1)
    assert 1 - below(lower) <= 0.025 + 1e-12 < 1 - below(lower - 1)


def test_the_fewest_draws_are_those_from_which_the_upper_end_is_in_the_sample():
    for rate in (0.5, 0.1, 0.01, 0.003):
        needed = fewest(rate, 0.95)
        assert quantile_ranks(needed, rate, 0.95)[0] >= 1
        assert quantile_ranks(needed - 1, rate, 0.95)[0] == 0
    assert fewest(0.01, 0.95) == 368


@settings(max_examples=60, deadline=None)
@given(scores=scores_of_any_kind, rate=st.floats(0.1, 0.6), per_query=st.booleans(), data=st.data())
def test_alarms_on_the_sample_keep_to_the_rate(scores, rate, per_query, data):
    groups = data.draw(st.lists(st.integers(0, 50), min_size=len(scores), max_size=len(scores)))
    benign = sample(scores, groups)
    unit = "query" if per_query else "document"
    choice = choose(benign, Aim(rate, unit))
    assert (choice.threshold is None) == (choice.reason is not None)
    if choice.threshold is None or choice.alarms is None:
        return
    units = benign.highest() if per_query else benign
    count = np.count_nonzero(units.scores >= choice.threshold.value)
    assert count == choice.alarms.count <= rate * len(units)
    assert choice.threshold.low <= choice.threshold.value <= choice.threshold.high
    shown = choice.alarms.rate
    assert 0 <= shown.low <= shown.value <= shown.high <= 1
    # The lowest such threshold: the next score below it would be one alarm too many.
    below = units.scores[units.scores < choice.threshold.value].max()
    assert np.count_nonzero(units.scores >= below) > rate * len(units)
    assert choice.threshold.value <= below * (1 + 1e-5) + 1e-300


@settings(max_examples=30, deadline=None)
@given(scores=scores_of_any_kind, rates=st.tuples(st.floats(0.1, 0.9), st.floats(0.1, 0.9)))
def test_a_stricter_rate_never_lowers_the_threshold(scores, rates):
    strict, loose = (choose(sample(scores), Aim(rate)).threshold for rate in sorted(rates))
    if strict is not None and loose is not None:
        assert strict.value >= loose.value


@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("kind", ["exponential", "ties"])
def test_intervals_cover_in_simulation(copies, kind):
    """Documents of a ranking that all say the same are the worst case of dependence."""
    rng = np.random.default_rng(20)
    rate, queries, runs = 0.05, 300, 400
    rates = quantiles = 0
    for _ in range(runs):
        own = rng.exponential(size=queries)
        if kind == "ties":
            own = np.ceil(own * 4) / 4
        choice = choose(
            sample(np.repeat(own, copies), np.repeat(np.arange(queries), copies)), Aim(rate)
        )
        assert choice.threshold is not None
        assert choice.alarms is not None
        threshold = choice.threshold.value
        true = math.exp(-threshold if kind == "exponential" else -math.floor(threshold * 4) / 4)
        rates += (
            true <= choice.alarms.rate.high
            if kind == "ties"
            else (choice.alarms.rate.low <= true <= choice.alarms.rate.high)
        )
        quantiles += choice.threshold.low <= -math.log(rate) <= choice.threshold.high
    assert rates / runs >= 0.94
    assert kind == "ties" or quantiles / runs >= 0.94


def test_documents_of_one_ranking_count_as_one_draw_at_worst():
    alone = sample(np.linspace(0, 2, 500))
    tied = sample(np.linspace(0, 2, 500), np.repeat(np.arange(100), 5))
    uneven = sample(np.ones(102), [0] * 100 + [1, 2])
    assert (alone.effective, tied.effective, uneven.effective) == (500, 100, 1)
    narrow, wide = (alarms_at(one, 1.8, 0.95).rate for one in (alone, tied))
    assert narrow.value == wide.value == 0.1
    assert wide.low < narrow.low
    assert wide.high > narrow.high


def test_too_few_documents_set_no_threshold_and_say_how_many_are_needed():
    rng = np.random.default_rng(3)
    few = choose(sample(rng.random(367)), Aim(0.01))
    assert few.threshold is None
    assert few.reason == "too few: 367 benign documents; a rate of 0.01 needs 368"
    assert choose(sample(rng.random(368)), Aim(0.01)).threshold is not None
    # Many documents of few rankings are few.
    tied = choose(sample(rng.random(1000), np.repeat(np.arange(200), 5)), Aim(0.01))
    assert tied.threshold is None
    assert "1,000 benign documents, worth 200 independent ones" in (tied.reason or "")


def test_a_rate_that_every_threshold_meets_sets_none():
    scores = np.zeros(1000)
    scores[:3] = 2.0
    choice = choose(sample(scores), Aim(0.01))
    assert choice.threshold is None
    assert "only 3 of 1,000 have any evidence" in (choice.reason or "")


def test_per_query_counts_queries():
    scores = np.zeros((400, 5))
    scores[:, 0] = np.linspace(0.1, 1, 400)
    benign = sample(scores.ravel(), np.repeat(np.arange(400), 5))
    by_query = choose(benign, Aim(0.01, "query"))
    assert by_query.units == by_query.effective == 400
    assert by_query.alarms is not None
    assert by_query.alarms.count == 4


def test_trimming_is_asked_for_and_counts_against_the_rate():
    rng = np.random.default_rng(8)
    scores = rng.random(1000)
    scores[:5] = 50.0
    plain, trimmed = (choose(sample(scores), Aim(0.01, trim=trim)) for trim in (0.0, 0.005))
    assert (plain.trimmed, trimmed.trimmed) == (0, 5)
    assert plain.threshold is not None
    assert trimmed.threshold is not None
    assert trimmed.threshold.value < plain.threshold.value
    assert trimmed.alarms is not None
    # Were the trimmed ones benign, the rate would be that of fourteen alarms, not nine.
    assert trimmed.alarms.rate.high == share_interval(9 + 5, 1000, 0.95).high
    assert trimmed.alarms.rate.value == 9 / 995


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -0.5])
def test_scores_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(InputError, match="score 1 of 3"):
        sample([0.5, wrong, 1.0])


def test_no_scores_are_refused():
    with pytest.raises(InputError, match="none"):
        sample([])


def test_scores_at_the_end_of_double_precision_set_no_threshold():
    choice = choose(sample(np.full(400, 1.7976931348623157e308)), Aim(0.1))
    assert choice.threshold is None
    assert "double precision" in (choice.reason or "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"alarm_rate": 0.0},
        {"alarm_rate": 1.0},
        {"alarm_rate": math.nan},
        {"confidence": 1.0},
        {"trim": 0.2},
        {"trim": -0.1},
    ],
)
def test_impossible_aims_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Aim(**wrong)


def test_the_interval_of_a_change_covers():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        before = share_interval(int(rng.binomial(400, 0.02)), 400, 0.95)
        after = share_interval(int(rng.binomial(300, 0.05)), 300, 0.95)
        change = difference(before, after)
        covered += change.low <= 0.03 <= change.high
    assert covered / 400 >= 0.94
