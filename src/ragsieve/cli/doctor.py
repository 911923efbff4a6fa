"""The command that says what works on this machine and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.settings import Settings, load_settings

_EXTRAS = {
    "light": ("onnxruntime", "tokenizers"),
    "models": ("torch", "transformers", "safetensors", "gguf"),
    "chat": ("openai", "httpx2", "filelock"),
    "local-llm": ("xllamacpp",),
    "approximate": ("faiss-cpu",),
    "ray": ("ray",),
    "demo": ("matplotlib", "jinja2"),
    "lab": ("pyarrow", "scikit-learn", "networkx", "datasketch", "rouge-score"),
}


def doctor(
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the installation: versions, extras, models, settings.

    Exit code 3 when the retriever of these settings cannot run; extras and models that nothing
    here asks for may be missing.
    """
    console = Console(as_json=as_json)
    settings = load_settings(config, models_dir=models_dir)
    checks = [*_core(), *_extras(), *_models(settings), _retriever(settings)]
    fields = {"checks": [{"name": name, "ok": ok, "detail": text} for name, ok, text in checks]}
    lines = [f"{'ok     ' if ok else 'missing'} {name}: {text}" for name, ok, text in checks]
    console.result(fields, lines)
    _, embeds, _ = checks[-1]
    leave(findings=False, partial=not embeds)


def _core() -> Iterator[tuple[str, bool, str]]:
    yield "python", True, f"{platform.python_version()} on {platform.machine()}"
    yield "processors", True, str(os.cpu_count())
    for package in ("ragsieve", "numpy", "scipy"):
        yield package, True, importlib.metadata.version(package)


def _extras() -> Iterator[tuple[str, bool, str]]:
    for extra, packages in _EXTRAS.items():
        for package in packages:
            version = _version(package)
            remedy = f"pip install 'ragsieve[{extra}]'"
            yield f"extra {extra}: {package}", version is not None, version or remedy


def _models(settings: Settings) -> Iterator[tuple[str, bool, str]]:
    from ragsieve.backends.embedded import CATALOGUE
    from ragsieve.backends.installed import model_path
    from ragsieve.errors import ModelFilesError

    for model in CATALOGUE:
        try:
            folder: Path | None = model_path(settings.models_dir, model.name)
        except ModelFilesError as error:
            yield f"model {model.name}", False, str(error)
        else:
            yield f"model {model.name}", True, str(folder)


def _retriever(settings: Settings) -> tuple[str, bool, str]:
    """What embeds with these settings, found out by loading it."""
    from ragsieve.assembly import text_embedder
    from ragsieve.errors import RagsieveError

    name = f"retriever {settings.models.retriever}"
    try:
        return name, True, text_embedder(settings).identity
    except RagsieveError as error:
        return name, False, str(error)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
