"""What every part of the ledger works with: a database, a name to sign with, a clock."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.schema import Table

from ragsieve.ledger.chain import append
from ragsieve.ledger.database import Database

CHUNK = 500
"""Values in one statement; SQLite takes 32,766, PostgreSQL twice as many."""

One = TypeVar("One")


@dataclasses.dataclass(frozen=True, slots=True)
class Pen:
    """A transaction that writes, in somebody's name, at one time."""

    connection: Connection
    actor: str
    at: datetime.datetime

    def note(
        self, action: str, subject: str, payload: Mapping[str, Any], *, tenant: str | None
    ) -> None:
        """Add to the audit chain; it stands or falls with the transaction."""
        append(
            self.connection,
            at=self.at,
            actor=self.actor,
            action=action,
            subject=subject,
            payload=payload,
            tenant=tenant,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Desk:
    """Where a part of the ledger reads and writes."""

    database: Database
    actor: str
    clock: Callable[[], datetime.datetime]

    def reading(self) -> contextlib.AbstractContextManager[Connection]:
        """A transaction that sees one state and changes nothing."""
        return self.database.reading()

    @contextlib.contextmanager
    def writing(self, *, counters: bool = False) -> Iterator[Pen]:
        """A transaction that is written whole or not at all.

        :param counters: one without an audit entry.
        """
        with self.database.writing(counters=counters) as connection:
            yield Pen(connection, self.actor, self.now())

    def now(self) -> datetime.datetime:
        """The time in UTC."""
        return self.clock().astimezone(datetime.UTC)


def chunks(values: Iterable[One]) -> Iterator[tuple[One, ...]]:
    """``values`` in groups that fit into one statement."""
    remaining = iter(values)
    while group := tuple(itertools.islice(remaining, CHUNK)):
        yield group


def inserting(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insertion that can say what happens to a row that is there already."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
