"""Whether the process answers, and whether it can serve."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from fastapi import APIRouter, Response

from ragsieve.service.problems import where
from ragsieve.service.schemas import HealthResponse, ReadyResponse

log = logging.getLogger("ragsieve.service")


class Health:
    """Asks every check; one that raises is a reason too.

    :param checks: by name, as :class:`ragsieve.service.runtime.Parts` describes them.
    """

    def __init__(self, checks: Mapping[str, Callable[[], str | None]], *, version: str) -> None:
        self._checks = dict(checks)
        self.version = version
        self.stopping = False

    def reasons(self) -> list[str]:
        """Why nothing can be served now; empty when it can."""
        found = ["stopping"] if self.stopping else []
        for name, check in self._checks.items():
            try:
                said = check()
            except Exception as error:  # noqa: BLE001 -- whatever fails is a reason
                log.error("check %s failed: %s", name, where(error))  # noqa: TRY400 -- no text
                said = "cannot be checked"
            if said is not None:
                found.append(f"{name}: {said}")
        return found


def router(health: Health) -> APIRouter:
    """``/healthz`` and ``/readyz``."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def alive() -> HealthResponse:
        """Whether the process answers."""
        return HealthResponse(version=health.version)

    @routes.get(
        "/readyz",
        responses={503: {"model": ReadyResponse, "description": "Not ready, with reasons."}},
    )
    def ready(response: Response) -> ReadyResponse:
        """Whether requests can be served."""
        reasons = health.reasons()
        response.status_code = 503 if reasons else 200
        return ReadyResponse(ready=not reasons, reasons=reasons)

    return routes
