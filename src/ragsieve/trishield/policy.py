"""What the operator decides: when the panel is asked, how it decides, what a failure leads to."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import ClassVar

from ragsieve.defense.policy import Resort
from ragsieve.errors import ConfigError

AGREEMENT = 2 / 3


class Gate(enum.StrEnum):
    """When the whole panel is asked."""

    ALWAYS = "always"
    GATED = "gated"
    NEVER = "never"


class Mode(enum.StrEnum):
    """What a failure leads to: going on with less protection, or no answer."""

    OPEN = "open"
    CLOSED = "closed"


class Disagreement(enum.StrEnum):
    """What a panel that does not agree leads to."""

    MAJORITY = "majority"
    ABSTAIN = "abstain"


@dataclasses.dataclass(frozen=True, slots=True)
class ConsensusConfig:
    """How ring 3 asks, counts and decides.

    :param threshold: tau; accepted when the largest group holds at least this share of the
        weight of all members asked, in (0, 1].
    :param gate: ``gated`` asks the whole panel only where something was uncertain.
    :param retry: whether a panel that does not agree is asked once more about other documents.
    :param on_disagreement: after that, ``majority`` gives the largest group's answer and says
        that it was not agreed, ``abstain`` gives none.
    :param on_member_failure: where one member answers alone and fails, ``open`` asks the next
        one, ``closed`` gives no answer.
    :param max_tokens: of a reply.
    :param max_words: a longer reply does not vote: it would contain every short answer.
    :param timeout_seconds: for a round; who has not replied by then abstains.
    :param spread_above: the gate opens when trust within the context differs by more.
    :param near_share: the gate opens when a document of the context scores at least this share
        of the sieve's threshold.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    threshold: float = AGREEMENT
    gate: Gate = Gate.GATED
    retry: bool = True
    on_disagreement: Disagreement = Disagreement.MAJORITY
    on_member_failure: Mode = Mode.OPEN
    max_tokens: int = 64
    max_words: int = 32
    timeout_seconds: float = 120.0
    spread_above: float = 0.3
    near_share: float = 0.75

    def __post_init__(self) -> None:
        _check_choice("consensus", "gate", self.gate, Gate)
        _check_choice("consensus", "on_disagreement", self.on_disagreement, Disagreement)
        _check_choice("consensus", "on_member_failure", self.on_member_failure, Mode)
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"consensus: threshold must be in (0, 1], found {self.threshold}")
        if self.max_tokens < 1 or self.max_words < 1:
            raise ConfigError("consensus: max_tokens and max_words must be at least 1")
        if not 0 < self.timeout_seconds < math.inf:
            raise ConfigError("consensus: timeout_seconds must be above 0 and finite")
        if not self.spread_above >= 0 or not self.near_share >= 0:
            raise ConfigError("consensus: spread_above and near_share must be at least 0")


@dataclasses.dataclass(frozen=True, slots=True)
class ShieldConfig:
    """How much is retrieved, how much is handed over, and what failures lead to.

    :param context_size: documents an answer is written from, >= 1.
    :param depth: documents retrieved, >= context_size; the sieve needs its tail, also after
        others were taken out.
    :param on_retrieval_failure: ``open`` asks without documents, ``closed`` abstains.
    :param on_stage_failure: ``open`` goes on as if the stage were not there, ``closed``
        abstains.
    :param on_nothing_left: when every document was taken out, ``open`` puts the first retrieved
        ones back, ``closed`` abstains.
    :param on_few_survivors: fewer documents than the context holds, as in a filter policy;
        ``remove`` leaves nothing.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    context_size: int = 5
    depth: int = 100
    on_retrieval_failure: Mode = Mode.CLOSED
    on_stage_failure: Mode = Mode.CLOSED
    on_nothing_left: Mode = Mode.CLOSED
    on_few_survivors: Resort = Resort.KEEP

    def __post_init__(self) -> None:
        if not 1 <= self.context_size <= self.depth:
            raise ConfigError(
                f"shield: expected 1 <= context_size <= depth, found {self.context_size} and "
                f"{self.depth}"
            )
        for name in ("on_retrieval_failure", "on_stage_failure", "on_nothing_left"):
            _check_choice("shield", name, getattr(self, name), Mode)
        _check_choice("shield", "on_few_survivors", self.on_few_survivors, Resort)


def _check_choice(table: str, name: str, value: str, kind: type[enum.StrEnum]) -> None:
    if value not in set(kind):
        raise ConfigError(f"{table}: {name} must be one of {', '.join(kind)}, found {value!r}")
