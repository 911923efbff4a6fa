"""Groups from one hand, against the habits of the corpus."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.evidence.concentration import (
    LARGEST,
    Habits,
    created_together,
    origin_evidence,
    shared_value,
)
from ragsieve.evidence.tokens import fold_number
from ragsieve.features.origins import Origins, days_of, habits, origin_of_group
from ragsieve.records import Document, Provenance


def test_the_binomial_tail_by_hand():
    found = shared_value("author", "a", ["a", "a", "b"], 0.1)
    assert found.probability == pytest.approx(3 * 0.1**2 * 0.9 + 0.1**3)
    assert shared_value("author", "a", ["b"], 0.1).probability == pytest.approx(1.0)
    assert shared_value("source", "a", ["a"] * 8, 1.0).probability == 1.0
    # A habit never seen is rare, not impossible.
    assert shared_value("source", "a", ["a"], 0.0).probability == pytest.approx(0.001)


def test_time_against_the_distances_of_the_corpus():
    usual = np.arange(100.0)
    close = created_together(np.array([5.0, 5.5, 5.2]), usual)
    wide = created_together(np.array([5.0, 95.0, 40.0]), usual)
    assert close.probability == pytest.approx((1.5 / 101) ** 2)
    assert close.days == pytest.approx(0.5)
    assert wide.probability > 0.7


def test_evidence_corroborates_and_never_decides():
    rare = shared_value("author", "a", ["a"] * 4, 0.001)
    common = shared_value("source", "a", ["a"] * 4, 0.99)
    value, detail = origin_evidence((rare,))
    assert value == LARGEST < 1
    assert detail.probability == pytest.approx(rare.probability)
    assert origin_evidence((common,))[0] == 0.0
    both, _ = origin_evidence((rare, common))
    assert 0 < both <= LARGEST
    assert math.isfinite(origin_evidence((shared_value("author", "a", ["a"] * 200, 0.001),))[0])


@pytest.mark.parametrize(
    ("text", "days"),
    [("1970-01-02", 1.0), ("1970-01-01T12:00:00Z", 0.5), ("1970-01-01T12:00:00+12:00", 0.0)],
)
def test_dates(text, days):
    assert days_of(text) == pytest.approx(days)


@pytest.mark.parametrize("text", [None, "", "yesterday", "2020-13-01"])
def test_what_is_no_date_is_unknown(text):
    assert math.isnan(days_of(text))


def test_habits_need_enough_pairs():
    origins = Origins.of([Provenance(author=f"a{i % 2}") for i in range(80)])
    few = np.arange(10)
    assert habits(origins, few, few + 2) == Habits()
    many = np.arange(70)
    assert habits(origins, many, many + 2).author == 1.0
    assert habits(origins, many, many + 1).author == 0.0
    assert habits(origins, many, many + 1).source is None


def test_nothing_known_is_none():
    origins = Origins.of([Provenance(), Provenance(author="a")])
    assert origin_of_group(origins, 0, [1], Habits(author=0.1)) is None
    assert origin_of_group(origins, 1, [0], Habits(author=0.1)) is None


def planted(provenance_of):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(204, 192))
    # Four documents together, too weakly to be flagged by themselves.
    rows[200:] = rng.normal(size=192) + 1.5 * rng.normal(size=(4, 192))
    documents = [
        Document(f"d{i}", " ".join(f"w{i}x{j}" for j in range(12)), provenance=provenance_of(i))
        for i in range(204)
    ]
    return CorpusDetector("default").scan(documents, rows)


def test_one_hand_lifts_a_group_over_the_threshold():
    none = planted(lambda _: Provenance())
    many = planted(lambda i: Provenance(author=f"a{i}"))
    one = planted(lambda i: Provenance(author="x" if i >= 200 else f"a{i % 90}"))
    assert none.verdict(203).complete
    assert not none.verdict(203).evidences[-1].measured
    assert none.scores.tolist() == many.scores.tolist()
    gap = none.column("neighbor_gap").values[200:]
    assert (gap > 0.5).all()
    assert (gap < 1).tolist() == [True, False, True, False]
    assert (one.column("provenance").values[200:] == LARGEST).all()
    assert (one.scores[200:] > none.scores[200:]).all()
    assert set(one.flagged_ids) - set(none.flagged_ids) == {"d200", "d202"}
    assert one.scores[:200].tolist() == none.scores[:200].tolist()


def test_numbers_fold_and_words_do_not():
    assert [fold_number(token) for token in ("12", "٣٤", "三", "p53", "word")] == [
        "0",
        "0",
        "三",
        "p53",
        "word",
    ]


def test_tables_that_differ_in_their_figures_are_versions():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(130, 24))
    rows[120:] = rows[120] + 0.05 * rng.normal(size=(10, 24))
    table = "Rainfall by station | year | north | south | {}"
    figures = [" | ".join(str(rng.integers(1000)) for _ in range(20)) for _ in range(10)]
    texts = [f"plain text {i} of subject {i * 3} here" for i in range(120)]
    texts += [table.format(figure) for figure in figures]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    scan = CorpusDetector("default").scan(documents, rows)
    assert (scan.column("neighbor_gap").values[120:] < 1).all()
    # The same vectors under differing words are a group.
    documents[120:] = [
        Document(f"d{120 + i}", " ".join(f"w{i}x{j}" for j in range(12))) for i in range(10)
    ]
    worded = CorpusDetector("default").scan(documents, rows)
    assert (worded.column("neighbor_gap").values[120:] >= 1).all()
