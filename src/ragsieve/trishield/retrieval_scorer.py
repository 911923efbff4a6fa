"""Ring 2: how far each retrieved document can be trusted, by origin, agreement and relevance."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal

from ragsieve.defense.pipeline import Flow
from ragsieve.errors import ConfigError
from ragsieve.outcomes import Action, Step
from ragsieve.records import RankedDocument
from ragsieve.trishield.provenance_policy import ProvenancePolicy
from ragsieve.trishield.trust import consistencies, relevance_of, trust_of
from ragsieve.trishield.words import voices

STAGE = "retrieval-scorer"
TRUST = "trust"
MAJORITY = "largest_share"

_DROP_BELOW = {"paper": None, "released": 0.35}


@dataclasses.dataclass(frozen=True, slots=True)
class RetrievalScorerConfig:
    """How ring 2 measures, orders and drops.

    :param consistency: ``voices``, ``overlap`` or ``paper``; see :func:`consistencies`.
    :param trust: ``paper`` or ``released``; see :func:`trust_of`.
    :param order: ``trust`` ranks anew, ``retrieved`` keeps the retriever's order.
    :param copies: ``last`` seats every group of near-copies once before any of them takes a
        second seat, so that repeating a text does not fill the context; ``equal`` does not.
    :param drop_below: documents under this trust go; None takes the formula's own, which is
        none for ``paper`` and .35 for ``released``.
    :param examined: documents from the top of the ranking; None examines all.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    consistency: Literal["voices", "overlap", "paper"] = "voices"
    trust: Literal["paper", "released"] = "paper"
    order: Literal["retrieved", "trust"] = "retrieved"
    copies: Literal["last", "equal"] = "last"
    drop_below: float | None = None
    examined: int | None = None

    def __post_init__(self) -> None:
        for name, known in (
            ("consistency", ("voices", "overlap", "paper")),
            ("trust", ("paper", "released")),
            ("order", ("retrieved", "trust")),
            ("copies", ("last", "equal")),
        ):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"retrieval scorer: {name} must be one of {', '.join(known)}, "
                    f"found {getattr(self, name)!r}"
                )
        if self.drop_below is not None and not 0 <= self.drop_below <= 1:
            raise ConfigError(
                f"retrieval scorer: drop_below must be in [0, 1], found {self.drop_below}"
            )
        if self.examined is not None and self.examined < 1:
            raise ConfigError(
                f"retrieval scorer: examined must be at least 1, found {self.examined}"
            )

    @property
    def threshold(self) -> float | None:
        """Trust below which a document is dropped; None when nothing is."""
        return _DROP_BELOW[self.trust] if self.drop_below is None else self.drop_below


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentTrust:
    """What ring 2 found about one document of the retrieved set.

    :param weight: trust in its declared origin, w, in [0, 1].
    :param rule: the rule of the policy that decided, from 1; None for the neutral weight.
    :param consistency: S_con, in [0, 1]; None without words or without another to compare with.
    :param relevance: s_rel, in [0, 1]; None when the retriever gave no similarity.
    :param trust: T, in [0, 1]; None when nothing that enters it was measured.
    :param copies: documents of its group of near-copies, itself included.
    :param seat: its place within that group, from 1, in the order the configuration asks for.
    """

    entry: RankedDocument
    weight: float
    rule: int | None
    consistency: float | None
    relevance: float | None
    trust: float | None
    copies: int
    seat: int


