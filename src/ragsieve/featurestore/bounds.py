"""Keep a store within its bounds: who was used when, and who has to go."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterable

from ragsieve.featurestore.records import Pruned

STATES = "states"

# Below the bound by this much after pruning, so that not every write has to prune.
_SLACK = 0.05
# No entry may push out more than this part of the store.
_LARGEST_PART = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bytes that may be stored: of all kinds, and of token states."""

    all_bytes: int
    states_bytes: int


def largest_entry(limits: Limits) -> int:
    """Bytes of the largest value that is kept."""
    return min(limits.all_bytes // _LARGEST_PART, 256 * 1024 * 1024)


def mark_used(connection: sqlite3.Connection, numbers: Iterable[int], now: int) -> None:
    """Note that entries were used."""
    connection.executemany(
        "UPDATE entries SET used = ? WHERE id = ?", [(now, number) for number in numbers]
    )


def add_damaged(connection: sqlite3.Connection, count: int) -> None:
    """Count damaged entries that were removed."""
    connection.execute(
        "INSERT INTO counters VALUES ('damaged', ?) "
        "ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
        (count,),
    )


def enforce(connection: sqlite3.Connection, limits: Limits) -> int:
    """Remove the least recently used entries of what exceeds its bound; how many."""
    removed = 0
    for kind, limit in ((STATES, limits.states_bytes), (None, limits.all_bytes)):
        excess = _stored(connection, kind) - limit
        if excess > 0:
            removed += remove_oldest(connection, excess + int(_SLACK * limit), kind=kind).entries
    return removed


def remove_oldest(
    connection: sqlite3.Connection, excess_bytes: int, *, kind: str | None = None
) -> Pruned:
    """Remove the least recently used entries until so many bytes are gone.

    :param kind: only of this kind.
    """
    of_kind = "WHERE space IN (SELECT id FROM spaces WHERE kind = ?)" if kind else ""
    rows = connection.execute(
        f"SELECT id, bytes FROM entries {of_kind} ORDER BY used, id",  # noqa: S608 -- no value in it
        (kind,) if kind else (),
    )
    going, gone = [], 0
    for number, size in rows:
        if gone >= excess_bytes:
            break
        going.append((number,))
        gone += size
    rows.close()
    connection.executemany("DELETE FROM entries WHERE id = ?", going)
    return Pruned(len(going), gone)


def _stored(connection: sqlite3.Connection, kind: str | None) -> int:
    (total,) = connection.execute(
        "SELECT total(bytes) FROM spaces WHERE ? IS NULL OR kind = ?", (kind, kind)
    ).fetchone()
    return int(total)
