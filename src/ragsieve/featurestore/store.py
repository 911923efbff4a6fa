"""The feature store: values by space and text, checked, bounded, shared by processes."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from ragsieve.errors import ConfigError
from ragsieve.featurestore import bounds
from ragsieve.featurestore.database import Database
from ragsieve.featurestore.records import Space, StoreReport

MAX_BYTES = 4 * 1024**3
STATES_SHARE = 0.75
FEWEST_BYTES = 1024**2

# Key, row numbers and their places in three indexes, roughly.
ENTRY_BYTES = 160
# An entry used within this time counts as used now: reading must not mean writing.
_USED_SECONDS = 600
_FLUSH_ENTRIES = 4096
_READ_ENTRIES = 400
_WRITE_BYTES = 16 * 1024 * 1024


class FeatureStore:
    """Bytes by key, in one file that several processes and threads may use at once.

    Nothing that happens to the file fails the caller: what cannot be read counts as not there,
    what cannot be written is not kept, and :meth:`report` says so. An entry that is not as it
    was written is not given out.

    :param path: the file, its name ends in ``.sqlite``; made when there is none.
    :param max_bytes: bound on what is stored; the least recently used entries go first.
    :param states_share: largest part of it for token states, a hundred times as large as all
        else and cheaper to compute again than losses.
    :param note: called once with each line about what went wrong.
    :param clock: seconds since 1970.
    :raises ConfigError: for a bound below 1 MiB, a share outside (0, 1], or a file that is
        another program's.
    :raises OutputError: when the folder of the file does not exist.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        states_share: float = STATES_SHARE,
        note: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if max_bytes < FEWEST_BYTES:
            raise ConfigError(f"max_bytes: expected at least {FEWEST_BYTES}, found {max_bytes}")
        if not 0 < states_share <= 1:
            raise ConfigError(f"states_share: expected above 0, at most 1, found {states_share}")
        self._limits = bounds.Limits(max_bytes, int(max_bytes * states_share))
        self._clock = clock
        self._tell = note
        self._report = StoreReport()
        self._damaged: set[bytes] = set()
        self._touched: set[int] = set()
        self._database = Database(path, note=_weakly(self))
        # At the end of the program or of this object; what was used must outlive a forgotten close.
        weakref.finalize(self, _flush, self._database, self._touched, clock)

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that are there and sound."""
        found: dict[bytes, bytes] = {}
        distinct = list(dict.fromkeys(keys))
        for chunk in _chunks(distinct, _READ_ENTRIES):
            rows: list[_Row] = self._database.read(partial(_rows, keys=chunk), [])
            with self._database.lock:
                self._take(rows, found)
        with self._database.lock:
            misses = len(distinct) - len(found)
            self._count(hits=len(found), misses=misses)
            if len(self._touched) >= _FLUSH_ENTRIES:
                _flush(self._database, self._touched, self._clock)
        return found

    def holds(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those keys that have a value, sound or not."""
        held: set[bytes] = set()
        for chunk in _chunks(list(dict.fromkeys(keys)), _READ_ENTRIES):
            held |= self._database.read(partial(_held, keys=chunk), set())
        return held - self._damaged

    def keep(self, space: Space, values: Mapping[bytes, bytes]) -> None:
        """Store values; a key that has a sound one already keeps it."""
        largest = bounds.largest_entry(self._limits)
        fitting = {key: value for key, value in values.items() if len(value) <= largest}
        with self._database.lock:
            self._count(unkept=len(values) - len(fitting))
            for part in _parts(fitting):
                removed = self._database.write(partial(self._insert, space=space, part=part), None)
                if removed is None:
                    self._count(unkept=len(part))
                else:
                    self._touched.clear()
                    self._damaged -= part.keys()
                    self._count(kept=len(part), pruned=removed)

    def spoiled(self, key: bytes) -> None:
        """Say that a value given out cannot be what was stored: it is replaced when kept again."""
        with self._database.lock:
            self._count(hits=-1, misses=1)
            self._spoil(key)

    def report(self) -> StoreReport:
        """What happened since the store was opened."""
        with self._database.lock:
            return self._report

    def close(self) -> None:
        """Write down what was used, and close the file; the next call opens it again."""
        with self._database.lock:
            _flush(self._database, self._touched, self._clock)
            self._database.close()

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, rows: Iterable[_Row], found: dict[bytes, bytes]) -> None:
        old = int(self._clock()) - _USED_SECONDS
        for number, key, used, checksum, value in rows:
            if not is_sound(key, checksum, value):
                self._spoil(key)
                continue
            found[key] = value
            self._damaged.discard(key)
            if used < old:
                self._touched.add(number)

    def _spoil(self, key: bytes) -> None:
        if key not in self._damaged:
            self._damaged.add(key)
            self._count(damaged=1)
        self.take_note(
            f"{self.path}: holds damaged entries; they are computed again "
            "(`ragsieve features verify` counts them)"
        )

    def _insert(
        self, connection: sqlite3.Connection, space: Space, part: Mapping[bytes, bytes]
    ) -> int | None:
        now = int(self._clock())
        number = _space_number(connection, space)
        replaced = [(key,) for key in part if key in self._damaged]
        if replaced:
            connection.executemany("DELETE FROM entries WHERE key = ?", replaced)
            bounds.add_damaged(connection, len(replaced))
        for key, value in part.items():
            added = connection.execute(
                "INSERT INTO entries (key, space, bytes, used) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (key) DO NOTHING RETURNING id",
                (key, number, len(value) + ENTRY_BYTES, now),
            ).fetchone()
            if added is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO payloads (id, checksum, value) VALUES (?, ?, ?)",
                    (added[0], checksum_of(key, value), value),
                )
        bounds.mark_used(connection, self._touched, now)
        return bounds.enforce(connection, self._limits)

    def _count(self, **more: int) -> None:
        totals = {name: getattr(self._report, name) + count for name, count in more.items()}
        self._report = dataclasses.replace(self._report, **totals)

    def take_note(self, line: str) -> None:
        """Remember and tell what went wrong, once."""
        if line in self._report.notes:
            return
        self._report = dataclasses.replace(self._report, notes=(*self._report.notes, line))
        if self._tell is not None:
            self._tell(line)


