"""The tables of the store, and how its file comes into being."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path

from ragsieve.errors import ConfigError, OutputError

SUFFIX = ".sqlite"
APPLICATION_ID = 0x52534653
FORMAT = 1

# Values stand apart from the table that is searched, counted and pruned: noting when an entry
# was last used must not rewrite 400 kB. Totals are kept by triggers, right whoever writes.
_TABLES = """
CREATE TABLE spaces (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, fingerprint)
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    space INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    used INTEGER NOT NULL
);
CREATE INDEX entries_used ON entries (used);
CREATE TABLE payloads (
    id INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE TABLE counters (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
    UPDATE spaces SET entries = entries + 1, bytes = bytes + new.bytes WHERE id = new.space;
END;
CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
    UPDATE spaces SET entries = entries - 1, bytes = bytes - old.bytes WHERE id = old.space;
    DELETE FROM payloads WHERE id = old.id;
END;
"""
TABLES = frozenset({"spaces", "entries", "payloads", "counters"})
_PAGE_BYTES = 8192


def check_place(path: Path) -> Path:
    """The full path of a store, whether there is one yet or not.

    :raises ConfigError: for a name that a mistyped option could have meant for another file.
    :raises OutputError: when its folder is missing, or a folder has its name.
    """
    if path.suffix != SUFFIX:
        # A store that is damaged is renamed and made anew: never let that happen to a corpus.
        raise ConfigError(f"{path}: expected a feature store, whose name ends in {SUFFIX}")
    place = path.expanduser().resolve()
    if place.is_dir():
        raise OutputError(f"{place}: is a directory; expected the file name of a feature store")
    if not place.parent.is_dir():
        raise OutputError(f"{place}: the directory {place.parent} does not exist; create it first")
    return place


def make(place: Path) -> None:
    """Make an empty store, complete or not at all; one that another process made first stays.

    :raises OSError: when the folder cannot be written.
    :raises sqlite3.Error: when SQLite cannot.
    """
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as folder:
        made = Path(folder) / place.name
        with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(
                f"BEGIN; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {FORMAT}; COMMIT;"
            )
        _put(made, place)


def _put(made: Path, place: Path) -> None:
    if place.exists() and place.stat().st_size == 0:
        # Nothing was ever written there, or all of it is lost.
        made.replace(place)
        return
    try:
        place.hardlink_to(made)
    except FileExistsError:
        return
    except OSError:
        # A file system without links; there a race may cost what the other has just kept.
        made.replace(place)
