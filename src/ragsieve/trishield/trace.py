"""The whole story of one answer: records, and the plain data files and programs read."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any

from ragsieve.outcomes import Action, Step
from ragsieve.records import Document, Evidence, Query, Verdict
from ragsieve.trishield.authorisation import Authorisation
from ragsieve.trishield.ballots import Ballot, MemberReply
from ragsieve.trishield.policy import ConsensusConfig, Gate, Mode, ShieldConfig

FORMAT, VERSION = "ragsieve.answer-trace", 1


class Status(enum.StrEnum):
    """How a question ended."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"
    HAND_OVER = "hand-over"


@dataclasses.dataclass(frozen=True, slots=True)
class StageRun:
    """One stage at work on one ranking.

    :param entered: documents in the ranking before it, ``left`` after it.
    :param failure: why it could not work; None when it could.
    """

    stage: str
    seconds: float
    entered: int
    left: int
    failure: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentTrace:
    """What happened to one retrieved document.

    :param rank: as it was retrieved, from 1.
    :param place: in the context, from 1; None when it is not in it.
    :param steps: what every stage did to it, with every component, in order.
    :param verdict: the sieve's; None when it was not judged.
    """

    document: Document
    rank: int
    similarity: float | None
    place: int | None
    steps: tuple[Step, ...]
    verdict: Verdict | None = None

    @property
    def removal(self) -> Step | None:
        """The step that took it out; None when it stayed in, or came back."""
        if self.place is not None:
            return None
        return next((step for step in self.steps if step.action is Action.REMOVED), None)

    def measured(self, component: str) -> float | None:
        """The latest value of a component by name; None when it was not measured."""
        found = [
            value for step in self.steps for name, value in step.components if name == component
        ]
        last = found[-1] if found else None
        return None if last is None or isinstance(last, str) else float(last)


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """One retrieval, its way through the stages, and the replies it led to.

    :param number: 1, or 2 for the one retry.
    :param without: ids the retriever was asked to leave out.
    :param notes: steps about the ranking as a whole.
    :param partial: whether something could not be judged or supplied.
    :param refusal: why nobody was asked; None when somebody was.
    :param ballot: the replies; None when nobody was asked.
    :param dropped: documents taken out of the context after the replies, for the retry.
    """

    number: int
    depth: int
    without: tuple[str, ...]
    documents: tuple[DocumentTrace, ...]
    stages: tuple[StageRun, ...]
    notes: tuple[Step, ...]
    partial: bool
    retrieval_seconds: float
    refusal: str | None = None
    ballot: Ballot | None = None
    asking_seconds: float | None = None
    dropped: tuple[Step, ...] = ()

    @property
    def context(self) -> tuple[DocumentTrace, ...]:
        """The documents that were handed over, in their order."""
        placed = [(one.place, at, one) for at, one in enumerate(self.documents) if one.place]
        return tuple(one for _, _, one in sorted(placed, key=lambda found: found[:2]))


