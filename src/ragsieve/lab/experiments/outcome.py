"""What a cell leaves behind: scores, contexts and answers by document id, without a label."""

from __future__ import annotations

import dataclasses
import enum

from ragsieve.errors import RagsieveError
from ragsieve.records import Evidence, Verdict


class UnavailableError(RagsieveError):
    """This machine cannot do it; the message says what is missing."""


class Condition(enum.StrEnum):
    """Which index was asked."""

    POISONED = "poisoned"
    UNPOISONED = "unpoisoned"


class Status(enum.StrEnum):
    """How a cell ended. Only what is done is never done again."""

    DONE = "done"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """One judgement.

    :param query_id: None for a judgement on the whole index.
    :param decision: flagged, clear or undecided.
    :param evidences: values by name; None where unavailable.
    """

    condition: Condition
    query_id: str | None
    document_id: str
    rank: int | None
    score: float
    threshold: float
    decision: str
    level: str
    evidences: tuple[tuple[str, float | None], ...]

    @classmethod
    def of(cls, verdict: Verdict, condition: Condition, query_id: str | None = None) -> Score:
        """The numbers of a verdict."""
        return cls(
            condition=condition,
            query_id=query_id,
            document_id=verdict.document_id,
            rank=verdict.rank,
            score=verdict.score,
            threshold=verdict.threshold,
            decision=str(verdict.decision),
            level=str(verdict.level),
            evidences=tuple(_value(one) for one in verdict.evidences),
        )


def _value(evidence: Evidence) -> tuple[str, float | None]:
    return evidence.name, evidence.value


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The documents one question hands to the generator, before and after the defence."""

    condition: Condition
    query_id: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A reply, its marks and what it cost.

    :param text: hostile like everything a model says about hostile documents; empty where no
        answer was given.
    :param exact: EM; None, as ``f1``, where there is no reference.
    :param seconds: what the replies took when they were asked, summed over members.
    :param stage_seconds: what a pipeline's stages took; None where nobody measured.
    :param prompt_tokens: as servers counted them; None, as ``completion_tokens``, where none did.
    :param agreed: whether the panel agreed; None where one member answered alone.
    """

    condition: Condition
    query_id: str
    text: str
    exact: bool | None
    f1: float | None
    target_supported: bool
    correct_supported: bool
    seconds: float
    stage_seconds: float | None = None
    calls: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    agreed: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What a figure of this method must be read with.

    :param binary: it has no usable score; only its own operating point is reported.
    :param decides: whether it has an operating point at all; without one it only ranks.
    :param fingerprint: of the rule, models included.
    :param scope: ``query``, ``corpus`` or ``context``: what it judges.
    """

    scope: str
    fingerprint: str
    binary: bool = False
    decides: bool = True
    fidelity: str = ""
    native_rule: str = ""
    source: str = ""
    control_point: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """All that a method said about one poisoned index and the unpoisoned one.

    :param seconds: timed passes of kind ``cost``: one number a question, or one a scan.
    :param judge: who judged the answers; None without answers.
    """

    facts: Facts
    scores: tuple[Score, ...] = ()
    contexts: tuple[Context, ...] = ()
    answers: tuple[Answer, ...] = ()
    seconds: tuple[float, ...] = ()
    judge: str | None = None
    notes: tuple[str, ...] = ()
