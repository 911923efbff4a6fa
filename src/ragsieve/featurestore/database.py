"""One SQLite file that may be shared, read-only, full, damaged or gone: its user never fails.

Errors of the file become notes, and what was asked for counts as not there. A file that is
damaged is set aside under another name, and an empty one takes its place.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ragsieve.errors import ConfigError, InputError
from ragsieve.featurestore.forks import watch_forks
from ragsieve.featurestore.schema import APPLICATION_ID, FORMAT, TABLES, check_place, make

BUSY_SECONDS = 10.0
SET_ASIDE = ".damaged"

_CACHE_KIB = 16 * 1024
_WAL_BYTES = 64 * 1024 * 1024
# Our statements are fixed: what SQLite calls an error of the statement, of a type or of a
# constraint can only come from tables that are not as they were made.
_DAMAGE = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_CONSTRAINT,
    }
)
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ: pages that should be there are not
T = TypeVar("T")


class DamagedStoreError(InputError):
    """The store's file is damaged as a whole; only raised where it must not be replaced."""


class Database:
    """Reads and writes of one file, one at a time; safe to share between threads.

    :param strict: raise instead of noting, and leave a damaged file where it is.
    :param create: make the file when there is none.
    :param note: called with a line about what went wrong.
    :raises ConfigError: when the file belongs to another program.
    :raises OutputError: when there can be no file.
    :raises InputError: when there is none and none is to be made, or when ``strict``.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        strict: bool = False,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.path = check_place(path)
        self._create = create
        self._strict = strict
        self._note = note
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._read_only = False
        self._lost = False
        if not create and not self.path.is_file():
            raise InputError(f"{path}: no such feature store; `ragsieve features build` makes one")
        watch_forks(self)
        self.read(lambda _: None, None)

    def read(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What ``action`` reads; ``otherwise`` when the file lets nothing be read."""
        return self._attempt(action, otherwise)

    def write(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What ``action`` returns, done completely; ``otherwise`` when nothing was done."""

        def whole(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                done = action(connection)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already, or be too full even for that.
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return done

        return otherwise if self._read_only else self._attempt(whole, otherwise)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        with self.lock:
            if self._connection is not None:
                self._connection = None
                with contextlib.suppress(sqlite3.Error):
                    self._closing()

    def before_fork(self) -> None:
        """See :mod:`ragsieve.featurestore.forks`."""
        self.lock.acquire()
        self.close()

    def after_fork(self) -> None:
        """See :mod:`ragsieve.featurestore.forks`."""
        self.lock.release()

    def _attempt(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        with self.lock:
            # Twice: after damage once more, on the empty file that took the place.
            for _ in range(2):
                if self._lost:
                    return otherwise
                try:
                    return action(self._connected())
                except (sqlite3.Error, OSError, OverflowError) as error:
                    if not self._recovered(error):
                        return otherwise
            return otherwise

    def _recovered(self, error: Exception) -> bool:
        """Deal with an error; whether it is worth another try.

        :raises DamagedStoreError: when strict and damaged.
        :raises InputError: when strict.
        """
        if is_damage(error):
            if self._strict:
                self.close()
                raise DamagedStoreError(
                    f"{self.path}: is damaged ({error}); run `ragsieve features verify --repair`"
                ) from error
            return self._set_aside(error)
        if self._strict:
            raise InputError(f"{self.path}: cannot be used ({error})") from error
        if _code(error) == sqlite3.SQLITE_READONLY:
            self._read_only = True
            self._note(f"{self.path}: is read-only; what is computed now is not kept")
        elif self._connection is None and _code(error) not in _BUSY:
            self._lost = True
            self._note(f"{self.path}: cannot be opened ({error}); nothing is read or kept")
        else:
            self._note(f"{self.path}: {error}; what could not be kept is computed again next time")
        return False

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._create and (not self.path.exists() or self.path.stat().st_size == 0):
                make(self.path)
            self._file = _identity(self.path)
            connection = _open(self.path)
            try:
                _check(self.path, connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            # Closed with this object, or at the end of the program, whoever forgets it.
            self._closing = weakref.finalize(self, connection.close)
        return self._connection

    def _set_aside(self, error: Exception) -> bool:
        opened, current = self._file, _identity(self.path)
        self.close()
        if opened is not None and current != opened:
            # Another process was quicker: what stands there now is not what was damaged.
            return True
        try:
            kept = set_aside(self.path)
        except OSError as problem:
            self._lost = True
            self._note(
                f"{self.path}: is damaged ({error}) and cannot be replaced "
                f"({problem.strerror or problem}); nothing is read or kept"
            )
            return False
        self._note(
            f"{self.path}: is damaged ({error}); set aside as {kept.name}, features are "
            "computed again"
        )
        return True


def set_aside(place: Path) -> Path:
    """Rename a damaged store; one set aside earlier is replaced, so no more than one is kept.

    :raises OSError: when the folder cannot be written.
    """
    target = place.with_name(place.name + SET_ASIDE)
    # The log first: it must not meet the empty file that another process may make meanwhile.
    for suffix in ("-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)
    if place.exists():
        place.replace(target)
    return target


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file's content is not what was written."""
    if not isinstance(error, sqlite3.Error):
        return False
    extended = getattr(error, "sqlite_errorcode", None)
    return extended == _SHORT_READ or _code(error) in _DAMAGE


def _code(error: Exception) -> int | None:
    extended = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def _open(place: Path) -> sqlite3.Connection:
    try:
        return _connect(place, "mode=rw")
    except sqlite3.OperationalError as error:
        if _code(error) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        # A folder that cannot be written has no room for SQLite's log: read the file as it is.
        return _connect(place, "mode=ro&immutable=1")


def _connect(place: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{place.as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _check(place: Path, connection: sqlite3.Connection) -> None:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID and names and not names & TABLES:
        raise ConfigError(f"{place}: belongs to another program; name another feature store")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID or found != FORMAT or not names >= TABLES:
        error = sqlite3.DatabaseError(f"not a feature store of format {FORMAT}")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _identity(place: Path) -> tuple[int, int] | None:
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
