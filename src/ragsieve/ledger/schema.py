"""The tables as they are now; how they came about is in `ragsieve.ledger.migrations`."""

from __future__ import annotations

import sqlalchemy as sa

from ragsieve.ledger.columns import Escaped, Tenant, UtcDateTime

METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# PostgreSQL refuses long index entries, so what a document may name freely is found by hash.
_KEY = sa.String(64)
_NAME = sa.String(32)


def _tenant() -> sa.Column[str]:
    return sa.Column("tenant", Tenant, nullable=False)


def _place() -> list[sa.Column[str]]:
    return [
        sa.Column("place_key", _KEY, nullable=False, index=True),
        _tenant(),
        sa.Column("store", Escaped, nullable=False),
        sa.Column("document_id", Escaped, nullable=False),
        sa.Column("content_sha256", _KEY, nullable=False, index=True),
    ]


def _scan_id(*, nullable: bool = False) -> sa.Column[str]:
    scan = sa.ForeignKey("ledger_scans.id")
    return sa.Column("scan_id", sa.String(200), scan, nullable=nullable, index=True)


def _number() -> sa.Column[int]:
    integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", integer, primary_key=True, autoincrement=True)


documents = sa.Table(
    "ledger_documents",
    METADATA,
    sa.Column("content_sha256", _KEY, primary_key=True),
    sa.Column("first_seen", UtcDateTime, nullable=False),
    sa.Column("characters", sa.BigInteger),
)

scans = sa.Table(
    "ledger_scans",
    METADATA,
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("kind", _NAME, nullable=False),
    _tenant(),
    sa.Column("store", Escaped, nullable=False),
    sa.Column("profile", Escaped, nullable=False),
    sa.Column("fingerprint", Escaped, nullable=False),
    sa.Column("config_sha256", _KEY),
    sa.Column("policy_sha256", _KEY),
    sa.Column("embedding_version", Escaped),
    sa.Column("index_version", Escaped),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("opening_note", Escaped, nullable=False),
    sa.Column("state", _NAME, nullable=False),
    sa.Column("started", UtcDateTime, nullable=False),
    sa.Column("finished", UtcDateTime),
    sa.Column("documents", sa.BigInteger, nullable=False),
    sa.Column("flagged", sa.BigInteger, nullable=False),
    sa.Column("undecided", sa.BigInteger, nullable=False),
    sa.Column("actor", Escaped, nullable=False),
    sa.Column("note", Escaped, nullable=False),
    sa.Index(None, "tenant", "started"),
)

placements = sa.Table(
    "ledger_placements",
    METADATA,
    sa.Column("place_key", _KEY, primary_key=True),
    sa.Column(
        "content_sha256",
        _KEY,
        sa.ForeignKey("ledger_documents.content_sha256"),
        primary_key=True,
        index=True,
    ),
    _tenant(),
    sa.Column("store", Escaped, nullable=False),
    sa.Column("document_id", Escaped, nullable=False),
    sa.Column("first_scan", sa.String(200), sa.ForeignKey("ledger_scans.id"), nullable=False),
    sa.Column("last_scan", sa.String(200), sa.ForeignKey("ledger_scans.id"), nullable=False),
    sa.Column("first_seen", UtcDateTime, nullable=False),
    sa.Column("last_seen", UtcDateTime, nullable=False),
)

