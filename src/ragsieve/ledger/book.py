"""The ledger: one object with a part for each purpose."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from types import TracebackType

from ragsieve.errors import InputError
from ragsieve.ledger.audit import Audit
from ragsieve.ledger.database import Database
from ragsieve.ledger.exposing import Exposures
from ragsieve.ledger.incidents import Incidents
from ragsieve.ledger.lookback import history, preview
from ragsieve.ledger.pens import Desk
from ragsieve.ledger.reports import History, RollbackPreview
from ragsieve.ledger.reviews import Reviews, TruthChecks
from ragsieve.ledger.scans import Scans
from ragsieve.ledger.states import States
from ragsieve.ledger.upgrading import upgrade


class Ledger:
    """What was found, decided, done and undone. Safe to share between threads.

    Every read takes a tenant, or a place that has one, and returns nothing of another's; None is
    the single owner, not everybody. Every change is written with its audit entry or not at all.

    :ivar scans: `Scans`; :ivar incidents: `Incidents`; :ivar states: `States`;
    :ivar reviews: `Reviews`; :ivar truth: `TruthChecks`; :ivar exposures: `Exposures`;
    :ivar audit: `Audit`.
    """

    def __init__(
        self, database: Database, actor: str, clock: Callable[[], datetime.datetime]
    ) -> None:
        if not actor.strip():
            raise InputError("the ledger needs an actor: in whose name are changes written?")
        self._desk = Desk(database, actor, clock)
        self.scans = Scans(self._desk)
        self.incidents = Incidents(self._desk)
        self.states = States(self._desk)
        self.reviews = Reviews(self._desk)
        self.truth = TruthChecks(self._desk)
        self.exposures = Exposures(self._desk)
        self.audit = Audit(self._desk)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        actor: str,
        clock: Callable[[], datetime.datetime] | None = None,
        busy_seconds: float = 30.0,
    ) -> Ledger:
        """See `ragsieve.ledger.open_ledger`."""
        database = Database(url, busy_seconds=busy_seconds)
        try:
            ledger = cls(database, actor, clock or _now)
            upgrade(database)
        except BaseException:
            database.close()
            raise
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({self.address!r}, actor={self.actor!r})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The database, without secrets."""
        return self._desk.database.address

    @property
    def actor(self) -> str:
        """In whose name changes are written."""
        return self._desk.actor

    def now(self) -> datetime.datetime:
        """The time in UTC, by the clock that stands in every entry."""
        return self._desk.now()

    def acting_as(self, actor: str) -> Ledger:
        """The same ledger in somebody else's name; it shares the connections of this one."""
        return Ledger(self._desk.database, actor, self._desk.clock)

    def history(self, content_sha256: str, *, tenant: str | None = None) -> History:
        """Earlier verdicts, reviews, checks and changes of a content, whatever its id or store."""
        with self._desk.reading() as connection:
            return history(connection, content_sha256, tenant)

    def rollback_preview(self, scan_id: str, *, tenant: str | None = None) -> RollbackPreview:
        """What rolling back a scan would bring back, and what stands against it.

        :raises NotKeptError: when this tenant has no such scan.
        """
        with self._desk.reading() as connection:
            return preview(connection, scan_id, tenant)

    def close(self) -> None:
        """Let go of all connections; calling it twice is harmless."""
        self._desk.database.close()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
