"""Reach the database: addresses, drivers, waiting, and errors that name no secret."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine, make_url

from ragsieve._extras import require
from ragsieve.display import visible
from ragsieve.errors import ConfigError, StoreError

WRITES = "ragsieve_writes"
"""Execution option of a connection that will write; SQLite then locks at once."""

# Taken for the name of a file, it would stand on the disk and in messages with its password.
_KEYWORDS = re.compile(r"(?:\A|\s)(?:host|hostaddr|port|dbname|user|password)\s*=")
_POSTGRESQL = {"postgres", "postgresql", "postgresql+psycopg"}


def address_of(url: str) -> URL:
    """The address of a ledger; a bare file name is a SQLite file.

    :raises ConfigError: for an address that is none; the message repeats nothing of it.
    """
    if "://" not in url:
        if _KEYWORDS.search(url):
            raise ConfigError(
                "the ledger's address is a list of keywords; expected a file, sqlite:///file or "
                "postgresql://user:password@host:5432/database"
            )
        return URL.create("sqlite", database=url)
    try:
        address = make_url(url)
    except (exc.ArgumentError, ValueError):
        # Not chained: what could not be taken apart may hold a password.
        raise ConfigError(
            "the ledger's address cannot be read; expected sqlite:///file or "
            "postgresql://user:password@host:5432/database, special characters percent-encoded"
        ) from None
    if address.drivername in _POSTGRESQL:
        return address.set(drivername="postgresql+psycopg")
    if address.drivername in {"sqlite", "sqlite+pysqlite"}:
        if not address.database or address.database == ":memory:":
            raise ConfigError("a ledger in memory would be forgotten; give sqlite:///file")
        return address.set(drivername="sqlite")
    raise ConfigError(
        f"a ledger cannot lie in {visible(address.drivername)}; expected sqlite:///file or "
        "postgresql://…"
    )


def shown(address: URL) -> str:
    """The address as it may be shown: without password and options, which may hold one."""
    return visible(address.set(query={}).render_as_string(hide_password=True))


def connect(address: URL, *, busy_seconds: float) -> Engine:
    """An engine for ``address``; nothing is opened yet, save that a new SQLite file is made.

    :raises MissingExtraError: when PostgreSQL's driver is not installed.
    :raises StoreError: when a SQLite file can be neither found nor made.
    """
    if address.get_backend_name() == "sqlite":
        return _sqlite(Path(str(address.database)), busy_seconds)
    require("psycopg", extra="pgvector")
    given = address.query.get("options", "")
    options = " ".join([given] if isinstance(given, str) else given)
    arguments = {"options": f"-c lock_timeout={round(busy_seconds * 1000)} {options}".strip()}
    if "connect_timeout" not in address.query:
        arguments["connect_timeout"] = str(max(1, round(busy_seconds)))
    return sa.create_engine(
        address,
        hide_parameters=True,
        pool_pre_ping=True,
        connect_args=arguments,
        isolation_level="READ COMMITTED",
    )


def _sqlite(path: Path, busy_seconds: float) -> Engine:
    path = path.absolute()
    try:
        # The text of flagged documents is nobody else's business.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(
            f"{path}: the ledger cannot be opened ({error.strerror}); "
            "expected a file in an existing, writable directory"
        ) from error

    def opened() -> sqlite3.Connection:
        # A file that has gone is an error, not a new and empty ledger.
        return sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )

    engine = sa.create_engine(
        "sqlite://", creator=opened, hide_parameters=True, poolclass=sa.QueuePool
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, record: sa.pool.ConnectionPoolEntry) -> None:
        _write_ahead(connection, busy_seconds)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def same_file(
        connection: sqlite3.Connection, record: sa.pool.ConnectionPoolEntry, proxy: object
    ) -> None:
        del connection, proxy
        # A file that was removed or replaced would still take writes, which nobody would see.
        if record.info.get("file") != _identity(path):
            raise exc.DisconnectionError("the file is another one")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _write_ahead(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # SQLite does not wait for a lock here, whatever its timeout is.
    until = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
