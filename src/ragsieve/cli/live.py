"""Commands about a live index: create, add, remove, update, scan, versions, compact, prune."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options, scanning
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.errors import ConfigError, InputError
from ragsieve.records import Decision
from ragsieve.settings import Settings, load_settings

if TYPE_CHECKING:
    from ragsieve.live.index import Change, Rule
    from ragsieve.live.store import LiveStore, LiveWriter

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the live index.")]
Kept = Annotated[int, typer.Option("--keep", min=1, help="Newest versions to keep.")]

app = typer.Typer(
    no_args_is_help=True,
    help="A corpus whose documents come and go, judged as a scan of all of them would judge it. "
    "No language model is asked: texts are not kept. Exit codes: 0 done or clean, 1 findings of "
    "`scan`, 2 usage, bad input or another writer, 3 partial.",
)


@app.command()
def create(
    store: Store,
    documents: options.Documents,
    embeddings: options.Embeddings,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a live index of a corpus in a new folder: version 1."""
    from ragsieve.evidence.knn import unit_rows
    from ragsieve.files.corpus import read_corpus
    from ragsieve.files.embeddings import read_embeddings
    from ragsieve.live.store import LiveStore

    console = Console(as_json=as_json)
    rule = still_rule(load_settings(config, profile=profile), console.note)
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    # What would be refused must not leave a folder behind.
    unit_rows(rows)
    made = LiveStore.create(store, rule)
    with made.writer() as live:
        _report_change(console, live, live.add(corpus, rows))


@app.command()
def add(
    store: Store,
    documents: options.Documents,
    embeddings: options.Embeddings,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Take new documents in; ids that are there already are refused."""
    from ragsieve.files.corpus import read_corpus
    from ragsieve.files.embeddings import read_embeddings

    console = Console(as_json=as_json)
    opened = _opened(console, store, profile, config)
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    with opened.writer() as live:
        _report_change(console, live, live.add(corpus, rows))


@app.command()
def update(
    store: Store,
    documents: options.Documents,
    embeddings: options.Embeddings,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace documents under their ids; ids that are not there are refused."""
    from ragsieve.files.corpus import read_corpus
    from ragsieve.files.embeddings import read_embeddings

    console = Console(as_json=as_json)
    opened = _opened(console, store, profile, config)
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    with opened.writer() as live:
        _report_change(console, live, live.update(corpus, rows))


@app.command()
def remove(
    store: Store,
    ids: Annotated[
        list[str] | None, typer.Option("--ids", help="A document's id; may be repeated.")
    ] = None,
    ids_file: Annotated[Path | None, typer.Option(help="Ids, one a line.")] = None,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Let documents go; ids that are not there are refused."""
    console = Console(as_json=as_json)
    names = [*(ids or ()), *(() if ids_file is None else _read_ids(ids_file))]
    if not names:
        raise ConfigError("expected --ids ID or --ids-file FILE with at least one id")
    opened = _opened(console, store, profile, config)
    with opened.writer() as live:
        _report_change(console, live, live.remove(names))


@app.command()
def scan(
    store: Store,
    output: options.Output,
    version: Annotated[
        int | None, typer.Option(min=1, help="A version that `versions` lists; else the newest.")
    ] = None,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the verdicts of the newest version, or of an earlier one, as `ragsieve scan` does."""
    from ragsieve.detectors.campaigns import campaigns, cut
    from ragsieve.files.segments import SegmentFolder

    console = Console(as_json=as_json)
    check_writable(output)
    check_distinct([output], [store])
    opened = _opened(console, store, profile, config)
    if version is None:
        newest = SegmentFolder(store).newest()
        version = None if newest is None else newest.number
    result = opened.open(version).scan()
    found = cut(campaigns(result), None)
    write_jsonl(output, scanning.scan_rows(result, found))
    for note in result.notes:
        console.note(note)
    fields = {"version": version} | scanning.scan_fields(result, found, None)
    console.result(fields, [f"Version {version}:", *scanning.scan_lines(result, found)])
    counts = Counter(result.decisions)
    leave(findings=bool(counts[Decision.FLAGGED]), partial=bool(counts[Decision.UNDECIDED]))


@app.command()
def versions(store: Store, as_json: options.AsJson = False) -> None:
    """List the versions that can be read back, the oldest first."""
    from ragsieve.files.segments import SegmentFolder

    console = Console(as_json=as_json)
    found = SegmentFolder(store).versions()
    rows = [
        {"version": one.number, "whole": one.parent is None, "builds_on": one.parent} | one.facts
        for one in found
    ]
    lines = [
        f"{one.number}: {one.facts.get('documents')} documents, {one.facts.get('added')} came, "
        f"{one.facts.get('removed')} left" + ("" if one.parent else "; a whole version")
        for one in found
    ]
    console.result({"versions": rows}, lines or ["No version yet; add documents."])


@app.command()
def compact(
    store: Store,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the newest version as a whole one, without what left."""
    console = Console(as_json=as_json)
    with _opened(console, store, profile, config).writer() as live:
        info = live.compact()
        fields = {"version": info.number, "documents": len(live.index)}
    console.result(
        fields, [f"Version {info.number} stands alone: {fields['documents']} documents."]
    )


@app.command()
def prune(store: Store, keep: Kept, as_json: options.AsJson = False) -> None:
    """Delete versions but the newest ones and those they build on, and half-written files."""
    from ragsieve.files.segments import SegmentFolder

    console = Console(as_json=as_json)
    folder = SegmentFolder(store)
    with folder.lock():
        dropped = folder.prune(keep)
        left = [one.number for one in folder.versions()]
    named = ", ".join(map(str, left)) or "none"
    console.result(
        {"deleted": list(dropped), "versions": left},
        [f"Versions deleted: {len(dropped)}; kept: {named}."],
    )


def still_rule(settings: Settings, note: Callable[[str], None]) -> Rule:
    """The corpus rule of the settings without a language model.

    :param note: told when the settings name one.
    :raises ConfigError: for an unknown profile.
    """
    from ragsieve.detectors.default_corpus import DefaultCorpusRule
    from ragsieve.detectors.paper_corpus import PaperCorpusRule
    from ragsieve.detectors.profiles import unknown_profile

    if settings.profile == "paper":
        return PaperCorpusRule(settings.paper.corpus)
    if settings.profile != "default":
        raise unknown_profile(settings.profile)
    if settings.models.causal not in {"auto", "none"}:
        note(
            "models.causal is not used here: alien runs stay unconfirmed and ask for review at most"
        )
    return DefaultCorpusRule(settings.corpus)


def _opened(console: Console, store: Path, profile: str | None, config: Path | None) -> LiveStore:
    from ragsieve.live.store import LiveStore

    return LiveStore(store, still_rule(load_settings(config, profile=profile), console.note))


def _read_ids(path: Path) -> Iterator[str]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected ids, one a line, in UTF-8 ({error})") from error
    return (line for line in text.split("\n") if line)


def _report_change(console: Console, live: LiveWriter, done: Change) -> None:
    fields = {
        "version": live.version,
        "documents": len(live.index),
        "profile": live.index.rule.profile,
        "causal_model": None,
    } | dataclasses.asdict(done)
    lines = [
        f"Version {live.version}: {len(live.index):,} documents; {done.added:,} came, "
        f"{done.removed:,} left, {done.touched:,} have other neighbours now "
        f"({done.searched:,} searched for).",
        *(["The statistics were estimated anew."] if done.estimated else []),
    ]
    console.result(fields, lines)
