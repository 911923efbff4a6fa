"""The application: middlewares from the outside in, then the routes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Response
from fastapi.openapi.utils import get_openapi

from ragsieve import __version__
from ragsieve.explain import MEANING
from ragsieve.service import filtering, gate, health
from ragsieve.service.access import Access, AccessMiddleware, Principal, require
from ragsieve.service.headers import Edge
from ragsieve.service.health import Health
from ragsieve.service.keys import Role
from ragsieve.service.limits import BodyLimits
from ragsieve.service.metrics import CONTENT_TYPE, Metrics
from ragsieve.service.problems import CatchAll, Problem, Refused, install, responses
from ragsieve.service.runtime import Parts, Runtime
from ragsieve.service.sessions import Sessions
from ragsieve.service.telemetry import Telemetry
from ragsieve.service.workers import Workers

SCHEMA_PATH = "/v1/openapi.json"
_RECORDS_WAITING = 1_024


def create_app(parts: Parts) -> FastAPI:
    """A service of ready parts. Threads begin with the first request and end with the app."""
    runtime = _runtime(parts)
    app = FastAPI(
        title="ragsieve",
        version=__version__,
        description=f"Filters retrievals and judges new documents. {MEANING}",
        # Their pages come from elsewhere; the document itself is under /v1.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        # Its own spans carry the query string of every address; ours are in telemetry.py.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
        lifespan=lambda _app: _lifespan(runtime),
    )
    app.state.runtime = runtime
    install(app)
    for routes in (
        health.router(runtime.health),
        filtering.router(),
        gate.router(),
        _inside(app, runtime),
        *(make(runtime) for make in parts.routers),
    ):
        app.include_router(routes)
    _describe(app)
    settings = parts.settings
    # The last one added stands outermost.
    app.add_middleware(
        BodyLimits, most_bytes=settings.max_body_bytes, seconds=settings.body_seconds
    )
    app.add_middleware(AccessMiddleware, access=runtime.access)
    app.add_middleware(CatchAll)
    app.add_middleware(Edge, seen=runtime.metrics.answered)
    return app


def _runtime(parts: Parts) -> Runtime:
    settings = parts.settings
    access = Access(parts.keys)
    workers = Workers(settings.threads, settings.waiting)

    def keys() -> None:
        if parts.keys is not None:
            parts.keys.keys()

    def threads() -> str | None:
        return "as much waits as may wait" if workers.full else None

    checks = {"keys": keys, "threads": threads, **parts.checks}
    metrics = Metrics(parts.holdings, version=__version__, profile=parts.profile)
    for collector in parts.collectors:
        metrics.registry.register(collector)
    return Runtime(
        parts=parts,
        access=access,
        sessions=Sessions(
            access,
            idle_seconds=settings.session_idle_seconds,
            seconds=settings.session_seconds,
            secure=parts.secure_cookies,
        ),
        metrics=metrics,
        telemetry=Telemetry(version=__version__, questions=settings.trace_questions),
        health=Health(checks, version=__version__),
        workers=workers,
        gate_worker=Workers(1, settings.waiting, name="gate"),
        recording=Workers(1, _RECORDS_WAITING, name="record"),
    )


@contextlib.asynccontextmanager
async def _lifespan(runtime: Runtime) -> AsyncIterator[None]:
    pools = (runtime.workers, runtime.gate_worker, runtime.recording)
    if runtime.health.stopping:
        for pool in pools:
            pool.open()
        runtime.health.stopping = False
    for start in runtime.parts.on_start:
        await asyncio.to_thread(start)
    try:
        yield
    finally:
        runtime.health.stopping = True
        for pool in pools:
            # What was found is kept before the process ends; what waits to be judged is not.
            pool.close(finish=pool is runtime.recording)
        for stop in runtime.parts.on_stop:
            await asyncio.to_thread(stop)


def _inside(app: FastAPI, runtime: Runtime) -> APIRouter:
    """The interface's own description, and the metrics."""
    routes = APIRouter()

    @routes.get(SCHEMA_PATH, include_in_schema=False)
    async def schema(
        _who: Principal = Depends(require(Role.SERVICE, Role.REVIEWER)),
    ) -> dict[str, Any]:
        return app.openapi()

    @routes.get(
        "/metrics",
        tags=["health"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **responses()},
    )
    def metrics(who: Principal = Depends(require(Role.SERVICE))) -> Response:
        """Prometheus metrics, of all tenants: for a key without one."""
        if who.tenant is not None:
            raise Refused(403, "metrics are of all tenants; use a key without one")
        return Response(runtime.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return routes


def _describe(app: FastAPI) -> None:
    """Describe problems as they are answered, in place of the framework's own."""

    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            parts = found.setdefault("components", {}).setdefault("schemas", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            parts |= problem.pop("$defs", {})
            parts["Problem"] = problem
            for unused in ("HTTPValidationError", "ValidationError"):
                parts.pop(unused, None)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = made  # type: ignore[method-assign]
