"""Make the tables, or bring them up to date, one process at a time."""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from ragsieve.errors import StoreError
from ragsieve.ledger.database import Database

VERSION_TABLE = "ledger_schema"

# Alembic's operations stand in one global name; threads take turns.
_TURN = threading.Lock()


def upgrade(database: Database) -> None:
    """Apply all steps that ``database`` has not seen, together or not at all.

    :raises StoreError: when a newer version of ragsieve made it, or it cannot be written.
    """
    scripts = ScriptDirectory(str(Path(__file__).parent / "migrations"))
    newest = scripts.get_current_head()
    with database.reading() as connection:
        if revision_of(connection) == newest:
            return
    with _TURN, database.writing() as connection:
        # Another process may have done it while this one waited.
        current = revision_of(connection)
        known = {script.revision for script in scripts.walk_revisions()}
        if current is not None and current not in known:
            raise StoreError(
                f"{database.address}: the ledger's tables are of version {current!r}, which this "
                f"ragsieve does not know (it knows up to {newest!r}); install a newer ragsieve"
            )
        context = _context(connection)
        steps = [
            script
            for script in scripts.iterate_revisions("head", current or "base")
            if script.revision != current
        ]
        with Operations.context(context):
            for script in reversed(steps):
                script.module.upgrade()
                context.stamp(scripts, script.revision)


def revision_of(connection: Connection) -> str | None:
    """The version of the tables; None in an empty database."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return _context(connection).get_current_revision()


def _context(connection: Connection) -> MigrationContext:
    # An outer transaction holds all steps, so Alembic may open none of its own.
    return MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE, "transactional_ddl": True}
    )
