"""The program: its commands, and what its errors look like."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from ragsieve.cli import (
    answering,
    asking,
    auditing,
    benching,
    calibrating,
    contexts,
    custody,
    demonstration,
    doctor,
    embedding,
    evaluation,
    explanation,
    features,
    filtering,
    findings,
    graphs,
    guarding,
    lab,
    live,
    llm,
    models,
    scanning,
    serving,
)
from ragsieve.cli.console import Console
from ragsieve.cli.exits import BAD_INPUT
from ragsieve.errors import RagsieveError

app = typer.Typer(
    name="ragsieve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Find documents planted to steer retrieval-augmented generation. "
    "Exit codes: 0 clean, 1 findings, 2 usage or bad input, 3 partial.",
)
app.command()(embedding.embed)
app.command()(contexts.retrieve)
app.command()(graphs.graph)
app.command()(scanning.scan)
app.command("filter")(filtering.filter_contexts)
app.command()(contexts.quarantine)
app.command()(guarding.guard)
app.command()(asking.ask)
app.command()(answering.answer)
app.command()(calibrating.calibrate)
app.command()(evaluation.evaluate)
app.command()(evaluation.ablate)
app.command()(explanation.explain)
app.add_typer(models.app, name="models")
app.add_typer(llm.app, name="llm")
app.add_typer(features.app, name="features")
app.add_typer(live.app, name="live")
app.command()(serving.serve)
app.add_typer(serving.keys, name="keys")
app.add_typer(findings.app, name="findings")
app.add_typer(custody.app, name="store")
app.command()(custody.rollback)
app.add_typer(auditing.app, name="audit")
app.add_typer(lab.app, name="lab")
app.command()(benching.bench)
app.command()(demonstration.demo)
app.command()(doctor.doctor)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one line on standard error."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="ragsieve", standalone_mode=False)
    except typer.TyperException as error:
        Console().note(f"ragsieve: {error.format_message()}")
        return BAD_INPUT
    except RagsieveError as error:
        Console().note(f"ragsieve: {error}")
        return BAD_INPUT
    return int(code or 0)


def main() -> NoReturn:
    """Entry point of the ``ragsieve`` program."""
    sys.exit(run())
