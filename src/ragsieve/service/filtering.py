"""Routes that judge retrievals before generation."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from ragsieve.detectors.query import Mode
from ragsieve.outcomes import Outcome
from ragsieve.records import Decision, Ranking
from ragsieve.service.access import Principal, require
from ragsieve.service.failures import Failure, attempt, refusal, unfiltered
from ragsieve.service.holdings import Collection
from ragsieve.service.judging import decisions_of, judge, ranking_of, response_of, tail_of
from ragsieve.service.keys import Role
from ragsieve.service.problems import Refused, responses, where
from ragsieve.service.runtime import Runtime, runtime_of
from ragsieve.service.schemas import BatchRequest, BatchResponse, FilterRequest, FilterResponse
from ragsieve.service.telemetry import FILTER_SPAN

Asking = Annotated[Principal, Depends(require(Role.SERVICE))]
Shared = Annotated[Runtime, Depends(runtime_of)]

log = logging.getLogger("ragsieve.service")


def router() -> APIRouter:
    """``/v1/filter`` and ``/v1/filter/batch``."""
    routes = APIRouter(prefix="/v1", tags=["filter"])

    @routes.post("/filter", responses=responses(400, 404, 422))
    async def filter_one(
        body: FilterRequest, request: Request, who: Asking, shared: Shared
    ) -> FilterResponse:
        """Judge one retrieval, take what is promoted out and refill.

        A score is evidence that a document is promoted into retrieval and no verdict on truth.
        """
        return (await _answers([body], request, who, shared, prefix=None))[0]

    @routes.post("/filter/batch", responses=responses(400, 404, 422))
    async def filter_batch(
        body: BatchRequest, request: Request, who: Asking, shared: Shared
    ) -> BatchResponse:
        """Judge several retrievals; they are judged together, and fail together."""
        most = shared.parts.settings.max_batch
        if len(body.requests) > most:
            raise Refused(422, f"expected at most {most} requests", field="requests")
        found = await _answers(body.requests, request, who, shared, prefix="requests[{}].")
        return BatchResponse(results=found)

    return routes


async def _answers(
    asked: Sequence[FilterRequest],
    request: Request,
    who: Principal,
    shared: Runtime,
    *,
    prefix: str | None,
) -> list[FilterResponse]:
    """One answer for each request.

    :param prefix: of fields in refusals, with a place for the number; None for one request.
    """
    settings, holdings = shared.parts.settings, shared.parts.holdings
    begun = time.perf_counter()
    chosen, rankings = [], []
    for place, one in enumerate(asked):
        at = "" if prefix is None else prefix.format(place)
        collection = holdings.find(who, one.collection, field=f"{at}collection")
        chosen.append(collection)
        rankings.append(ranking_of(one, collection, who, most=settings.max_documents, prefix=at))
    sizes = [one.k or held.detector.candidates for one, held in zip(asked, chosen, strict=True)]

    def work() -> list[Outcome]:
        groups: dict[tuple[int, Mode, int], list[int]] = {}
        for place, (one, held, size) in enumerate(zip(asked, chosen, sizes, strict=True)):
            groups.setdefault((id(held), one.mode, size), []).append(place)
        found: dict[int, Outcome] = {}
        for (_, mode, size), places in groups.items():
            outcomes = judge(
                [rankings[place] for place in places],
                chosen[places[0]],
                mode=mode,
                size=size,
                # As of now: the job may have waited.
                withheld=chosen[places[0]].withheld(),
            )
            found |= zip(places, outcomes, strict=True)
        return [found[place] for place in range(len(asked))]

    names = ",".join(sorted({held.name for held in chosen}))
    with shared.telemetry.span(FILTER_SPAN, request.headers, names) as span:
        result = await attempt(shared.workers, work, seconds=settings.request_seconds)
        failure: Failure | None = None
        if isinstance(result, Failure):
            failure = result
            shared.telemetry.failed(span, failure)
            hidden = [held.withheld() for held in chosen]
            outcomes = _without_judgement(shared, asked, rankings, sizes, hidden, failure)
        else:
            outcomes = result
            for one, held, outcome in zip(asked, chosen, outcomes, strict=True):
                short = not tail_of(outcome, held).sufficient
                shared.metrics.filtered(held, one.mode, outcome, short=short)
                with (
                    contextlib.nullcontext(span)
                    if len(asked) == 1
                    else shared.telemetry.span(FILTER_SPAN, {}, held.name)
                ) as own:
                    shared.telemetry.filtered(
                        own, outcome, mode=one.mode, fingerprint=held.detector.fingerprint
                    )
            _record(shared, who, chosen, outcomes)
        for held, ranking in zip(chosen, rankings, strict=True):
            shared.parts.retrieved(held, ranking)
    seconds = time.perf_counter() - begun
    for mode in {one.mode for one in asked}:
        shared.metrics.filter_seconds.labels(mode).observe(seconds)
    return [
        response_of(outcome, held, one, failure)
        for one, held, outcome in zip(asked, chosen, outcomes, strict=True)
    ]


def _without_judgement(
    shared: Runtime,
    asked: Sequence[FilterRequest],
    rankings: Sequence[Ranking],
    sizes: Sequence[int],
    hidden: Sequence[frozenset[str]],
    failure: Failure,
) -> list[Outcome]:
    if shared.parts.settings.on_failure == "closed":
        shared.metrics.refusals.labels(failure).inc()
        raise refusal(failure)
    for one in asked:
        shared.metrics.fell_back(one.mode, failure, 1)
    return [
        unfiltered(ranking, withheld, failure, size=size)
        for ranking, withheld, size in zip(rankings, hidden, sizes, strict=True)
    ]


def _record(
    shared: Runtime, who: Principal, chosen: Sequence[Collection], outcomes: Sequence[Outcome]
) -> None:
    """Hand over what was found, where somebody keeps it."""
    recorder = shared.parts.recorder
    if recorder is None:
        return
    found = [
        (held, outcome)
        for held, outcome in zip(chosen, outcomes, strict=True)
        if any(decision is not Decision.CLEAR for decision in decisions_of(outcome))
    ]

    def keep() -> None:
        for held, outcome in found:
            try:
                recorder.filtered(who, held, outcome)
            except Exception as error:  # noqa: BLE001 -- an answer does not depend on it
                shared.metrics.recording_failures.inc()
                log.error("a finding is not recorded: %s", where(error))  # noqa: TRY400

    if found and not shared.recording.submit(keep):
        shared.metrics.recording_failures.inc(len(found))
