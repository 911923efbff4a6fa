"""Write a file completely or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ragsieve.errors import OutputError


@contextlib.contextmanager
def replacing(path: Path | str) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` and rename it over ``path`` on success.

    On any exception, an interrupt included, the temporary file is removed and
    ``path`` keeps its earlier content.

    :raises OutputError: when the directory or the file cannot be written.
    """
    # A link keeps pointing where it did; what it points at is replaced.
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise OutputError(f"{target}: is a directory or a device; expected a file name to write to")
    try:
        descriptor, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
    except OSError as error:
        raise OutputError(
            f"{target}: cannot be written ({error.strerror}); "
            "choose an existing, writable directory"
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        # mkstemp makes private files; results get the permissions any new file would have.
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
        _keep_name(target.parent)
    except OSError as error:
        _discard(name)
        raise OutputError(f"{target}: writing failed ({error.strerror or error})") from error
    except BaseException:
        _discard(name)
        raise


def write_text(path: Path | str, text: str) -> None:
    """Write ``text`` as UTF-8, atomically.

    :raises OutputError: when it cannot be written.
    """
    with replacing(path) as handle:
        handle.write(text.encode("utf-8"))


def check_distinct(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Fail before the work starts when a result would replace an input or another result.

    :param outputs: files and folders to be written; None for one that was not asked for.
    :param inputs: files to be read.
    :raises OutputError: when two of them are one file.
    """
    read = {path.resolve() for path in inputs if path is not None}
    written: set[Path] = set()
    for path in outputs:
        if path is None:
            continue
        place = path.resolve()
        if place in read:
            raise OutputError(f"{path}: is an input of this command; write to another file")
        if any(
            place == other or other in place.parents or place in other.parents for other in written
        ):
            raise OutputError(f"{path}: two results would be written there; choose two places")
        written.add(place)


def check_writable(path: Path | str) -> None:
    """Fail before the work starts when ``path`` could not be written after it.

    :raises OutputError: when the directory is missing or not writable.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise OutputError(f"{target}: is a directory or a device; expected a file name to write to")
    parent = target.parent
    if not parent.is_dir():
        raise OutputError(f"{target}: the directory {parent} does not exist; create it first")
    if not os.access(parent, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        raise OutputError(f"{target}: no permission to write there; choose another path")


def _keep_name(folder: Path) -> None:
    """A new name outlives a loss of power only once its folder is on the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _discard(name: str) -> None:
    Path(name).unlink(missing_ok=True)
