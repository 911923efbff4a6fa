"""Findings leave: a page of them as JSON, or all of them as a file that other tools read."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import FiniteFloat

from ragsieve.cases import Measure, Opinion, Remediation, Truth
from ragsieve.explain import MEANING
from ragsieve.findings.export import Format, export
from ragsieve.findings.native import finding_line
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.records import QueueFilter
from ragsieve.records import Level
from ragsieve.service.access import Principal, require
from ragsieve.service.keys import Role
from ragsieve.service.problems import Refused, responses
from ragsieve.service.reviews import ReviewRoute
from ragsieve.service.runtime import Runtime
from ragsieve.service.seeing import actor_of

MOST_LISTED = 500
ACTION = "findings.export"
"""What the audit trail calls an export."""

_LONGEST_NAME = 1_024
_CHUNK_BYTES = 64 << 10
_TYPES = {
    Format.JSONL: ("application/x-ndjson", "jsonl"),
    Format.SARIF: ("application/sarif+json", "sarif"),
    Format.OCSF: ("application/x-ndjson", "ocsf.jsonl"),
    Format.HTML: ("text/html; charset=utf-8", "html"),
}
_PAGE: dict[str, Any] = {
    "type": "object",
    "required": ["total", "findings", "meaning"],
    "properties": {
        "total": {"type": "integer"},
        "findings": {"type": "array", "items": {"type": "object"}},
        "meaning": {"type": "string"},
    },
}

Reviewer = Annotated[Principal, Depends(require(Role.REVIEWER))]
Name = Annotated[str, Query(min_length=1, max_length=_LONGEST_NAME)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]


def wanted(
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
) -> QueueFilter:
    """A dependency: which findings; of a named scan also those whose place has a newer one."""
    now = datetime.datetime.now(datetime.UTC)
    return QueueFilter(
        store=store,
        document_id=document,
        source=source,
        author=author,
        evidence=evidence,
        evidence_at_least=evidence_at_least,
        scan_id=scan,
        campaign=campaign,
        decided_after=None if days is None else now - datetime.timedelta(days=days),
        state=state,
        opinion=opinion,
        truth=truth,
        level=level,
        measure=measure,
        reviewed=reviewed,
        superseded=None if scan is not None else False,
    )


Chosen = Annotated[QueueFilter, Depends(wanted)]


def router(ledger: Ledger, *, most: int) -> Callable[[Runtime], APIRouter]:
    """``/v1/findings`` and its export, as ``Parts.routers`` takes it.

    :param most: findings in one export.
    """

    def made(_runtime: Runtime) -> APIRouter:
        routes = APIRouter(prefix="/v1/findings", tags=["findings"], route_class=ReviewRoute)

        @routes.get(
            "",
            response_class=Response,
            responses={
                200: {
                    "description": "Native findings, as in an export.",
                    "content": {"application/json": {"schema": _PAGE}},
                },
                **responses(422),
            },
        )
        def listed(
            who: Reviewer,
            chosen: Chosen,
            limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
            offset: Offset = 0,
        ) -> Response:
            """Findings by risk x exposure, each with all that is kept of it.

            A score is evidence of promotion and no verdict on truth.
            """
            page = ledger.incidents.queue(chosen, tenant=who.tenant, limit=limit, offset=offset)
            # Lines are JSON already, whatever the corpus holds; nothing else writes surrogates.
            lines = ",".join(finding_line(one.incident) for one in page.entries)
            text = f'{{"total":{page.total},"findings":[{lines}],"meaning":{json.dumps(MEANING)}}}'
            return Response(text, media_type="application/json")

        @routes.get(
            "/export",
            response_class=StreamingResponse,
            responses={
                200: {
                    "description": "A file; of how many findings in all says X-Total-Findings.",
                    "content": {kind.partition(";")[0]: {} for kind, _ in _TYPES.values()},
                    "headers": {"X-Total-Findings": {"schema": {"type": "integer"}}},
                },
                **responses(422),
            },
        )
        def exported(
            who: Reviewer,
            chosen: Chosen,
            format: Format = Format.JSONL,  # noqa: A002 -- the parameter's name
            limit: Annotated[int | None, Query(ge=1, le=100_000)] = None,
            offset: Offset = 0,
        ) -> StreamingResponse:
            """Findings for other tools: JSON lines, SARIF 2.1.0, OCSF or a page to read.

            That they left stands in the audit trail before they do.
            """
            if limit is not None and limit > most:
                raise Refused(422, f"expected at most {most} findings", field="limit")
            page = ledger.incidents.queue(
                chosen, tenant=who.tenant, limit=limit or most, offset=offset
            )
            pieces = export((one.incident for one in page.entries), format)
            # What cannot be written is refused while that can still be said.
            first = next(pieces, "")
            subject = chosen.scan_id or chosen.store or "all"
            payload = {"format": str(format), "findings": len(page.entries)}
            signed = ledger.acting_as(actor_of(who))
            signed.audit.add(ACTION, subject, payload, tenant=who.tenant)
            kind, suffix = _TYPES[format]
            return StreamingResponse(
                _encoded(itertools.chain((first,), pieces)),
                media_type=kind,
                headers={
                    # Never shown in this origin: the page repeats hostile text, though escaped.
                    "Content-Disposition": f'attachment; filename="findings.{suffix}"',
                    "X-Total-Findings": str(page.total),
                },
            )

        return routes

    return made


def _encoded(pieces: Iterable[str]) -> Iterator[bytes]:
    """The pieces as bytes, gathered: each one sent costs the server a change of threads."""
    gathered, size = [], 0
    for piece in pieces:
        # Half a surrogate pair becomes its JSON escape rather than an answer that breaks off.
        gathered.append(piece.encode("utf-8", "backslashreplace"))
        size += len(gathered[-1])
        if size >= _CHUNK_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)
