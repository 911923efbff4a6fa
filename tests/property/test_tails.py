"""Tails keep their bounds, their order and their scale, whatever they are given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from ragsieve.evidence.tails import (
    corpus_tail,
    excess_evidence,
    hypergeometric_tail,
    log_evidence,
    simes,
    upper_tail,
)

some = settings(max_examples=80, deadline=None)
probabilities = st.floats(1e-12, 1.0)
samples = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=25)


@st.composite
def counts(draw):
    population = draw(st.integers(2, 40))
    marked, drawn = draw(st.integers(0, population)), draw(st.integers(1, population))
    return population, marked, drawn


@some
@given(counts())
def test_hypergeometric_is_a_falling_tail_that_starts_at_one(given_):
    population, marked, drawn = given_
    tail = [hypergeometric_tail(x, population, marked, drawn) for x in range(drawn + 2)]
    assert tail[0] == 1.0
    assert tail[-1] == 0.0
    assert (np.diff(tail) <= 0).all()
    expected = hypergeom.sf(np.arange(-1, drawn + 1), population, marked, drawn)
    assert tail == pytest.approx(expected, abs=1e-12)


@some
@given(st.lists(probabilities, min_size=1, max_size=15), st.randoms(use_true_random=False))
def test_simes_ignores_order_and_falls_with_each_probability(values, random):
    combined = simes(values)
    shuffled = list(values)
    random.shuffle(shuffled)
    assert simes(shuffled) == combined
    place = random.randrange(len(values))
    lower = [p / 2 if i == place else p for i, p in enumerate(values)]
    assert simes(lower) <= combined
    assert max(values) >= combined * (1 - 1e-12)


@given(probabilities, st.integers(1, 12))
def test_simes_of_equal_probabilities_is_that_probability(p, count):
    assert simes([p] * count) == pytest.approx(p)


@some
@given(samples, st.integers(-5, 5))
def test_upper_tail_depends_on_order_alone(reference, value):
    moved = [math.exp(r) for r in reference]
    assert upper_tail(math.exp(value), moved) == upper_tail(float(value), reference)
    assert upper_tail(float(value), reference[::-1]) == upper_tail(float(value), reference)


@some
@given(samples)
def test_the_mid_rank_tail_is_symmetric(reference):
    # What lies above for one sign lies below for the other; both count half the ties.
    value = reference[0]
    mirrored = upper_tail(-value, [-r for r in reference])
    assert upper_tail(value, reference) + mirrored == pytest.approx(1.0)


@some
@given(samples)
def test_corpus_tail_counts(values):
    tail = corpus_tail(np.array(values))
    counted = [sum(other >= one for other in values) / (len(values) + 1) for one in values]
    assert tail.tolist() == counted


def test_corpus_tail_ties_are_made_in_single_precision():
    noise = np.array([0.1, 0.1 + 1e-12, 0.2])
    assert corpus_tail(noise).tolist() == [3 / 4, 3 / 4, 1 / 4]


@some
@given(probabilities, probabilities, st.floats(1e-9, 0.5))
def test_evidence_grows_as_probability_falls(one, other, level):
    low, high = sorted((one, other))
    for scale in (log_evidence, excess_evidence):
        assert scale(low, level) >= scale(high, level) >= 0.0
        assert scale(1.0, level) == 0.0
    assert log_evidence(level, level) == pytest.approx(1.0)
    assert excess_evidence(level, level) == 0.0
