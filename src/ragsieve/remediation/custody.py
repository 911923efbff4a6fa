"""One collection and its ledger, changed together: intent, store, confirmation."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ragsieve.cases import Place, Remediation
from ragsieve.connectors.bundles import read_bundle, write_bundle
from ragsieve.connectors.contract import Bundle, Connector, Mark, Row
from ragsieve.errors import InputError, StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import IllegalMoveError, StaleStateError
from ragsieve.ledger.moves import ENDS
from ragsieve.ledger.records import QuarantineItem, Target

BATCH_DOCUMENTS = 200
"""Documents in one intent: what a process that dies leaves unsettled at most."""


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """What became of the documents that were to be changed, by id.

    :param done: the ledger and the store agree that it happened now.
    :param already: were where they should be.
    :param missing: are not in the store.
    :param changed: hold another content than was judged, and were left alone.
    """

    done: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __add__(self, other: Applied) -> Applied:
        return Applied(
            self.done + other.done,
            self.already + other.already,
            self.missing + other.missing,
            self.changed + other.changed,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Custody:
    """Changes documents of one collection, so that a crash at any moment loses nothing.

    Every change is written as an intent, made in the store, then confirmed. What stands
    between the first and the last when a process dies is settled by `recovery.recover`.

    :param content_sha256: of a row's content, as the ledger knows it.
    :param bundles: folder for what is deleted; deleting is refused without one.
    """

    ledger: Ledger
    connector: Connector
    content_sha256: Callable[[Row], str]
    tenant: str | None = None
    bundles: Path | None = None

    def quarantine(self, targets: Iterable[Target], *, reason: str, scan_id: str) -> Applied:
        """Hide documents that still hold what was judged.

        :raises StoreError: when the store or the ledger fails; intents stay for recovery.
        :raises StaleStateError: when somebody else changed a target since it was read.
        """
        applied = Applied()
        for batch in _batches(targets):
            rows = self.connector.fetch([one.place.document_id for one in batch])
            here, found = self._as_judged(batch, rows)
            intent = self.ledger.states.intend(
                here, Remediation.QUARANTINING, reason=reason, scan_id=scan_id, resume=True
            )
            # A row that the ledger holds as hidden or deleted may have been ingested anew.
            names = [one.place.document_id for one in (*intent.items, *intent.already)]
            since = self.ledger.now()
            self.connector.quarantine(names, reason=reason, scan_id=scan_id, since=since)
            applied += found + self._confirmed(intent.items, intent.already, reason)
        return applied

    def release(self, targets: Iterable[Target], *, reason: str) -> Applied:
        """Serve hidden documents again.

        :raises StoreError: when the store or the ledger fails; intents stay for recovery.
        :raises StaleStateError: when somebody else changed a target since it was read.
        """
        applied = Applied()
        for batch in _batches(targets):
            intent = self.ledger.states.intend(
                batch, Remediation.RELEASING, reason=reason, resume=True
            )
            self.connector.release([one.place.document_id for one in intent.items])
            applied += self._confirmed(intent.items, intent.already, reason)
        return applied

    def delete(self, targets: Iterable[Target], *, reason: str) -> Applied:
        """Remove hidden documents, each batch with the bundle that can bring it back.

        :raises InputError: when no folder for bundles was given.
        :raises StoreError: when the store or the ledger fails, or a row changed; intents stay
            for recovery.
        """
        if self.bundles is None:
            raise InputError("deleting needs a folder for the bundles that can undo it")
        if not self.connector.capabilities().deletes:
            raise StoreError(
                f"{self.connector.address}: cannot delete rows; leave them hidden, or rebuild "
                "the index without them"
            )
        applied = Applied()
        for batch in _batches(targets):
            # Judged by what the bundle holds: a row may change after any other look at it.
            bundle = self.connector.export([one.place.document_id for one in batch])
            here, found = self._as_judged(batch, [one.row for one in bundle.rows])
            applied += found
            if not here:
                continue
            path = self.bundles / f"{self.ledger.now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex}.jsonl"
            # The text of flagged documents is nobody else's business.
            self.bundles.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bundle(path, _part(bundle, [one.place.document_id for one in here]))
            try:
                intent = self.ledger.states.intend(
                    here, Remediation.DELETING, reason=reason, bundle=str(path.resolve())
                )
            except (IllegalMoveError, StaleStateError):
                path.unlink(missing_ok=True)
                raise
            chosen = {one.place.document_id for one in intent.items}
            self.connector.delete(_part(bundle, chosen))
            applied += self._confirmed(intent.items, intent.already, reason)
        return applied

    def restore(self, targets: Iterable[Target], *, reason: str) -> Applied:
        """Bring deleted documents back, hidden as they were.

        :raises InputError: when a bundle cannot be read, or lacks a row; nothing of its batch
            is changed then.
        :raises StoreError: when something else stands under an id, or the store or the ledger
            fails; intents stay for recovery.
        """
        applied = Applied()
        for batch in _batches(targets):
            intent = self.ledger.states.intend(
                batch, Remediation.RESTORING, reason=reason, resume=True
            )
            try:
                parts = [_kept(path, items) for path, items in _by_bundle(intent.items).items()]
            except InputError:
                # All bundles are read before the store is touched, so nothing was.
                self.ledger.states.abandon(intent.items, reason="its bundle cannot be read")
                raise
            for part in parts:
                self.connector.restore(part)
            applied += self._confirmed(intent.items, intent.already, reason)
        return applied

    def target(self, document_id: str, content_sha256: str, version: int | None = None) -> Target:
        """A document of this collection."""
        return Target(self.place(document_id), content_sha256, version)

    def place(self, document_id: str) -> Place:
        """Where a document of this collection lies."""
        return Place(self.connector.address, document_id, self.tenant)

    def _as_judged(
        self, batch: Sequence[Target], rows: Sequence[Row]
    ) -> tuple[list[Target], Applied]:
        """The targets whose rows still hold what they were judged for, and what became of others."""
        contents = {row.id: self.content_sha256(row) for row in rows}
        here, missing, changed = [], [], []
        for one in batch:
            name = one.place.document_id
            if name not in contents:
                missing.append(name)
            elif contents[name] != one.content_sha256:
                changed.append(name)
            else:
                here.append(one)
        return here, Applied(missing=tuple(missing), changed=tuple(changed))

    def _confirmed(
        self,
        items: Sequence[QuarantineItem],
        already: Sequence[QuarantineItem],
        reason: str,
    ) -> Applied:
        known = tuple(one.place.document_id for one in already)
        try:
            done = self.ledger.states.confirm(items, reason=reason)
        except StaleStateError:
            # Another process took over a part of this batch and did the same.
            done, others = self._confirmed_singly(items, reason)
            known += others
        return Applied(done=tuple(one.place.document_id for one in done), already=known)

    def _confirmed_singly(
        self, items: Sequence[QuarantineItem], reason: str
    ) -> tuple[tuple[QuarantineItem, ...], tuple[str, ...]]:
        done: list[QuarantineItem] = []
        others: list[str] = []
        for one in items:
            try:
                done += self.ledger.states.confirm([one], reason=reason)
            except StaleStateError as error:
                now = self.ledger.states.get(one.place)
                if now is None or now.state not in {one.state, ENDS[one.state]}:
                    # Settled as not done, while here the store was changed all the same.
                    raise StaleStateError(
                        f"{error}. The store may have been changed meanwhile: repeat the command"
                    ) from error
                others.append(one.place.document_id)
        return tuple(done), tuple(others)


def _batches(targets: Iterable[Target]) -> Iterator[list[Target]]:
    # Each place once: the same document may be a finding of several retrievals.
    once = list({one.place: one for one in targets}.values())
    for start in range(0, len(once), BATCH_DOCUMENTS):
        yield once[start : start + BATCH_DOCUMENTS]


def _part(bundle: Bundle, ids: Iterable[str]) -> Bundle:
    chosen = frozenset(ids)
    rows = tuple(item for item in bundle.rows if item.row.id in chosen)
    return dataclasses.replace(bundle, rows=rows)


def _kept(path: str, items: Sequence[QuarantineItem]) -> Bundle:
    """The rows of some documents in a bundle, each with a mark: they come back hidden."""
    bundle = read_bundle(path)
    rows = {one.row.id: one for one in bundle.rows}
    found = []
    for item in items:
        name = item.place.document_id
        if name not in rows:
            raise InputError(f"{path}: does not hold document {name!r}; take an intact copy")
        since = item.hidden_at or item.changed_at
        mark = rows[name].mark or Mark(name, item.reason, item.scan_id, since)
        found.append(dataclasses.replace(rows[name], mark=mark))
    return dataclasses.replace(bundle, rows=tuple(found))


def _by_bundle(items: Sequence[QuarantineItem]) -> dict[str, list[QuarantineItem]]:
    found: dict[str, list[QuarantineItem]] = {}
    for one in items:
        if one.bundle is None:
            raise InputError(
                f"document {one.place.document_id!r}: the ledger names no bundle to restore from"
            )
        found.setdefault(one.bundle, []).append(one)
    return found
