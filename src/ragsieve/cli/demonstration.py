"""The demo command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the results and the report.")] = Path(
        ".demo"
    ),
    seed: Annotated[int, typer.Option(help="Draws other questions, payloads and frames.")] = 1,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Plant poison in real documentation and find it again; writes an HTML report."""
    from ragsieve.lab.demo.run import run_demo
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    settings = load_settings(config, models_dir=models_dir)
    result = run_demo(settings, output, seed=seed, note=console.note)
    console.result(result.fields(), result.lines())
