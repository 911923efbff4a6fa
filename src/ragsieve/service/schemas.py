"""What version 1 of the interface takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    model_validator,
)

from ragsieve.cases import Measure
from ragsieve.detectors.query import Mode
from ragsieve.outcomes import Action
from ragsieve.records import Decision, Level

MOST_DOCUMENTS = 1_000
MOST_BATCH = 256
LONGEST_TEXT = 1_000_000
LONGEST_DIMENSION = 16_384
_MOST_FIELDS = 64


# Long lists fail at their first fault: an error for each of a million numbers costs gigabytes.
# A constrained string is Unicode: half a surrogate pair is refused.
# Squares of larger ones have no sum in single precision.
Coordinate = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=1_024)]
Declared = Annotated[str, StringConstraints(max_length=4_096)]
Title = Annotated[str, StringConstraints(max_length=10_000)]
Body = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]
Question = Annotated[str, StringConstraints(min_length=1, max_length=20_000)]


class Strict(BaseModel):
    """A request's part: unknown fields are errors, and nothing is taken for something else."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: Any) -> Any:
        # Each unknown one would be an error of its own.
        if isinstance(given, dict) and len(given) > _MOST_FIELDS:
            raise ValueError(f"expected at most {_MOST_FIELDS} fields, found {len(given)}")
        return given


class ProvenanceIn(Strict):
    """Where a document says it comes from; unverified."""

    source: Declared | None = None
    author: Declared | None = None
    tenant: Declared | None = None
    version: Declared | None = None
    created: Declared | None = None


class DocumentIn(Strict):
    """A document as it was retrieved, or as it wants to enter the index."""

    id: Identifier
    text: Body
    title: Title = ""
    provenance: ProvenanceIn = ProvenanceIn()


class CandidateIn(DocumentIn):
    """A retrieved document; candidates stand best first."""

    similarity: FiniteFloat | None = None


class FilterRequest(Strict):
    """One retrieval to judge: ``ids`` of documents the service knows, or whole ``candidates``.

    :param similarities: the retriever's, one for each of ``ids``.
    :param k: documents to keep; the profile's number of candidates when absent, and at most it.
    :param texts: whether the kept documents come with their texts.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["ids"]}, {"required": ["candidates"]}]}
    )

    query: Question
    query_id: Identifier | None = None
    collection: Identifier | None = None
    ids: Annotated[
        list[Identifier], Field(min_length=1, max_length=MOST_DOCUMENTS, fail_fast=True)
    ] = []
    similarities: Annotated[
        list[FiniteFloat], Field(max_length=MOST_DOCUMENTS, fail_fast=True)
    ] = []
    candidates: Annotated[
        list[CandidateIn], Field(min_length=1, max_length=MOST_DOCUMENTS, fail_fast=True)
    ] = []
    # Strictness would refuse the words that JSON has for these.
    mode: Annotated[Mode, Field(strict=False)] = Mode.FULL
    k: Annotated[int, Field(ge=1, le=MOST_DOCUMENTS)] | None = None
    texts: bool = False

    @model_validator(mode="after")
    def _one_form(self) -> FilterRequest:
        if bool(self.ids) == bool(self.candidates):
            raise ValueError("expected either ids or candidates")
        if self.similarities and len(self.similarities) != len(self.ids):
            raise ValueError("expected one of similarities for each of ids, or none")
        return self


class BatchRequest(Strict):
    """Several retrievals."""

    requests: Annotated[list[FilterRequest], Field(min_length=1, max_length=MOST_BATCH)]


class NewDocument(DocumentIn):
    """A document that wants to enter the index.

    :param embedding: by the encoder of the collection; the service makes it where it can.
    """

    embedding: (
        Annotated[
            list[Coordinate], Field(min_length=1, max_length=LONGEST_DIMENSION, fail_fast=True)
        ]
        | None
    ) = None


class GateRequest(Strict):
    """New documents, judged against a collection.

    :param encoder: identity of what made the embeddings, checked where the collection names its.
    """

    collection: Identifier | None = None
    encoder: Identifier | None = None
    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=MOST_DOCUMENTS)]


class EvidenceOut(BaseModel):
    """One evidence; without a value it was unavailable, which is not zero."""

    name: str
    value: float | None
    probability: float | None = None
    reason: str | None = None
    optional: bool = False


class RemarkOut(BaseModel):
    """A remark outside the score, about characters of the document's content."""

    name: str
    start: int
    stop: int


