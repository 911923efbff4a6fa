"""Incidents: findings as they are kept, and the queue of those that wait for a reviewer."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.elements import ColumnElement

from ragsieve.cases import Incident, Measure, Opinion, PolicyDecision, Remediation, Truth
from ragsieve.display import visible
from ragsieve.ledger import codec
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.faults import NotKeptError
from ragsieve.ledger.finding import record_incidents, record_verdicts
from ragsieve.ledger.pens import Desk
from ragsieve.ledger.places import item_of, place_of
from ragsieve.ledger.records import Judged, KeptIncident, QueueFilter, QueuePage
from ragsieve.ledger.schema import exposures, incident_evidences, incidents, items, verdicts

EXPOSURE_DAYS = 30
"""Days whose retrievals count as exposure unless told otherwise."""


@dataclasses.dataclass(frozen=True, slots=True)
class Incidents:
    """The findings of a ledger."""

    desk: Desk

    def record(self, found: Iterable[Incident]) -> int:
        """Keep findings with their verdicts; the number that were not kept before.

        One whose id is known is left as it is, so a scan may hand in everything again after it
        was interrupted. Findings are written 500 at a time, each group whole or not at all. An
        older finding at the same place is superseded: it leaves the queue and stays on record.

        :raises InputError: for one that is reviewed already, or whose time has no zone.
        :raises NotKeptError: when its scan was not begun for its tenant.
        """
        return record_incidents(self.desk, found)

    def judge(self, scan_id: str, found: Iterable[Judged], *, tenant: str | None = None) -> int:
        """Keep verdicts that are no findings, such as undecided ones; the number that are new.

        :raises InputError: for a clear verdict, or a place of another tenant.
        :raises NotKeptError: when this tenant has no such scan.
        """
        return record_verdicts(self.desk, scan_id, found, tenant)

    def get(
        self, incident_id: str, *, tenant: str | None = None, exposure_days: int = EXPOSURE_DAYS
    ) -> KeptIncident:
        """One finding.

        :raises NotKeptError: when this tenant has no such finding.
        """
        with self.desk.reading() as connection:
            asked, exposure, priority = self._select(tenant, exposure_days)
            row = None
            if incident_id.isprintable():
                asked = asked.where(incidents.c.id == incident_id)
                row = connection.execute(asked).mappings().first()
            if row is None:
                raise not_kept(incident_id)
            return _kept(row, exposure, priority)

    def queue(
        self,
        wanted: QueueFilter = QueueFilter(),
        *,
        tenant: str | None = None,
        limit: int = 50,
        offset: int = 0,
        exposure_days: int = EXPOSURE_DAYS,
    ) -> QueuePage:
        """A tenant's findings by risk x (1 + exposure), the most pressing first.

        Equal ones follow by the time they were found, the older first, then by id.
        """
        asked, exposure, priority = self._select(tenant, exposure_days)
        conditions = list(_conditions(wanted))
        asked = asked.where(*conditions)
        counted = asked.with_only_columns(sa.func.count()).order_by(None)
        page = (
            asked.order_by(priority.desc(), incidents.c.decided_at, incidents.c.id)
            .limit(limit)
            .offset(offset)
        )
        with self.desk.reading() as connection:
            total = connection.execute(counted).scalar_one()
            rows = connection.execute(page).mappings()
            return QueuePage(tuple(_kept(row, exposure, priority) for row in rows), total)

    def _select(
        self, tenant: str | None, days: int
    ) -> tuple[sa.Select[Any], ColumnElement[int], ColumnElement[float]]:
        since = self.desk.now().date() - datetime.timedelta(days=days - 1)
        shown = (
            sa.select(exposures.c.place_key, sa.func.sum(exposures.c.retrievals))
            .where(of_tenant(exposures, tenant), exposures.c.day >= since)
            .group_by(exposures.c.place_key)
            .subquery()
        )
        exposure: ColumnElement[int] = sa.func.coalesce(shown.c[1], 0)
        priority: ColumnElement[float] = incidents.c.risk * (1 + exposure)
        here = sa.and_(
            items.c.place_key == incidents.c.place_key,
            items.c.content_sha256 == incidents.c.content_sha256,
        )
        joined = (
            incidents.join(verdicts, verdicts.c.id == incidents.c.verdict_id)
            .outerjoin(items, here)
            .outerjoin(shown, shown.c.place_key == incidents.c.place_key)
        )
        asked = (
            sa.select(incidents, items, verdicts.c.body, exposure, priority)
            .select_from(joined)
            .where(of_tenant(incidents, tenant))
        )
        return asked, exposure, priority


def not_kept(incident_id: str) -> NotKeptError:
    """What to raise for a finding this tenant does not have."""
    return NotKeptError(
        f"incident {visible(incident_id[:64])}: the ledger holds no such finding for this "
        "tenant; list the queue to see the ids"
    )


def incident_row(connection: Connection, incident_id: str, tenant: str | None) -> Mapping[Any, Any]:
    """A finding's own row, for a change to it.

    :raises NotKeptError: when this tenant has no such finding.
    """
    row = None
    if incident_id.isprintable():
        asked = sa.select(incidents).where(
            incidents.c.id == incident_id, of_tenant(incidents, tenant)
        )
        row = connection.execute(asked).mappings().first()
    if row is None:
        raise not_kept(incident_id)
    return row


def _conditions(wanted: QueueFilter) -> Iterable[ColumnElement[bool]]:
    at = incidents.c
    equal = {
        at.store: wanted.store,
        at.document_id: wanted.document_id,
        at.content_sha256: wanted.content_sha256,
        at.source: wanted.source,
        at.author: wanted.author,
        at.scan_id: wanted.scan_id,
        at.opinion: wanted.opinion,
        at.truth: wanted.truth,
        at.level: wanted.level,
        at.measure: wanted.measure,
        at.campaign: wanted.campaign,
    }
    yield from (column == str(value) for column, value in equal.items() if value is not None)
    if wanted.superseded is not None:
        yield at.superseded.is_(wanted.superseded)
    if wanted.reviewed is not None:
        yield at.opinion.is_not(None) if wanted.reviewed else at.opinion.is_(None)
    if wanted.known is not None:
        yield at.earlier_opinion.is_not(None) if wanted.known else at.earlier_opinion.is_(None)
    if wanted.decided_after is not None:
        yield at.decided_at >= wanted.decided_after
    if wanted.decided_before is not None:
        yield at.decided_at < wanted.decided_before
    if wanted.state is not None:
        state: ColumnElement[str] = sa.func.coalesce(items.c.state, str(Remediation.NONE))
        yield state == str(wanted.state)
    if wanted.evidence is not None:
        own = incident_evidences.c
        yield (
            sa.select(own.incident_id)
            .where(
                own.incident_id == at.id,
                own.name == wanted.evidence,
                own.value >= wanted.evidence_at_least,
            )
            .exists()
        )


def _kept(row: Mapping[Any, Any], exposure: Any, priority: Any) -> KeptIncident:
    item = None if row[items.c.place_key] is None else item_of(row)
    at = incidents.c
    incident = Incident(
        id=row[at.id],
        scan_id=row[at.scan_id],
        place=place_of(row, incidents),
        content_sha256=row[at.content_sha256],
        title=row[at.title],
        excerpt=row[at.excerpt],
        verdict=codec.verdict_of(row[verdicts.c.body]),
        standing=codec.standing_of(row[at.standing]),
        decision=PolicyDecision(
            Measure(row[at.measure]), row[at.rule], row[at.reason], row[at.policy_sha256]
        ),
        decided_at=row[at.decided_at],
        context=None if row[at.context] is None else codec.context_of(row[at.context]),
        campaign=row[at.campaign],
        embedding_version=row[at.embedding_version],
        index_version=row[at.index_version],
        truth=Truth(row[at.truth]),
        remediation=Remediation.NONE if item is None else item.state,
        opinion=None if row[at.opinion] is None else Opinion(row[at.opinion]),
        reviewer=row[at.reviewer],
        characters=row[at.characters],
    )
    earlier = row[at.earlier_opinion]
    return KeptIncident(
        incident=incident,
        version=row[at.version],
        item=item,
        exposure=int(row[exposure]),
        priority=float(row[priority]),
        earlier_opinion=None if earlier is None else Opinion(earlier),
        superseded=row[at.superseded],
    )
