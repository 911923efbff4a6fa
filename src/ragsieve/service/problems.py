"""Errors as RFC 9457 problem documents, which repeat nothing of what was sent but field names."""

from __future__ import annotations

import http
import json
import logging
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragsieve.display import visible
from ragsieve.errors import InputError

MEDIA_TYPE = "application/problem+json"
_LONGEST, _LONGEST_NAME, _MOST = 300, 80, 16

log = logging.getLogger("ragsieve.service")


class FieldProblem(BaseModel):
    """What is wrong with one field of a request."""

    field: str
    problem: str


class Problem(BaseModel):
    """RFC 9457; ``type`` is about:blank, the title that of the status."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] = []


class Refused(Exception):  # noqa: N818 -- a refusal is an answer, not a fault
    """A request that is answered with a problem.

    :param field: the field at fault, with its place, as ``ids[3]``.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.field = status, detail, field
        self.headers = dict(headers or {})


def problem_response(
    status: int,
    detail: str,
    *,
    errors: Sequence[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document; what it says is made visible and cut."""
    body = Problem(
        title=http.HTTPStatus(status).phrase,
        status=status,
        detail=visible(detail, limit=_LONGEST),
        errors=list(errors),
    )
    return Response(
        json.dumps(body.model_dump(), ensure_ascii=True),
        status_code=status,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route's description says of its problems; 401, 403, 408, 413 and 503 always."""
    every = sorted({401, 403, 408, 413, 503, *statuses})
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": http.HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in every
    }


def install(app: FastAPI) -> None:
    """Answer every error of the routes with a problem document."""

    @app.exception_handler(Refused)
    async def refused(_request: Request, error: Refused) -> Response:
        named = [] if error.field is None else [_named(error.field, error.detail)]
        return problem_response(error.status, error.detail, errors=named, headers=error.headers)

    @app.exception_handler(InputError)
    async def unusable(_request: Request, error: InputError) -> Response:
        return problem_response(422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        found = error.errors()
        named = [_named(_place(one), _words(one)) for one in found[:_MOST]]
        more = f"; {len(found) - _MOST} more" if len(found) > _MOST else ""
        detail = f"{len(found)} fields cannot be used{more}" if len(found) > 1 else ""
        detail = detail or f"{named[0].field}: {named[0].problem}"
        return problem_response(422, detail, errors=named)

    @app.exception_handler(HTTPException)
    async def plain(_request: Request, error: HTTPException) -> Response:
        detail = http.HTTPStatus(error.status_code).description or error.detail
        if error.status_code == 400:  # noqa: PLR2004 -- the body's reader says no more
            detail = "the body cannot be read; expected one JSON object in UTF-8"
        return problem_response(error.status_code, detail, headers=error.headers)


class CatchAll:
    """The last resort: 500 without a word of the error, which goes to the log without its text.

    The text of an error may repeat a document, a question or a key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or answer 500."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001 -- this is the boundary
            log.error("unexpected %s", where(error))  # noqa: TRY400 -- a traceback has the text
            if not started:
                response = problem_response(500, "the service failed; its log says where")
                await response(scope, receive, send)


def where(error: BaseException) -> str:
    """An error's type and the line that raised it, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _named(field: str, problem: str) -> FieldProblem:
    return FieldProblem(
        field=visible(field, limit=_LONGEST_NAME), problem=visible(problem, limit=_LONGEST)
    )


def _place(error: Mapping[str, Any]) -> str:
    loc = error["loc"]
    if error["type"] == "json_invalid":
        return "body"
    text = ""
    for part in loc[1:] if len(loc) > 1 else loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _words(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return f"expected JSON, found something else at character {error['loc'][-1]}"
    return str(error["msg"]).removeprefix("Value error, ")