@dataclasses.dataclass(frozen=True, slots=True)
class GateDecision:
    """Whether the whole panel was asked, and why.

    :param reasons: what was uncertain.
    """

    mode: Gate
    opened: bool
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Fallback:
    """Something that did not go as planned, and what was done instead.

    :param mode: whether the policy went on or stopped; None where there was no choice.
    """

    where: str
    problem: str
    consequence: str
    mode: Mode | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerTrace:
    """An answer with everything it rests on.

    :param answer: None unless ``status`` is answered.
    :param withheld: an answer that was found and is not given, by policy.
    :param agreed: whether the panel agreed; None when one member answered alone or nobody did.
    :param reason: why it ended this way.
    :param answered_from: number of the attempt whose context the answer was written from.
    :param gate: None when it never came to asking.
    :param authorisation: None when not configured, or when there is no answer.
    :param seconds: from question to answer.
    """

    query: Query
    status: Status
    answer: str | None
    withheld: str | None
    agreed: bool | None
    reason: str
    answered_from: int | None
    attempts: tuple[Attempt, ...]
    gate: GateDecision | None
    fallbacks: tuple[Fallback, ...]
    authorisation: Authorisation | None
    seconds: float
    shield: ShieldConfig
    consensus: ConsensusConfig

    @property
    def retried(self) -> bool:
        """Whether a second retrieval was made."""
        return len(self.attempts) > 1

    @property
    def context(self) -> tuple[DocumentTrace, ...]:
        """The documents the answer was written from; empty without an answer."""
        wanted = self.answered_from
        return next((one.context for one in self.attempts if one.number == wanted), ())

    @property
    def replies(self) -> tuple[MemberReply, ...]:
        """Every reply of every attempt, in order."""
        return tuple(
            reply
            for attempt in self.attempts
            if attempt.ballot is not None
            for reply in attempt.ballot.replies
        )

    @property
    def tokens(self) -> tuple[MemberTokens, ...]:
        """What each member used over all attempts, in the order they were asked."""
        names = dict.fromkeys(reply.member for reply in self.replies)
        return tuple(_tokens_of(name, self.replies) for name in names)


@dataclasses.dataclass(frozen=True, slots=True)
class MemberTokens:
    """What one member used.

    :param prompt: tokens as servers counted them; None when no reply said.
    :param uncounted: calls that did not say, failures among them.
    """

    member: str
    calls: int
    prompt: int | None
    completion: int | None
    uncounted: int


def trace_fields(trace: AnswerTrace, *, texts: bool = False) -> dict[str, Any]:
    """A trace as plain data for JSON; a number that was not measured is null.

    :param texts: whether to add every document's text.
    """
    fields: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    fields |= _record(trace, texts=texts)
    fields["tokens"] = [_record(one, texts=texts) for one in trace.tokens]
    fields["retried"] = trace.retried
    fields["context"] = [one.document.id for one in trace.context]
    return fields


def _plain(value: object, *, texts: bool) -> Any:
    match value:
        case Step():
            found: Any = _numbers(value.fields())
        case Verdict():
            found = _verdict(value)
        case Document():
            found = {"id": value.id, "title": value.title}
            found |= dataclasses.asdict(value.provenance)
            found |= {"text": value.text} if texts else {}
        case enum.Enum():
            found = value.value
        case tuple() | list():
            found = [_plain(one, texts=texts) for one in value]
        case _ if dataclasses.is_dataclass(value):
            found = _record(value, texts=texts)
        case _:
            found = _number(value)
    return found


def _record(record: Any, *, texts: bool) -> dict[str, Any]:
    names = (field.name for field in dataclasses.fields(record))
    return {name: _plain(getattr(record, name), texts=texts) for name in names}


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            found[name] = _numbers(value)
        else:
            found[name] = value.value if isinstance(value, enum.Enum) else _number(value)
    return found


def _verdict(verdict: Verdict) -> dict[str, Any]:
    names = "score threshold decision level profile fingerprint rank".split()
    fields = _numbers({name: getattr(verdict, name) for name in names})
    fields["complete"] = verdict.complete
    fields["evidences"] = [_evidence(one) for one in verdict.evidences]
    fields["annotations"] = [dataclasses.asdict(one) for one in verdict.annotations]
    return fields


def _evidence(evidence: Evidence) -> dict[str, Any]:
    names = "name value probability reason optional".split()
    fields = _numbers({name: getattr(evidence, name) for name in names})
    return fields | {"components": _numbers(dict(evidence.components))}


def _tokens_of(member: str, replies: Sequence[MemberReply]) -> MemberTokens:
    own = [reply for reply in replies if reply.member == member]
    prompt = [one.prompt_tokens for one in own if one.prompt_tokens is not None]
    completion = [one.completion_tokens for one in own if one.completion_tokens is not None]
    return MemberTokens(
        member,
        calls=len(own),
        prompt=sum(prompt) if prompt else None,
        completion=sum(completion) if completion else None,
        uncounted=len(own) - min(len(prompt), len(completion)),
    )
