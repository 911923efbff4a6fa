"""After the answer: may these sources say it, do independent ones agree, is it still valid?

The only part that speaks about an answer's support; nothing of it enters a score.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import fnmatch
import math
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from ragsieve.chat.answers import names, normalized
from ragsieve.declared import matches, read_declared
from ragsieve.errors import ConfigError
from ragsieve.features.origins import days_of
from ragsieve.records import Document
from ragsieve.trishield.words import voices

SOURCES, INDEPENDENCE, VALIDITY = "source_authorisation", "independent_sources", "validity"

_SECONDS_PER_DAY = 86_400.0
_CLOCK_SKEW_DAYS = 1.0
_NOT_IN_TEXTS = frozenset({"yes", "no", "true", "false"})


@dataclasses.dataclass(frozen=True, slots=True)
class TopicRule:
    """Who may answer questions of a kind.

    :param topics: patterns over the question, whatever the case; ``*`` stands for anything.
    :param sources: patterns over declared sources; ``*`` stops at a slash, ``**`` does not.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    topics: tuple[str, ...]
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.topics or not self.sources or not all((*self.topics, *self.sources)):
            raise ConfigError("a rule needs topics and sources, none of them empty")

    def speaks_of(self, question: str) -> bool:
        """Whether a question is of this kind."""
        asked = question.casefold()
        return any(fnmatch.fnmatchcase(asked, topic.casefold()) for topic in self.topics)


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """What an answer that matters must meet; a check that is not configured is not made.

    :param rules: who may answer what; the first rule that speaks of a question decides.
    :param independent_sources: that must support the answer, >= 1.
    :param max_age_days: of the newest supporting document, above 0.
    :param hand_over: whether an answer that does not meet every check goes to a person.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    rules: tuple[TopicRule, ...] = ()
    independent_sources: int | None = None
    max_age_days: float | None = None
    hand_over: bool = True

    def __post_init__(self) -> None:
        if self.independent_sources is not None and self.independent_sources < 1:
            raise ConfigError(
                f"independent_sources must be at least 1, found {self.independent_sources}"
            )
        if self.max_age_days is not None and not 0 < self.max_age_days < math.inf:
            raise ConfigError(f"max_age_days must be above 0, found {self.max_age_days}")


class State(enum.StrEnum):
    """How a check ended."""

    MET = "met"
    UNMET = "unmet"
    UNAVAILABLE = "unavailable"
    NOT_REQUIRED = "not-required"


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One check of an answer.

    :param document_ids: the documents it rests on.
    """

    name: str
    state: State
    reason: str
    document_ids: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Authorisation:
    """What the configured checks say about an answer.

    :param supporting_ids: documents of the context that hold the answer's words in one run.
    :param hand_over: whether a person should decide.
    """

    supporting_ids: tuple[str, ...]
    checks: tuple[Check, ...]
    hand_over: bool

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, for every check that was not met."""
        return tuple(f"{one.name}: {one.reason}" for one in self.checks if not _is_fine(one))


def read_answer_policy(path: Path | str) -> AnswerPolicy:
    """The policy of a TOML file: the fields of :class:`AnswerPolicy`, ``[[rules]]`` with
    ``topics`` and ``sources``.

    :raises ConfigError: for an unreadable file, an unknown key or an impossible value.
    """
    return read_declared(path, AnswerPolicy)


def authorise(
    answer: str,
    question: str,
    documents: Sequence[Document],
    policy: AnswerPolicy,
    *,
    now: datetime.datetime | None = None,
) -> Authorisation:
    """Check an answer against the documents it was written from.

    Where a rule says who may answer, only those documents count for the other checks.
    Sources and dates are what documents declare, unverified.

    :param documents: the context.
    :param now: without a time zone it is UTC; None leaves validity unavailable.
    """
    supporting = [one for one in documents if names(one.content, answer)]
    nothing = None
    if not supporting:
        nothing = "no document of the context holds the answer's words"
        if normalized(answer) in _NOT_IN_TEXTS:
            nothing = "an answer of yes or no is not looked for in documents"
    rule = next((one for one in policy.rules if one.speaks_of(question)), None)
    allowed = supporting
    checks = []
    if rule is not None:
        allowed = [one for one in supporting if _allowed(one, rule)]
        if supporting and not allowed:
            nothing = "none of the supporting documents may answer this"
        checks.append(_source_check(supporting, allowed, nothing))
    elif policy.rules:
        checks.append(Check(SOURCES, State.NOT_REQUIRED, "no rule speaks of this question"))
    if policy.independent_sources is not None:
        checks.append(_independence_check(allowed, nothing, policy.independent_sources))
    if policy.max_age_days is not None:
        checks.append(_validity_check(allowed, nothing, policy.max_age_days, now))
    unmet = not all(map(_is_fine, checks))
    ids = tuple(one.id for one in supporting)
    return Authorisation(ids, tuple(checks), hand_over=policy.hand_over and unmet)


def origin_name(source: str) -> str:
    """Who a declared source is: the host of an address, else the source itself, casefolded."""
    try:
        host = urlsplit(source.strip()).hostname
    except ValueError:
        host = None
    return (host or source.strip()).casefold()


def independent_origins(documents: Sequence[Document]) -> int:
    """How many origins say it independently.

    Documents of one origin are one, and so are near-copies of one another, whoever publishes
    them; documents that declare no source count for none.
    """
    sourced = [one for one in documents if (one.provenance.source or "").strip()]
    groups = voices([one.content for one in sourced])
    seen: list[tuple[set[str], set[int]]] = []
    for document, group in zip(sourced, groups, strict=True):
        origins, copies = {origin_name(document.provenance.source or "")}, {group}
        apart = []
        for one in seen:
            if one[0] & origins or one[1] & copies:
                origins |= one[0]
                copies |= one[1]
            else:
                apart.append(one)
        seen = [*apart, (origins, copies)]
    return len(seen)


def _source_check(
    supporting: Sequence[Document], allowed: Sequence[Document], nothing: str | None
) -> Check:
    if not supporting:
        return Check(SOURCES, State.UNAVAILABLE, nothing or "")
    if not allowed:
        return Check(SOURCES, State.UNMET, nothing or "", tuple(one.id for one in supporting))
    reason = f"{len(allowed)} of {len(supporting)} supporting documents may answer this"
    return Check(SOURCES, State.MET, reason, tuple(one.id for one in allowed))


def _independence_check(allowed: Sequence[Document], nothing: str | None, needed: int) -> Check:
    if not allowed:
        return Check(INDEPENDENCE, State.UNAVAILABLE, nothing or "")
    found = independent_origins(allowed)
    ids = tuple(one.id for one in allowed)
    if not found:
        reason = "none of the supporting documents declares a source"
        return Check(INDEPENDENCE, State.UNAVAILABLE, reason, ids)
    state = State.MET if found >= needed else State.UNMET
    return Check(INDEPENDENCE, state, f"{found} independent sources, {needed} needed", ids)


def _validity_check(
    allowed: Sequence[Document],
    nothing: str | None,
    max_age_days: float,
    now: datetime.datetime | None,
) -> Check:
    if not allowed:
        return Check(VALIDITY, State.UNAVAILABLE, nothing or "")
    if now is None:
        return Check(VALIDITY, State.UNAVAILABLE, "no time was given to compare with")
    moment = now if now.tzinfo is not None else now.replace(tzinfo=datetime.UTC)
    today = moment.timestamp() / _SECONDS_PER_DAY
    ages = [(today - days, one.id) for one in allowed if not math.isnan(days := _dated(one))]
    if not ages:
        reason = "none of the supporting documents declares a date that can be read"
        return Check(VALIDITY, State.UNAVAILABLE, reason)
    past = [pair for pair in ages if pair[0] >= -_CLOCK_SKEW_DAYS]
    if not past:
        ids = tuple(name for _, name in ages)
        return Check(VALIDITY, State.UNMET, "every date declared lies in the future", ids)
    age, name = min(past)
    state = State.MET if age <= max_age_days else State.UNMET
    reason = (
        f"the newest supporting document is {max(0.0, age):.1f} days old, {max_age_days:g} allowed"
    )
    return Check(VALIDITY, state, reason, (name,))


def _dated(document: Document) -> float:
    created = days_of(document.provenance.created)
    return days_of(document.provenance.version) if math.isnan(created) else created


def _allowed(document: Document, rule: TopicRule) -> bool:
    return any(matches(pattern, document.provenance.source) for pattern in rule.sources)


def _is_fine(check: Check) -> bool:
    return check.state in {State.MET, State.NOT_REQUIRED}
