"""From a request to rankings, through the sieve, to an answer."""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection as Ids
from collections.abc import Sequence

from ragsieve.defense.pipeline import Pipeline, Stage
from ragsieve.defense.serial import Quarantine, Sieve
from ragsieve.detectors.query import Mode
from ragsieve.explain import MEANING
from ragsieve.outcomes import Outcome, Ruling
from ragsieve.records import (
    Decision,
    Document,
    Evidence,
    Provenance,
    RankedDocument,
    Ranking,
    Verdict,
)
from ragsieve.service.access import Principal
from ragsieve.service.failures import Failure
from ragsieve.service.holdings import BARE, Collection
from ragsieve.service.problems import Refused
from ragsieve.service.schemas import (
    CandidateIn,
    DocumentIn,
    EvidenceOut,
    FilterRequest,
    FilterResponse,
    JudgementOut,
    KeptOut,
    RemarkOut,
    StepOut,
    TailOut,
)


def ranking_of(
    request: FilterRequest,
    collection: Collection,
    principal: Principal,
    *,
    most: int,
    prefix: str = "",
) -> Ranking:
    """The retrieval that a request describes.

    :param most: documents in it.
    :param prefix: of the fields in refusals, as ``requests[2].``.
    :raises Refused: for an id that the collection does not hold, too many documents, a ``k``
        beyond the candidates, or a document of another tenant.
    """
    size = len(request.ids) or len(request.candidates)
    field = "ids" if request.ids else "candidates"
    if size > most:
        raise Refused(422, f"expected at most {most} documents, found {size}", field=prefix + field)
    judged = collection.detector.candidates
    if request.k is not None and request.k > judged:
        raise Refused(
            422,
            f"expected at most {judged}: no more documents of a ranking are judged",
            field=prefix + "k",
        )
    entries = (
        _known(request, collection, prefix)
        if request.ids
        else [
            RankedDocument(
                document_of(one, principal, f"{prefix}candidates[{place}]"),
                place + 1,
                one.similarity,
            )
            for place, one in enumerate(request.candidates)
        ]
    )
    name = request.query_id or uuid.uuid4().hex
    return Ranking(name, request.query, tuple(entries))


def document_of(one: DocumentIn | CandidateIn, principal: Principal, field: str) -> Document:
    """The document that was sent.

    :raises Refused: when it says it belongs to another tenant than the key's.
    """
    declared = one.provenance
    if declared.tenant is not None and not principal.sees(declared.tenant):
        raise Refused(
            403, "the document belongs to another tenant", field=f"{field}.provenance.tenant"
        )
    return Document(
        one.id,
        one.text,
        one.title,
        Provenance(
            declared.source, declared.author, declared.tenant, declared.version, declared.created
        ),
    )


def judge(
    rankings: Sequence[Ranking],
    collection: Collection,
    *,
    mode: Mode,
    size: int,
    withheld: frozenset[str],
) -> list[Outcome]:
    """Judge retrievals of one collection.

    :param size: documents of the context.
    :raises RankingError: when one cannot be judged and the policy says raise.
    """
    detector, policy = collection.detector, collection.policy
    stages: list[Stage] = [Sieve(detector, policy, mode=mode)]
    if withheld or collection.scanned is not None:
        quarantine = Quarantine(
            withheld,
            scanned_ids=collection.scanned,
            on_unavailable=policy.on_unavailable,
            needed=detector.fewest_documents,
        )
        stages.insert(0, quarantine)
    pipeline = Pipeline(stages, context_size=size, on_few_survivors=policy.on_few_survivors)
    return pipeline.run_many(rankings)


def decisions_of(outcome: Outcome) -> list[Decision]:
    """What was decided about each candidate."""
    judged: Sequence[Verdict | Ruling] = outcome.verdicts or outcome.rulings
    return [one.decision for one in judged]


def tail_of(outcome: Outcome, collection: Collection) -> TailOut:
    """What the candidates were judged against."""
    detector, gone = collection.detector, frozenset(outcome.quarantined_ids)
    left = {one.document.id for one in outcome.ranking.entries} - gone
    return TailOut(
        documents=len(left),
        needed=detector.fewest_documents,
        full=detector.documents,
        sufficient=len(left) >= detector.fewest_documents,
    )


def response_of(
    outcome: Outcome, collection: Collection, request: FilterRequest, failure: Failure | None
) -> FilterResponse:
    """The answer about one retrieval."""
    removed = frozenset(outcome.removed_ids)
    was = {entry.document.id: entry for entry in reversed(outcome.ranking.entries)}
    judged: Sequence[Verdict | Ruling] = outcome.verdicts or outcome.rulings
    return FilterResponse(
        query_id=outcome.ranking.query_id,
        collection=None if collection.name == BARE else collection.name,
        mode=request.mode,
        profile=collection.detector.profile,
        fingerprint=collection.detector.fingerprint,
        kept=[
            KeptOut(
                id=one.document.id,
                rank=one.rank,
                was=was[one.document.id].rank,
                similarity=one.similarity,
                title=one.document.title if request.texts else None,
                text=one.document.text if request.texts else None,
            )
            for one in outcome.kept
        ],
        removed=list(outcome.removed_ids),
        withheld=list(outcome.quarantined_ids),
        candidates=[judgement_of(one, removed) for one in judged],
        trace=[
            StepOut(
                stage=step.stage,
                action=step.action,
                reason=step.reason,
                id=step.document_id,
                rank=step.rank,
                components=dict(step.components),
            )
            for step in outcome.trace
        ],
        tail=tail_of(outcome, collection),
        partial=outcome.partial,
        fallback=None if failure is None else failure.value,
        meaning=MEANING,
    )


def judgement_of(one: Verdict | Ruling, removed: Ids[str] | None = None) -> JudgementOut:
    """What is said of one document.

    :param removed: ids that were taken out; None where nothing is.
    """
    verdict = one if isinstance(one, Verdict) else None
    complete = all(own.measured or own.optional for own in one.evidences)
    if isinstance(one, Verdict):
        lower, upper = one.score, one.score if complete else math.inf
        skipped: tuple[str, ...] = ()
    else:
        lower, upper, skipped = one.bounds.lower, one.bounds.upper, one.skipped
    return JudgementOut(
        id=one.document_id,
        rank=one.rank,
        decision=one.decision,
        level=one.level,
        threshold=one.threshold,
        score=lower if lower == upper else None,
        score_at_least=lower,
        score_at_most=None if math.isinf(upper) else upper,
        complete=complete,
        evidences=[_evidence(own) for own in one.evidences],
        not_looked_at=list(skipped),
        remarks=[
            RemarkOut(name=remark.name, start=remark.start, stop=remark.stop)
            for remark in (verdict.annotations if verdict else ())
        ],
        truncated_characters=one.truncated_characters,
        removed=None if removed is None else one.document_id in removed,
    )


def _known(request: FilterRequest, collection: Collection, prefix: str) -> list[RankedDocument]:
    similarities: Sequence[float | None] = request.similarities or [None] * len(request.ids)
    entries = []
    for place, (name, similarity) in enumerate(zip(request.ids, similarities, strict=True)):
        document = collection.documents.get(name)
        if document is None:
            raise Refused(
                422,
                "the collection holds no document of this id; send whole candidates",
                field=f"{prefix}ids[{place}]",
            )
        entries.append(RankedDocument(document, place + 1, similarity))
    return entries


def _evidence(one: Evidence) -> EvidenceOut:
    return EvidenceOut(
        name=one.name,
        value=one.value,
        probability=one.probability,
        reason=one.reason,
        optional=one.optional,
    )
