"""What the ledger takes and gives back: frozen records, all times in UTC."""

from __future__ import annotations

import dataclasses
import datetime
import enum

from ragsieve.cases import (
    Incident,
    Measure,
    Opinion,
    Place,
    Remediation,
    Truth,
)
from ragsieve.records import Level, Verdict


class ScanKind(enum.StrEnum):
    """What produced findings, or hid documents."""

    SCAN = "scan"
    FILTER = "filter"
    GUARD = "guard"
    MANUAL = "manual"


class ScanState(enum.StrEnum):
    """How far a scan came."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


@dataclasses.dataclass(frozen=True, slots=True)
class ScanStart:
    """What is known when a scan begins.

    :param id: also the rollback handle; `ledger.scans.new_scan_id` makes one.
    :param store: address of the store, without secrets.
    :param fingerprint: of the profile's settings and models.
    :param config_sha256: of the resolved settings, hexadecimal; None when unknown.
    :param dry_run: no store will be changed; the ledger refuses to intend a change for it.
    """

    id: str
    store: str
    profile: str
    fingerprint: str
    kind: ScanKind = ScanKind.SCAN
    tenant: str | None = None
    config_sha256: str | None = None
    policy_sha256: str | None = None
    embedding_version: str | None = None
    index_version: str | None = None
    dry_run: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ScanCounts:
    """What a scan judged; the clear ones are counted here and nowhere else.

    :param documents: all judged, flagged and undecided ones among them.
    """

    documents: int = 0
    flagged: int = 0
    undecided: int = 0

    @property
    def clear(self) -> int:
        """Documents that were judged clear."""
        return self.documents - self.flagged - self.undecided


@dataclasses.dataclass(frozen=True, slots=True)
class ScanEntry:
    """A scan as it is kept.

    :param finished: None while it runs.
    :param actor: who began it.
    """

    start: ScanStart
    state: ScanState
    counts: ScanCounts
    started: datetime.datetime
    finished: datetime.datetime | None
    actor: str
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on what lay at a place."""

    place: Place
    content_sha256: str
    verdict: Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A document whose state is to change.

    :param version: of the `QuarantineItem` the decision was made on, 0 where there was none;
        None takes whatever is there.
    """

    place: Place
    content_sha256: str
    version: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QuarantineItem:
    """What is being done, or was done, to one document: one for each place.

    :param before: the state to which an abandoned intent returns.
    :param scan_id: of the scan that hid it: the rollback handle.
    :param bundle: where its export lies; None until one was made.
    :param version: raised by every change; what `Target.version` and `confirm` compare.
    :param hidden_at: when it was last intended to be hidden; None when it never was.
    """

    place: Place
    content_sha256: str
    state: Remediation
    before: Remediation
    scan_id: str
    reason: str
    bundle: str | None
    version: int
    hidden_at: datetime.datetime | None
    changed_at: datetime.datetime
    changed_by: str


@dataclasses.dataclass(frozen=True, slots=True)
class Intent:
    """What `states.intend` wrote.

    :param items: now pending; change the store, then `confirm` or `abandon` them.
    :param already: left alone, since they are where the intent leads.
    """

    items: tuple[QuarantineItem, ...]
    already: tuple[QuarantineItem, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One step of one document's state."""

    place: Place
    content_sha256: str
    old: Remediation
    new: Remediation
    scan_id: str
    reason: str
    actor: str
    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Review:
    """What a reviewer said of a finding; never changed, only followed by another."""

    incident_id: str
    content_sha256: str
    reviewer: str
    opinion: Opinion
    reason: str
    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class TruthCheck:
    """What somebody found out about a content, and by what means; no score ever writes one."""

    incident_id: str
    content_sha256: str
    checker: str
    truth: Truth
    reason: str
    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class KeptIncident:
    """A finding with what the ledger knows of it now.

    :param version: raised by every review and truth check; what they compare.
    :param item: the state of its place; None where nothing was done there.
    :param exposure: how often its place was retrieved in the days asked for.
    :param priority: risk x (1 + exposure); see `risk_of`.
    :param earlier_opinion: the last one on the same content before this was found.
    :param superseded: whether the same place has a newer finding.
    """

    incident: Incident
    version: int
    item: QuarantineItem | None
    exposure: int
    priority: float
    earlier_opinion: Opinion | None
    superseded: bool


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFilter:
    """Which findings to list; None leaves a field out of the question.

    :param evidence: measured, at ``evidence_at_least`` or above, in units of the threshold.
    :param decided_after: inclusive.
    :param decided_before: exclusive.
    :param reviewed: whether there is an opinion on the finding itself.
    :param known: whether there was one on the same content before.
    :param superseded: None lists every finding of a place, False only its newest.
    """

    store: str | None = None
    document_id: str | None = None
    content_sha256: str | None = None
    source: str | None = None
    author: str | None = None
    evidence: str | None = None
    evidence_at_least: float = 0.0
    scan_id: str | None = None
    decided_after: datetime.datetime | None = None
    decided_before: datetime.datetime | None = None
    state: Remediation | None = None
    opinion: Opinion | None = None
    reviewed: bool | None = None
    known: bool | None = None
    truth: Truth | None = None
    level: Level | None = None
    measure: Measure | None = None
    campaign: str | None = None
    superseded: bool | None = False


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePage:
    """A part of the queue, most pressing first.

    :param total: how many findings the filter has in all.
    """

    entries: tuple[KeptIncident, ...]
    total: int
