"""Bounds on bodies, in bytes and in seconds, kept while a body comes in."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragsieve.service.problems import Refused, problem_response

_CLOSE = {"Connection": "close"}


class BodyLimits:
    """Takes a whole body in before anything looks at it, or refuses.

    :param most_bytes: of a body.
    :param seconds: for all of it, however it trickles.
    """

    def __init__(self, app: ASGIApp, *, most_bytes: int, seconds: float) -> None:
        self._app, self._most, self._seconds = app, most_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve with the body at hand, or answer 408 or 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._body(scope, receive)
        except Refused as error:
            # What is still on its way cannot be told from a next request.
            response = problem_response(error.status, error.detail, headers=_CLOSE)
            await response(scope, receive, send)
            return
        if body is None:
            return
        given = False

        async def replayed() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replayed, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None when the client left."""
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._most:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._seconds):
                return await self._collected(receive)
        except TimeoutError:
            raise Refused(408, f"expected the body within {self._seconds:g} seconds") from None

    async def _collected(self, receive: Receive) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > self._most:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> Refused:
        return Refused(413, f"expected a body of at most {self._most:,} bytes")
