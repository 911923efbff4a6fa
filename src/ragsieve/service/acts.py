"""Acts of reviewers as the audit trail keeps them: what is needed to undo one."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterator, Mapping
from typing import Any

from ragsieve.cases import Opinion, Place, Remediation
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import NotKeptError
from ragsieve.ledger.records import QuarantineItem, Target
from ragsieve.ledger.reports import AuditEntry

ACT = "review.act"
UNDO = "review.undo"
_NEWEST = 200


class Act(enum.StrEnum):
    """What a reviewer does about findings.

    Quarantine: confirmed, and hidden from retrieval. Release: benign, and served again. The
    others but the last are opinions alone.
    """

    QUARANTINE = "quarantine"
    RELEASE = "release"
    CONFIRMED = "confirmed"
    BENIGN = "benign"
    DUPLICATE = "duplicate"
    NEEDS_INFO = "needs-info"
    DELETE = "delete"

    @property
    def opinion(self) -> Opinion | None:
        """What is said of the findings; None for deleting, which says nothing new."""
        return _OPINIONS.get(self)


_OPINIONS = {
    Act.QUARANTINE: Opinion.CONFIRMED,
    Act.RELEASE: Opinion.BENIGN,
    Act.CONFIRMED: Opinion.CONFIRMED,
    Act.BENIGN: Opinion.BENIGN,
    Act.DUPLICATE: Opinion.DUPLICATE,
    Act.NEEDS_INFO: Opinion.NEEDS_INFO,
}
REVIEWS = tuple(_OPINIONS)
"""The acts that say an opinion."""


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A finding of an act.

    :param version: before it.
    :param opinion: before it.
    """

    incident_id: str
    version: int
    opinion: Opinion | None


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A document that an act changed in its store.

    :param state: after it; ``version`` likewise.
    :param scan_id: of the scan that hid it.
    """

    store: str
    document_id: str
    content_sha256: str
    state: Remediation
    version: int
    scan_id: str

    @classmethod
    def of(cls, item: QuarantineItem) -> Changed:
        """A document as the ledger knows it now."""
        place = item.place
        return cls(
            place.store,
            place.document_id,
            item.content_sha256,
            item.state,
            item.version,
            item.scan_id,
        )

    def place(self, tenant: str | None) -> Place:
        """Where it lies."""
        return Place(self.store, self.document_id, tenant)

    def target(self, tenant: str | None) -> Target:
        """The document in this very state."""
        return Target(self.place(tenant), self.content_sha256, self.version)


@dataclasses.dataclass(frozen=True, slots=True)
class ActRecord:
    """One act.

    :param changed: documents changed in their stores.
    :param left: ids of documents left alone: they hold another content by now, or are gone.
    """

    id: str
    act: Act
    actor: str
    at: datetime.datetime
    reason: str
    members: tuple[Member, ...]
    changed: tuple[Changed, ...]
    left: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        """What the audit trail keeps of it."""
        return {
            "act": str(self.act),
            "reason": self.reason,
            "findings": [[one.incident_id, one.version, one.opinion or ""] for one in self.members],
            "changed": [
                [
                    one.store,
                    one.document_id,
                    one.content_sha256,
                    str(one.state),
                    one.version,
                    one.scan_id,
                ]
                for one in self.changed
            ],
            "left": list(self.left),
        }


def read_act(ledger: Ledger, act_id: str, tenant: str | None) -> ActRecord:
    """One act.

    :raises NotKeptError: when this tenant has no such act.
    """
    found: tuple[AuditEntry, ...] = ()
    if act_id.isprintable():
        found = ledger.audit.entries(tenant=tenant, action=ACT, subject=act_id, limit=1)
    if not found:
        raise NotKeptError("the ledger holds no such act for this tenant")
    return _record(found[0])


def acts_of(ledger: Ledger, tenant: str | None, actor: str) -> Iterator[ActRecord]:
    """An actor's acts, the last first, among a tenant's newest."""
    for entry in ledger.audit.entries(tenant=tenant, action=ACT, limit=_NEWEST, newest_first=True):
        if entry.actor == actor:
            yield _record(entry)


def _record(entry: AuditEntry) -> ActRecord:
    kept: Mapping[str, Any] = entry.payload
    return ActRecord(
        id=entry.subject,
        act=Act(kept["act"]),
        actor=entry.actor,
        at=entry.at,
        reason=kept["reason"],
        members=tuple(
            Member(name, version, Opinion(opinion) if opinion else None)
            for name, version, opinion in kept["findings"]
        ),
        changed=tuple(
            Changed(store, name, sha256, Remediation(state), version, scan_id)
            for store, name, sha256, state, version, scan_id in kept["changed"]
        ),
        left=tuple(kept["left"]),
    )
