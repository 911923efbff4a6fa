"""The files of a FAISS collection: index, texts, marks. Several change together or not at all.

New files are written beside the old ones; a note that they are complete is the moment of the
change, and renaming follows. Whoever finds the note finishes the renaming, and whoever finds
new files without one removes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ragsieve._atomic import replacing
from ragsieve._extras import require
from ragsieve._jsonl import read_jsonl, to_json
from ragsieve.connectors.contract import Mark
from ragsieve.connectors.exchange import mark_fields, mark_of
from ragsieve.errors import StoreError

LOCK_SECONDS = 30
"""How long a change may wait for another one."""

_FORMAT = "ragsieve-faiss-marks/1"
_NEW = ".ragsieve-new"
Line = Mapping[str, Any]
Writer = Callable[[BinaryIO], object]
State = tuple[tuple[int, int, int] | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """Where the files of a collection are.

    :param index: as `faiss.write_index` writes it.
    :param texts: one JSON object a row, see docs/stores-more.md.
    """

    index: Path
    texts: Path

    @property
    def marks(self) -> Path:
        """Which rows are hidden; absent while none ever was."""
        return self.index.with_name(f"{self.index.name}.ragsieve.json")

    @property
    def note(self) -> Path:
        """There while new files are complete and not yet in their places."""
        return self.index.with_name(f"{self.index.name}.ragsieve-swap.json")

    @property
    def lock(self) -> Path:
        """Held by whoever changes any of them."""
        return self.index.with_name(f"{self.index.name}.ragsieve-lock")

    @property
    def all(self) -> tuple[Path, Path, Path]:
        """Those that are read."""
        return self.index, self.texts, self.marks

    def state(self) -> State:
        """Equal as long as none of them was replaced or written to."""
        return tuple(map(_identity, (*self.all, self.note)))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """The right to change them; what another writer did not finish is finished first.

        :raises StoreError: when another writer holds it for longer than `LOCK_SECONDS`.
        """
        filelock = require("filelock", extra="faiss")
        try:
            with filelock.FileLock(self.lock, timeout=LOCK_SECONDS):
                self._recover()
                yield
        except filelock.Timeout as error:
            raise StoreError(
                f"{self.index}: another writer held {self.lock.name} for {LOCK_SECONDS} seconds; "
                "wait for it, or find the process that stands still"
            ) from error

    def unfinished(self) -> bool:
        """Whether a change is complete but not in place."""
        return self.note.exists()

    def replace(self, parts: Mapping[Path, Writer]) -> None:
        """Put new files in the places of old ones, all or none; only inside `changing`.

        :raises OutputError: when one cannot be written; the old ones are then untouched.
        """
        try:
            for path, write in parts.items():
                with replacing(_beside(path)) as handle:
                    write(handle)
            _keep_folders(parts)
            with replacing(self.note) as handle:
                handle.write(b"{}\n")
        except BaseException:
            # Not when the note is there: the change then counts as made.
            if not self.note.exists():
                self._discard()
            raise
        _keep_folders([self.note])
        self._rename()

    def _recover(self) -> None:
        if self.note.exists():
            self._rename()
        self._discard()

    def _rename(self) -> None:
        for path in self.all:
            if _beside(path).exists():
                _beside(path).replace(path)
        _keep_folders(self.all)
        self.note.unlink()

    def _discard(self) -> None:
        for path in self.all:
            _beside(path).unlink(missing_ok=True)
        # What a killed process had begun to write; none but the holder of the lock does.
        for path in (*map(_beside, self.all), self.note):
            for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
                part.unlink()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of texts.

    :raises InputError: when it cannot be read.
    """
    if path.is_file() and not path.stat().st_size:
        return []
    return [line.fields for line in read_jsonl(path)]


def lines_writer(lines: Sequence[Line]) -> Writer:
    """Writes rows as `read_lines` reads them."""

    def write(handle: BinaryIO) -> None:
        for line in lines:
            handle.write(to_json(line).encode("utf-8", "surrogatepass") + b"\n")

    return write


def read_marks(path: Path) -> dict[str, Mark]:
    """The hidden rows, by id.

    :raises StoreError: when the file is damaged; it never counts as if nothing were hidden.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        # A key of another format is a KeyError.
        kept = {content["format"]: content["marks"]}[_FORMAT]
        found = [mark_of(name, fields) for name, fields in kept.items()]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path}: expected marks as {_FORMAT!r} ({error}); without it nobody knows what is "
            "hidden. Take it from a backup, or make the marks again from the ledger"
        ) from error
    return {mark.id: mark for mark in found if mark is not None}


def marks_writer(marks: Mapping[str, Mark]) -> Writer:
    """Writes marks as `read_marks` reads them."""
    content = {
        "format": _FORMAT,
        "marks": {
            name: mark_fields(mark.reason, mark.scan_id, mark.since)
            for name, mark in sorted(marks.items())
        },
    }
    return lambda handle: handle.write(json.dumps(content, indent=1).encode("ascii") + b"\n")


def _beside(path: Path) -> Path:
    return path.with_name(path.name + _NEW)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _keep_folders(paths: Any) -> None:
    """Let the names in the folders outlive a loss of power."""
    for folder in {path.parent for path in paths}:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
