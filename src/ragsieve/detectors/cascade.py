"""Decide with as little evidence as it takes: from cheap to dear, until nothing can change.

Evidence is never negative and a score never falls when one more is measured. So a document
whose measured part reaches the threshold is flagged whatever else is found, and one whose
measured part stays below it together with the most that the rest can add is not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ragsieve.detectors.rules import QueryRule, QueryView, decide, level_of
from ragsieve.outcomes import Bounds
from ragsieve.records import Decision, Evidence, Level

# Limits are exact up to rounding: what comes this close to the threshold is measured in full.
_SLACK = 1e-9


class Seat(NamedTuple):
    """One candidate of a batch of views.

    :param view: place of its view in the batch, from 0.
    :param place: its place among the view's candidates, from 0.
    """

    view: int
    place: int


def _known(seat: Seat) -> str | None:  # noqa: ARG001
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One evidence, measured when it is needed.

    :param limit: the largest value it can take for a candidate; may be infinite. Not asked
        where the evidence is missing.
    :param measure: the evidence of each of some candidates, in their order; at least one.
    :param missing: why it is already known that a candidate's cannot be measured; None where
        it may be.
    :param closer: a closer limit that takes some work; asked where ``limit`` leaves it open.
    :param cheap: whether measuring costs no more than finding out whether it is needed.
    """

    name: str
    limit: Callable[[Seat], float]
    measure: Callable[[Sequence[Seat]], Sequence[Evidence]]
    missing: Callable[[Seat], str | None] = _known
    closer: Callable[[Seat], float] | None = None
    cheap: bool = False


