"""Findings go in: incidents and bare verdicts, each once however often they are handed in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.elements import ColumnElement

from ragsieve.cases import Incident, Place, Remediation, Truth
from ragsieve.display import visible
from ragsieve.errors import InputError
from ragsieve.ledger import codec
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.pens import Desk, Pen, chunks, inserting
from ragsieve.ledger.records import Judged, ScanKind
from ragsieve.ledger.scans import scan_in
from ragsieve.ledger.schema import (
    documents,
    incident_evidences,
    incidents,
    placements,
    reviews,
    verdicts,
)
from ragsieve.records import Decision

_LONGEST_ID = 64


def record_incidents(desk: Desk, found: Iterable[Incident]) -> int:
    """Keep findings; see `ragsieve.ledger.incidents.Incidents.record`."""
    new = 0
    for scan_id, tenant, group in _grouped(found):
        with desk.writing() as pen:
            kind = scan_in(pen.connection, scan_id, tenant).start.kind
            fresh = _unknown(pen.connection, group)
            if not fresh:
                continue
            judged = [Judged(one.place, one.content_sha256, one.verdict) for one in fresh]
            lengths = {one.content_sha256: one.characters for one in fresh}
            _see(pen, scan_id, judged, lengths)
            _judge(pen, scan_id, judged)
            known = _opinions(pen.connection, tenant, {one.content_sha256 for one in fresh})
            pen.connection.execute(incidents.insert(), [_incident_row(one, known) for one in fresh])
            measured = [row for one in fresh for row in _evidence_rows(one)]
            if measured:
                pen.connection.execute(incident_evidences.insert(), measured)
            _supersede(pen.connection, fresh, whole=kind is ScanKind.SCAN)
            payload = {"new": len(fresh), "ids_sha256": _ids_sha256(one.id for one in fresh)}
            pen.note("incidents.record", scan_id, payload, tenant=tenant)
            new += len(fresh)
    return new


def record_verdicts(desk: Desk, scan_id: str, found: Iterable[Judged], tenant: str | None) -> int:
    """Keep verdicts without a finding; see `ragsieve.ledger.incidents.Incidents.judge`."""
    new = 0
    for group in chunks(found):
        for one in group:
            _check_place(one.place, tenant)
            if one.verdict.decision is Decision.CLEAR:
                raise InputError(
                    f"document {visible(one.place.document_id)}: clear verdicts are counted in "
                    "the scan, not kept; hand in flagged and undecided ones"
                )
        with desk.writing() as pen:
            scan_in(pen.connection, scan_id, tenant)
            _see(pen, scan_id, group, {})
            count = _judge(pen, scan_id, group)
            if count:
                pen.note("verdicts.record", scan_id, {"new": count}, tenant=tenant)
            new += count
    return new


def _grouped(
    found: Iterable[Incident],
) -> Iterable[tuple[str, str | None, list[Incident]]]:
    for group in chunks(found):
        by_scan: dict[tuple[str, str | None], dict[str, Incident]] = {}
        for one in group:
            _check(one)
            by_scan.setdefault((one.scan_id, one.place.tenant), {}).setdefault(one.id, one)
        for (scan_id, tenant), named in by_scan.items():
            yield scan_id, tenant, list(named.values())


def _check(one: Incident) -> None:
    where = f"incident {visible(one.id[:_LONGEST_ID])}"
    if not one.id or len(one.id) > _LONGEST_ID or not one.id.isprintable():
        raise InputError(f"{where}: expected an id of 1 to {_LONGEST_ID} printable characters")
    if one.decided_at.tzinfo is None:
        raise InputError(f"{where}: the time of decision has no time zone; use an aware datetime")
    later = (one.truth, one.remediation, one.opinion, one.reviewer)
    if later != (Truth.UNVERIFIED, Remediation.NONE, None, None):
        raise InputError(
            f"{where}: a new finding is neither reviewed nor checked nor acted on; record it "
            "first, then use reviews, truth and states"
        )


def _check_place(place: Place, tenant: str | None) -> None:
    if place.tenant != tenant:
        raise InputError(
            f"document {visible(place.document_id)} belongs to tenant "
            f"{visible(str(place.tenant))}, not to the one it was handed in for"
        )


def _unknown(connection: Connection, group: Sequence[Incident]) -> list[Incident]:
    ids = [one.id for one in group]
    kept = set(connection.scalars(sa.select(incidents.c.id).where(incidents.c.id.in_(ids))))
    return [one for one in group if one.id not in kept]


def _see(
    pen: Pen, scan_id: str, found: Sequence[Judged], lengths: Mapping[str, int | None]
) -> None:
    contents = {one.content_sha256: None for one in found}
    pen.connection.execute(
        inserting(pen.connection, documents).on_conflict_do_nothing(),
        [
            {"content_sha256": sha256, "first_seen": pen.at, "characters": lengths.get(sha256)}
            for sha256 in contents
        ],
    )
    places = {(codec.place_key(one.place), one.content_sha256): one.place for one in found}
    statement = inserting(pen.connection, placements)
    statement = statement.on_conflict_do_update(
        index_elements=["place_key", "content_sha256"],
        set_={
            "last_scan": statement.excluded.last_scan,
            "last_seen": statement.excluded.last_seen,
        },
    )
    pen.connection.execute(
        statement,
        [
            _place_fields(place, key, sha256)
            | {
                "first_scan": scan_id,
                "last_scan": scan_id,
                "first_seen": pen.at,
                "last_seen": pen.at,
            }
            for (key, sha256), place in places.items()
        ],
    )


def _judge(pen: Pen, scan_id: str, found: Sequence[Judged]) -> int:
    rows: dict[str, dict[str, object]] = {}
    for one in found:
        key = codec.verdict_key(scan_id, one.place, one.content_sha256)
        rows.setdefault(
            key,
            _place_fields(one.place, codec.place_key(one.place), one.content_sha256)
            | {
                "id": key,
                "scan_id": scan_id,
                "decision": str(one.verdict.decision),
                "level": str(one.verdict.level),
                "score": codec.finite(one.verdict.score),
                "at": pen.at,
                "body": codec.verdict_text(one.verdict),
            },
        )
    kept = set(
        pen.connection.scalars(sa.select(verdicts.c.id).where(verdicts.c.id.in_(list(rows))))
    )
    fresh = [row for key, row in rows.items() if key not in kept]
    if fresh:
        pen.connection.execute(verdicts.insert(), fresh)
    return len(fresh)


def _opinions(connection: Connection, tenant: str | None, contents: set[str]) -> dict[str, str]:
    asked = (
        sa.select(reviews.c.content_sha256, reviews.c.opinion)
        .where(of_tenant(reviews, tenant), reviews.c.content_sha256.in_(sorted(contents)))
        .order_by(reviews.c.id)
    )
    return {row[0]: row[1] for row in connection.execute(asked)}


def _supersede(connection: Connection, fresh: Sequence[Incident], *, whole: bool) -> None:
    """Older findings at the same places leave the queue.

    :param whole: whether a scan read what lies there. A retrieval or an arrival is told its texts
        by whoever asks, so it takes only findings of the same content out of the queue.
    """
    newest = {codec.place_key(one.place): one.id for one in fresh}
    here: ColumnElement[bool] = incidents.c.place_key.in_(sorted(newest))
    if not whole:
        newest = {f"{codec.place_key(one.place)} {one.content_sha256}": one.id for one in fresh}
        held = sa.tuple_(incidents.c.place_key, incidents.c.content_sha256)
        here = held.in_([(codec.place_key(one.place), one.content_sha256) for one in fresh])
    connection.execute(
        incidents.update()
        .where(
            here,
            incidents.c.id.not_in(sorted(newest.values())),
            incidents.c.superseded.is_(False),
        )
        .values(superseded=True)
    )


def _place_fields(place: Place, key: str, sha256: str) -> dict[str, object]:
    return {
        "place_key": key,
        "tenant": place.tenant,
        "store": place.store,
        "document_id": place.document_id,
        "content_sha256": sha256,
    }


def _incident_row(one: Incident, known: Mapping[str, str]) -> dict[str, object]:
    return _place_fields(one.place, codec.place_key(one.place), one.content_sha256) | {
        "id": one.id,
        "scan_id": one.scan_id,
        "verdict_id": codec.verdict_key(one.scan_id, one.place, one.content_sha256),
        "title": one.title,
        "excerpt": one.excerpt,
        "level": str(one.verdict.level),
        "risk": codec.risk_of(one.verdict, one.standing),
        "source": one.standing.provenance.source,
        "author": one.standing.provenance.author,
        "standing": codec.standing_text(one.standing),
        "measure": str(one.decision.measure),
        "rule": one.decision.rule,
        "reason": one.decision.reason,
        "policy_sha256": one.decision.policy_sha256,
        "decided_at": one.decided_at,
        "context": None if one.context is None else codec.context_text(one.context),
        "campaign": one.campaign,
        "embedding_version": one.embedding_version,
        "index_version": one.index_version,
        "characters": one.characters,
        "truth": str(one.truth),
        "opinion": None,
        "reviewer": None,
        "earlier_opinion": known.get(one.content_sha256),
        "superseded": False,
        "version": 1,
    }


def _evidence_rows(one: Incident) -> list[dict[str, object]]:
    values: dict[str, float] = {}
    for evidence in one.verdict.evidences:
        if evidence.value is not None:
            values.setdefault(evidence.name, codec.finite(evidence.value))
    return [{"incident_id": one.id, "name": name, "value": value} for name, value in values.items()]


def _ids_sha256(ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()
