"""The nouns that flow between all modules: frozen records, none of which can hold a label."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """Where a document says it comes from. Every field is what the source declares, unverified."""

    source: str | None = None
    author: str | None = None
    tenant: str | None = None
    version: str | None = None
    created: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One document of the corpus."""

    id: str
    text: str
    title: str = ""
    provenance: Provenance = Provenance()

    @property
    def content(self) -> str:
        """The one string that is embedded, tokenised, script-checked and shown to a model.

        Title, blank line, text; the text alone when there is no title or the text
        already starts with it.
        """
        if not self.title or self.text.startswith(self.title):
            return self.text
        return f"{self.title}\n\n{self.text}"


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A question put to the index."""

    id: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document at its place in a ranking.

    :param rank: from 1.
    :param similarity: the retriever's, in its own unit; None when unknown.
    """

    document: Document
    rank: int
    similarity: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Ranking:
    """What one query retrieved, best first."""

    query_id: str
    query: str
    entries: tuple[RankedDocument, ...]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents in rank order."""
        return tuple(entry.document for entry in self.entries)

    def renumbered(self, entries: Sequence[RankedDocument]) -> Ranking:
        """The same query over ``entries`` in the given order, ranks from 1."""
        numbered = tuple(
            dataclasses.replace(entry, rank=rank) for rank, entry in enumerate(entries, start=1)
        )
        return dataclasses.replace(self, entries=numbered)


@dataclasses.dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation.

    :param role: ``system``, ``user`` or ``assistant``.
    """

    role: str
    content: str


@dataclasses.dataclass(frozen=True, slots=True)
class ChatReply:
    """What a chat model answered, and what it cost.

    :param prompt_tokens: as the server counted them; None when it did not say.
    :param seconds: what the model took when it was asked, retries included; a kept reply keeps
        it. None when nobody measured.
    """

    content: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = dataclasses.field(default=None, compare=False)


class Detail:
    """Base of the typed facts behind an evidence; each evidence module defines its own."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """One measured, or unavailable, piece of evidence about one document.

    :param name: the evidence, as written in files.
    :param value: >= 0, large is suspicious, in units of the threshold; None when unavailable.
    :param probability: in (0, 1], small is suspicious; None where the evidence has none.
    :param reason: why it could not be measured; None when it was.
    :param components: further named numbers that files carry.
    :param detail: the facts an explanation is written from.
    :param optional: whether a verdict is complete without it.
    """

    name: str
    value: float | None
    probability: float | None = None
    reason: str | None = None
    components: tuple[tuple[str, float | int], ...] = ()
    detail: Detail | None = None
    optional: bool = False

    @property
    def measured(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    @classmethod
    def unavailable(cls, name: str, reason: str) -> Evidence:
        """An evidence that could not be measured, which is not the same as zero."""
        return cls(name=name, value=None, reason=reason)


class Knowledge:
    """Base of what a rule learned about a corpus; each profile defines its own."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentFeatures:
    """What an ingest scan knows about one document of a ranking.

    :param embedding: shape (d,), unit length; None when unknown.
    :param alien_run_nats: the ingest scan's; None when unknown.
    """

    embedding: FloatArray | None = None
    alien_run_nats: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What an ingest scan knows about the corpus a ranking comes from.

    :param gap_threshold: t_g of the ingest scan; None when unknown.
    :param question_share: documents that open with a question, in [0, 1]; None when unknown.
    """

    gap_threshold: float | None = None
    question_share: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Annotation:
    """A remark about a document that stands outside its score.

    :param name: the kind of remark, as written in files.
    :param words: the words of the document it is about; hostile like all corpus text.
    :param start: characters of the document's content; ``stop`` is exclusive.
    """

    name: str
    words: str
    start: int
    stop: int


class Decision(enum.StrEnum):
    """What the evidence says about one document."""

    FLAGGED = "flagged"
    CLEAR = "clear"
    UNDECIDED = "undecided"


class Level(enum.StrEnum):
    """What an operator should do with a finding."""

    INFO = "info"
    REVIEW = "review"
    QUARANTINE = "quarantine"

    def reaches(self, other: Level) -> bool:
        """Whether this asks for as much as ``other``."""
        order = list(Level)
        return order.index(self) >= order.index(other)


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one document: promotion evidence, never a statement about truth.

    :param score: the combined evidence, >= 0; a lower bound while evidence is unavailable.
    :param threshold: flagged when score >= threshold.
    :param rank: place in the ranking that was judged; None for a corpus scan.
    :param level: what to do with the document, by the profile's policy on kinds of evidence.
    :param truncated_characters: how much of the document's end was not examined.
    :param annotations: remarks that the score knows nothing of.
    """

    document_id: str
    score: float
    threshold: float
    decision: Decision
    level: Level
    evidences: tuple[Evidence, ...]
    profile: str
    fingerprint: str
    rank: int | None = None
    truncated_characters: int = 0
    annotations: tuple[Annotation, ...] = ()

    @property
    def flagged(self) -> bool:
        """Whether the measured evidence alone reaches the threshold."""
        return self.decision is Decision.FLAGGED

    @property
    def complete(self) -> bool:
        """Whether every evidence was measured, optional ones aside."""
        return all(evidence.measured or evidence.optional for evidence in self.evidences)


