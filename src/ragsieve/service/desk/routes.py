"""The desk's addresses: reading pages, and forms that act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from ragsieve.cases import Opinion, Remediation, Truth
from ragsieve.errors import InputError
from ragsieve.findings.taxonomy import taxonomy
from ragsieve.ledger.faults import NotKeptError
from ragsieve.records import Level
from ragsieve.service.access import Principal
from ragsieve.service.acts import REVIEWS, Act, ActRecord, read_act
from ragsieve.service.desk.beside import beside, excerpt
from ragsieve.service.desk.calibrating import calibration, threshold_of
from ragsieve.service.desk.case import campaign_of, case_of, line
from ragsieve.service.desk.guard import (
    SIGN_IN,
    Guard,
    check_role,
    desk_route,
    field,
    keys_at_hand,
    read_form,
)
from ragsieve.service.desk.pages import Pages, load_pages, static_files
from ragsieve.service.desk.queue import asked_of, queue_page
from ragsieve.service.problems import Refused
from ragsieve.service.reviewing import LONGEST_REASON, Reviewing
from ragsieve.service.runtime import Runtime
from ragsieve.service.seeing import Shown
from ragsieve.service.sessions import Session

_TOKEN_PARTS = 3
_MOST_DIGITS = 15


def router(reviewing: Reviewing) -> Callable[[Runtime], APIRouter]:
    """``/desk`` and below it, as ``Parts.routers`` takes it."""

    def made(runtime: Runtime) -> APIRouter:
        guard, pages = Guard(runtime.sessions), load_pages()
        routes = APIRouter(
            prefix="/desk", include_in_schema=False, route_class=desk_route(pages, guard)
        )
        _static(routes)
        _signing(routes, runtime, guard, pages)
        desk = _Desk(reviewing, guard, pages)
        _reading(routes, desk)
        _acting(routes, desk)
        _rolling_back(routes, desk)

        @routes.get("/{rest:path}")
        def nothing() -> Response:
            raise Refused(404, "there is no such page")

        return routes

    return made


class _Desk:
    """What the desk's routes share."""

    def __init__(self, reviewing: Reviewing, guard: Guard, pages: Pages) -> None:
        self.reviewing, self.guard, self.pages = reviewing, guard, pages
        self.ledger = reviewing.ledger

    def done(self, request: Request, who: Principal) -> tuple[ActRecord | None, bool]:
        """The act that an address says was done, and whether it was undone."""
        name = request.query_params.get("done", "")
        if not name:
            return None, False
        try:
            found = read_act(self.ledger, name, who.tenant)
        except NotKeptError:
            return None, False
        return found, self.reviewing.undone(found.id, who.tenant)

    def page(self, name: str, request: Request, session: Session, **values: Any) -> Response:
        """A page with what was done last."""
        act, undone = self.done(request, session.principal)
        last = self.reviewing.last(session.principal)
        return self.pages.page(
            name,
            session,
            act=act,
            undone=undone,
            last=last,
            acts=REVIEWS,
            chosen=_chosen(request),
            longest=LONGEST_REASON,
            truths=tuple(Truth),
            **values,
        )


def _static(routes: APIRouter) -> None:
    held = static_files()

    @routes.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in held:
            raise Refused(404, "there is no such file")
        body, kind = held[name]
        return Response(body, media_type=kind, headers={"Cache-Control": "max-age=3600"})


def _signing(routes: APIRouter, runtime: Runtime, guard: Guard, pages: Pages) -> None:
    @routes.get("/sign-in")
    def sign_in(request: Request) -> Response:
        local: Principal | None = request.scope["state"].get("principal")
        if local is not None:
            # Without keys whoever sits at this machine is its admin.
            response = RedirectResponse("/desk", status_code=303)
            guard.sessions.open(local, response)
            return response
        return pages.page("sign-in", None, problem=None)

    @routes.post("/sign-in")
    async def signed_in(request: Request) -> Response:
        if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            raise Refused(403, "a page of another origin may not sign in")
        form = await read_form(request)
        key = field(form, "key")
        with keys_at_hand():
            principal = runtime.access.of_token(key)
        if principal is None:
            return pages.page("sign-in", None, status=401, problem="This key opens nothing.")
        check_role(principal)
        response = RedirectResponse("/desk", status_code=303)
        guard.sessions.open(principal, response)
        return response

    @routes.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        await guard.form(request)
        response = RedirectResponse(SIGN_IN, status_code=303)
        guard.sessions.close(request.cookies.get(guard.sessions.cookie), response)
        return response


