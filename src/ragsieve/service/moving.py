"""Documents hidden, served, removed and brought back in their stores, for an act or its undoing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ragsieve.cases import Remediation
from ragsieve.errors import StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import StaleStateError
from ragsieve.ledger.records import KeptIncident, ScanCounts, ScanKind, ScanStart, Target
from ragsieve.ledger.scans import new_scan_id
from ragsieve.remediation.custody import Applied, Custody
from ragsieve.service.acts import Act, Changed
from ragsieve.service.stores import Stores

COMPENSATION = "taken back: somebody else decided meanwhile"


def move(
    stores: Stores,
    ledger: Ledger,
    tenant: str | None,
    act: Act,
    wanted: Sequence[KeptIncident],
    reason: str,
) -> tuple[tuple[Changed, ...], tuple[str, ...]]:
    """Change documents in their stores: what was changed, and ids that were left alone."""
    changed: list[Changed] = []
    left: list[str] = []
    for store in dict.fromkeys(one.incident.place.store for one in wanted):
        targets = [_target(ledger, one) for one in wanted if one.incident.place.store == store]

        def job(
            custody: Custody, targets: Sequence[Target] = targets, store: str = store
        ) -> Applied:
            if act is Act.RELEASE:
                return custody.release(targets, reason=reason)
            if act is Act.DELETE:
                return custody.delete(targets, reason=reason)
            return _hidden_by_hand(custody, store, targets, reason)

        try:
            applied = stores.run(store, tenant, ledger, job)
        except StaleStateError:
            reverse(stores, ledger, tenant, changed, COMPENSATION)
            raise
        names = set(applied.done)
        for one in targets:
            if one.place.document_id in names:
                item = ledger.states.get(one.place)
                if item is not None:
                    changed.append(Changed.of(item))
        left += [*applied.missing, *applied.changed]
    return tuple(changed), tuple(left)


def reverse(
    stores: Stores, ledger: Ledger, tenant: str | None, changed: Sequence[Changed], reason: str
) -> None:
    """Undo what was done to documents, each as its state says."""
    for store in dict.fromkeys(one.store for one in changed):
        mine = [one for one in changed if one.store == store]

        def job(custody: Custody, mine: Sequence[Changed] = mine) -> None:
            hidden = [one for one in mine if one.state is Remediation.QUARANTINED]
            custody.release([one.target(tenant) for one in hidden], reason=reason)
            deleted = [one for one in mine if one.state is Remediation.DELETED]
            custody.restore([one.target(tenant) for one in deleted], reason=reason)
            served = [one for one in mine if one.state is Remediation.RELEASED]
            for scan_id in dict.fromkeys(one.scan_id for one in served):
                # The scan that hid them first stays their rollback handle.
                targets = [one.target(tenant) for one in served if one.scan_id == scan_id]
                custody.quarantine(targets, reason=reason, scan_id=scan_id)

        stores.run(store, tenant, ledger, job)


def moves(act: Act, one: KeptIncident) -> bool:
    """Whether an act changes the document of a finding in its store."""
    hides = one.item is not None and one.item.state.hides
    if act is Act.QUARANTINE:
        return not hides
    return act is Act.RELEASE and one.item is not None and one.item.state is Remediation.QUARANTINED


def _target(ledger: Ledger, one: KeptIncident) -> Target:
    place, sha256 = one.incident.place, one.incident.content_sha256
    if one.item is not None:
        return Target(place, sha256, one.item.version)
    # Something may have been done to another content that lay there.
    other = ledger.states.get(place)
    return Target(place, sha256, 0 if other is None else other.version)


def _hidden_by_hand(
    custody: Custody, store: str, targets: Sequence[Target], reason: str
) -> Applied:
    """Hide documents under a scan of their own, which can be rolled back by itself."""
    scan_id, scans = new_scan_id(), custody.ledger.scans
    start = ScanStart(
        scan_id, store, "manual", "manual", ScanKind.MANUAL, custody.tenant, note=reason[:500]
    )
    scans.begin(start)
    try:
        applied = custody.quarantine(targets, reason=reason, scan_id=scan_id)
    except StoreError as error:
        with contextlib.suppress(StoreError):
            scans.fail(scan_id, note=type(error).__name__, tenant=custody.tenant)
        raise
    scans.finish(scan_id, ScanCounts(documents=len(targets)), tenant=custody.tenant)
    return applied
