"""One database: transactions for reading and writing, all failures as `StoreError`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from ragsieve.errors import RagsieveError, StoreError
from ragsieve.ledger import connecting
from ragsieve.ledger.faults import StaleStateError

# Writers of one ledger stand in line, so that the audit chain has one end.
_WRITERS = 0x7261_6773
_COUNTERS = 0x7261_6774


class Database:
    """A database and how it is spoken to.

    :param url: see `ragsieve.ledger.open_ledger`.
    :param busy_seconds: how long to wait for another writer.
    """

    def __init__(self, url: str, *, busy_seconds: float) -> None:
        address = connecting.address_of(url)
        self.address = connecting.shown(address)
        self.busy_seconds = busy_seconds
        self.engine = connecting.connect(address, busy_seconds=busy_seconds)
        self._writer = self.engine.execution_options(**{connecting.WRITES: True})
        self._reader = self.engine
        if self.engine.dialect.name == "postgresql":
            self._reader = self.engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    def __repr__(self) -> str:
        return f"Database({self.address!r})"

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and changes nothing.

        :raises StoreError: when the database cannot be read.
        """
        with self._explained(), self._reader.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, *, counters: bool = False) -> Iterator[Connection]:
        """A transaction that is written whole or not at all, one at a time.

        :param counters: one that writes no audit entry; it does not wait for those that do.
        :raises StoreError: when the database cannot be written; nothing was then.
        """
        with self._explained(), self._writer.begin() as connection:
            if connection.dialect.name == "postgresql":
                key = _COUNTERS if counters else _WRITERS
                # Taken before any row: whoever waits here holds nothing others wait for.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
            yield connection

    def close(self) -> None:
        """Let go of all connections; calling it twice is harmless."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError as error:
            raise StaleStateError(
                f"{self.address}: the change contradicts what is kept ({_first_line(error)}); "
                "nothing was written; read again and decide anew"
            ) from error
        except exc.SQLAlchemyError as error:
            refused = getattr(error, "orig", None)
            if isinstance(refused, RagsieveError):
                # A column's type refused a value; that is the caller's to mend.
                raise refused from None
            raise StoreError(f"{self.address}: {self._advice(error)}") from error

    def _advice(self, error: exc.SQLAlchemyError) -> str:
        found = _first_line(error)
        told = found.lower()
        if "locked" in told or "lock timeout" in told:
            return (
                f"another process has been writing the ledger for {self.busy_seconds:g} s "
                f"({found}); nothing was written; try again when it has finished"
            )
        if "full" in told or "no space" in told:
            return f"no room is left ({found}); nothing was written; make room and repeat"
        if "no such table" in told or "does not exist" in told or "not a database" in told:
            return f"this is not a ledger ({found}); give another address"
        if "malformed" in told or "corrupt" in told:
            return f"the ledger is damaged ({found}); restore it from a backup"
        return (
            f"the ledger cannot be reached or used ({found}); nothing was written; check that "
            "its database runs, that the address is right and that you may write there"
        )


def _first_line(error: BaseException) -> str:
    told = str(getattr(error, "orig", None) or error).strip()
    return told.splitlines()[0] if told else type(error).__name__