def _reading(routes: APIRouter, desk: _Desk) -> None:
    @routes.get("")
    def queue(request: Request) -> Response:
        session = desk.guard.session(request)
        tenant = session.principal.tenant
        asked = asked_of(request.query_params)
        part = request.headers.get("hx-target") == "queue"
        return desk.page(
            "queue-part" if part else "queue",
            request,
            session,
            asked=asked,
            queue=queue_page(desk.ledger, tenant, asked),
            stores=desk.reviewing.stores.addresses(tenant),
            states=tuple(Remediation),
            opinions=tuple(Opinion),
            levels=tuple(Level),
            evidences=tuple(name for name, _ in taxonomy().evidences),
        )

    @routes.get("/campaigns")
    def campaign(request: Request) -> Response:
        session = desk.guard.session(request)
        name = request.query_params.get("name", "")
        found = campaign_of(desk.ledger, session.principal.tenant, name)
        if not found.lines:
            raise NotKeptError("no such campaign")
        return desk.page("campaign", request, session, campaign=found)

    @routes.get("/cases/{incident_id}")
    def case(incident_id: str, request: Request) -> Response:
        session = desk.guard.session(request)
        tenant = session.principal.tenant
        found = case_of(desk.ledger, tenant, incident_id)
        whole = request.query_params.get("beside") == "1"
        if whole:
            near = beside(desk.reviewing.stores, desk.ledger, tenant, found.line.kept)
        else:
            near = excerpt(found.line.kept)
        return desk.page("case", request, session, case=found, beside=near, lazy=not whole)

    @routes.get("/cases/{incident_id}/beside")
    def near(incident_id: str, request: Request) -> Response:
        session = desk.guard.session(request)
        tenant = session.principal.tenant
        kept = desk.ledger.incidents.get(incident_id, tenant=tenant)
        found = beside(desk.reviewing.stores, desk.ledger, tenant, kept)
        return desk.pages.page("beside", session, beside=found, line=line(kept), lazy=False)

    @routes.get("/calibration")
    def calibrating(request: Request) -> Response:
        session = desk.guard.session(request)
        threshold = threshold_of(request.query_params.get("threshold"))
        found = calibration(desk.ledger, session.principal.tenant, threshold)
        part = request.headers.get("hx-target") == "effect"
        return desk.page("effect" if part else "calibration", request, session, calibration=found)


def _acting(routes: APIRouter, desk: _Desk) -> None:
    @routes.post("/act")
    async def act(request: Request) -> Response:
        session, form = await desk.guard.form(request)
        chosen = _act(field(form, "act"))
        names = "finding" if field(form, "scope") != "campaign" else "member"
        findings = [_shown(value) for value in form.getlist(names) if isinstance(value, str)]
        reason = field(form, "reason")
        record = await run_in_threadpool(
            desk.reviewing.act, session.principal, chosen, findings, reason=reason
        )
        return _back(form, record)

    @routes.post("/truth")
    async def truth(request: Request) -> Response:
        session, form = await desk.guard.form(request)
        finding = _shown(field(form, "finding"))
        try:
            said = Truth(field(form, "truth"))
        except ValueError:
            raise InputError("truth: expected one of the words offered") from None
        reason = field(form, "reason")
        await run_in_threadpool(
            desk.reviewing.check_truth, session.principal, finding, said, reason=reason
        )
        return _back(form, None)

    @routes.post("/undo")
    async def undo(request: Request) -> Response:
        session, form = await desk.guard.form(request)
        reason = field(form, "reason") or "undone at the desk"
        record = await run_in_threadpool(
            desk.reviewing.undo, session.principal, field(form, "undo"), reason=reason
        )
        return _back(form, record)


def _rolling_back(routes: APIRouter, desk: _Desk) -> None:
    @routes.get("/scans/{scan_id}/rollback")
    def preview(scan_id: str, request: Request) -> Response:
        session = desk.guard.session(request)
        found = desk.reviewing.preview(session.principal, scan_id)
        return desk.page("rollback", request, session, preview=found, rolled=None)

    @routes.post("/scans/{scan_id}/rollback")
    async def roll_back(scan_id: str, request: Request) -> Response:
        session, form = await desk.guard.form(request)
        contested = field(form, "contested") == "yes"
        promised = _whole(field(form, "clean")) + (
            _whole(field(form, "disputed")) if contested else 0
        )
        reason = field(form, "reason")

        def work() -> Response:
            done = desk.reviewing.roll_back(
                session.principal,
                scan_id,
                reason=reason,
                expected=promised,
                include_contested=contested,
            )
            found = desk.reviewing.preview(session.principal, scan_id)
            return desk.page("rollback", request, session, preview=found, rolled=done)

        return await run_in_threadpool(work)


def _back(form: FormData, record: ActRecord | None) -> Response:
    """To the page the form stood on; only pages of the desk."""
    done = {} if record is None else {"done": record.id}
    case, name = field(form, "case"), field(form, "campaign")
    if case:
        address, query = f"/desk/cases/{quote(case, safe='')}", done
    elif name:
        address, query = "/desk/campaigns", {"name": name, **done}
    else:
        address, query = "/desk", done
    return RedirectResponse(f"{address}?{urlencode(query)}" if query else address, status_code=303)


def _chosen(request: Request) -> Act | None:
    """The act that an address wants chosen beforehand."""
    given = request.query_params.get("act", "")
    return Act(given) if given in list(REVIEWS) else None


def _act(text: str) -> Act:
    if text not in list(REVIEWS):
        raise InputError("choose what to do")
    return Act(text)


def _shown(text: str) -> Shown:
    """A finding with its versions, as a form sends it back.

    :raises InputError: for anything else.
    """
    parts = text.rsplit(":", 2)
    if len(parts) != _TOKEN_PARTS:
        raise InputError("a finding of the form cannot be read; open the page again")
    return Shown(parts[0], _whole(parts[1]), _whole(parts[2]))


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise InputError("a number of the form cannot be read; open the page again")
    return int(text)
