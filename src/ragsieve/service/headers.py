"""What every answer says to browsers, and the line that every request leaves in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNMATCHED = "unmatched"

log = logging.getLogger("ragsieve.service.access")


class Edge:
    """Outermost: safe headers, one line in the log, one count.

    The line names the route and never the address that was asked for: an address, a query
    string and headers may hold a key, a question or an id.

    :param seen: told the method, route and status of every answer.
    """

    def __init__(self, app: ASGIApp, seen: Callable[[str, str, int], None]) -> None:
        self._app, self._seen = app, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def sealed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _SAFE.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, sealed)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = getattr(scope.get("route"), "path", UNMATCHED)
            who = scope.get("state", {}).get("principal")
            self._seen(method, route, status)
            log.info(
                "%s %s %d %.1f ms key=%s",
                method,
                route,
                status,
                (time.perf_counter() - begun) * 1000,
                getattr(who, "key_id", None) or "-",
            )
