"""A folder of versions, each a change to the one before it, written completely or not at all.

::

    versions/000000000012.json    its parent, segment, sha256 and facts
    segments/000000000012-*.npz   arrays and a JSON text
    writer.lock                   held by the one process that writes

A version exists once its JSON file has its name, which is the last step of writing it. A version
without a parent is whole; reading another one reads the chain back to a whole one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ragsieve._atomic import replacing, write_text
from ragsieve.errors import InputError, OutputError

FORMAT = 1
_TEXT = "json"
_DIGITS = 12

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """What one version adds to its parent, or a whole state.

    :param fields: a JSON object.
    """

    fields: dict[str, Any]
    arrays: dict[str, Array]


@dataclasses.dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version of a folder.

    :param number: from 1.
    :param parent: the version it changes; None for a whole one.
    :param depth: changes between the whole version it builds on and itself.
    :param segment: file name of its segment.
    :param sha256: of that file.
    :param facts: what the writer wants to be known without reading the segment.
    """

    number: int
    parent: int | None
    depth: int
    segment: str
    sha256: str
    facts: dict[str, Any]


class SegmentFolder:
    """Reads and writes the versions of one folder.

    :param path: the folder; made by :meth:`create`.
    :raises InputError: when it is no such folder.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).resolve()
        if not (self.path / "versions").is_dir() or not (self.path / "segments").is_dir():
            raise InputError(f"{path}: expected a folder of versions; create a live index there")

    @classmethod
    def create(cls, path: Path | str) -> SegmentFolder:
        """Make an empty folder.

        :raises OutputError: when the name is taken by anything but an empty folder, or it
            cannot be made.
        """
        target = Path(path)
        try:
            target.mkdir(exist_ok=True)
            if any(target.iterdir()):
                raise OutputError(f"{target}: is not empty; choose a new or empty name")
            (target / "segments").mkdir()
            (target / "versions").mkdir()
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(
                f"{target}: cannot be made ({error.strerror}); choose an existing parent"
            ) from error
        return cls(target)

    def versions(self) -> tuple[VersionInfo, ...]:
        """Every version that can be read, the oldest first.

        :raises InputError: when the description of one is damaged.
        """
        names = sorted((self.path / "versions").glob("[0-9]*.json"))
        return tuple(self._info(int(name.stem)) for name in names)

    def newest(self) -> VersionInfo | None:
        """The version written last; None in an empty folder."""
        numbers = [int(name.stem) for name in (self.path / "versions").glob("[0-9]*.json")]
        return self._info(max(numbers)) if numbers else None

    def chain(self, number: int) -> list[Segment]:
        """A whole state and the changes that lead to a version, in order.

        :raises InputError: when there is no such version, or a file is damaged.
        """
        found = []
        at: int | None = number
        while at is not None:
            info = self._info(at)
            found.append(self._read(info))
            if info.parent is not None and info.parent >= at:
                raise InputError(f"{self._file(at)}: field 'parent': expected an earlier version")
            at = info.parent
        return found[::-1]

    def append(self, segment: Segment, *, whole: bool, facts: Mapping[str, Any]) -> VersionInfo:
        """Write the next version; the lock must be held.

        :param whole: whether the segment stands without those before it.
        :raises OutputError: when it cannot be written; earlier versions are untouched.
        """
        last = self.newest()
        number = 1 if last is None else last.number + 1
        parent = None if whole else last
        return self._write(number, parent, segment, facts)

    def replace(self, number: int, segment: Segment) -> VersionInfo:
        """Write a version anew as a whole one, so that reading it needs no other.

        :raises OutputError: when it cannot be written; it is then as before.
        """
        return self._write(number, None, segment, self._info(number).facts)

    def prune(self, kept: int) -> tuple[int, ...]:
        """Delete versions but the last ``kept`` and those they build on; which were deleted.

        Segments that no version names are deleted too: a writer that was stopped leaves them.

        :raises OutputError: when a file cannot be deleted.
        """
        infos = {one.number: one for one in self.versions()}
        needed: set[int] = set()
        for number in list(infos)[-kept:] if kept > 0 else []:
            at: int | None = number
            while at is not None and at not in needed:
                needed.add(at)
                at = infos[at].parent
        dropped = tuple(number for number in infos if number not in needed)
        try:
            for number in dropped:
                self._file(number).unlink()
            named = {infos[number].segment for number in needed}
            for file in (self.path / "segments").iterdir():
                if file.name not in named:
                    file.unlink()
        except OSError as error:
            raise OutputError(f"{self.path}: deleting failed ({error.strerror})") from error
        return dropped

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the right to write.

        :raises OutputError: when another writer, of this or another process, holds it.
        """
        import fcntl

        with (self.path / "writer.lock").open("ab") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OutputError(
                    f"{self.path}: another process is writing to this live index; wait until it "
                    "has finished, or read a version instead"
                ) from error
            # The kernel lets go when the process ends, however it ends.
            yield

    def _write(
        self,
        number: int,
        parent: VersionInfo | None,
        segment: Segment,
        facts: Mapping[str, Any],
    ) -> VersionInfo:
        name = f"{number:0{_DIGITS}}-{'whole' if parent is None else 'change'}.npz"
        target = self.path / "segments" / name
        with replacing(target) as handle:
            _write_segment(handle, segment)
        info = VersionInfo(
            number=number,
            parent=None if parent is None else parent.number,
            depth=0 if parent is None else parent.depth + 1,
            segment=name,
            sha256=_sha256(target),
            facts=dict(facts),
        )
        fields = {"format": FORMAT, **dataclasses.asdict(info)}
        write_text(self._file(number), json.dumps(fields, allow_nan=False, indent=1) + "\n")
        for folder in ("segments", "versions"):
            _flush_folder(self.path / folder)
        return info

    def _file(self, number: int) -> Path:
        return self.path / "versions" / f"{number:0{_DIGITS}}.json"

    def _info(self, number: int) -> VersionInfo:
        file = self._file(number)
        if not file.is_file():
            raise InputError(
                f"{self.path}: there is no version {number}; `versions()` lists those there are"
            )
        try:
            info = _parsed(json.loads(file.read_text("utf-8")), number)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file}: the version is damaged or of another release ({error}); use another one"
            ) from error
        return info

    def _read(self, info: VersionInfo) -> Segment:
        file = self.path / "segments" / info.segment
        try:
            _expect(_sha256(file) == info.sha256, "its content is not what was written")
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            fields = json.loads(arrays.pop(_TEXT).tobytes().decode("utf-8"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{file}: version {info.number} is damaged ({error}); use an earlier whole version, "
                "or scan the corpus again"
            ) from error
        return Segment(fields, arrays)


def _write_segment(handle: BinaryIO, segment: Segment) -> None:
    text = json.dumps(segment.fields, ensure_ascii=True, allow_nan=False).encode()
    arrays: dict[str, Any] = {_TEXT: np.frombuffer(text, dtype=np.uint8), **segment.arrays}
    np.savez(handle, allow_pickle=False, **arrays)


def _parsed(fields: object, number: int) -> VersionInfo:
    _expect(isinstance(fields, dict), "expected a JSON object")
    known = dict(fields) if isinstance(fields, dict) else {}
    found = known.pop("format")
    _expect(found == FORMAT, f"field 'format': expected {FORMAT}, found {found!r}")
    info = VersionInfo(**known)
    _expect(info.number == number, f"field 'number': expected {number}, found {info.number!r}")
    _expect(Path(info.segment).name == info.segment, "field 'segment': expected a file name")
    return info


def _expect(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _flush_folder(folder: Path) -> None:
    # Without this a power cut may take a name back that was already given.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
