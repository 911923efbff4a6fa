"""Remembers: what was found where, what was decided, done, undone, and by whom.

`open_ledger` is the door. What it returns is `ragsieve.ledger.book.Ledger`; the records that go
in and out are in `ragsieve.ledger.records` and `.reports`, its refusals in `ragsieve.ledger.faults`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

from ragsieve._extras import require

if TYPE_CHECKING:
    from ragsieve.ledger.book import Ledger


def open_ledger(
    url: str,
    *,
    actor: str,
    clock: Callable[[], datetime.datetime] | None = None,
    busy_seconds: float = 30.0,
) -> Ledger:
    """Open a ledger, making its tables or bringing them up to date.

    :param url: ``sqlite:///file``, a file name, or ``postgresql://…``.
    :param actor: in whose name changes are written to the audit trail.
    :param clock: tells the time, aware; the system's when None.
    :param busy_seconds: how long to wait for another writer.
    :raises MissingExtraError: when the extra ``ledger`` is not installed.
    :raises ConfigError: for an address that is none.
    :raises StoreError: when the database cannot be opened, or a newer version made it.
    """
    for module in ("sqlalchemy", "alembic"):
        require(module, extra="ledger")
    from ragsieve.ledger.book import Ledger

    return Ledger.open(url, actor=actor, clock=clock, busy_seconds=busy_seconds)
