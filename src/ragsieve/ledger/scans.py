"""Scans: what ran, over which store, with which settings, and what it counted."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ragsieve.display import visible
from ragsieve.errors import InputError
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.faults import NotKeptError, StaleStateError
from ragsieve.ledger.pens import Desk, Pen
from ragsieve.ledger.records import ScanCounts, ScanEntry, ScanKind, ScanStart, ScanState
from ragsieve.ledger.schema import scans

_LONGEST_ID = 200


def new_scan_id() -> str:
    """An id no other scan has, hexadecimal."""
    return uuid.uuid4().hex


@dataclasses.dataclass(frozen=True, slots=True)
class Scans:
    """The scans of a ledger."""

    desk: Desk

    def begin(self, start: ScanStart) -> ScanEntry:
        """Write that a scan runs; one that already runs with the same facts is taken up again.

        :raises InputError: for an id that is empty or longer than 200 characters.
        :raises StaleStateError: when the id is taken by another scan, or by one that has ended.
        """
        if not start.id or len(start.id) > _LONGEST_ID or not start.id.isprintable():
            raise InputError(
                f"scan id {visible(start.id[:40])!r}: expected 1 to {_LONGEST_ID} printable "
                "characters"
            )
        with self.desk.writing() as pen:
            kept = _row(pen.connection, start.id)
            if kept is not None:
                entry = _entry(kept)
                if entry.start != start or entry.state is not ScanState.RUNNING:
                    raise StaleStateError(
                        f"scan {start.id} is kept already, with other facts or ended; take a new id"
                    )
                return entry
            pen.connection.execute(
                scans.insert().values(
                    id=start.id,
                    kind=str(start.kind),
                    tenant=start.tenant,
                    store=start.store,
                    profile=start.profile,
                    fingerprint=start.fingerprint,
                    config_sha256=start.config_sha256,
                    policy_sha256=start.policy_sha256,
                    embedding_version=start.embedding_version,
                    index_version=start.index_version,
                    dry_run=start.dry_run,
                    opening_note=start.note,
                    state=str(ScanState.RUNNING),
                    started=pen.at,
                    documents=0,
                    flagged=0,
                    undecided=0,
                    actor=pen.actor,
                    note=start.note,
                )
            )
            payload = {"kind": str(start.kind), "store": start.store, "dry_run": start.dry_run}
            payload |= {
                "profile": start.profile,
                "fingerprint": start.fingerprint,
                "config_sha256": start.config_sha256,
                "policy_sha256": start.policy_sha256,
            }
            pen.note("scan.begin", start.id, payload, tenant=start.tenant)
            return ScanEntry(
                start, ScanState.RUNNING, ScanCounts(), pen.at, None, pen.actor, start.note
            )

    def finish(
        self, scan_id: str, counts: ScanCounts, *, tenant: str | None = None, note: str = ""
    ) -> ScanEntry:
        """Write that a running scan ended well.

        :raises NotKeptError: when this tenant has no such scan.
        :raises StaleStateError: when it does not run.
        """
        return self._end(scan_id, ScanState.FINISHED, counts, tenant, note)

    def fail(
        self,
        scan_id: str,
        *,
        note: str,
        counts: ScanCounts = ScanCounts(),
        tenant: str | None = None,
    ) -> ScanEntry:
        """Write that a running scan ended early, and why; what it found stays.

        :raises NotKeptError: when this tenant has no such scan.
        :raises StaleStateError: when it does not run.
        """
        return self._end(scan_id, ScanState.FAILED, counts, tenant, note)

    def rolled_back(self, scan_id: str, *, tenant: str | None = None, note: str = "") -> ScanEntry:
        """Write that what a scan hid was brought back; a second time changes nothing.

        :raises NotKeptError: when this tenant has no such scan.
        """
        with self.desk.writing() as pen:
            entry = scan_in(pen.connection, scan_id, tenant)
            if entry.state is ScanState.ROLLED_BACK:
                return entry
            return _close(pen, entry, ScanState.ROLLED_BACK, entry.counts, note)

    def get(self, scan_id: str, *, tenant: str | None = None) -> ScanEntry:
        """One scan.

        :raises NotKeptError: when this tenant has no such scan.
        """
        with self.desk.reading() as connection:
            return scan_in(connection, scan_id, tenant)

    def all(
        self,
        *,
        tenant: str | None = None,
        store: str | None = None,
        state: ScanState | None = None,
        kind: ScanKind | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[ScanEntry, ...]:
        """A tenant's scans, newest first."""
        asked = sa.select(scans).where(of_tenant(scans, tenant))
        if store is not None:
            asked = asked.where(scans.c.store == store)
        if state is not None:
            asked = asked.where(scans.c.state == str(state))
        if kind is not None:
            asked = asked.where(scans.c.kind == str(kind))
        asked = asked.order_by(scans.c.started.desc(), scans.c.id).limit(limit).offset(offset)
        with self.desk.reading() as connection:
            return tuple(_entry(row) for row in connection.execute(asked).mappings())

    def _end(
        self, scan_id: str, state: ScanState, counts: ScanCounts, tenant: str | None, note: str
    ) -> ScanEntry:
        with self.desk.writing() as pen:
            entry = scan_in(pen.connection, scan_id, tenant)
            if entry.state is not ScanState.RUNNING:
                raise StaleStateError(
                    f"scan {scan_id} is {entry.state}, not running; nothing was written"
                )
            return _close(pen, entry, state, counts, note)


