"""Looking back: the history of a content, and what a rollback would change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ragsieve.cases import Measure, Opinion, Remediation
from ragsieve.display import visible
from ragsieve.ledger import codec
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.places import change_of, item_of, place_of
from ragsieve.ledger.records import QuarantineItem, ScanEntry, ScanState
from ragsieve.ledger.reports import Contested, History, PastVerdict, Placement, RollbackPreview
from ragsieve.ledger.reviews import review_of, truth_check_of
from ragsieve.ledger.scans import scan_in
from ragsieve.ledger.schema import (
    changes,
    incidents,
    items,
    placements,
    retrievals,
    retrieved,
    reviews,
    scans,
    truth_checks,
    verdicts,
)


def history(connection: Connection, content_sha256: str, tenant: str | None) -> History:
    """All that is known of one content; see `ragsieve.ledger.book.Ledger.history`."""

    def rows(table: sa.Table, *order: sa.Column[Any]) -> list[Mapping[Any, Any]]:
        asked = sa.select(table).where(
            of_tenant(table, tenant), table.c.content_sha256 == content_sha256
        )
        return list(connection.execute(asked.order_by(*order)).mappings())

    return History(
        content_sha256=content_sha256,
        placements=tuple(
            Placement(
                place_of(row, placements),
                row[placements.c.first_scan],
                row[placements.c.last_scan],
                row[placements.c.first_seen],
                row[placements.c.last_seen],
            )
            for row in rows(placements, placements.c.first_seen, placements.c.place_key)
        ),
        verdicts=tuple(
            PastVerdict(
                row[verdicts.c.scan_id],
                place_of(row, verdicts),
                row[verdicts.c.at],
                codec.verdict_of(row[verdicts.c.body]),
            )
            for row in rows(verdicts, verdicts.c.at, verdicts.c.id)
        ),
        reviews=tuple(review_of(row) for row in rows(reviews, reviews.c.id)),
        truth_checks=tuple(truth_check_of(row) for row in rows(truth_checks, truth_checks.c.id)),
        changes=tuple(change_of(row) for row in rows(changes, changes.c.id)),
    )


def preview(connection: Connection, scan_id: str, tenant: str | None) -> RollbackPreview:
    """What a rollback would change; see `ragsieve.ledger.book.Ledger.rollback_preview`."""
    scan = scan_in(connection, scan_id, tenant)
    own = sa.select(items).where(of_tenant(items, tenant), items.c.scan_id == scan_id)
    objections = _objections(connection, scan)
    clean, contested, left = [], [], []
    for row in connection.execute(own.order_by(items.c.place_key)).mappings():
        item = item_of(row)
        if not item.state.hides:
            if item.state is Remediation.RELEASED:
                left.append(item)
            continue
        reasons = objections.get(row[items.c.place_key], [])
        if reasons:
            contested.append(Contested(item, tuple(reasons)))
        else:
            clean.append(item)
    affected, kept = _queries(connection, scan_id, tenant)
    return RollbackPreview(
        scan=scan,
        brings_back=tuple(clean),
        contested=tuple(contested),
        left=tuple(left) + _taken_over(connection, scan_id, tenant),
        queries_affected=affected,
        queries_kept=kept,
    )


def _objections(connection: Connection, scan: ScanEntry) -> dict[str, list[str]]:
    """By place: what happened to a document since this scan hid it."""
    scan_id, tenant = scan.start.id, scan.start.tenant
    found: dict[str, list[str]] = {}

    def object_to(key: str, reason: str) -> None:
        if reason not in found.setdefault(key, []):
            found[key].append(reason)

    mine = sa.and_(of_tenant(items, tenant), items.c.scan_id == scan_id)
    for row in connection.execute(sa.select(items).where(mine)).mappings():
        item = item_of(row)
        if item.state.pending:
            object_to(
                row[items.c.place_key],
                f"{item.state} by {visible(item.changed_by)}, not yet resolved",
            )
    spoken = (
        sa.select(items.c.place_key, reviews.c.reviewer, reviews.c.opinion)
        .join(reviews, reviews.c.content_sha256 == items.c.content_sha256)
        .where(mine, of_tenant(reviews, tenant), reviews.c.at >= items.c.hidden_at)
        .where(reviews.c.opinion != str(Opinion.BENIGN))
        .order_by(reviews.c.id)
    )
    for key, reviewer, opinion in connection.execute(spoken):
        object_to(key, f"reviewed as {opinion} by {visible(reviewer)}")
    again = (
        sa.select(items.c.place_key, incidents.c.scan_id)
        .join(
            incidents,
            sa.and_(
                incidents.c.place_key == items.c.place_key,
                incidents.c.content_sha256 == items.c.content_sha256,
            ),
        )
        .join(scans, scans.c.id == incidents.c.scan_id)
        .where(
            mine,
            scans.c.id != scan_id,
            scans.c.started >= scan.started,
            scans.c.state != str(ScanState.ROLLED_BACK),
            incidents.c.measure == str(Measure.QUARANTINE),
        )
        .order_by(scans.c.started, scans.c.id)
    )
    for key, other in connection.execute(again):
        object_to(key, f"found again by scan {other}")
    touched = (
        sa.select(items.c.place_key, changes.c.new, changes.c.actor)
        .join(changes, changes.c.place_key == items.c.place_key)
        .where(mine, changes.c.at > items.c.hidden_at, changes.c.actor != scan.actor)
        .order_by(changes.c.id)
    )
    for key, new, actor in connection.execute(touched):
        object_to(key, f"{new} by {visible(actor)}")
    return found


def _taken_over(
    connection: Connection, scan_id: str, tenant: str | None
) -> tuple[QuarantineItem, ...]:
    hidden = sa.select(changes.c.place_key).where(
        of_tenant(changes, tenant),
        changes.c.scan_id == scan_id,
        changes.c.new == str(Remediation.QUARANTINED),
    )
    asked = (
        sa.select(items)
        .where(of_tenant(items, tenant), items.c.scan_id != scan_id, items.c.place_key.in_(hidden))
        .order_by(items.c.place_key)
    )
    return tuple(item_of(row) for row in connection.execute(asked).mappings())


def _queries(connection: Connection, scan_id: str, tenant: str | None) -> tuple[int, int]:
    hiding = [str(one) for one in Remediation if one.hides]
    mine = sa.and_(of_tenant(items, tenant), items.c.scan_id == scan_id, items.c.state.in_(hiding))
    affected = (
        sa.select(sa.func.count(sa.distinct(retrieved.c.retrieval_id)))
        .join(items, items.c.place_key == retrieved.c.place_key)
        .where(mine)
    )
    stores = sa.select(items.c.store).where(mine)
    kept = sa.select(sa.func.count()).where(
        of_tenant(retrievals, tenant), retrievals.c.store.in_(stores)
    )
    return connection.execute(affected).scalar_one(), connection.execute(kept).scalar_one()
