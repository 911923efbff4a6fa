"""The command that judges documents by ring 1 before they enter an index."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.known import check_encoder
from ragsieve.errors import InputError
from ragsieve.files.corpus import read_corpus, read_queries
from ragsieve.files.embeddings import read_embeddings
from ragsieve.files.state import read_state
from ragsieve.records import FloatArray
from ragsieve.settings import load_settings
from ragsieve.trishield.ingest_guard import IngestAssessment, IngestGuard

_SHOWN = 5


def guard(
    documents: options.Documents,
    output: options.Output,
    embeddings: Annotated[
        Path | None, typer.Option(help="Embeddings of these documents (.npy); with --state.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="State of the index: what is far from it stands out.")
    ] = None,
    watch: Annotated[
        Path | None, typer.Option(help="Queries of your own log or FAQ, one JSON object a line.")
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge each document by itself before it enters the index: ring 1, the ingest guard.

    Exit codes: 0 nothing blocked, 1 something is, 2 usage or bad input.
    """
    console = Console(as_json=as_json)
    check_writable(output)
    given = [path for path in (documents, embeddings, watch) if path is not None]
    check_distinct([output], given)
    chosen = load_settings(config).trishield.guard
    if watch is not None:
        asked = tuple(query.text for query in read_queries(watch))
        questions = tuple(dict.fromkeys((*chosen.watched_questions, *asked)))
        chosen = dataclasses.replace(chosen, watched_questions=questions)
    corpus = read_corpus(documents)
    judge = IngestGuard(chosen)
    rows: FloatArray | None = None
    if (embeddings is None) != (state is None):
        raise InputError("expected --embeddings and --state together")
    if embeddings is not None and state is not None:
        rows = read_embeddings(embeddings, corpus)
        snapshot = read_state(state)
        check_encoder(embeddings, state, snapshot)
        judge = judge.fit(snapshot.embeddings)
    found = judge.assess_many(corpus, rows)
    write_jsonl(output, map(_fields, found))
    _report(console, found)


def _fields(one: IngestAssessment) -> dict[str, Any]:
    return {
        "document_id": one.document_id,
        "blocked": one.blocked,
        **dict(one.components),
        "reasons": list(one.reasons),
        "unmeasured": list(one.unmeasured),
    }


def _report(console: Console, found: tuple[IngestAssessment, ...]) -> None:
    blocked = [one for one in found if one.blocked]
    missing = sorted({reason for one in found for reason in one.unmeasured})
    fields = {"documents": len(found), "blocked": len(blocked), "unmeasured": missing}
    lines = [
        f"{len(blocked):,} of {len(found):,} documents would be kept out; a score is evidence of "
        "promotion, not of falsehood",
        *(f"{one.document_id}: {'; '.join(one.reasons)}" for one in blocked[:_SHOWN]),
        *(f"not measured: {reason}" for reason in missing[:_SHOWN]),
    ]
    console.result(fields, lines)
    leave(findings=bool(blocked), partial=False)
