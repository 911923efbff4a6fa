"""What was decided about a retrieval and what a defence did to it, step by step."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from ragsieve.records import Decision, Evidence, Level, RankedDocument, Ranking, Verdict


class Action(enum.StrEnum):
    """What happened to a document on its way to the generator."""

    KEPT = "kept"
    REMOVED = "removed"
    REFILLED = "refilled"
    NOTED = "noted"
    RESTORED = "restored"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One line of a trace: what a stage did to one document, or to the ranking as a whole.

    :param document_id: None when the step is about the ranking.
    :param rank: the document's rank as that stage saw it.
    :param components: the numbers and names behind the action; None where one was not measured.
    """

    stage: str
    action: Action
    reason: str
    document_id: str | None = None
    rank: int | None = None
    components: tuple[tuple[str, float | int | str | None], ...] = ()

    def fields(self) -> dict[str, Any]:
        """This step as plain data; what it does not have is left out."""
        values = ((one.name, getattr(self, one.name)) for one in dataclasses.fields(self))
        plain = {
            name: value for name, value in values if value is not None and name != "components"
        }
        return plain | ({"components": dict(self.components)} if self.components else {})


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """Where a score lies, both ends included.

    :param lower: the combined evidence that was measured, >= 0.
    :param upper: with the most that the rest can add; infinite where that has no limit.
    """

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        """Whether the score is known."""
        return self.lower == self.upper


@dataclasses.dataclass(frozen=True, slots=True)
class Ruling:
    """The decision on one document, without the whole judgement behind it.

    Decision and level are those of the full judgement. Where a model was not asked, it
    counts as one that would have answered.

    :param bounds: the score is somewhere in them.
    :param threshold: flagged when the score >= threshold.
    :param rank: place in the ranking that was judged.
    :param evidences: those looked at, unavailable ones included, without details.
    :param skipped: names of those that could no longer change anything.
    :param truncated_characters: how much of the document's end was not examined.
    """

    document_id: str
    rank: int
    bounds: Bounds
    threshold: float
    decision: Decision
    level: Level
    evidences: tuple[Evidence, ...]
    skipped: tuple[str, ...]
    profile: str
    fingerprint: str
    truncated_characters: int = 0

    @property
    def flagged(self) -> bool:
        """Whether the score reaches the threshold."""
        return self.decision is Decision.FLAGGED


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a defended retrieval hands to the generator, with the reason for every change.

    :param ranking: the ranking as it was retrieved.
    :param kept: the context, renumbered from 1.
    :param quarantined_ids: taken out before the retrieval was judged.
    :param survivors: the ranking after every removal, renumbered, in its full depth.
    :param removed_ids: documents taken out, in the order they were removed.
    :param partial: True when something could not be judged or supplied.
    :param rulings: where only decisions were asked for; the verdicts are empty then.
    """

    ranking: Ranking
    kept: tuple[RankedDocument, ...]
    survivors: Ranking
    quarantined_ids: tuple[str, ...]
    removed_ids: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    trace: tuple[Step, ...]
    partial: bool
    rulings: tuple[Ruling, ...] = ()
