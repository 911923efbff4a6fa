"""What a defence did to a retrieval, step by step."""

from __future__ import annotations

import dataclasses
import enum

from ragsieve.records import RankedDocument, Ranking, Verdict


class Action(enum.StrEnum):
    """What happened to a document on its way to the generator."""

    KEPT = "kept"
    REMOVED = "removed"
    REFILLED = "refilled"
    NOTED = "noted"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One line of a trace: what a stage did to one document, or to the ranking as a whole.

    :param document_id: None when the step is about the ranking.
    :param rank: the document's rank as that stage saw it.
    """

    stage: str
    action: Action
    reason: str
    document_id: str | None = None
    rank: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a defended retrieval hands to the generator, with the reason for every change.

    :param ranking: the ranking as it was retrieved.
    :param kept: the context, renumbered from 1.
    :param quarantined_ids: taken out before the retrieval was judged.
    :param survivors: the ranking after every removal, renumbered, in its full depth.
    :param removed_ids: documents taken out, in the order they were removed.
    :param partial: True when something could not be judged or supplied.
    """

    ranking: Ranking
    kept: tuple[RankedDocument, ...]
    survivors: Ranking
    quarantined_ids: tuple[str, ...]
    removed_ids: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    trace: tuple[Step, ...]
    partial: bool
