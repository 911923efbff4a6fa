"""What the ledger says when it looks back: histories, previews, exposures, the audit trail."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from ragsieve.cases import Place, QueryContext
from ragsieve.ledger.records import Change, QuarantineItem, Review, ScanEntry, TruthCheck
from ragsieve.records import Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class PastVerdict:
    """An earlier verdict on a content."""

    scan_id: str
    place: Place
    at: datetime.datetime
    verdict: Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where a content lay, as far as findings tell.

    :param first_scan: the scan that found it there first; ``last_scan`` last.
    """

    place: Place
    first_scan: str
    last_scan: str
    first_seen: datetime.datetime
    last_seen: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """All that a tenant's ledger knows of one content, oldest first, whatever its id or store."""

    content_sha256: str
    placements: tuple[Placement, ...]
    verdicts: tuple[PastVerdict, ...]
    reviews: tuple[Review, ...]
    truth_checks: tuple[TruthCheck, ...]
    changes: tuple[Change, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Contested:
    """A document that a rollback would bring back although something happened since.

    :param reasons: one sentence each.
    """

    item: QuarantineItem
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RollbackPreview:
    """What rolling back a scan would change.

    :param brings_back: hidden or deleted through this scan, and nothing happened since.
    :param contested: hidden or deleted through this scan, and something did.
    :param left: once hidden by this scan, now released or hidden by another.
    :param queries_affected: kept retrievals in which a document to be brought back stood.
    :param queries_kept: kept retrievals from the stores concerned.
    """

    scan: ScanEntry
    brings_back: tuple[QuarantineItem, ...]
    contested: tuple[Contested, ...]
    left: tuple[QuarantineItem, ...]
    queries_affected: int
    queries_kept: int


@dataclasses.dataclass(frozen=True, slots=True)
class Exposure:
    """How often a place was retrieved.

    :param days: retrievals of each day, oldest first; days without any are absent.
    """

    place: Place
    total: int
    days: tuple[tuple[datetime.date, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Retrieval:
    """One of the last retrievals."""

    store: str
    at: datetime.datetime
    context: QueryContext


@dataclasses.dataclass(frozen=True, slots=True)
class AuditEntry:
    """One link of the audit chain.

    :param seq: from 1, without gaps.
    :param payload: what was changed; holds the tenant.
    :param previous_sha256: of the entry before; zeros for the first.
    """

    seq: int
    at: datetime.datetime
    actor: str
    action: str
    subject: str
    payload: Mapping[str, Any]
    previous_sha256: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class AuditHead:
    """The last link, to be remembered elsewhere: only against it does a cut-off tail show."""

    seq: int
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class AuditReport:
    """What checking the chain found.

    :param entries: how many hold.
    :param head: the last entry that holds; None in an empty chain.
    :param first_bad: number of the first entry that does not hold, or that is missing.
    :param problem: what is wrong with it; None when all hold.
    """

    entries: int
    head: AuditHead | None
    first_bad: int | None = None
    problem: str | None = None

    @property
    def intact(self) -> bool:
        """Whether no damage was found."""
        return self.problem is None
