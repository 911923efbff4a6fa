"""Which state leads to which, and the writing of steps."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from typing import Any

from ragsieve.cases import Remediation
from ragsieve.display import visible
from ragsieve.ledger.codec import place_key
from ragsieve.ledger.faults import IllegalMoveError, StaleStateError
from ragsieve.ledger.pens import Pen, chunks, inserting
from ragsieve.ledger.records import QuarantineItem, Target
from ragsieve.ledger.schema import changes, items

LEADS = {
    Remediation.QUARANTINING: frozenset({Remediation.NONE, Remediation.RELEASED}),
    Remediation.RELEASING: frozenset({Remediation.QUARANTINED}),
    Remediation.DELETING: frozenset({Remediation.QUARANTINED}),
    Remediation.RESTORING: frozenset({Remediation.DELETED}),
}
"""From which states an intent may begin."""

ENDS = {
    Remediation.QUARANTINING: Remediation.QUARANTINED,
    Remediation.RELEASING: Remediation.RELEASED,
    Remediation.DELETING: Remediation.DELETED,
    # What is brought back is still hidden until somebody releases it.
    Remediation.RESTORING: Remediation.QUARANTINED,
}
"""Where a confirmed intent ends."""

_SAME = {
    Remediation.QUARANTINING: frozenset({Remediation.QUARANTINED, Remediation.DELETED}),
    Remediation.RELEASING: frozenset({Remediation.NONE, Remediation.RELEASED}),
    Remediation.DELETING: frozenset({Remediation.DELETED}),
    Remediation.RESTORING: frozenset({Remediation.QUARANTINED}),
}


def settled(item: QuarantineItem, target: Target, to: Remediation) -> bool:
    """Whether the document is already where the intent leads.

    Another content at a place that was hidden is another document: it is to be hidden anew.
    """
    if item.state not in _SAME[to]:
        return False
    return to is not Remediation.QUARANTINING or item.content_sha256 == target.content_sha256


def resumable(item: QuarantineItem, target: Target, to: Remediation) -> bool:
    """Whether it is this very intent, left pending: of another content it is another's."""
    return item.state.pending and item.state is to and item.content_sha256 == target.content_sha256


