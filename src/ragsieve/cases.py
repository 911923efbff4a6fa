"""The nouns of review: what was found where, what was decided about it, what was done."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import json

from ragsieve.records import Document, Provenance, Verdict


def content_sha256(document: Document) -> str:
    """Hash of what a reader is shown, hexadecimal: one history for one content, whatever its id.

    A lone surrogate, which no encoder accepts, is hashed as its own three bytes.
    """
    return hashlib.sha256(document.content.encode("utf-8", "surrogatepass")).hexdigest()


class Remediation(enum.StrEnum):
    """What was done to a document in its store. A state that ends in -ing is an intent.

    An intent is written before the store is touched, so that a process that died between the
    two can be told from one that never began.
    """

    NONE = "none"
    QUARANTINING = "quarantining"
    QUARANTINED = "quarantined"
    RELEASING = "releasing"
    RELEASED = "released"
    DELETING = "deleting"
    DELETED = "deleted"
    RESTORING = "restoring"

    @property
    def pending(self) -> bool:
        """Whether it is an intent whose outcome in the store is not yet known."""
        return self.endswith("ing")

    @property
    def hides(self) -> bool:
        """Whether retrieval must not return the document."""
        return self in _HIDDEN


_HIDDEN = frozenset(
    {
        Remediation.QUARANTINING,
        Remediation.QUARANTINED,
        Remediation.RELEASING,
        Remediation.DELETING,
        Remediation.DELETED,
        Remediation.RESTORING,
    }
)


class Truth(enum.StrEnum):
    """What somebody checked about the content. No score ever sets it."""

    UNVERIFIED = "unverified"
    CHECKING = "checking"
    ACCURATE = "accurate"
    FALSE = "false"
    DISPUTED = "disputed"


class Opinion(enum.StrEnum):
    """What a reviewer says of a finding."""

    CONFIRMED = "confirmed"
    BENIGN = "benign"
    DUPLICATE = "duplicate"
    NEEDS_INFO = "needs-info"


class RiskTier(enum.StrEnum):
    """How much harm a wrong answer from this collection does, as its owner declares."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Measure(enum.StrEnum):
    """What a policy asks for."""

    RECORD = "record"
    REVIEW = "review"
    QUARANTINE = "quarantine"


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a document lies.

    :param store: address of the store and collection, without secrets.
    :param document_id: the store's own id.
    :param tenant: who owns the collection; None where there is one owner.
    """

    store: str
    document_id: str
    tenant: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """A document's place in a ranking.

    :param similarity: the retriever's; None when unknown.
    """

    document_id: str
    rank: int
    similarity: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueryContext:
    """The retrieval in which a document was judged.

    :param query: the question; None where the policy keeps no questions.
    :param ranking: as it was retrieved, best first.
    """

    query_id: str
    query: str | None
    ranking: tuple[Seen, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """What a policy may know of a document besides its evidence. None: nobody said.

    :param acl: who may write to it, as the store says.
    :param source_trust: of the declared source, in [0, 1].
    :param document_version: as declared.
    """

    provenance: Provenance = Provenance()
    acl: str | None = None
    source_trust: float | None = None
    document_version: str | None = None
    risk_tier: RiskTier = RiskTier.NORMAL


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What a declared policy makes of a finding.

    :param rule: name of the rule that decided.
    :param policy_sha256: of the policy file, hexadecimal.
    """

    measure: Measure
    rule: str
    reason: str
    policy_sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Incident:
    """One finding, as it is kept: evidence of promotion, never a verdict on truth.

    :param id: of this finding; the same scan of the same content gives the same id.
    :param scan_id: of the scan or filter run that found it; also the rollback handle.
    :param verdict: with every component of its score.
    :param excerpt: the beginning of the content; hostile like all corpus text.
    :param context: None for a finding of a corpus scan.
    :param campaign: findings that belong together share it; None for one that stands alone.
    :param embedding_version: model and settings behind the vectors; None when unknown.
    :param index_version: fingerprint of the store when it was read; None when unknown.
    :param characters: length of the content; None when unknown.
    """

    id: str
    scan_id: str
    place: Place
    content_sha256: str
    title: str
    excerpt: str
    verdict: Verdict
    standing: Standing
    decision: PolicyDecision
    decided_at: datetime.datetime
    context: QueryContext | None = None
    campaign: str | None = None
    embedding_version: str | None = None
    index_version: str | None = None
    truth: Truth = Truth.UNVERIFIED
    remediation: Remediation = Remediation.NONE
    opinion: Opinion | None = None
    reviewer: str | None = None
    characters: int | None = None

    @property
    def rollback_handle(self) -> str:
        """What `ragsieve rollback` takes to bring back all that its scan changed."""
        return self.scan_id


def incident_id(scan_id: str, place: Place, sha256: str) -> str:
    """A finding's id, hexadecimal: of its scan, its place and its content."""
    # As JSON, so that no two lists of parts run together into one.
    parts = json.dumps([scan_id, place.tenant, place.store, place.document_id, sha256])
    return hashlib.sha256(parts.encode("ascii")).hexdigest()[:32]
