"""Routes of scan jobs."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field, model_validator

from ragsieve.display import visible
from ragsieve.ledger.book import Ledger
from ragsieve.service.access import Principal, require
from ragsieve.service.holdings import Collection, Holdings
from ragsieve.service.jobs import Job, Jobs, JobState, Phase, past_job, past_jobs
from ragsieve.service.keys import Role
from ragsieve.service.problems import Refused, responses
from ragsieve.service.reviews import ReviewRoute
from ragsieve.service.runtime import Runtime
from ragsieve.service.schemas import Declared, Identifier, Strict
from ragsieve.service.seeing import actor_of

MOST_LISTED = 200
_LONGEST_NOTE = 300

Reviewer = Annotated[Principal, Depends(require(Role.REVIEWER))]
Id = Annotated[str, Path(min_length=1, max_length=200)]


class ScanRequest(Strict):
    """Which store to scan: by its collection, or by its address as findings name it.

    :param apply: hide what the policy quarantines; needs an admin. Otherwise nothing is changed.
    """

    collection: Identifier | None = None
    store: Declared | None = None
    apply: bool = False

    @model_validator(mode="after")
    def _one(self) -> ScanRequest:
        if self.collection is not None and self.store is not None:
            raise ValueError("expected either a collection or a store")
        return self


class FoundOut(BaseModel):
    """What a scan came to; null is what nobody remembers, or a dry run's ``hidden``."""

    documents: int
    findings: int
    to_quarantine: int | None
    hidden: int | None
    partial: bool | None


class ScanOut(BaseModel):
    """A scan job.

    :param id: also of its scan in the ledger, and the rollback handle.
    :param total: documents of the phase; null while unknown.
    :param found: null until it ended well.
    :param findings: address of its findings.
    """

    id: str
    collection: str | None
    store: str
    apply: bool
    state: JobState
    phase: Phase | None
    done: int
    total: int | None
    asked_by: str
    asked: datetime.datetime
    started: datetime.datetime | None
    ended: datetime.datetime | None
    found: FoundOut | None
    note: str
    findings: str


class ScansOut(BaseModel):
    """Jobs, the newest first."""

    scans: Annotated[list[ScanOut], Field(max_length=MOST_LISTED)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Board:
    """What the routes share.

    :param name: of this service in the ledger.
    """

    jobs: Jobs
    ledger: Ledger
    holdings: Holdings
    name: str

    def ask(self, who: Principal, body: ScanRequest) -> Job:
        if body.apply and not who.may(Role.ADMIN):
            raise Refused(403, "hiding documents needs a key of role admin", field="apply")
        held = _asked(self.holdings, who, body)
        return self.jobs.submit(
            held.name, held.address, held.tenant, apply=body.apply, actor=actor_of(who)
        )

    def list(self, who: Principal, limit: int) -> tuple[Job, ...]:
        here = {one.id: one for one in self.jobs.all() if one.tenant == who.tenant}
        return past_jobs(self.ledger, who.tenant, name=self.name, limit=limit, known=here)

    def find(self, who: Principal, scan_id: str) -> Job:
        job = self.jobs.find(scan_id)
        if job is None:
            job = past_job(self.ledger, who.tenant, scan_id, name=self.name)
        if job is None or job.tenant != who.tenant:
            raise Refused(404, "there is no such scan job")
        return job

    def cancel(self, who: Principal, scan_id: str) -> Job:
        job = self.find(who, scan_id)
        if job.apply and not who.may(Role.ADMIN):
            raise Refused(403, "this job hides documents; an admin may cancel it")
        if self.jobs.find(scan_id) is None:
            raise Refused(409, f"the job is {job.state} by now")
        return self.jobs.cancel(scan_id)


def router(
    jobs: Jobs, ledger: Ledger, holdings: Holdings, *, name: str
) -> Callable[[Runtime], APIRouter]:
    """``/v1/scans`` and below it, as ``Parts.routers`` takes it.

    :param name: of this service in the ledger.
    """
    board = _Board(jobs, ledger, holdings, name)

    def made(_runtime: Runtime) -> APIRouter:
        routes = APIRouter(prefix="/v1/scans", tags=["scans"], route_class=ReviewRoute)

        @routes.post("", status_code=202, responses=responses(400, 404, 409, 422))
        def ask(body: ScanRequest, request: Request, response: Response, who: Reviewer) -> ScanOut:
            """Have a store scanned; with ``apply`` by an admin, what is found is hidden.

            A finding is evidence of promotion and no verdict on truth.
            """
            job = board.ask(who, body)
            response.headers["Location"] = f"{request.url.path}/{job.id}"
            return _out(job)

        @routes.get("", responses=responses(422))
        def listed(
            who: Reviewer, limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50
        ) -> ScansOut:
            """Jobs of the key's own tenant, the newest first, those of earlier processes too."""
            return ScansOut(scans=[_out(one) for one in board.list(who, limit)])

        @routes.get("/{scan_id}", responses=responses(404, 422))
        def one(scan_id: Id, who: Reviewer) -> ScanOut:
            """One job and how far it is."""
            return _out(board.find(who, scan_id))

        @routes.post("/{scan_id}/cancel", responses=responses(404, 409, 422))
        def cancel(scan_id: Id, who: Reviewer) -> ScanOut:
            """Have a job stop, soon. One that hides documents by now goes on: roll it back."""
            return _out(board.cancel(who, scan_id))

        return routes

    return made


def _asked(holdings: Holdings, who: Principal, body: ScanRequest) -> Collection:
    """The collection that a request names, with a store of the key's own tenant."""
    own = [one for one in holdings.visible(who) if one.tenant == who.tenant and one.store]
    if body.collection is not None or body.store is not None:
        own = [one for one in own if body.store in (None, one.store)]
        own = [one for one in own if body.collection in (None, one.name)]
    field = "store" if body.store is not None else "collection"
    if not own:
        raise Refused(404, "there is no such collection with a store", field=field)
    if len({one.store for one in own}) > 1:
        raise Refused(422, f"expected one of {len(own)} collections, by name", field=field)
    return own[0]


def _out(job: Job) -> ScanOut:
    found = job.found
    return ScanOut(
        id=job.id,
        collection=job.collection,
        store=job.store,
        apply=job.apply,
        state=job.state,
        phase=None if job.state.ended else job.phase,
        done=job.done,
        total=job.total,
        asked_by=job.asked_by,
        asked=job.asked,
        started=job.started,
        ended=job.ended,
        found=None
        if found is None
        else FoundOut(
            documents=found.documents,
            findings=found.findings,
            to_quarantine=found.to_quarantine,
            hidden=found.hidden,
            partial=found.partial,
        ),
        note=visible(job.note, limit=_LONGEST_NOTE),
        findings=f"/v1/findings?scan={job.id}",
    )
