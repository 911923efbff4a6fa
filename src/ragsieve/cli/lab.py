"""Commands of the lab: run experiments, report on them, prepare datasets."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.journal import JournaledChat
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import BAD_INPUT, leave
from ragsieve.ports import ChatModel
from ragsieve.settings import Settings

if TYPE_CHECKING:
    from ragsieve.lab.experiments.spec import Answers

app = typer.Typer(
    no_args_is_help=True,
    help="Experiments with known poison. Exit codes: 0 complete, 2 usage or bad input, "
    "3 cells failed or unavailable.",
)
Results = Annotated[Path, typer.Option(help="Folder for results, one folder an experiment.")]
RESULTS = Path(".lab")


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(help="Experiment, TOML; unknown keys are errors.")],
    output: Results = RESULTS,
    bench: Annotated[
        Path | None, typer.Option(help="Folder of the dataset called `bench`.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Embeddings, losses, journals; inside the output if absent.")
    ] = None,
    models_dir: options.ModelsDir = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML settings whose chat members answer and judge.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run what is not done yet of an experiment, cell by cell, and print its tables."""
    from ragsieve.lab.experiments.parts import LabParts
    from ragsieve.lab.experiments.reading import read_experiment
    from ragsieve.lab.experiments.report import WORDS, table_of
    from ragsieve.lab.experiments.run import Progress, run_experiment
    from ragsieve.lab.experiments.spec import cells_of
    from ragsieve.lab.experiments.summary import summarize
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    experiment = read_experiment(file)
    folder = cache or output / "cache"
    settings = load_settings(config, models_dir=models_dir)
    with (
        contextlib.ExitStack() as running,
        console.progress(experiment.name, len(cells_of(experiment))) as advance,
    ):
        parts = LabParts(
            bench=bench,
            models_dir=models_dir,
            cache=folder,
            chat=_members_of(settings, folder / "chat" / "replies.jsonl", running),
            note=console.note,
        )
        done = run_experiment(experiment, parts, output, Progress(console.note, advance))
    summary = summarize(output / experiment.name)
    for metric in summary.metrics:
        table = table_of(summary, metric, WORDS.get(metric, metric))
        if table is not None:
            rows = [[method, *values] for method, values in table.rows]
            console.table(f"{summary.name}: {table.title}", ("method", *table.columns), rows)
    lines = [
        f"{done.done} cells run, {done.reused} done before, {done.failed} failed, "
        f"{done.unavailable} unavailable"
    ]
    # Progress named the cells; one reason often stands for many.
    lines += list(dict.fromkeys(reason for _, reason in done.problems))
    console.result({"run": dataclasses.asdict(done), "summary": dataclasses.asdict(summary)}, lines)
    leave(findings=False, partial=not done.complete)


def _members_of(
    settings: Settings, journal: Path, running: contextlib.ExitStack
) -> Callable[[Answers], Mapping[str, ChatModel]]:
    """The models of an experiment: an address, members of the settings, or served here meanwhile.

    Replies are kept in the journal, so that what is run again costs nothing.
    """
    from ragsieve.assembly import chat_model, reply_journal
    from ragsieve.lab.experiments.asked import SettledChat

    def give(answers: Answers) -> Mapping[str, ChatModel]:
        kept = reply_journal(journal)
        found: dict[str, ChatModel] = {}
        for name, endpoint in _endpoints(settings, answers, running).items():
            opened = chat_model(endpoint)
            running.callback(opened.close)
            found[name] = JournaledChat(SettledChat(opened), kept)
        return found

    return give


def _endpoints(
    settings: Settings, answers: Answers, running: contextlib.ExitStack
) -> Mapping[str, ChatEndpoint]:
    from ragsieve.assembly import chat_member

    if answers.local:
        from ragsieve.cli.llm import served_members

        return served_members(answers.local, settings.models_dir, running)
    if answers.base_url is not None and answers.model is not None:
        return {answers.model: ChatEndpoint(base_url=answers.base_url, model=answers.model)}
    return {name: chat_member(settings, name) for name in answers.names}


@app.command("report")
def report(
    output: Results = RESULTS,
    note: Annotated[
        list[str] | None, typer.Option(help="A line for the top; may stand several times.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write one HTML page and one Markdown file about every experiment that was run."""
    from ragsieve.lab.experiments.report import write_report
    from ragsieve.lab.experiments.store import PLAN
    from ragsieve.lab.experiments.summary import summarize

    console = Console(as_json=as_json)
    folders = sorted(path.parent for path in output.glob(f"*/{PLAN}"))
    if not folders:
        console.note(f"ragsieve: {output}: no results here; `ragsieve lab run FILE` makes them")
        raise typer.Exit(BAD_INPUT)
    summaries = [summarize(folder) for folder in folders]
    page, plain = write_report(output, summaries, note or ())
    problems = sum(len(summary.problems) for summary in summaries)
    fields = {
        "html": str(page),
        "markdown": str(plain),
        "experiments": [summary.name for summary in summaries],
        "cells_without_figures": problems,
    }
    lines = [f"{len(summaries)} experiments: {page}, {plain}"]
    lines += [f"{problems} cells without figures; the report says why"] if problems else []
    console.result(fields, lines)


@app.command("prepare")
def prepare(
    source: Annotated[
        Path, typer.Argument(help="Dataset folder, or the word `docstrings`; see the lab's docs.")
    ],
    output: Annotated[Path, typer.Option(help="Folder for DATASET/RETRIEVER folders.")],
    retriever: Annotated[
        list[str] | None, typer.Option(help="As models.retriever; may stand several times.")
    ] = None,
    depth: Annotated[int, typer.Option(help="Documents in a ranking.")] = 100,
    cache: Annotated[
        Path | None, typer.Option(help="Embeddings; inside the output if absent.")
    ] = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Rank a dataset with its attacks planted; writes contexts and, apart, labels."""
    from ragsieve.lab.corpora.layouts import load
    from ragsieve.lab.corpora.records import Poisoning
    from ragsieve.lab.prepare import Plan, prepare_all, retrievers_of
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    settings = load_settings(config, models_dir=models_dir)
    loaded = load(source)
    attacks = [attack.poisoning for attack in loaded.attacks.values()]
    poisoning = Poisoning(
        tuple(document for one in attacks for document in one.documents),
        {name: label for one in attacks for name, label in one.labels.items()},
    )
    cells = prepare_all(
        [Plan(loaded.dataset, poisoning)],
        retrievers_of(settings, retriever or [settings.models.retriever]),
        cache or output / "cache",
        depth,
        output,
        note=console.note,
    )
    written = [cell for cell in cells if cell.folder is not None]
    lines = [f"{len(written)} of {len(cells)} cells: {output}"]
    lines += [f"{cell.retriever}: unavailable: {cell.reason}" for cell in cells if cell.reason]
    fields = [
        {
            "dataset": cell.dataset,
            "retriever": cell.retriever,
            "folder": None if cell.folder is None else str(cell.folder),
            "kept": cell.kept,
            "reason": cell.reason,
        }
        for cell in cells
    ]
    console.result({"cells": fields}, lines)
    leave(findings=False, partial=len(written) < len(cells))
