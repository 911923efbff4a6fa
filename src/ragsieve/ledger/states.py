"""What is done to documents: intended here before a store is touched, confirmed after.

::

    none, released ──> quarantining ──> quarantined ──> releasing ──> released
                                         │       ▲
                                         ▼       └─────────────────── restoring
                                      deleting ──> deleted ──────────────▲
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import sqlalchemy as sa

from ragsieve.cases import Place, Remediation
from ragsieve.display import visible
from ragsieve.errors import InputError
from ragsieve.ledger import moves
from ragsieve.ledger.codec import place_key
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.faults import IllegalMoveError, StaleStateError
from ragsieve.ledger.pens import Desk, Pen, chunks
from ragsieve.ledger.places import item_of
from ragsieve.ledger.records import Intent, QuarantineItem, ScanState, Target
from ragsieve.ledger.scans import scan_in
from ragsieve.ledger.schema import items


@dataclasses.dataclass(frozen=True, slots=True)
class States:
    """The states of documents in their stores: one item for each place."""

    desk: Desk

    def intend(
        self,
        targets: Sequence[Target],
        to: Remediation,
        *,
        reason: str,
        scan_id: str | None = None,
        bundle: str | None = None,
        resume: bool = False,
    ) -> Intent:
        """Write what is about to be done, all of it or nothing.

        Documents that are already where this leads are returned in `Intent.already` and not
        written. The store itself may differ from the ledger, for instance after a document was
        ingested anew: hiding those again is harmless and needs no intent.

        :param to: quarantining, releasing, deleting or restoring.
        :param scan_id: needed for quarantining: the scan that hides, and the rollback handle.
        :param bundle: needed for deleting: where the export lies.
        :param resume: take over such intents that somebody left pending for the same content,
            instead of refusing; whoever left them can no longer confirm them.
        :raises InputError: when something needed is missing, or a place is named twice.
        :raises StaleStateError: when a version is not the current one, the content is not what
            was hidden, or the document is in somebody else's hands.
        :raises IllegalMoveError: when the state does not lead there, the scan is a dry run, or
            was rolled back and did not hide the document before.
        :raises NotKeptError: when the scan was not begun for the places' tenant.
        """
        _check(targets, to, scan_id, bundle)
        taken: list[moves.Step] = []
        resumed: list[moves.Step] = []
        over = False
        already: list[QuarantineItem] = []
        with self.desk.writing() as pen:
            if scan_id is not None:
                for tenant in {one.place.tenant for one in targets}:
                    scan = scan_in(pen.connection, scan_id, tenant)
                    over = over or scan.state is ScanState.ROLLED_BACK
                    if scan.start.dry_run:
                        raise IllegalMoveError(
                            f"scan {scan_id} is a dry run; nothing may be changed through it"
                        )
            kept = _kept(pen, [one.place for one in targets])
            for target in targets:
                item, prior = kept.get(place_key(target.place), (None, None))
                if item is not None and resume and moves.resumable(item, target, to):
                    resumed.append(moves.take_over(pen, item, prior))
                elif item is not None and moves.settled(item, target, to):
                    already.append(item)
                else:
                    moves.check(item, target, to)
                    # What it hid before may be hidden again: a release can be taken back.
                    if over and (item is None or item.scan_id != scan_id):
                        raise IllegalMoveError(
                            f"scan {scan_id} was rolled back; it may hide nothing more"
                        )
                    taken.append(
                        moves.begin(pen, item, target, to, reason, scan_id=scan_id, bundle=bundle)
                    )
            moves.write(pen, taken + resumed, reason)
            moves.note(pen, f"state.{to}", [one.item for one in taken], reason)
            moves.note(pen, "state.resume", [one.item for one in resumed], reason)
        return Intent(tuple(one.item for one in taken + resumed), tuple(already))

    def confirm(
        self, pending: Sequence[QuarantineItem], *, reason: str = ""
    ) -> tuple[QuarantineItem, ...]:
        """Write that the store did what was intended; all of it or nothing.

        :raises StaleStateError: when one is no longer as it was when it was handed out.
        """
        return self._resolve(pending, reason, done=True)

    def abandon(
        self, pending: Sequence[QuarantineItem], *, reason: str
    ) -> tuple[QuarantineItem, ...]:
        """Write that nothing came of an intent: its documents return to the state before it.

        :raises StaleStateError: when one is no longer as it was when it was handed out.
        """
        return self._resolve(pending, reason, done=False)

    def pending(
        self, *, tenant: str | None = None, store: str | None = None
    ) -> tuple[QuarantineItem, ...]:
        """Intents whose outcome is unknown, oldest first: what a crash left to be looked into."""
        unsettled = [one for one in Remediation if one.pending]
        return self.items(tenant=tenant, store=store, states=unsettled)

    def get(self, place: Place) -> QuarantineItem | None:
        """The state of a place; None when nothing was ever done there."""
        asked = sa.select(items).where(
            items.c.place_key == place_key(place), of_tenant(items, place.tenant)
        )
        with self.desk.reading() as connection:
            row = connection.execute(asked).mappings().first()
            return None if row is None else item_of(row)

    def items(
        self,
        *,
        tenant: str | None = None,
        store: str | None = None,
        states: Sequence[Remediation] | None = None,
        scan_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[QuarantineItem, ...]:
        """A tenant's documents to which something was done, the longest unchanged first.

        :param scan_id: only those that this scan hid last.
        """
        asked = sa.select(items).where(of_tenant(items, tenant))
        if store is not None:
            asked = asked.where(items.c.store == store)
        if states is not None:
            asked = asked.where(items.c.state.in_([str(one) for one in states]))
        if scan_id is not None:
            asked = asked.where(items.c.scan_id == scan_id)
        asked = asked.order_by(items.c.changed_at, items.c.place_key).limit(limit).offset(offset)
        with self.desk.reading() as connection:
            return tuple(item_of(row) for row in connection.execute(asked).mappings())

    def hidden(self, store: str, *, tenant: str | None = None) -> frozenset[str]:
        """Ids of a store's documents that retrieval must not return."""
        hiding = [str(one) for one in Remediation if one.hides]
        asked = sa.select(items.c.document_id).where(
            of_tenant(items, tenant), items.c.store == store, items.c.state.in_(hiding)
        )
        with self.desk.reading() as connection:
            return frozenset(connection.scalars(asked))

    def _resolve(
        self, pending: Sequence[QuarantineItem], reason: str, *, done: bool
    ) -> tuple[QuarantineItem, ...]:
        _once([one.place for one in pending])
        with self.desk.writing() as pen:
            kept = _kept(pen, [one.place for one in pending])
            steps = []
            for one in pending:
                item, prior = kept.get(place_key(one.place), (None, None))
                if item != one or not one.state.pending:
                    raise StaleStateError(
                        f"document {visible(one.place.document_id)} is no longer "
                        f"{one.state}: it was changed by "
                        f"{visible(item.changed_by) if item else 'nobody known'}; "
                        "nothing was written; read its state again"
                    )
                steps.append(moves.resolve(pen, one, prior, done=done))
            moves.write(pen, steps, reason)
            resolved = [step.item for step in steps]
            moves.note(pen, "state.confirm" if done else "state.abandon", resolved, reason)
        return tuple(resolved)


def _check(
    targets: Sequence[Target], to: Remediation, scan_id: str | None, bundle: str | None
) -> None:
    if not to.pending:
        raise InputError(f"{to} is an outcome; intend the state in -ing that leads to it")
    if to is Remediation.QUARANTINING and scan_id is None:
        raise InputError("hiding documents needs the scan they are hidden for; begin one")
    if to is Remediation.DELETING and not bundle:
        raise InputError("deleting needs the bundle with which it can be undone; export first")
    _once([one.place for one in targets])


def _once(places: Sequence[Place]) -> None:
    if len(set(places)) != len(places):
        raise InputError("a document is named twice; name each once")


def _kept(pen: Pen, places: Sequence[Place]) -> dict[str, tuple[QuarantineItem, str | None]]:
    """By place key: the item, and what an abandoned intent of it returns to."""
    found: dict[str, tuple[QuarantineItem, str | None]] = {}
    for group in chunks(place_key(place) for place in places):
        rows = pen.connection.execute(sa.select(items).where(items.c.place_key.in_(group)))
        found |= {
            row[items.c.place_key]: (item_of(row), row[items.c.prior]) for row in rows.mappings()
        }
    return found
