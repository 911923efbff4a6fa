"""From verdicts to incidents: what is kept of a run, decided by the declared policy."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ragsieve.cases import (
    Incident,
    Place,
    QueryContext,
    RiskTier,
    Seen,
    Standing,
    content_sha256,
    incident_id,
)
from ragsieve.policy.file import Policy
from ragsieve.policy.rules import Kind, Subject
from ragsieve.records import Document, Ranking, Verdict
from ragsieve.trishield.provenance_policy import ProvenancePolicy

EXCERPT_CHARACTERS = 500
ACL_FIELD = "acl"


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What all findings of one run have in common.

    :param store: address without secrets.
    :param tenant: owner of the collection; None where there is one owner.
    :param embedding_version: model and settings behind the vectors; None when unknown.
    :param index_version: fingerprint of the store when it was read; None when unknown.
    """

    scan_id: str
    kind: Kind
    store: str
    tenant: str | None = None
    embedding_version: str | None = None
    index_version: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Court:
    """By what findings are decided.

    :param trust: in declared sources; source trust is unknown without one.
    :param metadata: the store's own, by document id; the ACL is read there.
    :param known_versions: declared versions judged before, by document id.
    """

    policy: Policy
    trust: ProvenancePolicy | None = None
    acl_field: str = ACL_FIELD
    metadata: Callable[[str], Mapping[str, Any]] = dataclasses.field(default=lambda _id: {})
    known_versions: Callable[[str], frozenset[str]] = dataclasses.field(
        default=lambda _id: frozenset()
    )

    def standing(self, document: Document, tier: RiskTier) -> Standing:
        """What the policy may know of a document besides its evidence."""
        acl = self.metadata(document.id).get(self.acl_field)
        origin = document.provenance
        ruled = self.trust is not None and self.trust.rule_of(origin) is not None
        return Standing(
            provenance=origin,
            acl=None if acl is None else str(acl),
            # The neutral trust of an origin that no rule speaks of is no knowledge.
            source_trust=self.trust.trust(origin) if self.trust is not None and ruled else None,
            document_version=origin.version,
            risk_tier=tier,
        )


def reaching(
    run: Run, judged: Iterable[tuple[Document, Verdict]], policy: Policy
) -> list[tuple[Document, Verdict]]:
    """The findings among judged documents: those whose score reaches the threshold of its slice."""
    found = []
    for document, verdict in judged:
        subject = Subject(verdict, Place(run.store, document.id, run.tenant), Standing(), run.kind)
        if verdict.score >= policy.threshold(subject, retriever=run.embedding_version):
            found.append((document, verdict))
    return found


def incidents(
    run: Run,
    found: Iterable[tuple[Document, Verdict]],
    court: Court,
    *,
    decided_at: datetime.datetime,
    ranking: Ranking | None = None,
    campaigns: Mapping[str, str] | None = None,
) -> tuple[Incident, ...]:
    """Findings as they are kept.

    :param found: documents with their verdicts, as `reaching` gives them.
    :param decided_at: aware.
    :param ranking: the retrieval in which they were judged; None for a corpus scan.
    :param campaigns: by document id; findings that belong together share one.
    """
    context = _context(ranking, keep_question=court.policy.declared.keep_questions)
    made = []
    for document, verdict in found:
        place = Place(run.store, document.id, run.tenant)
        standing = court.standing(document, court.policy.risk_tier(place))
        subject = Subject(verdict, place, standing, run.kind, court.known_versions(document.id))
        sha256 = content_sha256(document)
        made.append(
            Incident(
                id=incident_id(run.scan_id, place, sha256),
                scan_id=run.scan_id,
                place=place,
                content_sha256=sha256,
                title=document.title,
                excerpt=document.content[:EXCERPT_CHARACTERS],
                characters=len(document.content),
                verdict=verdict,
                standing=standing,
                decision=court.policy.decide(subject, retriever=run.embedding_version),
                decided_at=decided_at,
                context=context,
                campaign=(campaigns or {}).get(document.id),
                embedding_version=run.embedding_version,
                index_version=run.index_version,
            )
        )
    return tuple(made)


def _context(ranking: Ranking | None, *, keep_question: bool) -> QueryContext | None:
    if ranking is None:
        return None
    seen = tuple(Seen(one.document.id, one.rank, one.similarity) for one in ranking.entries)
    return QueryContext(ranking.query_id, ranking.query if keep_question else None, seen)