@dataclasses.dataclass(frozen=True, slots=True)
class NeighborGraph:
    """Exact nearest neighbours of every document, self excluded.

    :param indices: shape (V, k), rows of the corpus, nearest first, ties by index.
    :param similarities: shape (V, k), cosine in [-1, 1], non-increasing along a row.
    """

    indices: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]

    @property
    def k(self) -> int:
        """Neighbours per document actually used; smaller than asked for in a tiny corpus."""
        return int(self.indices.shape[1])

    def __len__(self) -> int:
        return int(self.indices.shape[0])


@dataclasses.dataclass(frozen=True, slots=True)
class EvidenceColumn:
    """One evidence over a whole corpus.

    :param values: shape (V,), >= 0, large is suspicious; NaN exactly where unavailable.
    :param probabilities: shape (V,), or None where the evidence has none.
    :param components: further named columns, each of shape (V,).
    :param reason: why values are NaN; None when all were measured.
    :param optional: whether a verdict is complete without it.
    """

    name: str
    values: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64] | None = None
    components: tuple[tuple[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]], ...] = ()
    reason: str | None = None
    optional: bool = False

    def at(self, row: int) -> Evidence:
        """The evidence about the document in ``row``."""
        value = float(self.values[row])
        if np.isnan(value):
            missing = Evidence.unavailable(self.name, self.reason or "not measured")
            return dataclasses.replace(missing, optional=self.optional)
        probability = None if self.probabilities is None else float(self.probabilities[row])
        # A component is absent, like an evidence, where it was not measured.
        numbers = tuple(
            (name, column[row].item())
            for name, column in self.components
            if column[row] == column[row]
        )
        return Evidence(
            self.name,
            value,
            probability=probability,
            components=numbers,
            optional=self.optional,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """The judgement on every document of one corpus snapshot, stored by column.

    :param scores: shape (V,), combined evidence, a lower bound where something is unavailable.
    :param levels: what to do with each document.
    :param graph: the neighbours the scan was computed from.
    :param truncated_characters: shape (V,), characters at a document's end not examined.
    :param knowledge: what the rule learned about the corpus; None for a rule that keeps nothing.
    :param notes: what a reader should know about how it was judged.
    :param earlier_ids: documents scanned before, which come first in the graph's numbers.
    """

    document_ids: tuple[str, ...]
    evidences: tuple[EvidenceColumn, ...]
    scores: npt.NDArray[np.float64]
    decisions: tuple[Decision, ...]
    levels: tuple[Level, ...]
    threshold: float
    profile: str
    fingerprint: str
    graph: NeighborGraph
    truncated_characters: npt.NDArray[np.int64]
    knowledge: Knowledge | None = None
    notes: tuple[str, ...] = ()
    earlier_ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.document_ids)

    def __iter__(self) -> Iterator[Verdict]:
        return (self.verdict(row) for row in range(len(self)))

    @property
    def k_used(self) -> int:
        """Neighbours per document; below the profile's k in a corpus of fewer than k + 1."""
        return self.graph.k

    @property
    def flagged_ids(self) -> tuple[str, ...]:
        """Ids of the flagged documents, in corpus order."""
        pairs = zip(self.document_ids, self.decisions, strict=True)
        return tuple(name for name, decision in pairs if decision is Decision.FLAGGED)

    def flagged_at(self, level: Level) -> tuple[str, ...]:
        """Ids of the flagged documents at ``level`` or above, in corpus order."""
        return tuple(
            name
            for name, decision, own in zip(
                self.document_ids, self.decisions, self.levels, strict=True
            )
            if decision is Decision.FLAGGED and own.reaches(level)
        )

    def column(self, name: str) -> EvidenceColumn:
        """The evidence called ``name``.

        :raises KeyError: when this scan has no such evidence.
        """
        for evidence in self.evidences:
            if evidence.name == name:
                return evidence
        raise KeyError(name)

    def verdict(self, row: int) -> Verdict:
        """The verdict on the document in ``row``."""
        return Verdict(
            document_id=self.document_ids[row],
            score=float(self.scores[row]),
            threshold=self.threshold,
            decision=self.decisions[row],
            level=self.levels[row],
            evidences=tuple(column.at(row) for column in self.evidences),
            profile=self.profile,
            fingerprint=self.fingerprint,
            truncated_characters=int(self.truncated_characters[row]),
        )
