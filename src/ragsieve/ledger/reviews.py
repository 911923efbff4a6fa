"""Reviews and truth checks: opinions of people, only ever added to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ragsieve.cases import Opinion, Truth
from ragsieve.display import visible
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.faults import StaleStateError
from ragsieve.ledger.incidents import incident_row
from ragsieve.ledger.pens import Desk, Pen
from ragsieve.ledger.records import Review, TruthCheck
from ragsieve.ledger.schema import incidents, reviews, truth_checks


@dataclasses.dataclass(frozen=True, slots=True)
class Reviews:
    """What reviewers said of findings."""

    desk: Desk

    def add(
        self,
        incident_id: str,
        opinion: Opinion,
        *,
        reason: str,
        expected_version: int | None = None,
        tenant: str | None = None,
        reviewer: str | None = None,
    ) -> Review:
        """Add an opinion on one finding.

        :param expected_version: of the `KeptIncident` the reviewer saw; None does not compare.
        :param reviewer: whose opinion it is; the actor's when None.
        :raises NotKeptError: when this tenant has no such finding.
        :raises StaleStateError: when somebody reviewed or checked it since.
        """
        return self.add_many(
            {incident_id: expected_version},
            opinion,
            reason=reason,
            tenant=tenant,
            reviewer=reviewer,
        )[0]

    def add_many(
        self,
        expected_versions: Mapping[str, int | None],
        opinion: Opinion,
        *,
        reason: str,
        tenant: str | None = None,
        reviewer: str | None = None,
    ) -> tuple[Review, ...]:
        """Add one opinion on several findings, such as a campaign: on all of them or on none.

        :param expected_versions: by id of the finding.
        :raises NotKeptError: when this tenant has no such finding.
        :raises StaleStateError: when somebody reviewed or checked one of them since.
        """
        made = []
        with self.desk.writing() as pen:
            name = reviewer or pen.actor
            for incident_id, version in expected_versions.items():
                change = {"opinion": str(opinion), "reviewer": name}
                content = _advance(pen, incident_id, tenant, version, change)
                review = Review(incident_id, content, name, opinion, reason, pen.at)
                pen.connection.execute(
                    reviews.insert().values(
                        tenant=tenant, **dataclasses.asdict(review) | {"opinion": str(opinion)}
                    )
                )
                payload = {
                    "opinion": str(opinion),
                    "reviewer": name,
                    "reason": reason,
                    "content_sha256": content,
                }
                pen.note("review.add", incident_id, payload, tenant=tenant)
                made.append(review)
        return tuple(made)

    def of(self, incident_id: str, *, tenant: str | None = None) -> tuple[Review, ...]:
        """All opinions on one finding, oldest first."""
        asked = sa.select(reviews).where(
            of_tenant(reviews, tenant), reviews.c.incident_id == incident_id
        )
        with self.desk.reading() as connection:
            rows = connection.execute(asked.order_by(reviews.c.id)).mappings()
            return tuple(review_of(row) for row in rows)


@dataclasses.dataclass(frozen=True, slots=True)
class TruthChecks:
    """What people found out about the truth of flagged contents."""

    desk: Desk

    def add(
        self,
        incident_id: str,
        truth: Truth,
        *,
        reason: str,
        expected_version: int | None = None,
        tenant: str | None = None,
    ) -> TruthCheck:
        """Write what was found out, and by what means.

        :param expected_version: of the `KeptIncident` that was looked at; None does not compare.
        :raises NotKeptError: when this tenant has no such finding.
        :raises StaleStateError: when somebody reviewed or checked it since.
        """
        with self.desk.writing() as pen:
            content = _advance(pen, incident_id, tenant, expected_version, {"truth": str(truth)})
            check = TruthCheck(incident_id, content, pen.actor, truth, reason, pen.at)
            pen.connection.execute(
                truth_checks.insert().values(
                    tenant=tenant, **dataclasses.asdict(check) | {"truth": str(truth)}
                )
            )
            payload = {"truth": str(truth), "reason": reason, "content_sha256": content}
            pen.note("truth.add", incident_id, payload, tenant=tenant)
            return check

    def of(self, incident_id: str, *, tenant: str | None = None) -> tuple[TruthCheck, ...]:
        """All checks of one finding, oldest first."""
        asked = sa.select(truth_checks).where(
            of_tenant(truth_checks, tenant), truth_checks.c.incident_id == incident_id
        )
        with self.desk.reading() as connection:
            rows = connection.execute(asked.order_by(truth_checks.c.id)).mappings()
            return tuple(truth_check_of(row) for row in rows)


def review_of(row: Mapping[Any, Any]) -> Review:
    """A review as a record."""
    at = reviews.c
    return Review(
        incident_id=row[at.incident_id],
        content_sha256=row[at.content_sha256],
        reviewer=row[at.reviewer],
        opinion=Opinion(row[at.opinion]),
        reason=row[at.reason],
        at=row[at.at],
    )


def truth_check_of(row: Mapping[Any, Any]) -> TruthCheck:
    """A truth check as a record."""
    at = truth_checks.c
    return TruthCheck(
        incident_id=row[at.incident_id],
        content_sha256=row[at.content_sha256],
        checker=row[at.checker],
        truth=Truth(row[at.truth]),
        reason=row[at.reason],
        at=row[at.at],
    )


def _advance(
    pen: Pen,
    incident_id: str,
    tenant: str | None,
    expected_version: int | None,
    change: Mapping[str, object],
) -> str:
    row = incident_row(pen.connection, incident_id, tenant)
    version = row[incidents.c.version]
    if expected_version is not None and expected_version != version:
        last = row[incidents.c.reviewer]
        said = f"; {visible(last)} said {row[incidents.c.opinion]}" if last else ""
        raise StaleStateError(
            f"incident {incident_id} was changed since it was read{said}; nothing was written; "
            "read it again and decide anew"
        )
    pen.connection.execute(
        incidents.update()
        .where(incidents.c.id == incident_id)
        .values(version=version + 1, **change)
    )
    content: str = row[incidents.c.content_sha256]
    return content
