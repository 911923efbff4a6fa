"""What an operator does with a store: look, verify, prune. Here a file that fails says so."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from ragsieve.errors import ConfigError, OutputError
from ragsieve.featurestore import bounds
from ragsieve.featurestore.database import SET_ASIDE, DamagedStoreError, Database, set_aside
from ragsieve.featurestore.records import Pruned, Space, SpaceUsage, Usage, Verified
from ragsieve.featurestore.schema import check_place
from ragsieve.featurestore.store import is_sound

_DAY_SECONDS = 86_400
_VERIFY_ENTRIES = 32
_Row = tuple[int, object, object, object]


def usage(path: Path) -> Usage:
    """Entries and bytes by kind and fingerprint, the largest first.

    :raises InputError: when there is no such store, or it is damaged.
    """
    database = Database(path, create=False, strict=True)
    try:
        spaces: list[SpaceUsage] = database.read(_spaces, [])
        damaged = database.read(_damaged, 0)
    finally:
        database.close()
    beside = database.path.with_name(database.path.name + SET_ASIDE)
    return Usage(
        tuple(sorted(spaces, key=lambda one: -one.stored_bytes)),
        _file_bytes(database.path),
        damaged,
        beside.name if beside.exists() else None,
    )


def verify(
    path: Path, *, repair: bool = False, progress: Callable[[int], None] | None = None
) -> Verified:
    """Read every entry and compare it with its checksum.

    :param repair: remove damaged entries; set a file aside that is damaged as a whole.
    :param progress: called with the number of entries read since the last call.
    :raises InputError: when there is no such store, or it cannot be read.
    :raises OutputError: when a damaged file cannot be set aside.
    """
    read = damaged = 0
    try:
        database = Database(path, create=False, strict=True)
        try:
            for entries, bad in _checked(database):
                read += entries
                damaged += len(bad)
                if repair and bad:
                    database.write(partial(_remove_damaged, numbers=bad), None)
                if progress is not None:
                    progress(entries)
            problem = database.read(_structure, None)
        finally:
            database.close()
    except DamagedStoreError as error:
        problem = str(error.__cause__ or error)
    if repair and problem is not None:
        _put_aside(check_place(path))
    return Verified(read, damaged, problem, repaired=repair and bool(damaged or problem))


def prune(
    path: Path,
    *,
    max_bytes: int | None = None,
    older_than_days: float | None = None,
    fingerprint: str | None = None,
    stale_but: Mapping[str, Collection[str]] | None = None,
    clock: Callable[[], float] = time.time,
) -> Pruned:
    """Remove entries and give their room back to the file system.

    :param max_bytes: the least recently used, until no more than this is left.
    :param older_than_days: those not used for so long, to ten minutes.
    :param fingerprint: those of one fingerprint.
    :param stale_but: of each kind named, those of other fingerprints than these.
    :raises ConfigError: when nothing is asked for, or a number is below 0.
    :raises InputError: when there is no such store, it is damaged or cannot be written.
    """
    if all(one is None for one in (max_bytes, older_than_days, fingerprint, stale_but)):
        raise ConfigError(
            "prune: expected what to remove, found nothing; give --max-bytes, --older-than, "
            "--fingerprint or --stale"
        )
    if min(max_bytes or 0, older_than_days or 0) < 0:
        raise ConfigError("prune: expected a size and an age of 0 or more")

    def remove(connection: sqlite3.Connection) -> Pruned:
        parts = []
        if fingerprint is not None:
            parts.append(_remove_spaces(connection, lambda one: one.fingerprint == fingerprint))
        if stale_but is not None:
            parts.append(
                _remove_spaces(
                    connection,
                    lambda one: (
                        one.kind in stale_but and one.fingerprint not in stale_but[one.kind]
                    ),
                )
            )
        if older_than_days is not None:
            before = int(clock() - older_than_days * _DAY_SECONDS)
            parts.append(_remove_where(connection, "used < ?", before))
        if max_bytes is not None:
            stored = sum(one.stored_bytes for one in _spaces(connection))
            parts.append(bounds.remove_oldest(connection, stored - max_bytes))
        return Pruned(sum(one.entries for one in parts), sum(one.stored_bytes for one in parts))

    database = Database(path, create=False, strict=True)
    try:
        removed = database.write(remove, Pruned(0, 0))
        database.read(_shrink, None)
    finally:
        database.close()
    return removed


def _put_aside(place: Path) -> None:
    try:
        set_aside(place)
    except OSError as error:
        raise OutputError(f"{place}: cannot be set aside ({error.strerror})") from error


def _spaces(connection: sqlite3.Connection) -> list[SpaceUsage]:
    rows = connection.execute("SELECT kind, fingerprint, entries, bytes FROM spaces")
    return [SpaceUsage(Space(kind, mark), count, size) for kind, mark, count, size in rows]


def _damaged(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT count FROM counters WHERE name = 'damaged'").fetchone()
    return 0 if row is None else int(row[0])


def _file_bytes(place: Path) -> int:
    files = (place, place.with_name(place.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _checked(database: Database) -> Iterator[tuple[int, list[int]]]:
    """Entries read and the numbers of damaged ones, part by part."""
    last = -(2**63)
    while True:
        rows: list[_Row] = database.read(partial(_next_rows, after=last), [])
        if not rows:
            return
        last = rows[-1][0]
        yield len(rows), [number for number, *row in rows if not is_sound(*row)]


def _next_rows(connection: sqlite3.Connection, after: int) -> list[_Row]:
    return connection.execute(
        "SELECT e.id, e.key, p.checksum, p.value FROM entries e "
        "LEFT JOIN payloads p ON p.id = e.id WHERE e.id > ? ORDER BY e.id LIMIT ?",
        (after, _VERIFY_ENTRIES),
    ).fetchall()


def _structure(connection: sqlite3.Connection) -> str | None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if found == "ok" else str(found)


def _remove_damaged(connection: sqlite3.Connection, numbers: list[int]) -> None:
    connection.executemany("DELETE FROM entries WHERE id = ?", [(one,) for one in numbers])
    bounds.add_damaged(connection, len(numbers))


def _remove_spaces(connection: sqlite3.Connection, going: Callable[[Space], bool]) -> Pruned:
    parts = []
    for number, kind, mark in connection.execute(
        "SELECT id, kind, fingerprint FROM spaces"
    ).fetchall():
        if going(Space(kind, mark)):
            parts.append(_remove_where(connection, "space = ?", number))
            connection.execute("DELETE FROM spaces WHERE id = ?", (number,))
    return Pruned(sum(one.entries for one in parts), sum(one.stored_bytes for one in parts))


def _remove_where(connection: sqlite3.Connection, condition: str, value: int) -> Pruned:
    count, size = connection.execute(
        f"SELECT count(*), total(bytes) FROM entries WHERE {condition}",  # noqa: S608 -- ours
        (value,),
    ).fetchone()
    connection.execute(f"DELETE FROM entries WHERE {condition}", (value,))  # noqa: S608 -- ours
    return Pruned(int(count), int(size))


def _shrink(connection: sqlite3.Connection) -> None:
    # As a script: a plain statement without columns stops after its first page.
    connection.executescript("PRAGMA incremental_vacuum")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
