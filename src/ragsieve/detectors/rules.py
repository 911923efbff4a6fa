"""What a profile must supply: measurements, a way to combine them, a threshold."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Protocol

from ragsieve.records import (
    Annotation,
    Decision,
    Detail,
    Document,
    DocumentFeatures,
    Evidence,
    EvidenceColumn,
    Knowledge,
    Level,
    NeighborGraph,
    Provenance,
    Scan,
    Surroundings,
)

# Part of every fingerprint: raise it when the same configuration starts to give other numbers.
ALGORITHM = 1


@dataclasses.dataclass(frozen=True, slots=True)
class QueryView:
    """One ranking as a rule sees it: texts and features, no ids, no metadata.

    :param candidates: contents of the documents to judge, best rank first.
    :param tail: contents of the ranking's other documents, in order.
    :param problem: why there is no usable tail; None when there is.
    :param features: of each document, candidates first; None without an ingest scan.
    """

    query: str
    candidates: tuple[str, ...]
    tail: tuple[str, ...]
    problem: str | None = None
    features: tuple[DocumentFeatures, ...] | None = None
    surroundings: Surroundings = Surroundings()


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """What a corpus rule measured.

    :param columns: evidence over the corpus, in a fixed order.
    :param knowledge: what was learned about the corpus, when the rule keeps any.
    :param notes: what a reader should know about how it was measured.
    """

    columns: tuple[EvidenceColumn, ...]
    knowledge: Knowledge | None = None
    notes: tuple[str, ...] = ()


class QueryRule(Protocol):
    """One profile's way to judge retrievals."""

    @property
    def profile(self) -> str:
        """The rule's name."""
        ...

    @property
    def candidates(self) -> int:
        """Candidates per ranking, k."""
        ...

    @property
    def documents(self) -> int:
        """Documents of the ranking that are looked at, n."""
        ...

    @property
    def fewest_documents(self) -> int:
        """Depth below which there is no usable tail; at most ``documents``."""
        ...

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        ...

    @property
    def max_characters(self) -> int:
        """Characters of a document that are examined, from its beginning."""
        ...

    def fingerprint(self) -> str:
        """Hash of everything that changes the numbers."""
        ...

    def measure(self, views: Sequence[QueryView]) -> list[tuple[tuple[Evidence, ...], ...]]:
        """For each view, for each candidate, its evidences in a fixed order."""
        ...

    def annotate(self, view: QueryView) -> tuple[tuple[Annotation, ...], ...]:
        """Remarks on each candidate that the score knows nothing of."""
        ...

    def combine(self, values: Sequence[float]) -> float:
        """The score of the measured evidences; never falls when one more is measured."""
        ...

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:
        """What to do with a document whose score reaches the threshold."""
        ...


class CorpusRule(Protocol):
    """One profile's way to judge a corpus snapshot."""

    @property
    def profile(self) -> str:
        """The rule's name."""
        ...

    @property
    def neighbors(self) -> int:
        """Neighbours per document, k."""
        ...

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        ...

    @property
    def max_characters(self) -> int:
        """Characters of a document that are examined, from its beginning."""
        ...

    def fingerprint(self) -> str:
        """Hash of everything that changes the numbers."""
        ...

    def measure(
        self, contents: Sequence[str], graph: NeighborGraph, declared: Sequence[Provenance]
    ) -> Measurement:
        """Evidence over the corpus.

        :param declared: where each document says it comes from, unverified.
        """
        ...

    def details(
        self, documents: Sequence[Document], scan: Scan, row: int
    ) -> tuple[Detail | None, ...]:
        """The facts behind one document's evidences, in the order of ``measure``."""
        ...

    def combine(self, values: Sequence[float]) -> float:
        """The score of the measured evidences; never falls when one more is measured."""
        ...

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:
        """What to do with a document whose score reaches the threshold."""
        ...


def decide(score: float, threshold: float, *, complete: bool) -> Decision:
    """Flag, clear, or say that it cannot be known.

    Evidence is never negative, so a partial score is a lower bound: at or above the
    threshold it flags whatever is missing, below it nothing is certain.
    """
    if score >= threshold:
        return Decision.FLAGGED
    return Decision.CLEAR if complete else Decision.UNDECIDED


def level_of(
    decision: Decision,
    level: Callable[[Sequence[Evidence], float], Level],
    evidences: Sequence[Evidence],
    score: float,
) -> Level:
    """Nothing to do when clear, a look when undecided, the profile's level when flagged."""
    if decision is Decision.FLAGGED:
        return level(evidences, score)
    return Level.REVIEW if decision is Decision.UNDECIDED else Level.INFO


def fingerprint(*parts: object) -> str:
    """Short stable hash of configurations and model identities.

    :param parts: dataclass instances, strings or None.
    :returns: 16 hexadecimal characters.
    """
    plain = [
        {"type": type(part).__name__, **dataclasses.asdict(part)}
        if dataclasses.is_dataclass(part) and not isinstance(part, type)
        else part
        for part in parts
    ]
    text = json.dumps([ALGORITHM, plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
