"""The interface of reviewers: the queue, one finding, acts, undoing, rolling back."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import FiniteFloat

from ragsieve.cases import Measure, Opinion, Remediation, Truth
from ragsieve.errors import ConfigError, MissingExtraError, StoreError
from ragsieve.ledger.faults import IllegalMoveError, NotKeptError, StaleStateError
from ragsieve.ledger.records import QueueFilter
from ragsieve.records import Level
from ragsieve.service.access import Principal, require
from ragsieve.service.acts import ActRecord
from ragsieve.service.keys import Role
from ragsieve.service.problems import FieldProblem, Refused, problem_response, responses, where
from ragsieve.service.review_answers import (
    act_out,
    case_out,
    finding_out,
    history_out,
    rollback_out,
    rolled_back_out,
    shown_of,
    truth_out,
)
from ragsieve.service.review_schemas import (
    ActOut,
    ActRequest,
    CaseOut,
    DeleteRequest,
    HistoryOut,
    QueueOut,
    RollbackOut,
    RollbackRequest,
    RolledBackOut,
    TruthOut,
    TruthRequest,
    UndoRequest,
)
from ragsieve.service.reviewing import Reviewing
from ragsieve.service.runtime import Runtime
from ragsieve.service.seeing import ConflictError
from ragsieve.service.stores import UndeclaredStoreError, log

MOST_LISTED = 200
_LONGEST_NAME = 1_024

Reviewer = Annotated[Principal, Depends(require(Role.REVIEWER))]
Name = Annotated[str, Query(min_length=1, max_length=_LONGEST_NAME)]
Id = Annotated[str, Path(min_length=1, max_length=200)]


class ReviewRoute(APIRoute):
    """Answers the refusals of ledger and stores as problems."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its refusals made answers."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except ConflictError as error:
                named = [
                    FieldProblem(field=f"findings[{one.place}]", problem=one.words[:300])
                    for one in error.differences[:16]
                ]
                return problem_response(409, str(error), errors=named)
            except (StoreError, ConfigError, MissingExtraError) as error:
                status, detail = answer_of(error)
                return problem_response(status, detail)

        return handle


def answer_of(error: StoreError | ConfigError | MissingExtraError) -> tuple[int, str]:
    """Status and words for a refusal of the ledger or a store.

    Of a failure nothing is told but that it was one: its text may name what a stranger to the
    machine should not know.
    """
    if isinstance(error, NotKeptError):
        return 404, "the ledger holds no such thing for this key"
    if isinstance(error, StaleStateError | IllegalMoveError | UndeclaredStoreError):
        return 409, str(error)
    log.error("reviewing failed: %s", where(error))
    return 503, "the ledger or the store cannot be used at present; look again before repeating"


def router(reviewing: Reviewing) -> Callable[[Runtime], APIRouter]:
    """``/v1/reviews`` and below it, as ``Parts.routers`` takes it."""

    def made(_runtime: Runtime) -> APIRouter:
        routes = APIRouter(prefix="/v1/reviews", tags=["reviews"], route_class=ReviewRoute)
        _reading(routes, reviewing)
        _acting(routes, reviewing)
        _rolling_back(routes, reviewing)
        return routes

    return made


