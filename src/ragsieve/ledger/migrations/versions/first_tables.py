"""The first tables, and the triggers that keep what is only ever added to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
depends_on = None

_KEPT = ("ledger_audit", "ledger_reviews", "ledger_truth_checks", "ledger_changes")
_REFUSAL = "rows of this table are only ever added"


def upgrade() -> None:
    """Make all tables."""
    _findings()
    _people_and_states()
    _counters_and_audit()
    for table in _KEPT:
        _refuse_changes(table)


def _refuse_changes(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            )
        return
    op.execute(
        "CREATE OR REPLACE FUNCTION ledger_only_added() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_added()"
    )


def _number() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _findings() -> None:
    op.create_table(
        "ledger_documents",
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("characters", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("content_sha256", name=op.f("pk_ledger_documents")),
    )
    op.create_table(
        "ledger_scans",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("config_sha256", sa.String(length=64), nullable=True),
        sa.Column("policy_sha256", sa.String(length=64), nullable=True),
        sa.Column("embedding_version", sa.Text(), nullable=True),
        sa.Column("index_version", sa.Text(), nullable=True),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("opening_note", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.Column("flagged", sa.BigInteger(), nullable=False),
        sa.Column("undecided", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_scans")),
    )
    op.create_index(
        op.f("ix_ledger_scans_tenant_started"), "ledger_scans", ["tenant", "started"], unique=False
    )
    op.create_table(
        "ledger_placements",
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("first_scan", sa.String(length=200), nullable=False),
        sa.Column("last_scan", sa.String(length=200), nullable=False),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["content_sha256"],
            ["ledger_documents.content_sha256"],
            name=op.f("fk_ledger_placements_content_sha256"),
        ),
        sa.ForeignKeyConstraint(
            ["first_scan"], ["ledger_scans.id"], name=op.f("fk_ledger_placements_first_scan")
        ),
        sa.ForeignKeyConstraint(
            ["last_scan"], ["ledger_scans.id"], name=op.f("fk_ledger_placements_last_scan")
        ),
        sa.PrimaryKeyConstraint("place_key", "content_sha256", name=op.f("pk_ledger_placements")),
    )
    op.create_index(
        op.f("ix_ledger_placements_content_sha256"),
        "ledger_placements",
        ["content_sha256"],
        unique=False,
    )
    op.create_table(
        "ledger_verdicts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("scan_id", sa.String(length=200), nullable=False),
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("decision", sa.String(length=32), nullable=False),
        sa.Column("level", sa.String(length=32), nullable=False),
        sa.Column("score", sa.Float(precision=53), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scan_id"], ["ledger_scans.id"], name=op.f("fk_ledger_verdicts_scan_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_verdicts")),
    )
    op.create_index(
        op.f("ix_ledger_verdicts_content_sha256"),
        "ledger_verdicts",
        ["content_sha256"],
        unique=False,
    )
    op.create_index(
        op.f("ix_ledger_verdicts_place_key"), "ledger_verdicts", ["place_key"], unique=False
    )
    op.create_index(
        op.f("ix_ledger_verdicts_scan_id"), "ledger_verdicts", ["scan_id"], unique=False
    )
    op.create_table(
        "ledger_incidents",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("scan_id", sa.String(length=200), nullable=False),
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("verdict_id", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("excerpt", sa.Text(), nullable=False),
        sa.Column("level", sa.String(length=32), nullable=False),
        sa.Column("risk", sa.Float(precision=53), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("measure", sa.String(length=32), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("policy_sha256", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("context", sa.Text(), nullable=True),
        sa.Column("campaign", sa.Text(), nullable=True),
        sa.Column("embedding_version", sa.Text(), nullable=True),
        sa.Column("index_version", sa.Text(), nullable=True),
        sa.Column("characters", sa.BigInteger(), nullable=True),
        sa.Column("truth", sa.String(length=32), nullable=False),
        sa.Column("opinion", sa.String(length=32), nullable=True),
        sa.Column("reviewer", sa.Text(), nullable=True),
        sa.Column("earlier_opinion", sa.String(length=32), nullable=True),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scan_id"], ["ledger_scans.id"], name=op.f("fk_ledger_incidents_scan_id")
        ),
        sa.ForeignKeyConstraint(
            ["verdict_id"], ["ledger_verdicts.id"], name=op.f("fk_ledger_incidents_verdict_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_incidents")),
    )
    op.create_index(
        op.f("ix_ledger_incidents_content_sha256"),
        "ledger_incidents",
        ["content_sha256"],
        unique=False,
    )
    op.create_index(
        op.f("ix_ledger_incidents_place_key"), "ledger_incidents", ["place_key"], unique=False
    )
    op.create_index(
        op.f("ix_ledger_incidents_scan_id"), "ledger_incidents", ["scan_id"], unique=False
    )
    op.create_index(
        op.f("ix_ledger_incidents_tenant_superseded_decided_at"),
        "ledger_incidents",
        ["tenant", "superseded", "decided_at"],
        unique=False,
    )
    op.create_table(
        "ledger_incident_evidences",
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["ledger_incidents.id"],
            name=op.f("fk_ledger_incident_evidences_incident_id"),
        ),
        sa.PrimaryKeyConstraint("incident_id", "name", name=op.f("pk_ledger_incident_evidences")),
    )
    op.create_index(
        op.f("ix_ledger_incident_evidences_name"),
        "ledger_incident_evidences",
        ["name"],
        unique=False,
    )


def _people_and_states() -> None:
    op.create_table(
        "ledger_items",
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("before", sa.String(length=32), nullable=False),
        sa.Column("scan_id", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hidden_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("prior", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["scan_id"], ["ledger_scans.id"], name=op.f("fk_ledger_items_scan_id")
        ),
        sa.PrimaryKeyConstraint("place_key", name=op.f("pk_ledger_items")),
    )
    op.create_index(
        op.f("ix_ledger_items_content_sha256"), "ledger_items", ["content_sha256"], unique=False
    )
    op.create_index(op.f("ix_ledger_items_scan_id"), "ledger_items", ["scan_id"], unique=False)
    op.create_index(
        op.f("ix_ledger_items_tenant_store_state"),
        "ledger_items",
        ["tenant", "store", "state"],
        unique=False,
    )
    op.create_table(
        "ledger_changes",
        sa.Column("id", _number(), autoincrement=True, nullable=False),
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("old", sa.String(length=32), nullable=False),
        sa.Column("new", sa.String(length=32), nullable=False),
        sa.Column("scan_id", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["scan_id"], ["ledger_scans.id"], name=op.f("fk_ledger_changes_scan_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_changes")),
    )
    op.create_index(
        op.f("ix_ledger_changes_content_sha256"), "ledger_changes", ["content_sha256"], unique=False
    )
    op.create_index(
        op.f("ix_ledger_changes_place_key"), "ledger_changes", ["place_key"], unique=False
    )
    op.create_index(op.f("ix_ledger_changes_scan_id"), "ledger_changes", ["scan_id"], unique=False)
    op.create_table(
        "ledger_reviews",
        sa.Column("id", _number(), autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("opinion", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["ledger_incidents.id"], name=op.f("fk_ledger_reviews_incident_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_reviews")),
    )
    op.create_index(
        op.f("ix_ledger_reviews_content_sha256"), "ledger_reviews", ["content_sha256"], unique=False
    )
    op.create_index(
        op.f("ix_ledger_reviews_incident_id"), "ledger_reviews", ["incident_id"], unique=False
    )
    op.create_table(
        "ledger_truth_checks",
        sa.Column("id", _number(), autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("checker", sa.Text(), nullable=False),
        sa.Column("truth", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["ledger_incidents.id"],
            name=op.f("fk_ledger_truth_checks_incident_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_truth_checks")),
    )
    op.create_index(
        op.f("ix_ledger_truth_checks_content_sha256"),
        "ledger_truth_checks",
        ["content_sha256"],
        unique=False,
    )
    op.create_index(
        op.f("ix_ledger_truth_checks_incident_id"),
        "ledger_truth_checks",
        ["incident_id"],
        unique=False,
    )


def _counters_and_audit() -> None:
    op.create_table(
        "ledger_exposures",
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("retrievals", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("place_key", "day", name=op.f("pk_ledger_exposures")),
    )
    op.create_table(
        "ledger_retrievals",
        sa.Column("id", _number(), autoincrement=True, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_retrievals")),
    )
    op.create_index(
        op.f("ix_ledger_retrievals_tenant_store_id"),
        "ledger_retrievals",
        ["tenant", "store", "id"],
        unique=False,
    )
    op.create_table(
        "ledger_retrieved",
        sa.Column("retrieval_id", _number(), nullable=False),
        sa.Column("place_key", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["retrieval_id"],
            ["ledger_retrievals.id"],
            name=op.f("fk_ledger_retrieved_retrieval_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("retrieval_id", "place_key", name=op.f("pk_ledger_retrieved")),
    )
    op.create_index(
        op.f("ix_ledger_retrieved_place_key"), "ledger_retrieved", ["place_key"], unique=False
    )
    op.create_table(
        "ledger_audit",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("previous_sha256", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ledger_audit")),
    )
    op.create_index(
        op.f("ix_ledger_audit_tenant_seq"), "ledger_audit", ["tenant", "seq"], unique=False
    )
