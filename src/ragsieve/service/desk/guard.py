"""Who sits at the desk, and pages in place of problems."""

from __future__ import annotations

import contextlib
import dataclasses
import http
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from ragsieve.errors import ConfigError, InputError, MissingExtraError, StoreError
from ragsieve.service.access import Principal
from ragsieve.service.desk.pages import Pages
from ragsieve.service.keys import Role
from ragsieve.service.problems import Refused, where
from ragsieve.service.reviews import answer_of
from ragsieve.service.seeing import ConflictError, Difference
from ragsieve.service.sessions import FORM_FIELD, HEADER, Session, Sessions, csrf_holds

SIGN_IN = "/desk/sign-in"
_LONGEST_FIELD = 4_096
_LONGEST_FORM_BYTES = 256 << 10

log = logging.getLogger("ragsieve.service")


class SignedOut(Exception):  # noqa: N818 -- leads to the page that signs in
    """Nobody is signed in, or no longer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """Sessions of reviewers."""

    sessions: Sessions

    def session(self, request: Request) -> Session:
        """Who sits at the desk.

        :raises SignedOut: when nobody does.
        :raises Refused: when their key may not review, or keys cannot be read.
        """
        with keys_at_hand():
            found = self.sessions.find(request.cookies.get(self.sessions.cookie))
        if found is None:
            raise SignedOut
        check_role(found.principal)
        # For the line in the log.
        request.scope["state"]["principal"] = found.principal
        return found

    async def form(self, request: Request) -> tuple[Session, FormData]:
        """Who sends a form, and the form, which was made for their session.

        :raises SignedOut: when nobody is signed in.
        :raises Refused: when it was not, or the key may not review.
        """
        session = self.session(request)
        form = await read_form(request)
        given = form.get(FORM_FIELD) or request.headers.get(HEADER)
        if not csrf_holds(session, given if isinstance(given, str) else None):
            raise Refused(403, "the form was not made for this session; open the page again")
        return session, form


@contextlib.contextmanager
def keys_at_hand() -> Iterator[None]:
    """Refuse while the keys cannot be read, without the words that say where they lie.

    :raises Refused: in place of what reading them raises.
    """
    try:
        yield
    except InputError:
        log.error("the keys cannot be read; nobody is let in")  # noqa: TRY400 -- no text
        raise Refused(503, "keys cannot be checked at present") from None


def check_role(principal: Principal) -> None:
    """Refuse a key that may not review.

    :raises Refused: when it may not.
    """
    if not principal.may(Role.REVIEWER):
        raise Refused(403, "the desk needs a key of role reviewer or admin")


async def read_form(request: Request) -> FormData:
    """A form of plain fields.

    :raises Refused: for anything else, and for one that is too long: strangers may send one to
        sign in, and it is read byte by byte while all others wait.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind:
        return FormData()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "expected a form")
    if len(await request.body()) > _LONGEST_FORM_BYTES:
        raise Refused(413, f"expected a form of at most {_LONGEST_FORM_BYTES:,} bytes")
    return await request.form(max_files=0, max_fields=2_000)


def field(form: FormData | Mapping[str, Any], name: str) -> str:
    """A field of a form as text; empty where there is none.

    :raises InputError: when it is too long.
    """
    value = form.get(name)
    text = value if isinstance(value, str) else ""
    if len(text) > _LONGEST_FIELD:
        raise InputError(f"{name}: expected at most {_LONGEST_FIELD:,} characters")
    return text.strip()


def desk_route(pages: Pages, guard: Guard) -> type[APIRoute]:
    """Routes that answer what went wrong with a page."""

    class DeskRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                try:
                    return await inner(request)
                except SignedOut:
                    if request.method == "GET":
                        return RedirectResponse(SIGN_IN, status_code=303)
                    return _problem(request, 401, "You are no longer signed in.")
                except Exception as error:  # noqa: BLE001 -- this is the desk's boundary
                    status, detail = _answer(error)
                    differences = error.differences if isinstance(error, ConflictError) else ()
                    return _problem(request, status, detail, differences)

            return handle

    def _problem(
        request: Request, status: int, detail: str, differences: tuple[Difference, ...] = ()
    ) -> Response:
        session = None
        try:
            session = guard.sessions.find(request.cookies.get(guard.sessions.cookie))
        except InputError:
            log.error("the keys cannot be read; nobody is let in")  # noqa: TRY400 -- no text
        title = http.HTTPStatus(status).phrase
        values = {"title": title, "detail": detail, "differences": differences}
        return pages.page("problem", session, status=status, code=status, **values)

    return DeskRoute


def _answer(error: Exception) -> tuple[int, str]:
    if isinstance(error, Refused):
        return error.status, str(error)
    if isinstance(error, StoreError | ConfigError | MissingExtraError):
        return answer_of(error)
    if isinstance(error, InputError):
        return 422, str(error)
    if isinstance(error, HTTPException):
        return error.status_code, http.HTTPStatus(error.status_code).description
    if isinstance(error, RequestValidationError):
        return 422, "a part of the address cannot be used"
    log.error("unexpected %s", where(error))
    return 500, "the service failed; its log says where"
