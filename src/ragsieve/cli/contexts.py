"""Commands about retrievals: retrieve, filter, quarantine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragsieve._atomic import check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.defense.pipeline import Pipeline
from ragsieve.defense.policy import Resort
from ragsieve.defense.serial import Quarantine, serial_defense
from ragsieve.errors import EmbeddingError
from ragsieve.explain import MEANING
from ragsieve.files.contexts import ContextRow, context_fields, read_contexts, refilled_fields
from ragsieve.files.corpus import read_corpus, read_queries
from ragsieve.files.embeddings import encoder_of, read_embeddings
from ragsieve.files.predictions import query_fields, read_predictions
from ragsieve.records import Decision, Outcome

OnUnavailable = Annotated[
    Resort | None, typer.Option(help="Below the threshold with evidence unavailable.")
]


def retrieve(
    documents: options.Documents,
    embeddings: options.Embeddings,
    queries: Annotated[Path, typer.Option(help="Queries, one JSON object a line.")],
    output: options.Output,
    depth: Annotated[int, typer.Option(min=1, help="Documents per query.")] = 100,
    encoder: options.Encoder = None,
    encoder_path: options.EncoderPath = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Rank the corpus for each query and write the contexts that `filter` reads."""
    from ragsieve.assembly import text_embedder
    from ragsieve.retrieval import retrieve as rank_corpus
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    check_writable(output)
    models = {"retriever": encoder, "retriever_path": encoder_path, "device": device}
    settings = load_settings(config, models_dir=models_dir, models=models)
    corpus, asked = read_corpus(documents), read_queries(queries)
    rows = read_embeddings(embeddings, corpus)
    embedder = text_embedder(settings)
    _check_encoder(embeddings, embedder.identity)
    rankings = rank_corpus(asked, corpus, rows, embedder, depth=depth)
    write_jsonl(output, (context_fields(ContextRow(ranking)) for ranking in rankings))
    fields = {"queries": len(asked), "depth": min(depth, len(corpus))}
    console.result(fields, [f"{len(asked):,} queries ranked, {fields['depth']} deep"])


def filter_contexts(
    input_: Annotated[Path, typer.Option("--input", help="Contexts from `retrieve`.")],
    output: options.Output,
    contexts_output: Annotated[
        Path | None, typer.Option(help="Also write the refilled contexts here.")
    ] = None,
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
    from ragsieve.assembly import query_detector
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    for path in filter(None, (output, contexts_output)):
        check_writable(path)
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
    )
    rows = read_contexts(input_)
    detector = query_detector(settings)
    with console.progress("judging retrievals", len(rows)) as advance:
        pipeline = serial_defense(detector, policy=settings.filter, progress=advance)
        outcomes = pipeline.run_many([row.ranking for row in rows])
    write_jsonl(output, _prediction_rows(rows, outcomes))
    if contexts_output is not None:
        pairs = zip(rows, outcomes, strict=True)
        write_jsonl(contexts_output, (refilled_fields(row, outcome) for row, outcome in pairs))
    _report(console, outcomes)


def quarantine(
    contexts: Annotated[Path, typer.Option(help="Contexts from `retrieve`.")],
    graph_predictions: Annotated[Path, typer.Option(help="Predictions of `scan`.")],
    output: options.Output,
    on_unavailable: OnUnavailable = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Take the documents a scan flagged out of saved contexts and renumber the rest."""
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    check_writable(output)
    settings = load_settings(config, filter={"on_unavailable": on_unavailable})
    verdicts = list(read_predictions(graph_predictions))
    stage = Quarantine(
        [row.document_id for row in verdicts if row.flagged],
        scanned_ids=[row.document_id for row in verdicts],
        on_unavailable=settings.filter.on_unavailable,
        needed=settings.query.documents,
    )
    rows = read_contexts(contexts)
    pipeline = Pipeline([stage], context_size=settings.query.candidates)
    outcomes = pipeline.run_many([row.ranking for row in rows])
    write_jsonl(output, (_surviving(row, done) for row, done in zip(rows, outcomes, strict=True)))
    taken = sum(len(outcome.quarantined_ids) for outcome in outcomes)
    partial = sum(outcome.partial for outcome in outcomes)
    fields = {"queries": len(rows), "quarantined": taken, "partial": partial}
    lines = [
        f"{taken:,} places in {len(rows):,} rankings quarantined, {partial:,} rankings partial",
        *_notes(outcomes),
    ]
    console.result(fields, lines)
    leave(findings=taken > 0, partial=partial > 0)


def _surviving(row: ContextRow, outcome: Outcome) -> dict[str, object]:
    moved = dataclasses.replace(
        row,
        ranking=outcome.survivors,
        quarantined_ids=row.quarantined_ids + outcome.quarantined_ids,
    )
    return context_fields(moved)


def _check_encoder(embeddings: Path, identity: str) -> None:
    made_by = encoder_of(embeddings)
    if made_by is not None and made_by != identity:
        raise EmbeddingError(
            f"{embeddings}: made by {made_by}, the queries would be embedded by {identity}; "
            "use one encoder for both"
        )


def _prediction_rows(
    rows: Sequence[ContextRow], outcomes: Sequence[Outcome]
) -> Iterator[dict[str, Any]]:
    for row, outcome in zip(rows, outcomes, strict=True):
        for verdict in outcome.verdicts:
            yield query_fields(
                verdict,
                row.ranking.query_id,
                row.carried,
                removed=verdict.document_id in outcome.removed_ids,
            )


def _notes(outcomes: list[Outcome]) -> list[str]:
    problems = {
        f"query {outcome.ranking.query_id}: {step.reason}"
        for outcome in outcomes
        for step in outcome.trace
        if step.document_id is None
    }
    shown = sorted(problems)[:5]
    more = len(problems) - len(shown)
    return shown + ([f"... and {more:,} more such notes"] if more > 0 else [])


def _report(console: Console, outcomes: list[Outcome]) -> None:
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
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
        "meaning": MEANING,
    }
    lines = [
        f"{flagged:,} of {len(verdicts):,} candidates flagged, {undecided:,} undecided, "
        f"{removed:,} removed, in {len(outcomes):,} retrievals ({partial:,} partial).",
        *(f"Unavailable: {reason}" for reason in missing),
        *_notes(outcomes),
        MEANING,
    ]
    console.result(fields, lines)
    leave(findings=flagged > 0, partial=partial > 0)
