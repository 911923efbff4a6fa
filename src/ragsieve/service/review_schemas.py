"""What the interface of reviewers takes and gives."""

from __future__ import annotations

import datetime
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from ragsieve.cases import Measure, Opinion, Remediation, RiskTier, Truth
from ragsieve.explain import MEANING
from ragsieve.ledger.records import ScanState
from ragsieve.records import Decision, Level
from ragsieve.service.acts import REVIEWS, Act
from ragsieve.service.reviewing import LONGEST_REASON, MOST_TOGETHER
from ragsieve.service.schemas import Declared, EvidenceOut, Identifier, RemarkOut, Strict

_LARGEST = 2**53

Reason = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_REASON, pattern=r"\S")]
Version = Annotated[int, Field(ge=0, le=_LARGEST)]


class SeenFinding(Strict):
    """A finding with the versions under which it was seen; the queue gives both."""

    id: Identifier
    version: Version
    item_version: Version = 0


class ActRequest(Strict):
    """An act on one finding or several, such as a campaign."""

    # Strictness would refuse the words that JSON has for these.
    act: Annotated[Act, Field(strict=False, json_schema_extra={"enum": [str(a) for a in REVIEWS]})]
    reason: Reason
    findings: Annotated[list[SeenFinding], Field(min_length=1, max_length=MOST_TOGETHER)]


class TruthRequest(Strict):
    """What was found out about one content."""

    finding: SeenFinding
    truth: Annotated[Truth, Field(strict=False)]
    reason: Reason


class UndoRequest(Strict):
    """An act to take back; one's own last when none is named."""

    act_id: Identifier | None = None
    reason: Reason


class DeleteRequest(Strict):
    """Hidden documents to remove; ``confirm`` is the phrase ``delete N documents``."""

    reason: Reason
    confirm: Declared
    findings: Annotated[list[SeenFinding], Field(min_length=1, max_length=MOST_TOGETHER)]


class RollbackRequest(Strict):
    """A scan to roll back, with the number of documents that the preview promised."""

    reason: Reason
    expected_documents: Version
    include_contested: bool = False


class FindingOut(BaseModel):
    """One finding as the queue lists it.

    :param item_version: of what was done to its document; 0 where nothing was.
    :param priority: risk x (1 + exposure).
    :param exposure: retrievals of its place in the last 30 days.
    :param earlier_opinion: the last one on the same content before this was found.
    """

    id: str
    version: int
    item_version: int
    scan_id: str
    store: str
    document_id: str
    content_sha256: str
    title: str
    excerpt: str
    campaign: str | None
    decided_at: datetime.datetime
    decision: Decision
    level: Level
    score: float
    threshold: float
    measure: Measure
    risk_tier: RiskTier
    state: Remediation
    opinion: Opinion | None
    reviewer: str | None
    truth: Truth
    earlier_opinion: Opinion | None
    exposure: int
    priority: float
    superseded: bool


class QueueOut(BaseModel):
    """A part of the queue."""

    total: int
    findings: list[FindingOut]
    meaning: str = MEANING


class SaidOut(BaseModel):
    """An opinion of a reviewer; ``reviewer`` is who wrote it."""

    finding: str
    reviewer: str
    opinion: Opinion
    reason: str
    at: datetime.datetime


class TruthOut(BaseModel):
    """What somebody found out."""

    finding: str
    checker: str
    truth: Truth
    reason: str
    at: datetime.datetime


class RankedOut(BaseModel):
    """A document of the retrieval in which the finding was judged."""

    id: str
    rank: int
    similarity: float | None


class ContextOut(BaseModel):
    """The retrieval in which it was judged; without a question where none is kept."""

    query_id: str
    query: str | None
    ranking: list[RankedOut]


class CaseOut(BaseModel):
    """One finding with everything it rests on."""

    finding: FindingOut
    rank: int | None
    profile: str
    fingerprint: str
    complete: bool
    evidences: list[EvidenceOut]
    remarks: list[RemarkOut]
    policy_sha256: str
    rule: str
    policy_reason: str
    source: str | None
    author: str | None
    acl: str | None
    source_trust: float | None
    document_version: str | None
    embedding_version: str | None
    index_version: str | None
    rollback_handle: str
    context: ContextOut | None
    reviews: list[SaidOut]
    truth_checks: list[TruthOut]
    meaning: str = MEANING


class VerdictOut(BaseModel):
    """An earlier verdict on the same content."""

    scan_id: str
    store: str
    document_id: str
    at: datetime.datetime
    decision: Decision
    level: Level
    score: float
    threshold: float


class ChangeOut(BaseModel):
    """A step of what was done to a document."""

    store: str
    document_id: str
    old: Remediation
    new: Remediation
    reason: str
    actor: str
    at: datetime.datetime


class HistoryOut(BaseModel):
    """All that is known of one content, oldest first."""

    content_sha256: str
    verdicts: list[VerdictOut]
    reviews: list[SaidOut]
    truth_checks: list[TruthOut]
    changes: list[ChangeOut]


class ActOut(BaseModel):
    """What an act did, or what was undone.

    :param changed: ids of documents changed in their stores.
    :param left: ids of documents left alone: they hold another content by now, or are gone.
    """

    act_id: str
    act: Act
    actor: str
    findings: list[str]
    changed: list[str]
    left: list[str]


class ContestedOut(BaseModel):
    """A document that would come back although something happened since."""

    document_id: str
    reasons: list[str]


class RollbackOut(BaseModel):
    """What a rollback would change.

    :param queries_affected: of the retrievals kept, those in which such a document stood.
    """

    scan_id: str
    store: str
    state: ScanState
    brings_back: list[str]
    contested: list[ContestedOut]
    left: list[str]
    queries_affected: int
    queries_kept: int


class RolledBackOut(BaseModel):
    """What a rollback did."""

    scan_id: str
    released: list[str]
    restored: list[str]
    left: list[str]
    complete: bool
