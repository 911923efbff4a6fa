"""The route that judges documents before they enter an index, and the list of collections."""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Request

from ragsieve.auditing.incidents import Court
from ragsieve.cases import Place
from ragsieve.errors import EmbeddingError
from ragsieve.explain import MEANING
from ragsieve.policy.rules import Subject
from ragsieve.records import Decision, Document, FloatArray, Scan, Verdict
from ragsieve.service.access import Principal, require
from ragsieve.service.failures import Failure, attempt, refusal
from ragsieve.service.gates import rows_of
from ragsieve.service.holdings import BARE, Collection
from ragsieve.service.judging import document_of, judgement_of
from ragsieve.service.keys import Role
from ragsieve.service.problems import Refused, responses, where
from ragsieve.service.runtime import Runtime, runtime_of
from ragsieve.service.schemas import (
    CollectionOut,
    CollectionsResponse,
    GateOut,
    GateRequest,
    GateResponse,
)
from ragsieve.service.telemetry import GATE_SPAN

Asking = Annotated[Principal, Depends(require(Role.SERVICE))]
Seeing = Annotated[Principal, Depends(require(Role.SERVICE, Role.REVIEWER))]
Shared = Annotated[Runtime, Depends(runtime_of)]

log = logging.getLogger("ragsieve.service")


def router() -> APIRouter:
    """``/v1/gate`` and ``/v1/collections``."""
    routes = APIRouter(prefix="/v1", tags=["gate"])

    @routes.post("/gate", responses=responses(400, 404, 422))
    async def gate(
        body: GateRequest, request: Request, who: Asking, shared: Shared
    ) -> GateResponse:
        """Judge new documents against a collection; nothing is taken in.

        Where judging fails the answer is 503 whatever the policy of failures says: a document
        that was not judged must not enter on that account.
        """
        settings = shared.parts.settings
        held = shared.parts.holdings.find(who, body.collection, field="collection")
        if held.name == BARE or held.gate is None:
            raise Refused(
                404, "new documents are not judged here: no state, no live index",
                field="collection",
            )  # fmt: skip
        chosen = held.gate
        if len(body.documents) > settings.max_documents:
            raise Refused(
                422, f"expected at most {settings.max_documents} documents", field="documents"
            )
        if body.encoder and chosen.encoder and body.encoder != chosen.encoder:
            raise Refused(422, "the collection was embedded by another encoder", field="encoder")
        documents = [
            document_of(one, who, f"documents[{place}]") for place, one in enumerate(body.documents)
        ]
        _check_distinct(documents)

        def work() -> tuple[Scan, list[GateOut]]:
            rows = _rows(held, documents, [one.embedding for one in body.documents])
            scan = chosen.judge(documents, rows)
            results = [
                _result(shared, held, one, verdict)
                for one, verdict in zip(documents, scan, strict=True)
            ]
            return scan, results

        with shared.telemetry.span(GATE_SPAN, request.headers, held.name) as span:
            found = await attempt(shared.gate_worker, work, seconds=settings.gate_seconds)
            if isinstance(found, Failure):
                shared.telemetry.failed(span, found)
                shared.metrics.refusals.labels(found).inc()
                raise refusal(found)
        scan, results = found
        shared.metrics.gated(held, scan)
        _record(shared, who, held, documents, scan)
        return GateResponse(
            collection=held.name,
            against=chosen.against,
            profile=scan.profile,
            fingerprint=scan.fingerprint,
            policy_sha256=shared.parts.policy.sha256,
            results=results,
            notes=list(scan.notes),
            partial=Decision.UNDECIDED in scan.decisions,
            meaning=MEANING,
        )

    @routes.get("/collections", responses=responses())
    async def collections(who: Seeing, shared: Shared) -> CollectionsResponse:
        """Every collection that the key may ask about."""
        now = datetime.datetime.now(datetime.UTC)
        return CollectionsResponse(
            collections=[
                CollectionOut(
                    name=one.name,
                    documents=len(one.documents),
                    known=one.known,
                    state_age_seconds=one.age_seconds(now),
                    gate=None if one.gate is None else one.gate.against,
                )
                for one in shared.parts.holdings.visible(who)
            ]
        )

    return routes


def _check_distinct(documents: Sequence[Document]) -> None:
    times = Counter(one.id for one in documents)
    for place, one in enumerate(documents):
        if times[one.id] > 1:
            raise Refused(422, "an id stands more than once", field=f"documents[{place}].id")


def _rows(
    held: Collection, documents: Sequence[Document], given: Sequence[list[float] | None]
) -> FloatArray:
    """One row a document: as sent, or embedded here where all came without."""
    if held.embedder is None or any(row is not None for row in given):
        rows = rows_of(documents, given, None)
        if not np.linalg.norm(rows, axis=1).all():
            place = int(np.flatnonzero(np.linalg.norm(rows, axis=1) == 0)[0])
            raise EmbeddingError(f"documents[{place}].embedding: expected a vector that is not 0")
        return rows
    return held.embedder.embed_documents([one.content for one in documents])


def _result(shared: Runtime, held: Collection, document: Document, verdict: Verdict) -> GateOut:
    policy = shared.parts.policy
    place = Place(store=held.address, document_id=document.id, tenant=held.tenant)
    standing = Court(policy, shared.parts.trust).standing(document, policy.risk_tier(place))
    retriever = held.vectors_by or (None if held.gate is None else held.gate.encoder or None)
    subject = Subject(verdict, place, standing, kind="guard")
    decided = policy.decide(subject, retriever=retriever)
    return GateOut(
        judgement=judgement_of(verdict),
        measure=decided.measure,
        rule=decided.rule,
        reason=decided.reason,
    )


def _record(
    shared: Runtime, who: Principal, held: Collection, documents: Sequence[Document], scan: Scan
) -> None:
    recorder = shared.parts.recorder
    if recorder is None:
        return

    def keep() -> None:
        try:
            recorder.gated(who, held, documents, scan)
        except Exception as error:  # noqa: BLE001 -- an answer does not depend on it
            shared.metrics.recording_failures.inc()
            log.error("a batch is not recorded: %s", where(error))  # noqa: TRY400

    if not shared.recording.submit(keep):
        shared.metrics.recording_failures.inc()
