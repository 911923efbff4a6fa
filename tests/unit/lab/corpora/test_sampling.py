"""Draws are fixed by value; volumes are nested."""

from __future__ import annotations

import pytest

from ragsieve.errors import ConfigError
from ragsieve.lab.corpora._gather import joined, planted
from ragsieve.lab.corpora.records import Dataset, Target
from ragsieve.lab.corpora.sampling import QUERY_SEED, TARGET_SEED, drawn, sampled, volume
from ragsieve.records import Document, Query

NAMES = [f"q{number}" for number in range(20)]


def dataset():
    queries = tuple(Query(name, f"question {name}") for name in NAMES)
    return Dataset(
        name="velm",
        documents=(Document("d", "text"),),
        queries=queries,
        targets=tuple(Target(query, ("a",), "b") for query in queries),
        answers=dict.fromkeys(NAMES, ("a",)),
        relevant={name: frozenset({"d"}) for name in NAMES},
    )


def test_the_draws_are_those_of_every_machine():
    assert (QUERY_SEED, TARGET_SEED) == (42, 2026)
    assert sorted(drawn(NAMES, 5, 42)) == ["q11", "q14", "q18", "q19", "q3"]
    assert sorted(drawn(NAMES, 5, 2026)) == ["q14", "q16", "q17", "q7", "q9"]


def test_a_draw_does_not_depend_on_order_and_contains_smaller_ones():
    mixed = [*NAMES[1::2], *NAMES[::2]]
    assert drawn(mixed, 7, 42) == drawn(NAMES, 7, 42)
    for count in range(1, 20):
        assert drawn(NAMES, count, 42) < drawn(NAMES, count + 1, 42)
    assert drawn(NAMES, 50, 42) == frozenset(NAMES)
    with pytest.raises(ConfigError, match="at least 1"):
        drawn(NAMES, 0, 42)


def test_targets_are_drawn_among_the_questions_drawn():
    small = sampled(dataset(), queries=8, targets=3)
    asked = [query.id for query in small.queries]
    assert asked == [name for name in NAMES if name in drawn(NAMES, 8, 42)]
    attacked = [target.query.id for target in small.targets]
    assert attacked == [name for name in asked if name in drawn(asked, 3, 2026)]
    assert set(small.answers) == set(small.relevant) == set(asked)
    assert small.documents == dataset().documents


def poisoning():
    many = planted("natural", "q1", [f"one {number}" for number in range(5)])
    few = planted("natural", "q2", ["two 0", "two 1"])
    return joined([many, few], "here")


@pytest.mark.parametrize(("size", "expected"), [(1, 2), (3, 5), (5, 7), (10, 14)])
def test_volumes(size, expected):
    assert len(volume(poisoning(), size).documents) == expected


def test_prefixes_are_nested():
    one, three, five = (volume(poisoning(), size).documents for size in (1, 3, 5))
    assert set(one) < set(three) < set(five)


def test_ten_repeats_the_five_under_new_ids():
    five, ten = volume(poisoning(), 5), volume(poisoning(), 10)
    assert ten.documents[:7] == five.documents
    assert [one.text for one in ten.documents[7:]] == [one.text for one in five.documents]
    assert len(ten.labels) == len({one.id for one in ten.documents}) == 14
    again = ten.labels[ten.documents[7].id]
    assert (again.query_id, again.member) == ("q1", 5)
    assert list(ten.labels) == [one.id for one in ten.documents]


def test_another_volume_is_refused():
    with pytest.raises(ConfigError, match="expected one of 1, 3, 5, 10, found 4"):
        volume(poisoning(), 4)
