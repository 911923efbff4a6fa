"""A whole scan undone: what it hid is served again, what it deleted is brought back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ragsieve.cases import Remediation
from ragsieve.ledger.records import QuarantineItem, Target
from ragsieve.ledger.reports import RollbackPreview
from ragsieve.remediation.custody import Applied, Custody


@dataclasses.dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback did.

    :param left: ids of contested documents that stay as they are, since nobody asked for them.
    :param complete: nothing is hidden through this scan any more; the ledger says so too.
    """

    preview: RollbackPreview
    released: Applied
    restored: Applied
    left: tuple[str, ...]
    complete: bool


def roll_back(
    custody: Custody, scan_id: str, *, reason: str, include_contested: bool = False
) -> RolledBack:
    """Bring back what one scan hid or deleted in this collection.

    Documents that somebody reviewed or another scan found since are left, unless asked for:
    undoing one decision must not undo another.

    :raises NotKeptError: when the ledger holds no such scan for this tenant.
    :raises StoreError: when the store or the ledger fails; calling it again goes on.
    """
    states = custody.ledger.states
    preview = custody.ledger.rollback_preview(scan_id, tenant=custody.tenant)
    contested = [one.item for one in preview.contested]
    wanted = [*preview.brings_back, *(contested if include_contested else ())]
    here = [one for one in wanted if one.place.store == custody.connector.address]
    # First what needs no bundle, so that a bundle that is damaged keeps nothing else hidden.
    released = custody.release(_in_state(here, Remediation.QUARANTINED), reason=reason)
    restored = custody.restore(_in_state(here, Remediation.DELETED), reason=reason)
    now = [item for one in here if (item := states.get(one.place)) is not None]
    released += custody.release(_in_state(now, Remediation.QUARANTINED), reason=reason)
    hidden = [
        one
        for one in states.items(tenant=custody.tenant, scan_id=scan_id)
        if one.state.hides or one.state.pending
    ]
    if not hidden:
        custody.ledger.scans.rolled_back(scan_id, tenant=custody.tenant, note=reason)
    left = () if include_contested else tuple(one.place.document_id for one in contested)
    return RolledBack(preview, released, restored, left, complete=not hidden)


def _in_state(items: Iterable[QuarantineItem], state: Remediation) -> list[Target]:
    return [
        Target(one.place, one.content_sha256, one.version) for one in items if one.state is state
    ]
