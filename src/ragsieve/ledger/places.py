"""Rows that name a place, as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ragsieve.cases import Place, Remediation
from ragsieve.ledger.records import Change, QuarantineItem
from ragsieve.ledger.schema import changes, items


def place_of(row: Mapping[Any, Any], table: sa.Table) -> Place:
    """The place a row of ``table`` is about."""
    return Place(row[table.c.store], row[table.c.document_id], row[table.c.tenant])


def item_of(row: Mapping[Any, Any]) -> QuarantineItem:
    """The state of a place."""
    at = items.c
    return QuarantineItem(
        place=place_of(row, items),
        content_sha256=row[at.content_sha256],
        state=Remediation(row[at.state]),
        before=Remediation(row[at.before]),
        scan_id=row[at.scan_id],
        reason=row[at.reason],
        bundle=row[at.bundle],
        version=row[at.version],
        hidden_at=row[at.hidden_at],
        changed_at=row[at.changed_at],
        changed_by=row[at.changed_by],
    )


def change_of(row: Mapping[Any, Any]) -> Change:
    """One step of a place's state."""
    at = changes.c
    return Change(
        place=place_of(row, changes),
        content_sha256=row[at.content_sha256],
        old=Remediation(row[at.old]),
        new=Remediation(row[at.new]),
        scan_id=row[at.scan_id],
        reason=row[at.reason],
        actor=row[at.actor],
        at=row[at.at],
    )