_Row = tuple[int, bytes, int, int, bytes]
_SELECT = (
    "SELECT e.id, e.key, e.used, p.checksum, p.value "
    "FROM entries e LEFT JOIN payloads p ON p.id = e.id WHERE e.key IN ({})"
)
_SELECT_KEYS = "SELECT key FROM entries WHERE key IN ({})"


def _weakly(store: FeatureStore) -> Callable[[str], None]:
    """Notes to a store that its database does not keep alive."""
    method = weakref.WeakMethod(store.take_note)

    def tell(line: str) -> None:
        take = method()
        if take is not None:
            take(line)

    return tell


def _flush(database: Database, touched: set[int], clock: Callable[[], float]) -> None:
    if touched:
        mark = partial(bounds.mark_used, numbers=tuple(touched), now=int(clock()))
        database.write(mark, None)
        touched.clear()


def checksum_of(key: bytes, value: bytes) -> int:
    """CRC-32 of a value that stands under a key: a value moved to another key is damage too."""
    return zlib.crc32(value, zlib.crc32(key))


def is_sound(key: object, checksum: object, value: object) -> bool:
    """Whether a row read is one that was written; damage can change types as well."""
    return (
        isinstance(key, bytes) and isinstance(value, bytes) and checksum == checksum_of(key, value)
    )


def _rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[_Row]:
    return connection.execute(_SELECT.format(_marks(keys)), keys).fetchall()


def _held(connection: sqlite3.Connection, keys: Sequence[bytes]) -> set[bytes]:
    return {key for (key,) in connection.execute(_SELECT_KEYS.format(_marks(keys)), keys)}


def _marks(keys: Sequence[bytes]) -> str:
    return ",".join("?" * len(keys))


def _space_number(connection: sqlite3.Connection, space: Space) -> int:
    values = (space.kind, space.fingerprint)
    connection.execute("INSERT OR IGNORE INTO spaces (kind, fingerprint) VALUES (?, ?)", values)
    (number,) = connection.execute(
        "SELECT id FROM spaces WHERE kind = ? AND fingerprint = ?", values
    ).fetchone()
    return int(number)


def _chunks(keys: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))


def _parts(values: Mapping[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
    """In parts small enough that others need not wait long, nor the log grow far."""
    part: dict[bytes, bytes] = {}
    size = 0
    for key, value in values.items():
        part[key] = value
        size += len(value)
        if size >= _WRITE_BYTES or len(part) >= _FLUSH_ENTRIES:
            yield part
            part, size = {}, 0
    if part:
        yield part
