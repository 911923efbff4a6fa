"""Everything the desk shows about one finding."""

from __future__ import annotations

import dataclasses
import datetime

from ragsieve.cases import Opinion, Remediation
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.records import KeptIncident, Review, TruthCheck
from ragsieve.ledger.reports import AuditEntry, Exposure, History, Retrieval
from ragsieve.service.desk.plots import Bar, bars
from ragsieve.service.desk.queue import members, why
from ragsieve.service.reviewing import MOST_TOGETHER
from ragsieve.service.seeing import item_version

_EXPOSURE_DAYS = 30
_RETRIEVALS = 10
_ENTRIES = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A finding in a list.

    :param token: the finding with the versions under which it is shown, as forms send it back.
    """

    kept: KeptIncident
    why: str
    token: str

    @property
    def decided(self) -> bool:
        """Whether somebody said more of it than that information is missing."""
        return self.kept.incident.opinion not in {None, Opinion.NEEDS_INFO}


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One finding.

    :param mates: findings of its campaign, itself included; empty for one that stands alone.
    :param before: id of the finding before it in the campaign; ``after`` likewise.
    """

    line: Line
    bars: tuple[Bar, ...]
    reviews: tuple[Review, ...]
    checks: tuple[TruthCheck, ...]
    history: History
    exposure: Exposure
    retrievals: tuple[Retrieval, ...]
    audit: tuple[AuditEntry, ...]
    mates: tuple[Line, ...]
    before: str | None
    after: str | None

    @property
    def hidden(self) -> bool:
        """Whether retrieval does not return the document."""
        return self.line.kept.incident.remediation.hides

    @property
    def pending(self) -> bool:
        """Whether somebody is at work on the document, or died while they were."""
        return self.line.kept.incident.remediation.pending

    @property
    def elsewhere(self) -> tuple[Review, ...]:
        """What was said of the same content in other findings."""
        own = self.line.kept.incident.id
        return tuple(one for one in self.history.reviews if one.incident_id != own)


@dataclasses.dataclass(frozen=True, slots=True)
class Campaign:
    """Findings that belong together.

    :param lines: the most pressing first; as many as one act may take.
    """

    name: str
    lines: tuple[Line, ...]

    @property
    def full(self) -> bool:
        """Whether there may be more than are listed."""
        return len(self.lines) >= MOST_TOGETHER


def case_of(ledger: Ledger, tenant: str | None, incident_id: str) -> Case:
    """One finding.

    :raises NotKeptError: when this tenant has no such finding.
    """
    kept = ledger.incidents.get(incident_id, tenant=tenant)
    incident = kept.incident
    mates: tuple[Line, ...] = ()
    if incident.campaign is not None:
        mates = tuple(line(one) for one in members(ledger, tenant, incident.campaign))
    ids = [one.kept.incident.id for one in mates]
    place = ids.index(incident_id) if incident_id in ids else None
    return Case(
        line=line(kept),
        bars=bars(incident.verdict),
        reviews=ledger.reviews.of(incident_id, tenant=tenant),
        checks=ledger.truth.of(incident_id, tenant=tenant),
        history=ledger.history(incident.content_sha256, tenant=tenant),
        exposure=ledger.exposures.of(incident.place, days=_EXPOSURE_DAYS),
        retrievals=ledger.exposures.recent(incident.place, limit=_RETRIEVALS),
        audit=ledger.audit.entries(
            tenant=tenant, subject=incident_id, limit=_ENTRIES, newest_first=True
        ),
        mates=mates,
        before=ids[place - 1] if place else None,
        after=ids[place + 1] if place is not None and place + 1 < len(ids) else None,
    )


def campaign_of(ledger: Ledger, tenant: str | None, name: str) -> Campaign:
    """The findings of a campaign; none for one that this tenant does not have."""
    return Campaign(name, tuple(line(one) for one in members(ledger, tenant, name)))


def line(kept: KeptIncident) -> Line:
    """A finding in a list."""
    return Line(kept, why(kept), f"{kept.incident.id}:{kept.version}:{item_version(kept)}")


def clock(moment: datetime.datetime) -> str:
    """A time as the desk writes it."""
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def state_words(state: Remediation) -> str:
    """What was done to a document, as the desk writes it."""
    return "served" if state is Remediation.NONE else str(state)