def check(item: QuarantineItem | None, target: Target, to: Remediation) -> None:
    """Refuse what may not begin.

    :raises StaleStateError: when the document is not what the decision was made on.
    :raises IllegalMoveError: when its state does not lead there.
    """
    name = visible(target.place.document_id)
    state = Remediation.NONE if item is None else item.state
    if target.version is not None and target.version != (item.version if item else 0):
        by = f" by {visible(item.changed_by)}" if item else ""
        raise StaleStateError(
            f"document {name} was changed{by} since it was read; nothing was written; "
            "read its state again and decide anew"
        )
    if item is not None and state.pending:
        raise StaleStateError(
            f"document {name} is in the hands of {visible(item.changed_by)} ({state} since "
            f"{item.changed_at:%Y-%m-%d %H:%M:%S} UTC); nothing was written; wait, or resolve "
            "what was left pending"
        )
    same = item is None or item.content_sha256 == target.content_sha256
    if to is Remediation.QUARANTINING:
        if state not in LEADS[to] and same:
            raise IllegalMoveError(f"document {name} is {state}; it cannot be {to}")
        return
    if state not in LEADS[to]:
        raise IllegalMoveError(
            f"document {name} is {state}; {to} begins from {', '.join(sorted(LEADS[to]))}"
        )
    if not same:
        raise StaleStateError(
            f"document {name} does not hold the content that was hidden; nothing was written; "
            "look at it again"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One document's change of state, not yet written.

    :param old: the state before; the same as the new one when only the hands change.
    :param prior: what an abandoned intent returns to besides the state.
    """

    item: QuarantineItem
    old: Remediation
    prior: str | None


def begin(
    pen: Pen,
    item: QuarantineItem | None,
    target: Target,
    to: Remediation,
    reason: str,
    *,
    scan_id: str | None,
    bundle: str | None,
) -> Step:
    """An intent that was checked."""
    hides = to is Remediation.QUARANTINING
    new = QuarantineItem(
        place=target.place,
        content_sha256=target.content_sha256,
        state=to,
        before=Remediation.NONE if item is None else item.state,
        scan_id=scan_id or "" if hides or item is None else item.scan_id,
        reason=reason if hides or item is None else item.reason,
        bundle=bundle or (item.bundle if item and not hides else None),
        version=item.version + 1 if item else 1,
        hidden_at=pen.at if hides or item is None else item.hidden_at,
        changed_at=pen.at,
        changed_by=pen.actor,
    )
    return Step(new, new.before, _prior(item))


def take_over(pen: Pen, item: QuarantineItem, prior: str | None) -> Step:
    """A pending intent in the actor's hands, and out of those of whoever began it."""
    new = dataclasses.replace(
        item, version=item.version + 1, changed_at=pen.at, changed_by=pen.actor
    )
    return Step(new, item.state, prior)


def resolve(pen: Pen, item: QuarantineItem, prior: str | None, *, done: bool) -> Step:
    """The outcome of an intent that was compared with what is kept."""
    new = dataclasses.replace(
        item,
        state=ENDS[item.state] if done else item.before,
        before=item.state,
        version=item.version + 1,
        changed_at=pen.at,
        changed_by=pen.actor,
    )
    if not done and prior is not None:
        earlier: dict[str, Any] = json.loads(prior)
        since = earlier.pop("hidden_at", None)
        if since is not None:
            earlier["hidden_at"] = datetime.datetime.fromisoformat(since)
        new = dataclasses.replace(new, **earlier)
    return Step(new, item.state, None)


def write(pen: Pen, steps: Sequence[Step], reason: str) -> None:
    """Write steps, and a change for each that leads to another state."""
    statement = inserting(pen.connection, items)
    kept = {one.name: statement.excluded[one.name] for one in items.c if one.name != "place_key"}
    statement = statement.on_conflict_do_update(index_elements=["place_key"], set_=kept)
    for group in chunks(steps):
        pen.connection.execute(
            statement, [_item_fields(one.item) | {"prior": one.prior} for one in group]
        )
        made = [
            _place_fields(one.item)
            | {
                "old": str(one.old),
                "new": str(one.item.state),
                "scan_id": one.item.scan_id,
                "reason": reason,
                "actor": pen.actor,
                "at": pen.at,
            }
            for one in group
            if one.old is not one.item.state
        ]
        if made:
            pen.connection.execute(changes.insert(), made)


def note(pen: Pen, action: str, found: Sequence[QuarantineItem], reason: str) -> None:
    """Add one audit entry for each tenant and scan among the items."""
    groups: dict[tuple[str | None, str], list[QuarantineItem]] = {}
    for item in found:
        groups.setdefault((item.place.tenant, item.scan_id), []).append(item)
    for (tenant, scan_id), members in groups.items():
        payload = {
            "reason": reason,
            "documents": [
                [one.place.store, one.place.document_id, one.content_sha256, str(one.state)]
                for one in members
            ],
        }
        bundles = sorted({one.bundle for one in members if one.bundle})
        pen.note(action, scan_id, payload | {"bundles": bundles}, tenant=tenant)


def _prior(item: QuarantineItem | None) -> str | None:
    if item is None:
        return None
    kept = {
        "content_sha256": item.content_sha256,
        "scan_id": item.scan_id,
        "reason": item.reason,
        "bundle": item.bundle,
        "hidden_at": None if item.hidden_at is None else item.hidden_at.isoformat(),
    }
    return json.dumps(kept, ensure_ascii=False)


def _place_fields(item: QuarantineItem) -> dict[str, object]:
    return {
        "place_key": place_key(item.place),
        "tenant": item.place.tenant,
        "store": item.place.store,
        "document_id": item.place.document_id,
        "content_sha256": item.content_sha256,
    }


def _item_fields(item: QuarantineItem) -> dict[str, object]:
    return _place_fields(item) | {
        "state": str(item.state),
        "before": str(item.before),
        "scan_id": item.scan_id,
        "reason": item.reason,
        "bundle": item.bundle,
        "version": item.version,
        "hidden_at": item.hidden_at,
        "changed_at": item.changed_at,
        "changed_by": item.changed_by,
    }
