"""Findings as reviewers saw them, and what happened since."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ragsieve.display import visible
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import StaleStateError
from ragsieve.ledger.records import KeptIncident, QuarantineItem
from ragsieve.service.access import Principal


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A finding as the reviewer saw it.

    :param version: of the finding.
    :param item_version: of the state of its document; 0 where nothing was done to it.
    """

    incident_id: str
    version: int
    item_version: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """What happened to a finding since it was seen.

    :param place: of the finding among those handed in.
    """

    place: int
    incident_id: str
    words: str


class ConflictError(StaleStateError):
    """Somebody else was quicker; nothing was written."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        super().__init__(
            f"{len(self.differences)} of the findings changed since they were read; nothing was "
            f"written; {self.differences[0].words}; look again and decide anew"
        )


def actor_of(who: Principal) -> str:
    """In whose name changes are written; no two keys share one."""
    return who.name if who.key_id is None else f"{who.name} [{who.key_id}]"


def item_version(kept: KeptIncident) -> int:
    """Of the state of a finding's document; 0 where nothing was done to it."""
    return 0 if kept.item is None else kept.item.version


def difference(ledger: Ledger, now: KeptIncident, seen: Shown) -> str:
    """Who changed a finding since it was seen, and how, in words."""
    incident = now.incident
    parts = []
    if now.version != seen.version:
        said = ledger.reviews.of(incident.id, tenant=incident.place.tenant)
        checks = ledger.truth.of(incident.id, tenant=incident.place.tenant)
        if said:
            parts.append(
                f"{visible(said[-1].reviewer)} said {said[-1].opinion} at {said[-1].at:%H:%M:%S} UTC"
            )
        if checks:
            parts.append(f"{visible(checks[-1].checker)} checked its truth: {checks[-1].truth}")
    if now.item is not None and (item_version(now) != seen.item_version or now.item.state.pending):
        parts.append(words_of(now.item))
    return f"{visible(incident.place.document_id, limit=80)}: {'; '.join(parts) or 'it changed'}"


def words_of(item: QuarantineItem) -> str:
    """What was done to a document, by whom."""
    return f"{item.state} by {visible(item.changed_by)} at {item.changed_at:%H:%M:%S} UTC"