class JudgementOut(BaseModel):
    """What the evidence says of one document.

    :param score: None where only bounds are known.
    :param score_at_most: None without a limit.
    :param complete: whether everything required was measured.
    :param not_looked_at: evidence that could change nothing any more, in decision mode.
    """

    id: str
    rank: int | None
    decision: Decision
    level: Level
    threshold: float
    score: float | None
    score_at_least: float
    score_at_most: float | None
    complete: bool
    evidences: list[EvidenceOut]
    not_looked_at: list[str] = []
    remarks: list[RemarkOut] = []
    truncated_characters: int = 0
    removed: bool | None = None


class KeptOut(BaseModel):
    """A document of the context, at its new rank.

    :param was: its rank in the retrieval.
    """

    id: str
    rank: int
    was: int
    similarity: float | None = None
    title: str | None = None
    text: str | None = None


class StepOut(BaseModel):
    """One line of the trace."""

    stage: str
    action: Action
    reason: str
    id: str | None = None
    rank: int | None = None
    components: dict[str, float | int | str | None] = {}


class TailOut(BaseModel):
    """What the candidates were judged against.

    :param documents: distinct ones of the ranking, withheld ones left out.
    :param needed: for a tail that can be used; ``full`` for the whole rule.
    """

    documents: int
    needed: int
    full: int
    sufficient: bool


class FilterResponse(BaseModel):
    """The context to hand to the generator, and why.

    :param withheld: ids taken out before anything was judged: they are quarantined.
    :param partial: whether something could not be judged or supplied.
    :param fallback: why nothing was judged and the ranking is handed over unfiltered; None when
        it was judged.
    """

    query_id: str
    collection: str | None
    mode: Mode
    profile: str
    fingerprint: str
    kept: list[KeptOut]
    removed: list[str]
    withheld: list[str]
    candidates: list[JudgementOut]
    trace: list[StepOut]
    tail: TailOut
    partial: bool
    fallback: Literal["error", "timeout", "overload"] | None
    meaning: str


class BatchResponse(BaseModel):
    """One result a retrieval, in their order."""

    results: list[FilterResponse]


class GateOut(BaseModel):
    """The judgement on a new document, and what the declared policy makes of it."""

    judgement: JudgementOut
    measure: Measure
    rule: str
    reason: str


class GateResponse(BaseModel):
    """One result a document, in their order.

    :param against: ``state`` or ``live``.
    :param partial: whether one is undecided.
    """

    collection: str
    against: Literal["state", "live"]
    profile: str
    fingerprint: str
    policy_sha256: str
    results: list[GateOut]
    notes: list[str]
    partial: bool
    meaning: str


class CollectionOut(BaseModel):
    """A corpus that the key may ask about.

    :param documents: texts the service holds; requests may name their ids alone.
    :param known: documents of the state; None without one.
    :param state_age_seconds: since the state was written; None without one.
    :param gate: what new documents are judged against.
    """

    name: str
    documents: int
    known: int | None
    state_age_seconds: float | None
    gate: Literal["state", "live"] | None


class CollectionsResponse(BaseModel):
    """Every corpus that the key may ask about."""

    collections: list[CollectionOut]


class HealthResponse(BaseModel):
    """Whether the process answers."""

    status: Literal["alive"] = "alive"
    version: str


class ReadyResponse(BaseModel):
    """Whether requests can be served, and why not."""

    ready: bool
    reasons: list[str]