@runtime_checkable
class StagedRule(QueryRule, Protocol):
    """A query rule that can stop early.

    Its level never falls when one more evidence is measured.
    """

    @property
    def evidence_names(self) -> tuple[str, ...]:
        """The evidences in the order of ``measure``."""
        ...

    def stages(self, views: Sequence[QueryView]) -> tuple[Stage, ...]:
        """The evidences of a batch, cheap ones first; every one stands once."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """What was found out about one candidate.

    :param evidences: those looked at, unavailable ones included, in the rule's order.
    :param skipped: names of those that could no longer change anything.
    """

    bounds: Bounds
    decision: Decision
    level: Level
    evidences: tuple[Evidence, ...]
    skipped: tuple[str, ...]


def settle(rule: StagedRule, views: Sequence[QueryView]) -> list[tuple[Standing, ...]]:
    """Decide on every candidate of a batch; one standing a candidate, in rank order."""
    seats = [Seat(v, p) for v, view in enumerate(views) for p in range(len(view.candidates))]
    standings = iter(_Cascade(rule, rule.stages(views)).run(seats))
    return [tuple(next(standings) for _ in view.candidates) for view in views]


def by_view(
    views: Sequence[QueryView], column: Callable[[int, QueryView], Sequence[Evidence]]
) -> Callable[[Sequence[Seat]], list[Evidence]]:
    """A measurement for a :class:`Stage` that judges all candidates of a view at once.

    :param column: the evidence of every candidate of a view, given its place and the view.
    """

    def measure(seats: Sequence[Seat]) -> list[Evidence]:
        columns = {v: column(v, views[v]) for v in dict.fromkeys(seat.view for seat in seats)}
        return [columns[seat.view][seat.place] for seat in seats]

    return measure


def measure_all(
    stages: Sequence[Stage], names: Sequence[str], views: Sequence[QueryView]
) -> list[tuple[tuple[Evidence, ...], ...]]:
    """Every evidence of every candidate: what full measurement of the same stages gives.

    :param names: the evidences in the order they are given back.
    """
    seats = [Seat(v, p) for v, view in enumerate(views) for p in range(len(view.candidates))]
    columns = {stage.name: _column(stage, seats) for stage in stages}
    rows = iter(zip(*(columns[name] for name in names), strict=True))
    return [tuple(next(rows) for _ in view.candidates) for view in views]


def _column(stage: Stage, seats: Sequence[Seat]) -> list[Evidence]:
    asked = [seat for seat in seats if stage.missing(seat) is None]
    measured = iter(stage.measure(asked) if asked else ())
    found = {seat: next(measured) for seat in asked}
    return [
        found.get(seat) or Evidence.unavailable(stage.name, stage.missing(seat) or "not measured")
        for seat in seats
    ]


def standing_of(rule: QueryRule, evidences: Sequence[Evidence]) -> Standing:
    """What full measurement says, for a rule that cannot stop early."""
    score = rule.combine([one.value for one in evidences if one.value is not None])
    complete = all(one.measured or one.optional for one in evidences)
    decision = decide(score, rule.threshold, complete=complete)
    level = level_of(decision, rule.level, evidences, score)
    upper = score if all(one.measured for one in evidences) else math.inf
    return Standing(Bounds(score, upper), decision, level, tuple(evidences), ())


class _Candidate:
    """What is known of one candidate on its way through the stages.

    :param slots: number of evidences.
    """

    __slots__ = ("found", "limits", "lower", "seat")

    def __init__(self, seat: Seat, slots: int, lower: float) -> None:
        self.seat = seat
        self.lower = lower
        self.found: list[Evidence | None] = [None] * slots
        self.limits: dict[str, float] = {}

    @property
    def evidences(self) -> tuple[Evidence, ...]:
        return tuple(one for one in self.found if one is not None)

    @property
    def values(self) -> list[float]:
        return [one.value for one in self.found if one is not None and one.value is not None]


class _Cascade:
    """One pass over the stages.

    :param stages: cheap ones first.
    """

    def __init__(self, rule: StagedRule, stages: Sequence[Stage]) -> None:
        self._rule = rule
        self._stages = stages
        # Sums are rounded in the rule's order, so that a partial one is that of the full rule.
        order = {name: place for place, name in enumerate(rule.evidence_names)}
        self._slots = [order[stage.name] for stage in stages]
        self._threshold = rule.threshold
        self._below = rule.threshold * (1.0 - _SLACK)
        # So much alone reaches the threshold in every rule that adds up.
        self._enough = (
            rule.threshold if rule.combine((rule.threshold,)) >= rule.threshold else math.inf
        )

    def run(self, seats: Sequence[Seat]) -> list[Standing]:
        nothing = self._rule.combine(())
        candidates = [_Candidate(seat, len(self._stages), nothing) for seat in seats]
        still = candidates
        for done, (stage, slot) in enumerate(zip(self._stages, self._slots, strict=True)):
            if not stage.cheap:
                still = [one for one in still if not self._settled(one, done)]
                if not still:
                    break
            asked = [one for one in still if stage.missing(one.seat) is None]
            if not asked:
                continue
            measured = stage.measure([one.seat for one in asked])
            for one, evidence in zip(asked, measured, strict=True):
                one.found[slot] = evidence
                if evidence.value:
                    one.lower = self._rule.combine(one.values)
        return [self._standing(one) for one in candidates]

    def _settled(self, one: _Candidate, done: int) -> bool:
        if one.lower >= self._threshold:
            # Nothing is above quarantine; a milder level may still rise.
            return self._rule.level(one.evidences, one.lower) is Level.QUARANTINE
        following = self._stages[done]
        if following.missing(one.seat) is not None:
            return self._rule.combine([*one.values, *self._limits(one, done)]) < self._below
        if self._reaches(one, done, following.limit(one.seat)):
            if following.closer is None:
                return False
            limit = one.limits[following.name] = following.closer(one.seat)
            return not self._reaches(one, done, limit)
        return True

    def _reaches(self, one: _Candidate, done: int, limit: float) -> bool:
        """Whether the next evidence, at most ``limit``, may bring the score to the threshold."""
        if limit >= self._enough:
            return True
        rest = self._limits(one, done + 1)
        return self._rule.combine([*one.values, limit, *rest]) >= self._below

    def _limits(self, one: _Candidate, start: int) -> list[float]:
        later = self._stages[start:]
        return [stage.limit(one.seat) for stage in later if stage.missing(one.seat) is None]

    def _standing(self, one: _Candidate) -> Standing:
        values = one.values
        known = len(values)
        skipped = []
        for stage, slot in zip(self._stages, self._slots, strict=True):
            own = one.found[slot]
            if own is not None and own.value is not None:
                continue
            reason = stage.missing(one.seat)
            if own is None and reason is None:
                skipped.append((slot, stage.name))
                limit = one.limits.get(stage.name)
                values.append(stage.limit(one.seat) if limit is None else limit)
                continue
            # Where a model failed, it failed for the whole batch, as in full measurement.
            one.found[slot] = own or Evidence.unavailable(stage.name, reason or "not measured")
            values.append(math.inf)
        lower = upper = self._rule.combine(values[:known])
        if len(values) > known:
            upper = max(lower, self._rule.combine(values))
        evidences = one.evidences
        complete = all(own.value is not None or own.optional for own in evidences)
        decision = decide(lower, self._threshold, complete=complete)
        return Standing(
            Bounds(lower, upper),
            decision,
            level_of(decision, self._rule.level, evidences, lower),
            evidences,
            tuple(name for _, name in sorted(skipped)),
        )