verdicts = sa.Table(
    "ledger_verdicts",
    METADATA,
    # Of scan, place and content, so that a scan which is taken up again writes nothing twice.
    sa.Column("id", _KEY, primary_key=True),
    _scan_id(),
    *_place(),
    sa.Column("decision", _NAME, nullable=False),
    sa.Column("level", _NAME, nullable=False),
    sa.Column("score", sa.Float(53), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("body", Escaped, nullable=False),
)

incidents = sa.Table(
    "ledger_incidents",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    _scan_id(),
    *_place(),
    sa.Column("verdict_id", _KEY, sa.ForeignKey("ledger_verdicts.id"), nullable=False),
    sa.Column("title", Escaped, nullable=False),
    sa.Column("excerpt", Escaped, nullable=False),
    sa.Column("level", _NAME, nullable=False),
    sa.Column("risk", sa.Float(53), nullable=False),
    sa.Column("source", Escaped),
    sa.Column("author", Escaped),
    sa.Column("standing", Escaped, nullable=False),
    sa.Column("measure", _NAME, nullable=False),
    sa.Column("rule", Escaped, nullable=False),
    sa.Column("reason", Escaped, nullable=False),
    sa.Column("policy_sha256", Escaped, nullable=False),
    sa.Column("decided_at", UtcDateTime, nullable=False),
    sa.Column("context", Escaped),
    sa.Column("campaign", Escaped),
    sa.Column("embedding_version", Escaped),
    sa.Column("index_version", Escaped),
    sa.Column("characters", sa.BigInteger),
    sa.Column("truth", _NAME, nullable=False),
    sa.Column("opinion", _NAME),
    sa.Column("reviewer", Escaped),
    sa.Column("earlier_opinion", _NAME),
    sa.Column("superseded", sa.Boolean, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Index(None, "tenant", "superseded", "decided_at"),
)

incident_evidences = sa.Table(
    "ledger_incident_evidences",
    METADATA,
    sa.Column("incident_id", sa.String(64), sa.ForeignKey("ledger_incidents.id"), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True, index=True),
    sa.Column("value", sa.Float(53), nullable=False),
)

items = sa.Table(
    "ledger_items",
    METADATA,
    sa.Column("place_key", _KEY, primary_key=True),
    _tenant(),
    sa.Column("store", Escaped, nullable=False),
    sa.Column("document_id", Escaped, nullable=False),
    sa.Column("content_sha256", _KEY, nullable=False, index=True),
    sa.Column("state", _NAME, nullable=False),
    sa.Column("before", _NAME, nullable=False),
    _scan_id(),
    sa.Column("reason", Escaped, nullable=False),
    sa.Column("bundle", Escaped),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("hidden_at", UtcDateTime),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("changed_by", Escaped, nullable=False),
    # What an abandoned intent returns to besides the state, when there was an item before.
    sa.Column("prior", Escaped),
    sa.Index(None, "tenant", "store", "state"),
)

changes = sa.Table(
    "ledger_changes",
    METADATA,
    _number(),
    *_place(),
    sa.Column("old", _NAME, nullable=False),
    sa.Column("new", _NAME, nullable=False),
    _scan_id(),
    sa.Column("reason", Escaped, nullable=False),
    sa.Column("actor", Escaped, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

reviews = sa.Table(
    "ledger_reviews",
    METADATA,
    _number(),
    sa.Column(
        "incident_id",
        sa.String(64),
        sa.ForeignKey("ledger_incidents.id"),
        nullable=False,
        index=True,
    ),
    _tenant(),
    sa.Column("content_sha256", _KEY, nullable=False, index=True),
    sa.Column("reviewer", Escaped, nullable=False),
    sa.Column("opinion", _NAME, nullable=False),
    sa.Column("reason", Escaped, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

truth_checks = sa.Table(
    "ledger_truth_checks",
    METADATA,
    _number(),
    sa.Column(
        "incident_id",
        sa.String(64),
        sa.ForeignKey("ledger_incidents.id"),
        nullable=False,
        index=True,
    ),
    _tenant(),
    sa.Column("content_sha256", _KEY, nullable=False, index=True),
    sa.Column("checker", Escaped, nullable=False),
    sa.Column("truth", _NAME, nullable=False),
    sa.Column("reason", Escaped, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

exposures = sa.Table(
    "ledger_exposures",
    METADATA,
    sa.Column("place_key", _KEY, primary_key=True),
    sa.Column("day", sa.Date, primary_key=True),
    _tenant(),
    sa.Column("retrievals", sa.BigInteger, nullable=False),
)

retrievals = sa.Table(
    "ledger_retrievals",
    METADATA,
    _number(),
    _tenant(),
    sa.Column("store", Escaped, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("context", Escaped, nullable=False),
    sa.Index(None, "tenant", "store", "id"),
)

retrieved = sa.Table(
    "ledger_retrieved",
    METADATA,
    sa.Column(
        "retrieval_id",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        sa.ForeignKey("ledger_retrievals.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("place_key", _KEY, primary_key=True, index=True),
)

audit = sa.Table(
    "ledger_audit",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    _tenant(),
    # As it was hashed: an edited time must be readable to be found.
    sa.Column("at", Escaped, nullable=False),
    sa.Column("actor", Escaped, nullable=False),
    sa.Column("action", Escaped, nullable=False),
    sa.Column("subject", Escaped, nullable=False),
    sa.Column("payload", Escaped, nullable=False),
    sa.Column("previous_sha256", _KEY, nullable=False),
    sa.Column("sha256", _KEY, nullable=False),
    sa.Index(None, "tenant", "seq"),
)

APPEND_ONLY = (audit, reviews, truth_checks, changes)
"""Tables whose rows the database itself refuses to change or to remove."""