def _reading(routes: APIRouter, reviewing: Reviewing) -> None:
    @routes.get("", responses=responses(422))
    def queue(
        who: Reviewer,
        store: Name | None = None,
        document: Name | None = None,
        source: Name | None = None,
        author: Name | None = None,
        evidence: Name | None = None,
        evidence_at_least: FiniteFloat = 0.0,
        scan: Name | None = None,
        campaign: Name | None = None,
        days: Annotated[int | None, Query(ge=1, le=3_650)] = None,
        state: Remediation | None = None,
        opinion: Opinion | None = None,
        truth: Truth | None = None,
        level: Level | None = None,
        measure: Measure | None = None,
        reviewed: bool | None = None,
        known: bool | None = None,
        superseded: bool = False,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> QueueOut:
        """Findings by risk x exposure, the most pressing first.

        A score is evidence of promotion and no verdict on truth. ``days`` leaves older findings
        out; ``superseded`` lists those too whose place has a newer one.
        """
        ledger = reviewing.ledger
        after = None if days is None else ledger.now() - datetime.timedelta(days=days)
        wanted = QueueFilter(
            store=store,
            document_id=document,
            source=source,
            author=author,
            evidence=evidence,
            evidence_at_least=evidence_at_least,
            scan_id=scan,
            campaign=campaign,
            decided_after=after,
            state=state,
            opinion=opinion,
            truth=truth,
            level=level,
            measure=measure,
            reviewed=reviewed,
            known=known,
            superseded=None if superseded else False,
        )
        page = ledger.incidents.queue(wanted, tenant=who.tenant, limit=limit, offset=offset)
        return QueueOut(total=page.total, findings=[finding_out(one) for one in page.entries])

    @routes.get("/{incident_id}", responses=responses(404, 422))
    def one(incident_id: Id, who: Reviewer) -> CaseOut:
        """One finding with its evidence, what was said of it, and the retrieval it was caught in."""
        ledger = reviewing.ledger
        kept = ledger.incidents.get(incident_id, tenant=who.tenant)
        return case_out(
            kept,
            ledger.reviews.of(incident_id, tenant=who.tenant),
            ledger.truth.of(incident_id, tenant=who.tenant),
        )

    @routes.get("/{incident_id}/history", responses=responses(404, 422))
    def history(incident_id: Id, who: Reviewer) -> HistoryOut:
        """Everything known of a finding's content, whatever id or store it had."""
        ledger = reviewing.ledger
        kept = ledger.incidents.get(incident_id, tenant=who.tenant)
        return history_out(ledger.history(kept.incident.content_sha256, tenant=who.tenant))


def _acting(routes: APIRouter, reviewing: Reviewing) -> None:
    def answered(record: ActRecord) -> ActOut:
        return act_out(record)

    @routes.post("/act", responses=responses(400, 404, 409, 422))
    def act(body: ActRequest, who: Reviewer) -> ActOut:
        """Say an opinion on one finding or a whole campaign, and hide or serve its documents.

        With the versions that were seen: 409 when somebody was quicker, and nothing is written.
        """
        shown = [shown_of(one) for one in body.findings]
        return answered(reviewing.act(who, body.act, shown, reason=body.reason))

    @routes.post("/truth", responses=responses(400, 404, 409, 422))
    def truth(body: TruthRequest, who: Reviewer) -> TruthOut:
        """Write what somebody found out about a content, and by what means."""
        found = reviewing.check_truth(who, shown_of(body.finding), body.truth, reason=body.reason)
        return truth_out(found)

    @routes.post("/undo", responses=responses(400, 404, 409, 422))
    def undo(body: UndoRequest, who: Reviewer) -> ActOut:
        """Take an act back; without a name one's own last act that still stands."""
        name = body.act_id
        if name is None:
            last = reviewing.last(who)
            if last is None:
                raise Refused(404, "there is no act of this key to undo")
            name = last.id
        return answered(reviewing.undo(who, name, reason=body.reason))

    @routes.post("/delete", responses=responses(400, 404, 409, 422))
    def delete(
        body: DeleteRequest, who: Annotated[Principal, Depends(require(Role.ADMIN))]
    ) -> ActOut:
        """Remove hidden documents from their stores; for an admin other than who hid them."""
        shown = [shown_of(one) for one in body.findings]
        return answered(reviewing.delete(who, shown, reason=body.reason, phrase=body.confirm))


def _rolling_back(routes: APIRouter, reviewing: Reviewing) -> None:
    @routes.get("/scans/{scan_id}/rollback", responses=responses(404, 422))
    def preview(scan_id: Id, who: Reviewer) -> RollbackOut:
        """What rolling back a scan would bring back, and what stands against it."""
        return rollback_out(reviewing.preview(who, scan_id))

    @routes.post("/scans/{scan_id}/rollback", responses=responses(400, 404, 409, 422))
    def roll_back(scan_id: Id, body: RollbackRequest, who: Reviewer) -> RolledBackOut:
        """Bring back what a scan hid, as the preview promised."""
        done = reviewing.roll_back(
            who,
            scan_id,
            reason=body.reason,
            expected=body.expected_documents,
            include_contested=body.include_contested,
        )
        return rolled_back_out(done)
