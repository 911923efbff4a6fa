"""The command that explains a verdict in words."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.known import feature_source
from ragsieve.errors import InputError
from ragsieve.explain import MEANING, explain_verdict
from ragsieve.files.contexts import find_context, read_contexts
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import read_embeddings
from ragsieve.ports import FeatureSource
from ragsieve.records import Verdict
from ragsieve.settings import Settings, load_settings


def explain(
    document: Annotated[str, typer.Argument(metavar="DOC", help="Document id.")],
    documents: Annotated[Path | None, typer.Option(help="Corpus, with --embeddings.")] = None,
    embeddings: Annotated[Path | None, typer.Option(help="Its embeddings (.npy).")] = None,
    contexts: Annotated[Path | None, typer.Option(help="Contexts, with --query-id.")] = None,
    query_id: Annotated[str | None, typer.Option(help="The retrieval it stands in.")] = None,
    state: options.State = None,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    token_layer: options.TokenLayer = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain the evidence about one document: in its corpus, in a retrieval, or both."""
    console = Console(as_json=as_json)
    settings = load_settings(
        config,
        profile=profile,
        models_dir=models_dir,
        models={"causal": causal_model, "encoder": token_model, "encoder_layer": token_layer},
    )
    verdicts: list[tuple[str, Verdict]] = []
    if documents is not None and embeddings is not None:
        verdicts.append(("In the corpus", _in_corpus(settings, document, documents, embeddings)))
    if contexts is not None and query_id is not None:
        known = feature_source(settings, state, documents, embeddings)
        found = _in_ranking(settings, known, document, contexts, query_id)
        verdicts.append((f"Retrieved for {query_id}", found))
    if not verdicts:
        raise InputError(
            "expected --documents with --embeddings, or --contexts with --query-id, or all four"
        )
    lines = [part for title, one in verdicts for part in (f"{title}:", *_indented(one))]
    fields = {
        "document_id": document,
        "verdicts": [{"where": title} | _fields(one) for title, one in verdicts],
        "meaning": MEANING,
    }
    console.result(fields, [*lines, MEANING])
    leave(
        findings=any(one.flagged for _, one in verdicts),
        partial=any(not one.complete for _, one in verdicts),
    )


def _in_corpus(settings: Settings, name: str, documents: Path, embeddings: Path) -> Verdict:
    from ragsieve.assembly import corpus_detector

    corpus = read_corpus(documents)
    row = next((place for place, one in enumerate(corpus) if one.id == name), None)
    if row is None:
        raise InputError(f"{documents}: no document has id {name!r}")
    detector = corpus_detector(settings)
    scan = detector.scan(corpus, read_embeddings(embeddings, corpus))
    return detector.explain(corpus, scan, row)


def _in_ranking(
    settings: Settings, known: FeatureSource | None, name: str, contexts: Path, query_id: str
) -> Verdict:
    from ragsieve.assembly import query_detector

    ranking = find_context(read_contexts(contexts), query_id).ranking
    detector = query_detector(settings, known)
    for verdict in detector.score(ranking):
        if verdict.document_id == name:
            return verdict
    raise InputError(
        f"{contexts}: document {name!r} is not among the first {detector.candidates} of query "
        f"{query_id!r}, so it was not judged there"
    )


def _indented(verdict: Verdict) -> list[str]:
    return [f"  {line}" for line in explain_verdict(verdict)]


def _fields(verdict: Verdict) -> dict[str, object]:
    return {
        "decision": str(verdict.decision),
        "level": str(verdict.level),
        "score": verdict.score,
        "threshold": verdict.threshold,
        "explanation": list(explain_verdict(verdict)),
        "annotations": [dataclasses.asdict(one) for one in verdict.annotations],
        "evidence": [
            {
                "name": one.name,
                "value": one.value,
                "reason": one.reason,
                "detail": dataclasses.asdict(one.detail)  # type: ignore[call-overload]
                if one.detail is not None
                else None,
            }
            for one in verdict.evidences
        ],
    }
