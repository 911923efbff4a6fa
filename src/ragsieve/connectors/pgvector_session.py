"""A connection to PostgreSQL that is made when needed, and anew after it was lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ragsieve._extras import require
from ragsieve.display import visible
from ragsieve.errors import StoreError

CONNECT_SECONDS = 10
_ATTEMPTS = 3
_CAUSE_CHARACTERS = 300
# How values are written as text must not depend on how the server is set up.
_SETTINGS = (
    "SELECT pg_catalog.set_config('TimeZone', 'UTC', true), "
    "pg_catalog.set_config('DateStyle', 'ISO, YMD', true), "
    "pg_catalog.set_config('IntervalStyle', 'postgres', true), "
    "pg_catalog.set_config('bytea_output', 'hex', true), "
    "pg_catalog.set_config('extra_float_digits', '1', true)"
)
T = TypeVar("T")


class Session:
    """Transactions on one server, one at a time; safe to share between threads.

    :param connect: gives a new connection of psycopg.
    :param address: for errors.
    :param secrets: words that no error may show.
    """

    def __init__(
        self, connect: Callable[[], Any], *, address: str, secrets: tuple[str, ...] = ()
    ) -> None:
        self._psycopg = require("psycopg", extra="pgvector")
        self._vectors = require("pgvector.psycopg", extra="pgvector")
        self._connect, self._address = connect, address
        self._secrets = tuple(secret for secret in secrets if secret)
        self._lock = threading.RLock()
        self._connection: Any = None

    def run(self, doing: str, action: Callable[[Any], T]) -> T:
        """What ``action`` returns, done in one transaction or not at all.

        It is called again when another writer was in the way.

        :param doing: for errors.
        :raises StoreError: when the server fails. A connection that was lost is made anew by
            the next call.
        """
        with self._lock, self._failing(doing):
            for _ in range(_ATTEMPTS - 1):
                with contextlib.suppress(self._psycopg.errors.TransactionRollback):
                    return self._once(action)
            return self._once(action)

    @contextlib.contextmanager
    def reading(self, doing: str, name: str, declare: Callable[[Any, Any], None]) -> Iterator[Any]:
        """A named cursor, on a connection of its own, over what it found at one moment.

        The server holds the result, and no lock on the table: a reader may change rows, or add
        columns, between two pages.

        :param declare: given the connection and the cursor, executes the query.
        :raises StoreError: like `run`.
        """
        with (
            self._failing(doing),
            contextlib.closing(self._opened()) as connection,
            connection.cursor(name=name, withhold=True) as cursor,
        ):
            with connection.transaction():
                connection.execute(_SETTINGS)
                declare(connection, cursor)
            yield cursor

    def close(self) -> None:
        """Let go of the connection; a later call makes a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _once(self, action: Callable[[Any], T]) -> T:
        if self._connection is None or self._connection.closed:
            self._connection = self._opened()
        try:
            with self._connection.transaction():
                self._connection.execute(_SETTINGS)
                return action(self._connection)
        except self._psycopg.OperationalError:
            if self._connection.broken:
                self.close()
            raise

    def _opened(self) -> Any:
        connection = self._connect()
        try:
            connection.autocommit = True
            # A pooler between us and the server may not keep prepared statements.
            connection.prepare_threshold = None
            self._vectors.register_vector(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._psycopg.errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{self._address}: {doing} is not allowed ({self._shown(error)}); "
                "docs/stores-more.md lists the privileges"
            ) from error
        except self._psycopg.Error as error:
            raise StoreError(f"{self._address}: {doing} failed ({self._shown(error)})") from error
        except UnicodeError as error:
            raise StoreError(
                f"{self._address}: {doing} failed: the server keeps UTF-8 only, found a lone "
                "surrogate; re-encode or drop that row"
            ) from error

    def _shown(self, error: Exception) -> str:
        text = " ".join(str(error).split()) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return visible(text, limit=_CAUSE_CHARACTERS)
