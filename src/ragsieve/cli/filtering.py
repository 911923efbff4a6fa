"""The command that judges retrievals before generation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.contexts import OnUnavailable, rankings_notes
from ragsieve.cli.exits import leave
from ragsieve.cli.known import feature_source
from ragsieve.defense.policy import Resort
from ragsieve.defense.serial import serial_defense
from ragsieve.detectors.default_query import CopyChoice, QueryCopy
from ragsieve.detectors.query import Mode
from ragsieve.explain import MEANING
from ragsieve.files.contexts import ContextRow, read_contexts, refilled_fields
from ragsieve.files.predictions import query_fields, ruling_fields
from ragsieve.outcomes import Outcome, Ruling
from ragsieve.ports import FeatureSource
from ragsieve.records import Decision, Surroundings, Verdict
from ragsieve.settings import Settings, load_settings


def filter_contexts(
    input_: Annotated[Path, typer.Option("--input", help="Contexts from `retrieve`.")],
    output: options.Output,
    contexts_output: Annotated[
        Path | None, typer.Option(help="Also write the refilled contexts here.")
    ] = None,
    state: options.State = None,
    documents: Annotated[
        Path | None, typer.Option(help="Corpus, with --embeddings: scanned for this command.")
    ] = None,
    embeddings: Annotated[Path | None, typer.Option(help="Its embeddings (.npy).")] = None,
    query_copy: Annotated[
        QueryCopy | None,
        typer.Option(help="May a copied query remove alone? auto: not where documents ask."),
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="decision stops at what decides; predictions then hold bounds.")
    ] = Mode.FULL,
    features: options.Features = None,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    token_layer: options.TokenLayer = None,
    on_unavailable: OnUnavailable = None,
    on_short: Annotated[Resort | None, typer.Option(help="Ranking too short to judge.")] = None,
    on_duplicates: Annotated[Resort | None, typer.Option(help="Id repeated in a ranking.")] = None,
    on_few_survivors: Annotated[
        Resort | None, typer.Option(help="Fewer survivors than the context holds.")
    ] = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge each retrieval before generation (RSQ), take flagged candidates out and refill."""
    from ragsieve.assembly import feature_store, query_detector

    console = Console(as_json=as_json)
    for path in filter(None, (output, contexts_output)):
        check_writable(path)
    check_distinct([output, contexts_output], [input_, documents, embeddings])
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
        filter={
            "on_unavailable": on_unavailable,
            "on_short": on_short,
            "on_duplicates": on_duplicates,
            "on_few_survivors": on_few_survivors,
        },
        query={"query_copy": query_copy},
        features={"store": features},
    )
    rows = read_contexts(input_)
    known = feature_source(settings, state, documents, embeddings)
    store = feature_store(settings, note=console.note)
    detector = query_detector(settings, known, store=store)
    with console.progress("judging retrievals", len(rows)) as advance:
        pipeline = serial_defense(detector, policy=settings.filter, progress=advance, mode=mode)
        outcomes = pipeline.run_many([row.ranking for row in rows])
    write_jsonl(output, _prediction_rows(rows, outcomes))
    if contexts_output is not None:
        pairs = zip(rows, outcomes, strict=True)
        write_jsonl(contexts_output, (refilled_fields(row, outcome) for row, outcome in pairs))
    _report(console, outcomes, _copy_choice(settings, known))


def _copy_choice(settings: Settings, known: FeatureSource | None) -> CopyChoice | None:
    if settings.profile != "default":
        return None
    return settings.query.copy_choice(Surroundings() if known is None else known.surroundings)


def _prediction_rows(
    rows: Sequence[ContextRow], outcomes: Sequence[Outcome]
) -> Iterator[dict[str, Any]]:
    for row, outcome in zip(rows, outcomes, strict=True):
        name, carried, gone = row.ranking.query_id, row.carried, outcome.removed_ids
        for verdict in outcome.verdicts:
            yield query_fields(verdict, name, carried, removed=verdict.document_id in gone)
        for ruling in outcome.rulings:
            yield ruling_fields(ruling, name, carried, removed=ruling.document_id in gone)


def _report(console: Console, outcomes: list[Outcome], choice: CopyChoice | None) -> None:
    verdicts: list[Verdict | Ruling] = []
    for outcome in outcomes:
        verdicts += [*outcome.verdicts, *outcome.rulings]
    flagged = sum(verdict.flagged for verdict in verdicts)
    undecided = sum(verdict.decision is Decision.UNDECIDED for verdict in verdicts)
    removed = sum(len(outcome.removed_ids) for outcome in outcomes)
    partial = sum(outcome.partial for outcome in outcomes)
    missing = sorted(
        {
            f"{evidence.name}: {evidence.reason}"
            for verdict in verdicts
            for evidence in verdict.evidences
            if not evidence.measured
        }
    )
    fields = {
        "queries": len(outcomes),
        "candidates": len(verdicts),
        "flagged": flagged,
        "undecided": undecided,
        "removed": removed,
        "partial": partial,
        "unavailable": missing,
        "query_copy": None if choice is None else dataclasses.asdict(choice),
        "meaning": MEANING,
    }
    lines = [
        f"{flagged:,} of {len(verdicts):,} candidates flagged, {undecided:,} undecided, "
        f"{removed:,} removed, in {len(outcomes):,} retrievals ({partial:,} partial).",
        *([] if choice is None else [f"Copied queries: {choice.mode}, {choice.reason}."]),
        *(f"Unavailable: {reason}" for reason in missing),
        *rankings_notes(outcomes),
        MEANING,
    ]
    console.result(fields, lines)
    leave(findings=flagged > 0, partial=partial > 0)
