"""What is written beside a document for whoever handles it next: small, plain, never its text."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from ragsieve.outcomes import Action, Ruling
from ragsieve.records import Decision, Provenance, Verdict

KEY = "ragsieve"
"""Metadata key of what the filter said about a retrieved document."""

ARRIVAL_KEYS = (
    "ragsieve_decision",
    "ragsieve_level",
    "ragsieve_score",
    "ragsieve_threshold",
    "ragsieve_profile",
    "ragsieve_policy",
)
"""Metadata keys of what the gate said about a new document: flat, as stores want them."""

MEANING = "evidence of promotion into retrieval, never a verdict on truth"
UNJUDGED = "unjudged"

_DECLARED = tuple(field.name for field in dataclasses.fields(Provenance))


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """What the filter says about one document of a retrieval.

    :param decision: ``flagged``, ``clear``, ``undecided``, or ``unjudged`` for a document that
        moved up from the tail.
    :param action: what happened to it.
    :param rank: its place in the ranking as it was retrieved, from 1.
    :param score: evidence of promotion, >= 0; None where it is not known exactly.
    :param at_least: what the score is at least, where it is not known exactly but there was a
        tail: further evidence was unavailable, or not looked at.
    :param level: what to do with it; None for a document that was not judged.
    :param policy: hash of everything that decided.
    :param tail: ``full``, ``reduced``, ``insufficient``, or ``repeats`` where documents stood
        more than once.
    :param note: the reason in words, without words of the document; None when there is nothing
        to add.
    """

    decision: str
    action: Action
    rank: int
    score: float | None
    at_least: float | None
    threshold: float
    level: str | None
    profile: str
    policy: str
    tail: str
    note: str | None = None

    def fields(self) -> dict[str, Any]:
        """This mark as plain data that fits into JSON, with what it means."""
        plain = dataclasses.asdict(self) | {"action": self.action.value, "meaning": MEANING}
        return {
            key: value
            for key, value in plain.items()
            if value is not None or key not in {"note", "at_least"}
        }


def score_of(judged: Verdict | Ruling) -> float | None:
    """The score where it is known exactly; a lower bound is none."""
    if judged.decision is Decision.UNDECIDED:
        return None
    if isinstance(judged, Verdict):
        return judged.score
    return judged.bounds.lower if judged.bounds.exact else None


def bound_of(judged: Verdict | Ruling) -> float | None:
    """A lower bound of a score that is not known exactly; None where it is known."""
    if score_of(judged) is not None:
        return None
    return judged.score if isinstance(judged, Verdict) else judged.bounds.lower


def arrival_fields(verdict: Verdict) -> dict[str, str | float]:
    """What the gate said, one scalar a key; the score is left out where it is not known."""
    score = score_of(verdict)
    fields: dict[str, str | float] = {
        "ragsieve_decision": verdict.decision.value,
        "ragsieve_level": verdict.level.value,
        "ragsieve_threshold": verdict.threshold,
        "ragsieve_profile": verdict.profile,
        "ragsieve_policy": verdict.fingerprint,
    }
    return fields if score is None else fields | {"ragsieve_score": score}


def without_marks(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without what stands under our keys: whoever can plant can write there too."""
    ours = {KEY, *ARRIVAL_KEYS}
    return {key: value for key, value in metadata.items() if key not in ours}


def content_id(text: str) -> str:
    """An id for a document that has none: equal texts have equal ids."""
    # surrogatepass: a lone surrogate in a text is no reason to fail here.
    return "sha256-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def declared(metadata: Mapping[str, Any]) -> Provenance:
    """Source, author, tenant, version and date of creation where the metadata name them."""
    found = {name: metadata.get(name) for name in _DECLARED}
    return Provenance(**{name: one for name, one in found.items() if isinstance(one, str) and one})
