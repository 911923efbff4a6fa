"""Intervals against a slow reference that builds every resample."""

from __future__ import annotations

import numpy as np
import pytest

from ragsieve.lab.intervals import Clustered, macro, ratio, separation
from ragsieve.lab.metrics import auroc, detected_at

TARGETS = 7
RESAMPLES = 60


def sides(rng):
    poison = Clustered(rng.integers(0, 6, size=30) / 4.0, rng.integers(0, TARGETS, size=30))
    clean = Clustered(rng.integers(0, 6, size=90) / 5.0, rng.integers(-1, TARGETS, size=90))
    return poison, clean


def drawn(side, draw):
    chosen = [side.scores[side.targets == -1]]
    chosen += [side.scores[side.targets == target] for target in draw]
    return np.concatenate(chosen)


def reference(poison, clean, seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(TARGETS, np.full(TARGETS, 1 / TARGETS), size=RESAMPLES)
    areas, found = [], []
    for row in counts:
        draw = np.repeat(np.arange(TARGETS), row)
        bad, good = drawn(poison, draw), drawn(clean, draw)
        if bad.size and good.size:
            areas.append(auroc(bad, good))
            found.append(detected_at(bad, good))
    return [np.quantile(values, [0.025, 0.975]) for values in (areas, found)]


@pytest.mark.parametrize("seed", range(5))
def test_separation_is_that_of_resampled_targets(seed):
    poison, clean = sides(np.random.default_rng(seed))
    found = separation(poison, clean, TARGETS, seed=seed, resamples=RESAMPLES)
    areas, detections = reference(poison, clean, seed)
    assert found.auroc.value == auroc(poison.scores, clean.scores)
    assert found.detected.value == detected_at(poison.scores, clean.scores)
    assert [found.auroc.low, found.auroc.high] == pytest.approx(areas)
    assert [found.detected.low, found.detected.high] == pytest.approx(detections)


def test_ratio_is_that_of_resampled_targets():
    hits, of = np.array([3.0, 0.0, 2.0]), np.array([5.0, 4.0, 2.0])
    found = ratio(hits, of, seed=3, fixed=(1.0, 2.0), resamples=RESAMPLES)
    counts = np.random.default_rng(3).multinomial(3, [1 / 3] * 3, size=RESAMPLES)
    slow = [(row @ hits + 1) / (row @ of + 2) for row in counts]
    assert found.value == pytest.approx(6 / 13)
    assert [found.low, found.high] == pytest.approx(np.quantile(slow, [0.025, 0.975]))


def test_one_target_has_no_interval_and_nothing_has_no_share():
    one = Clustered(np.array([1.0]), np.array([0]))
    found = separation(one, Clustered(np.array([0.0]), np.array([-1])), 1, seed=0)
    assert (found.auroc.value, found.auroc.low, found.detected.high) == (1.0, None, None)
    assert ratio([0.0], [0.0], seed=0) is None
    assert ratio([0.0, 0.0], [0.0, 0.0], seed=0, fixed=(1.0, 4.0)).low is None


def test_a_target_number_out_of_range_is_an_error():
    side = Clustered(np.array([1.0]), np.array([2]))
    with pytest.raises(ValueError, match="outside"):
        separation(side, side, 2, seed=0)


def test_macro_needs_every_cell():
    assert macro([0.2, 0.4]) == pytest.approx(0.3)
    assert macro([0.2, None]) is None
    assert macro([]) is None