def scan_in(connection: Connection, scan_id: str, tenant: str | None) -> ScanEntry:
    """One scan, in the reader's transaction.

    :raises NotKeptError: when this tenant has no such scan.
    """
    row = _row(connection, scan_id)
    entry = None if row is None else _entry(row)
    if entry is None or entry.start.tenant != tenant:
        raise NotKeptError(
            f"scan {visible(scan_id)}: the ledger holds no such scan for this tenant; "
            "list the scans to see their ids"
        )
    return entry


def _row(connection: Connection, scan_id: str) -> Mapping[Any, Any] | None:
    if not scan_id.isprintable():
        return None
    return connection.execute(sa.select(scans).where(scans.c.id == scan_id)).mappings().first()


def _close(
    pen: Pen, entry: ScanEntry, state: ScanState, counts: ScanCounts, note: str
) -> ScanEntry:
    finished = entry.finished or pen.at
    note = note or entry.note
    pen.connection.execute(
        scans.update()
        .where(scans.c.id == entry.start.id)
        .values(
            state=str(state),
            finished=finished,
            documents=counts.documents,
            flagged=counts.flagged,
            undecided=counts.undecided,
            note=note,
        )
    )
    payload = {
        "documents": counts.documents,
        "flagged": counts.flagged,
        "undecided": counts.undecided,
        "note": note,
    }
    pen.note(f"scan.{state}", entry.start.id, payload, tenant=entry.start.tenant)
    return dataclasses.replace(entry, state=state, counts=counts, finished=finished, note=note)


def _entry(row: Mapping[Any, Any]) -> ScanEntry:
    at = scans.c
    start = ScanStart(
        id=row[at.id],
        store=row[at.store],
        profile=row[at.profile],
        fingerprint=row[at.fingerprint],
        kind=ScanKind(row[at.kind]),
        tenant=row[at.tenant],
        config_sha256=row[at.config_sha256],
        policy_sha256=row[at.policy_sha256],
        embedding_version=row[at.embedding_version],
        index_version=row[at.index_version],
        dry_run=row[at.dry_run],
        note=row[at.opening_note],
    )
    return ScanEntry(
        start=start,
        state=ScanState(row[at.state]),
        counts=ScanCounts(row[at.documents], row[at.flagged], row[at.undecided]),
        started=row[at.started],
        finished=row[at.finished],
        actor=row[at.actor],
        note=row[at.note],
    )
