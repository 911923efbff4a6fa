"""What is on disk of the embedded models: a manifest per folder, and whether it still holds."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsieve._atomic import write_text
from ragsieve.backends.embedded import (
    CATALOGUE,
    LOCAL_PANEL,
    EmbeddedModel,
    Wheel,
    embedded_model,
)
from ragsieve.errors import ModelFilesError

MANIFEST = "ragsieve-model.json"


class ModelState(enum.StrEnum):
    """What is on disk of one model."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclasses.dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that is not what it should be.

    :param expected: a SHA-256, or what else was expected.
    :param found: the SHA-256 found, or ``nothing``.
    """

    path: Path
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


@dataclasses.dataclass(frozen=True, slots=True)
class ModelStatus:
    """Whether one embedded model can be used.

    :param remedy: what to run; empty when the state is ok.
    """

    name: str
    path: Path
    licence: str
    state: ModelState
    problems: tuple[FileProblem, ...] = ()
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Whether every file is there and has the recorded hash."""
        return self.state is ModelState.OK


def verify(
    models_dir: Path, *, catalogue: tuple[EmbeddedModel, ...] = CATALOGUE
) -> tuple[ModelStatus, ...]:
    """Hash every file of every embedded model; reads some 650 MB."""
    return tuple(check_model(models_dir, model) for model in catalogue)


def check_model(models_dir: Path, model: EmbeddedModel) -> ModelStatus:
    """Hash every file of one model and compare with its pins or its manifest."""
    folder = models_dir / model.name
    if not folder.is_dir():
        return _status(model, folder, ModelState.MISSING, ())
    try:
        recorded = _recorded_files(folder, model)
    except ModelFilesError:
        problem = FileProblem(
            folder / MANIFEST, "the manifest of a finished pull", "none that fits"
        )
        return _status(model, folder, ModelState.DAMAGED, (problem,))
    problems = tuple(
        FileProblem(folder / name, f"sha256 {expected}", found)
        for name, expected in recorded.items()
        if (found := _found(folder / name)) != f"sha256 {expected}"
    )
    return _status(model, folder, ModelState.DAMAGED if problems else ModelState.OK, problems)


def model_path(
    models_dir: Path,
    name: str,
    *,
    catalogue: tuple[EmbeddedModel, ...] = (*CATALOGUE, *LOCAL_PANEL),
) -> Path:
    """The folder of a pulled model. Looks for its files and does not hash them.

    :raises ModelFilesError: when the name is unknown, or the model absent or incomplete.
    """
    model = embedded_model(name, catalogue=catalogue)
    folder = models_dir / name
    if not folder.is_dir():
        raise ModelFilesError(
            f"{folder}: expected the embedded model {name}, found no such folder; {_remedy(model)}"
        )
    for file_name in _recorded_files(folder, model):
        if not (folder / file_name).is_file():
            raise ModelFilesError(
                f"{folder / file_name}: expected a file of the embedded model {name}, "
                f"found nothing; {_remedy(model)}"
            )
    return folder


def write_manifest(folder: Path, model: EmbeddedModel) -> None:
    """Record origin, licence and the SHA-256 of every file; the last step of a pull."""
    files = {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.is_file()}
    manifest = {
        "model": model.name,
        "origin": model.origin,
        "licence": model.licence,
        "taken_from": _origin(model.wheel),
        "further": [_origin(part.wheel) for part in model.further],
        "files": files,
    }
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _origin(wheel: Wheel) -> dict[str, str]:
    return {"requirement": wheel.requirement, "sha256": wheel.sha256}


def _recorded_files(folder: Path, model: EmbeddedModel) -> Mapping[str, str]:
    # Converted files depend on the writing library's version, so the pull recorded them;
    # the catalogue's pins are stronger and win where the files are taken as they are.
    path = folder / MANIFEST
    try:
        manifest: Any = json.loads(path.read_text(encoding="utf-8"))
        wheel = manifest["taken_from"]["sha256"]
        files = {str(name): str(digest) for name, digest in manifest["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFilesError(
            f"{path}: expected the manifest of a finished pull, found none that can be read "
            f"({error}); {_remedy(model)}"
        ) from error
    if wheel != model.wheel.sha256 or not files:
        raise ModelFilesError(
            f"{path}: expected files of {model.wheel.requirement}, found those of another "
            f"version; {_remedy(model)}"
        )
    return files if model.gguf else model.pins


def _found(path: Path) -> str:
    return f"sha256 {sha256_of(path)}" if path.is_file() else "nothing"


def _status(
    model: EmbeddedModel, folder: Path, state: ModelState, problems: tuple[FileProblem, ...]
) -> ModelStatus:
    remedy = "" if state is ModelState.OK else _remedy(model)
    return ModelStatus(model.name, folder, model.licence, state, problems, remedy)


def _remedy(model: EmbeddedModel) -> str:
    # A pull without names leaves the models that are served out.
    return f"run `ragsieve models pull{f' {model.name}' if model.served else ''}`"