class RetrievalScorer:
    """Ring 2 as a stage: weighs the first documents of a ranking, orders them and may drop some.

    Trust says how well a document agrees with the others, the question and the operator's
    policy, not whether it is true. The rest of the ranking stays behind in its order.

    :param policy: trust in declared origins; neutral throughout when None.
    """

    name = STAGE

    def __init__(
        self,
        config: RetrievalScorerConfig | None = None,
        policy: ProvenancePolicy | None = None,
    ) -> None:
        self.config = config or RetrievalScorerConfig()
        self.policy = policy or ProvenancePolicy()

    def assess(self, entries: Sequence[RankedDocument]) -> tuple[DocumentTrust, ...]:
        """Trust of each document among the ones given, in their order."""
        contents = [entry.document.content for entry in entries]
        groups = voices(contents)
        agreement = consistencies(contents, self.config.consistency, groups)
        sizes = collections.Counter(groups)
        found = []
        for entry, group, consistency in zip(entries, groups, agreement, strict=True):
            origin = entry.document.provenance
            weight = self.policy.trust(origin)
            relevance = relevance_of(entry.similarity)
            trust = trust_of(weight, consistency, relevance, self.config.trust)
            found.append(
                DocumentTrust(entry, weight, self.policy.rule_of(origin), consistency, relevance,
                              trust, sizes[group], 0)
            )  # fmt: skip
        taken: collections.Counter[int] = collections.Counter()
        seats = [0] * len(found)
        for place in sorted(range(len(found)), key=lambda one: self._precedence(found[one])):
            taken[groups[place]] += 1
            seats[place] = taken[groups[place]]
        return tuple(
            dataclasses.replace(one, seat=seat) for one, seat in zip(found, seats, strict=True)
        )

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        """Weigh, order and drop in each ranking."""
        return [self._run(flow) for flow in flows]

    def _run(self, flow: Flow) -> Flow:
        limit = len(flow.ranking) if self.config.examined is None else self.config.examined
        examined, behind = flow.ranking.entries[:limit], flow.ranking.entries[limit:]
        found = self.assess(examined)
        threshold = self.config.threshold
        kept = [one for one in self._ordered(found) if not _falls(one, threshold)]
        dropped = [one for one in found if _falls(one, threshold)]
        steps = [
            Step(self.name, Action.NOTED, f"place {place}, was {one.entry.rank}: {_words(one)}",
                 one.entry.document.id, one.entry.rank, _components(one, threshold))
            for place, one in enumerate(kept, start=1)
        ]  # fmt: skip
        steps += [
            Step(self.name, Action.REMOVED, f"dropped, trust below {threshold:g}: {_words(one)}",
                 one.entry.document.id, one.entry.rank, _components(one, threshold))
            for one in dropped
        ]  # fmt: skip
        majority = self._majority(found)
        moved = dataclasses.replace(
            flow,
            ranking=flow.ranking.renumbered([*(one.entry for one in kept), *behind]),
            removed_ids=flow.removed_ids + tuple(one.entry.document.id for one in dropped),
        )
        holds = majority is None or _share(majority) <= 0.5  # noqa: PLR2004 -- a half
        return moved.noted(*steps, *([] if majority is None else [majority]), partial=not holds)

    def _ordered(self, found: Sequence[DocumentTrust]) -> list[DocumentTrust]:
        if self.config.copies == "equal":
            return sorted(found, key=self._precedence)
        # From the second seat on larger groups go first, or a small group could stand before
        # the majority where the context is cut off.
        return sorted(
            found,
            key=lambda one: (
                one.seat,
                -one.copies if one.seat > 1 else 0,
                *self._precedence(one),
            ),
        )

    def _precedence(self, one: DocumentTrust) -> tuple[bool, float, int]:
        if self.config.order == "retrieved":
            return (False, 0.0, one.entry.rank)
        return (one.trust is None, -(one.trust or 0.0), one.entry.rank)

    def _majority(self, found: Sequence[DocumentTrust]) -> Step | None:
        if not found:
            return None
        largest = max(one.copies for one in found)
        share = largest / len(found)
        reason = f"largest group of near-copies: {largest} of {len(found)} documents examined"
        if 2 * largest > len(found) and largest > 1:
            reason = (
                f"more than half of what was retrieved ({largest} of {len(found)} documents "
                "examined) says the same in the same words; that documents agree is no longer a "
                "reason to trust them"
            )
        elif largest == 1:
            share = 0.0
            reason = f"no near-copies among the {len(found)} documents examined"
        numbers = (("examined", len(found)), ("largest_group", largest), (MAJORITY, share))
        return Step(self.name, Action.NOTED, reason, components=numbers)


def _falls(one: DocumentTrust, threshold: float | None) -> bool:
    return threshold is not None and one.trust is not None and one.trust < threshold


def _share(step: Step) -> float:
    return float(dict(step.components)[MAJORITY] or 0.0)


def _components(
    one: DocumentTrust, threshold: float | None
) -> tuple[tuple[str, float | int | str | None], ...]:
    return (
        ("provenance_weight", one.weight),
        ("provenance_rule", one.rule),
        ("consistency", one.consistency),
        ("relevance", one.relevance),
        (TRUST, one.trust),
        ("drop_below", threshold),
        ("copies", one.copies),
        ("seat", one.seat),
    )


def _words(one: DocumentTrust) -> str:
    def number(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.3f}"

    return (
        f"trust {number(one.trust)} (origin {one.weight:.3f}, consistency "
        f"{number(one.consistency)}, relevance {number(one.relevance)})"
        + (f", near-copy {one.seat} of {one.copies}" if one.copies > 1 else "")
    )
