"""The audit trail: reading it, adding to it, and checking that nothing of it was changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ragsieve.ledger import chain
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.pens import Desk
from ragsieve.ledger.reports import AuditEntry, AuditHead, AuditReport
from ragsieve.ledger.schema import audit


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """Who changed what, when: a chain of entries, each of which holds the hash of the last."""

    desk: Desk

    def add(
        self, action: str, subject: str, payload: Mapping[str, Any], *, tenant: str | None = None
    ) -> None:
        """Add an entry about something done outside the ledger, such as an export.

        What the ledger itself writes adds its own entry, in the same transaction.

        :param payload: strings, finite numbers, lists and mappings of such; no secrets.
        """
        with self.desk.writing() as pen:
            pen.note(action, subject, payload, tenant=tenant)

    def entries(
        self,
        *,
        tenant: str | None = None,
        after_seq: int = 0,
        limit: int = 100,
        action: str | None = None,
        subject: str | None = None,
        newest_first: bool = False,
    ) -> tuple[AuditEntry, ...]:
        """A tenant's entries. Their numbers have gaps where other tenants' stand.

        :param after_seq: only later ones.
        """
        asked = sa.select(audit).where(of_tenant(audit, tenant), audit.c.seq > after_seq)
        if action is not None:
            asked = asked.where(audit.c.action == action)
        if subject is not None:
            asked = asked.where(audit.c.subject == subject)
        order = audit.c.seq.desc() if newest_first else audit.c.seq
        with self.desk.reading() as connection:
            rows = connection.execute(asked.order_by(order).limit(limit)).mappings()
            return tuple(chain.entry_of(row) for row in rows)

    def head(self) -> AuditHead | None:
        """The last entry's number and hash, to be remembered elsewhere; None before the first."""
        with self.desk.reading() as connection:
            return chain.head_of(connection)

    def verify(self, *, expected_head: AuditHead | None = None) -> AuditReport:
        """Check the whole chain, of all tenants; the report quotes nothing of it.

        Finds entries that were edited, removed, put in or reordered, and names the first. A tail
        that was cut off shows only against a head that was remembered elsewhere.

        :param expected_head: what `head` gave earlier; the chain may have grown since.
        """
        with self.desk.reading() as connection:
            return chain.verify(connection, expected_head=expected_head)
