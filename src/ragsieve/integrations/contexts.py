"""From a framework's retrieval to a ranking, and from an outcome back to its documents."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from ragsieve.defense.serial import Sieve
from ragsieve.integrations.marks import UNJUDGED, Mark, bound_of, content_id, score_of
from ragsieve.outcomes import Action, Outcome, Ruling
from ragsieve.records import Decision, Document, RankedDocument, Ranking, Verdict

Item = TypeVar("Item")

_REPEATS = "repeats an id or a text that stands higher in the ranking"


@dataclasses.dataclass(frozen=True, slots=True)
class Found(Generic[Item]):
    """One retrieved document, as the filter reads it.

    :param item: the framework's own document, handed back untouched.
    :param text: what the model would be shown of it.
    :param id: the framework's; a hash of the text when None or empty.
    :param similarity: the retriever's, in its own unit; None when unknown.
    """

    item: Item
    text: str
    id: str | None = None
    similarity: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Marked(Generic[Item]):
    """A document of the framework and what the filter says about it."""

    item: Item
    mark: Mark


@dataclasses.dataclass(frozen=True, slots=True)
class Filtered(Generic[Item]):
    """What became of one retrieval.

    :param kept: the context, best first.
    :param removed: what was taken out, in the order of the retrieval.
    :param outcome: everything measured and every reason; None when nothing was retrieved.
    """

    kept: tuple[Marked[Item], ...]
    removed: tuple[Marked[Item], ...]
    outcome: Outcome | None

    def report(self) -> dict[str, Any]:
        """The trace as plain data that fits into JSON; texts and the query are not in it."""
        if self.outcome is None:
            return {"removed_ids": [], "partial": False, "trace": []}
        gone = (*self.outcome.quarantined_ids, *self.outcome.removed_ids)
        return {
            "query_id": self.outcome.ranking.query_id,
            "removed_ids": list(gone),
            "partial": self.outcome.partial,
            "trace": [step.fields() for step in self.outcome.trace],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Judge:
    """Who judged, as marks name it.

    :param policy: hash of everything that decided.
    """

    threshold: float
    profile: str
    policy: str


def ranking_of(query: str, found: Sequence[Found[Any]]) -> Ranking:
    """The retrieval as a ranking in which a repeated text bears the id of its first place."""
    first: dict[str, str] = {}
    entries = []
    for rank, one in enumerate(found, start=1):
        own = one.id or content_id(one.text)
        # Nothing can be said about two documents without text, an image for instance.
        name = first.setdefault(one.text, own) if one.text.strip() else own
        entries.append(RankedDocument(Document(name, one.text), rank, one.similarity))
    return Ranking(_query_id(query), query, tuple(entries))


def _query_id(query: str) -> str:
    # A hash, because traces and errors are logged and what people ask is theirs.
    digest = hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()
    return f"query-{digest[:16]}"


def tail_of(outcome: Outcome) -> tuple[str, str | None]:
    """How much of a tail the sieve had, and what it said about it."""
    said = [note for note in _ranking_notes(outcome) if not note.startswith("reduced form")]
    for note in said:
        if note.startswith(("missing tail", "insufficient tail")):
            found = note.split(": ", 1)[1].split("; ")[0]
            return "insufficient", f"insufficient tail: {found}"
    if said:
        return "repeats", said[0]
    reduced = next(_ranking_notes(outcome), None)
    return ("full", None) if reduced is None else ("reduced", reduced)


def _ranking_notes(outcome: Outcome) -> Iterator[str]:
    return (
        step.reason
        for step in outcome.trace
        if step.stage == Sieve.name and step.document_id is None
    )


def filtered_of(judge: Judge, found: Sequence[Found[Item]], outcome: Outcome) -> Filtered[Item]:
    """The framework's documents behind an outcome, with their marks.

    :param found: what :func:`ranking_of` made the ranking from.
    """
    tail, note = tail_of(outcome)
    note = None if tail == "reduced" else note
    judged: dict[str, Verdict | Ruling] = {}
    everything: tuple[Verdict | Ruling, ...] = (*outcome.verdicts, *outcome.rulings)
    for one in everything:
        judged.setdefault(one.document_id, one)

    said = {
        step.document_id: step.reason
        for step in outcome.trace
        if step.stage == Sieve.name and step.action is Action.NOTED and step.document_id is not None
    }

    def marked(place: int, action: Action, reason: str | None) -> Marked[Item]:
        name = outcome.ranking.entries[place].document.id
        own = judged.get(name)
        undecided = own is not None and own.decision is Decision.UNDECIDED
        if reason is None and undecided:
            reason = said.get(name)
        mark = Mark(
            decision=UNJUDGED if own is None else own.decision.value,
            action=action,
            rank=place + 1,
            score=None if own is None else score_of(own),
            at_least=None if own is None or tail == "insufficient" else bound_of(own),
            threshold=judge.threshold,
            level=None if own is None else own.level.value,
            profile=judge.profile,
            policy=judge.policy,
            tail=tail,
            note=reason,
        )
        return Marked(found[place].item, mark)

    names = [entry.document.id for entry in outcome.ranking.entries]
    places: dict[str, deque[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, deque()).append(place)
    moved, reasons = _reasons(outcome, Action.REFILLED), _reasons(outcome, Action.REMOVED)
    kept, handed = [], set[int]()
    for entry in outcome.kept:
        name = entry.document.id
        place = places[name].popleft()
        handed.add(place)
        action = Action.REFILLED if name in moved else Action.KEPT
        kept.append(marked(place, action, moved.get(name, note)))
    gone = {*outcome.quarantined_ids, *outcome.removed_ids}
    left = {entry.document.id for entry in outcome.survivors.entries}
    removed, seen = [], set[str]()
    for place, name in enumerate(names):
        first = name not in seen
        seen.add(name)
        if place in handed or (name in left and first):
            continue
        if name in gone or name in reasons:
            reason = reasons.get(name) if first else _REPEATS
            removed.append(marked(place, Action.REMOVED, reason))
    return Filtered(tuple(kept), tuple(removed), outcome)


def _reasons(outcome: Outcome, action: Action) -> dict[str | None, str]:
    return {step.document_id: step.reason for step in outcome.trace if step.action is action}
