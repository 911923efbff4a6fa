"""Commands that make and move contexts: retrieve, quarantine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.defense.pipeline import Pipeline
from ragsieve.defense.policy import Resort
from ragsieve.defense.serial import Quarantine
from ragsieve.errors import EmbeddingError
from ragsieve.files.contexts import ContextRow, context_fields, read_contexts
from ragsieve.files.corpus import read_corpus, read_queries
from ragsieve.files.embeddings import encoder_of, read_embeddings
from ragsieve.files.predictions import read_predictions
from ragsieve.outcomes import Outcome
from ragsieve.records import Level

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
    check_distinct([output], [documents, embeddings, queries])
    models = {"retriever": encoder, "retriever_path": encoder_path, "device": device}
    settings = load_settings(config, models_dir=models_dir, models=models)
    corpus, asked = read_corpus(documents), read_queries(queries)
    rows = read_embeddings(embeddings, corpus)
    embedder = text_embedder(settings)
    check_query_encoder(embeddings, embedder.identity)
    rankings = rank_corpus(asked, corpus, rows, embedder, depth=depth)
    write_jsonl(output, (context_fields(ContextRow(ranking)) for ranking in rankings))
    fields = {"queries": len(asked), "depth": min(depth, len(corpus))}
    console.result(fields, [f"{len(asked):,} queries ranked, {fields['depth']} deep"])


def quarantine(
    contexts: Annotated[Path, typer.Option(help="Contexts from `retrieve`.")],
    graph_predictions: Annotated[Path, typer.Option(help="Predictions of `scan`.")],
    output: options.Output,
    on_unavailable: OnUnavailable = None,
    at: Annotated[
        Level | None, typer.Option(help="Lowest level that is taken out: review or quarantine.")
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Take the documents a scan flagged out of saved contexts and renumber the rest."""
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    check_writable(output)
    check_distinct([output], [contexts, graph_predictions])
    chosen = {"on_unavailable": on_unavailable, "quarantine_at": at}
    settings = load_settings(config, filter=chosen)
    verdicts = list(read_predictions(graph_predictions))
    stage = Quarantine(
        [
            row.document_id
            for row in verdicts
            if row.flagged and row.level.reaches(settings.filter.quarantine_at)
        ],
        scanned_ids=[row.document_id for row in verdicts],
        on_unavailable=settings.filter.on_unavailable,
        needed=settings.query.fewest_documents,
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
        *rankings_notes(outcomes),
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


def check_query_encoder(embeddings: Path, identity: str) -> None:
    """Questions must be embedded by the encoder of the rows, where those name theirs.

    :raises EmbeddingError: when they would not be.
    """
    made_by = encoder_of(embeddings)
    if made_by is not None and made_by != identity:
        raise EmbeddingError(
            f"{embeddings}: made by {made_by}, the queries would be embedded by {identity}; "
            "use one encoder for both"
        )


def rankings_notes(outcomes: Sequence[Outcome]) -> list[str]:
    """What happened to rankings as a whole: the first few, and how many more."""
    problems = {
        f"query {outcome.ranking.query_id}: {step.reason}"
        for outcome in outcomes
        for step in outcome.trace
        if step.document_id is None
    }
    shown = sorted(problems)[:5]
    more = len(problems) - len(shown)
    return shown + ([f"... and {more:,} more such notes"] if more > 0 else [])
