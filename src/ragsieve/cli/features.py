"""Commands about the feature store: build, stats, verify, prune."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.errors import ConfigError
from ragsieve.files.corpus import read_corpus
from ragsieve.records import Document
from ragsieve.settings import Settings, load_settings

_MIB = 1024 * 1024

Store = Annotated[
    Path | None,
    typer.Option(help="The feature store, NAME.sqlite; else features.store of the settings."),
]

app = typer.Typer(
    no_args_is_help=True,
    help="What is known about each document, computed once and kept. Exit codes: 0 complete or "
    "sound, 1 damage found, 2 usage or bad input, 3 not everything could be kept.",
)


@app.command()
def build(
    documents: options.Documents,
    store: Store = None,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    token_layer: options.TokenLayer = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute what the profile needs to know about every document. Resumable; runs side by side."""
    from ragsieve.assembly import feature_store, stored_features

    console = Console(as_json=as_json)
    settings = load_settings(
        config,
        profile=profile,
        models_dir=models_dir,
        models={
            "causal": causal_model,
            "encoder": token_model,
            "encoder_layer": token_layer,
            "device": device,
        },
        features={"store": store},
    )
    texts = _texts(settings, read_corpus(documents))
    named = _named(settings)
    opened = feature_store(settings, note=console.note)
    if opened is None:
        raise ConfigError("features.store: names no store")
    parts: list[dict[str, Any]] = []
    with opened:
        for one in stored_features(settings, opened):
            with console.progress(one.space.kind, len(texts)) as advance:
                done = one.ensure(texts, advance)
            parts.append(
                {
                    "kind": one.space.kind,
                    "fingerprint": one.space.fingerprint,
                    "present": done.present,
                    "computed": done.computed,
                    "absent": done.absent,
                }
            )
        report = opened.report()
        absent = sum(part["absent"] for part in parts)
    fields = {
        "store": str(named),
        "profile": settings.profile,
        "texts": len(texts),
        "parts": parts,
        "damaged": report.damaged,
        "pruned": report.pruned,
        "notes": list(report.notes),
    }
    console.result(fields, [*map(_part_line, parts), *_room_lines(report.pruned, absent)])
    leave(findings=False, partial=absent > 0)


@app.command()
def stats(
    store: Store = None, config: options.Config = None, as_json: options.AsJson = False
) -> None:
    """Count entries and bytes by kind and fingerprint."""
    from ragsieve.featurestore.upkeep import usage

    console = Console(as_json=as_json)
    named = _named(load_settings(config, features={"store": store}))
    found = usage(named)
    rows = [
        (one.space.kind, f"{one.entries:,}", _size(one.stored_bytes), one.space.fingerprint)
        for one in found.spaces
    ]
    console.table(str(named), ("kind", "entries", "size", "fingerprint"), rows)
    spaces = [
        {
            "kind": one.space.kind,
            "fingerprint": one.space.fingerprint,
            "entries": one.entries,
            "bytes": one.stored_bytes,
        }
        for one in found.spaces
    ]
    fields = {
        "store": str(named),
        "entries": found.entries,
        "bytes": found.stored_bytes,
        "file_bytes": found.file_bytes,
        "damaged": found.damaged,
        "set_aside": found.set_aside,
        "spaces": spaces,
    }
    lines = [
        f"{found.entries:,} entries, {_size(found.stored_bytes)} stored, "
        f"{_size(found.file_bytes)} on disk; {found.damaged:,} damaged entries replaced so far"
    ]
    lines += [f"a damaged file was set aside: {found.set_aside}"] if found.set_aside else []
    console.result(fields, lines)


@app.command()
def verify(
    store: Store = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove what is damaged; it is computed again.")
    ] = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Read every entry and compare it with its checksum. Exit code 1 when damage was found."""
    from ragsieve.featurestore.upkeep import verify as verify_store

    console = Console(as_json=as_json)
    named = _named(load_settings(config, features={"store": store}))
    with console.progress("verifying", _entries(named)) as advance:
        found = verify_store(named, repair=repair, progress=advance)
    fields = {
        "store": str(named),
        "entries": found.entries,
        "damaged": found.damaged,
        "structure": found.structure,
        "repaired": found.repaired,
    }
    lines = [f"{found.entries:,} entries read, {found.damaged:,} damaged"]
    lines += [f"the file is damaged: {found.structure}"] if found.structure else []
    if not found.sound:
        lines.append("removed" if found.repaired else "run again with --repair to remove it")
    console.result(fields, lines)
    leave(findings=not found.sound, partial=False)


@app.command()
def prune(
    store: Store = None,
    max_bytes: Annotated[
        int | None, typer.Option(help="Remove the least recently used beyond so many bytes.")
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(help="Remove what was not used for so many days.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="Remove what has this fingerprint, as `stats` shows it.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Remove other fingerprints than those of the profile and models given here, of "
            "the kinds they make.",
        ),
    ] = False,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    token_layer: options.TokenLayer = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove entries, and give their room back to the file system."""
    from ragsieve.featurestore.upkeep import prune as prune_store
    from ragsieve.featurestore.upkeep import usage

    console = Console(as_json=as_json)
    settings = load_settings(
        config,
        profile=profile,
        models_dir=models_dir,
        models={"causal": causal_model, "encoder": token_model, "encoder_layer": token_layer},
        features={"store": store},
    )
    named = _named(settings)
    # A store that is missing or damaged is refused before anything opens, or makes, it.
    usage(named)
    removed = prune_store(
        named,
        max_bytes=max_bytes,
        older_than_days=older_than,
        fingerprint=fingerprint,
        stale_but=_current(settings) if stale else None,
    )
    fields = {"store": str(named), "entries": removed.entries, "bytes": removed.stored_bytes}
    console.result(fields, [f"{removed.entries:,} entries removed, {_size(removed.stored_bytes)}"])


def _named(settings: Settings) -> Path:
    if settings.features.store is None:
        raise ConfigError(
            "features.store: expected the file of a feature store, found none; give --store "
            "NAME.sqlite, or set features.store"
        )
    return settings.features.store


def _texts(settings: Settings, corpus: Sequence[Document]) -> list[str]:
    """The distinct texts that scan and filter read: each detector cuts at a limit of its own."""
    rules = settings.paper if settings.profile == "paper" else settings
    limits = {rules.query.max_characters, rules.corpus.max_characters}
    found: Iterator[str] = (
        document.content[:limit] for document in corpus for limit in sorted(limits)
    )
    return list(dict.fromkeys(found))


def _current(settings: Settings) -> dict[str, set[str]]:
    """The fingerprints of what the settings would compute now, and of readings of any profile."""
    from ragsieve.assembly import feature_spaces

    current: dict[str, set[str]] = {}
    for space in feature_spaces(settings):
        current.setdefault(space.kind, set()).add(space.fingerprint)
    return current


def _entries(named: Path) -> int:
    from ragsieve.errors import InputError
    from ragsieve.featurestore.upkeep import usage

    try:
        return usage(named).entries
    except InputError:
        # Verifying will say what is wrong with it.
        return 0


def _part_line(part: dict[str, Any]) -> str:
    return (
        f"{part['kind']}: {part['computed']:,} computed, {part['present']:,} were there "
        f"({part['fingerprint']})"
    )


def _room_lines(pruned: int, absent: int) -> list[str]:
    lines = [f"{pruned:,} entries had to go to make room"] if pruned else []
    if absent:
        lines.append(
            f"{absent:,} could not be kept: the store is too small for the corpus "
            "(features.max_bytes, features.states_share), or its file cannot be written"
        )
    return lines


def _size(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB"
