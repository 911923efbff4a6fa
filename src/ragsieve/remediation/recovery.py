"""After a crash: intents whose outcome is unknown are settled by what the store shows."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from ragsieve.cases import Remediation
from ragsieve.ledger.faults import StaleStateError
from ragsieve.ledger.records import QuarantineItem, ScanState
from ragsieve.remediation.custody import Custody

SETTLE_AFTER_SECONDS = 120.0
"""An intent younger than this may belong to a process that is still at work."""


SCAN_ENDS_AFTER_SECONDS = 86_400.0
"""A scan that began longer ago than this is taken for dead."""

_MOST_SCANS = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery found, by document id.

    :param confirmed: the store had done what was intended.
    :param abandoned: it had not.
    :param waiting: too young to be touched.
    :param resolved_elsewhere: somebody else settled them meanwhile.
    """

    confirmed: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    resolved_elsewhere: tuple[str, ...] = ()


def recover(custody: Custody, *, older_than_seconds: float = SETTLE_AFTER_SECONDS) -> Recovered:
    """Settle the intents of one collection that a dead process left.

    The store is read and not changed: what happened there is confirmed, what did not is
    abandoned, and whoever wanted it may ask again.

    :param older_than_seconds: 0 settles all; right only when no other process is at work.
    :raises StoreError: when the store or the ledger cannot be read.
    """
    ledger, connector = custody.ledger, custody.connector
    pending = sorted(
        ledger.states.pending(tenant=custody.tenant, store=connector.address),
        key=lambda one: one.place.document_id,
    )
    limit = ledger.now() - datetime.timedelta(seconds=older_than_seconds)
    old = [one for one in pending if one.changed_at <= limit]
    waiting = tuple(one.place.document_id for one in pending if one.changed_at > limit)
    if not old:
        return Recovered(waiting=waiting)
    happened = _happened(custody, old)
    confirmed: list[str] = []
    abandoned: list[str] = []
    elsewhere: list[str] = []
    for one in old:
        name = one.place.document_id
        try:
            if name in happened:
                ledger.states.confirm([one], reason="settled after an interruption")
                confirmed.append(name)
            else:
                ledger.states.abandon([one], reason="interrupted before the store was changed")
                abandoned.append(name)
        except StaleStateError:
            elsewhere.append(name)
    return Recovered(tuple(confirmed), tuple(abandoned), waiting, tuple(elsewhere))


def end_interrupted_scans(
    custody: Custody, *, older_than_seconds: float = SCAN_ENDS_AFTER_SECONDS
) -> tuple[str, ...]:
    """Write down as failed the scans of one collection that run no more; their ids.

    What they found stays, and what they hid can be rolled back.

    :param older_than_seconds: a scan begun later may still be at work.
    :raises StoreError: when the ledger fails.
    """
    ledger = custody.ledger
    limit = ledger.now() - datetime.timedelta(seconds=older_than_seconds)
    running = ledger.scans.all(
        tenant=custody.tenant,
        store=custody.connector.address,
        state=ScanState.RUNNING,
        limit=_MOST_SCANS,
    )
    ended = []
    for one in running:
        if one.started > limit:
            continue
        try:
            ledger.scans.fail(one.start.id, note="interrupted", tenant=custody.tenant)
        except StaleStateError:
            continue
        ended.append(one.start.id)
    return tuple(ended)


def _happened(custody: Custody, items: Sequence[QuarantineItem]) -> frozenset[str]:
    """Ids whose intent the store shows as done."""
    names = [one.place.document_id for one in items]
    present = {row.id for row in custody.connector.fetch(names)}
    hidden = {mark.id for mark in custody.connector.marks()}
    done = {
        Remediation.QUARANTINING: present & hidden,
        Remediation.RELEASING: present - hidden,
        Remediation.DELETING: set(names) - present,
        # A deleted row comes back hidden; another content under its id would not be.
        Remediation.RESTORING: present & hidden,
    }
    return frozenset(
        one.place.document_id for one in items if one.place.document_id in done[one.state]
    )
