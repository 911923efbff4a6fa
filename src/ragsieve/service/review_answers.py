"""From the ledger's records to what the interface of reviewers gives."""

from __future__ import annotations

from collections.abc import Sequence

from ragsieve.ledger.records import KeptIncident, QuarantineItem, Review, TruthCheck
from ragsieve.ledger.reports import History, RollbackPreview
from ragsieve.records import Evidence
from ragsieve.remediation.rollback import RolledBack
from ragsieve.service.acts import ActRecord
from ragsieve.service.review_schemas import (
    ActOut,
    CaseOut,
    ChangeOut,
    ContestedOut,
    ContextOut,
    FindingOut,
    HistoryOut,
    RankedOut,
    RollbackOut,
    RolledBackOut,
    SaidOut,
    SeenFinding,
    TruthOut,
    VerdictOut,
)
from ragsieve.service.schemas import EvidenceOut, RemarkOut
from ragsieve.service.seeing import Shown, item_version


def shown_of(one: SeenFinding) -> Shown:
    """A finding as the reviewer saw it."""
    return Shown(one.id, one.version, one.item_version)


def finding_out(kept: KeptIncident) -> FindingOut:
    """One finding as the queue lists it."""
    one = kept.incident
    return FindingOut(
        id=one.id,
        version=kept.version,
        item_version=item_version(kept),
        scan_id=_text(one.scan_id),
        store=_text(one.place.store),
        document_id=_text(one.place.document_id),
        content_sha256=one.content_sha256,
        title=_text(one.title),
        excerpt=_text(one.excerpt),
        campaign=_maybe(one.campaign),
        decided_at=one.decided_at,
        decision=one.verdict.decision,
        level=one.verdict.level,
        score=one.verdict.score,
        threshold=one.verdict.threshold,
        measure=one.decision.measure,
        risk_tier=one.standing.risk_tier,
        state=one.remediation,
        opinion=one.opinion,
        reviewer=_maybe(one.reviewer),
        truth=one.truth,
        earlier_opinion=kept.earlier_opinion,
        exposure=kept.exposure,
        priority=kept.priority,
        superseded=kept.superseded,
    )


def case_out(
    kept: KeptIncident, reviews: Sequence[Review], checks: Sequence[TruthCheck]
) -> CaseOut:
    """One finding with everything it rests on."""
    one, origin = kept.incident, kept.incident.standing.provenance
    context = None
    if one.context is not None:
        ranking = [
            RankedOut(id=_text(seen.document_id), rank=seen.rank, similarity=seen.similarity)
            for seen in one.context.ranking
        ]
        context = ContextOut(
            query_id=_text(one.context.query_id), query=_maybe(one.context.query), ranking=ranking
        )
    return CaseOut(
        finding=finding_out(kept),
        rank=one.verdict.rank,
        profile=_text(one.verdict.profile),
        fingerprint=_text(one.verdict.fingerprint),
        complete=one.verdict.complete,
        evidences=[_evidence(found) for found in one.verdict.evidences],
        remarks=[
            RemarkOut(name=_text(found.name), start=found.start, stop=found.stop)
            for found in one.verdict.annotations
        ],
        policy_sha256=one.decision.policy_sha256,
        rule=_text(one.decision.rule),
        policy_reason=_text(one.decision.reason),
        source=_maybe(origin.source),
        author=_maybe(origin.author),
        acl=_maybe(one.standing.acl),
        source_trust=one.standing.source_trust,
        document_version=_maybe(one.standing.document_version),
        embedding_version=_maybe(one.embedding_version),
        index_version=_maybe(one.index_version),
        rollback_handle=_text(one.rollback_handle),
        context=context,
        reviews=[_said(found) for found in reviews],
        truth_checks=[truth_out(found) for found in checks],
    )


def history_out(found: History) -> HistoryOut:
    """All that is known of one content."""
    return HistoryOut(
        content_sha256=found.content_sha256,
        verdicts=[
            VerdictOut(
                scan_id=_text(one.scan_id),
                store=_text(one.place.store),
                document_id=_text(one.place.document_id),
                at=one.at,
                decision=one.verdict.decision,
                level=one.verdict.level,
                score=one.verdict.score,
                threshold=one.verdict.threshold,
            )
            for one in found.verdicts
        ],
        reviews=[_said(one) for one in found.reviews],
        truth_checks=[truth_out(one) for one in found.truth_checks],
        changes=[
            ChangeOut(
                store=_text(one.place.store),
                document_id=_text(one.place.document_id),
                old=one.old,
                new=one.new,
                reason=_text(one.reason),
                actor=_text(one.actor),
                at=one.at,
            )
            for one in found.changes
        ],
    )


def act_out(record: ActRecord) -> ActOut:
    """What an act did."""
    return ActOut(
        act_id=record.id,
        act=record.act,
        actor=_text(record.actor),
        findings=[one.incident_id for one in record.members],
        changed=[_text(one.document_id) for one in record.changed],
        left=[_text(one) for one in record.left],
    )


def truth_out(check: TruthCheck) -> TruthOut:
    """What somebody found out."""
    return TruthOut(
        finding=check.incident_id,
        checker=_text(check.checker),
        truth=check.truth,
        reason=_text(check.reason),
        at=check.at,
    )


def rollback_out(found: RollbackPreview) -> RollbackOut:
    """What a rollback would change."""
    return RollbackOut(
        scan_id=_text(found.scan.start.id),
        store=_text(found.scan.start.store),
        state=found.scan.state,
        brings_back=_ids(found.brings_back),
        contested=[
            ContestedOut(
                document_id=_text(one.item.place.document_id),
                reasons=[_text(r) for r in one.reasons],
            )
            for one in found.contested
        ],
        left=_ids(found.left),
        queries_affected=found.queries_affected,
        queries_kept=found.queries_kept,
    )


def rolled_back_out(done: RolledBack) -> RolledBackOut:
    """What a rollback did."""
    return RolledBackOut(
        scan_id=_text(done.preview.scan.start.id),
        released=[_text(one) for one in done.released.done],
        restored=[_text(one) for one in done.restored.done],
        left=[_text(one) for one in done.left],
        complete=done.complete,
    )


def _said(review: Review) -> SaidOut:
    return SaidOut(
        finding=review.incident_id,
        reviewer=_text(review.reviewer),
        opinion=review.opinion,
        reason=_text(review.reason),
        at=review.at,
    )


def _evidence(one: Evidence) -> EvidenceOut:
    return EvidenceOut(
        name=_text(one.name),
        value=one.value,
        probability=one.probability,
        reason=_maybe(one.reason),
        optional=one.optional,
    )


def _ids(items: Sequence[QuarantineItem]) -> list[str]:
    return [_text(one.place.document_id) for one in items]


def _text(value: str) -> str:
    """A string that JSON in UTF-8 can hold: half a surrogate pair is spelled out."""
    return value.encode("utf-8", "backslashreplace").decode()


def _maybe(value: str | None) -> str | None:
    return None if value is None else _text(value)
