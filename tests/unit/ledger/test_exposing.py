"""Retrievals are counted by day; only the last ones are kept."""

from __future__ import annotations

import datetime

from unit.ledger.building import STORE, context, place


def test_counting_by_day(ledger, clock):
    ledger.exposures.add(STORE, [context(["a", "b"]), context(["a", "a"])])
    clock.skip(days=1)
    ledger.exposures.add(STORE, [context(["a"])])
    seen = ledger.exposures.of(place("a"))
    assert seen.total == 3
    assert seen.days == ((datetime.date(2026, 3, 1), 2), (datetime.date(2026, 3, 2), 1))
    assert ledger.exposures.of(place("a"), days=1).total == 1
    assert ledger.exposures.of(place("a"), days=2).total == 3
    assert ledger.exposures.of(place("a", store="elsewhere")).total == 0
    assert ledger.exposures.of(place("never")).days == ()


def test_the_last_retrievals_are_kept_whole(ledger):
    odd = context(["a\x00", "b\ud800"], "q\\", None)
    ledger.exposures.add(STORE, [context(["a\x00"], "q0"), odd])
    recent = ledger.exposures.recent(place("a\x00"))
    assert [one.context for one in recent] == [odd, context(["a\x00"], "q0")]
    assert recent[0].store == STORE


def test_older_retrievals_are_forgotten_and_still_counted(ledger):
    for number in range(6):
        ledger.exposures.add(STORE, [context(["a"], f"q{number}")], keep=4)
    ledger.exposures.add("elsewhere", [context(["a"], "other")], keep=4)
    assert [one.context.query_id for one in ledger.exposures.recent(place("a"))] == [
        "q5",
        "q4",
        "q3",
        "q2",
    ]
    assert ledger.exposures.of(place("a")).total == 6
    ledger.exposures.add(STORE, [context(["a"], "q9")], keep=0)
    assert ledger.exposures.recent(place("a")) == ()
    assert ledger.exposures.of(place("a")).total == 7


def test_nothing_is_nothing_and_nothing_is_audited(ledger):
    ledger.exposures.add(STORE, [])
    ledger.exposures.add(STORE, [context([])])
    assert ledger.audit.head() is None


def test_a_long_ranking(ledger):
    names = [f"d{number}" for number in range(1_200)]
    ledger.exposures.add(STORE, [context(names), context(names)])
    assert ledger.exposures.of(place("d1199")).total == 2
