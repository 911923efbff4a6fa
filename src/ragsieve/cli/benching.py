"""The command that measures what judging costs on one's own corpus and machine."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsieve.cli import contexts as context_commands
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.live import still_rule
from ragsieve.errors import ConfigError
from ragsieve.records import Document, FloatArray, Ranking
from ragsieve.settings import FeatureSettings, Settings, load_settings

if TYPE_CHECKING:
    from ragsieve.bench.changes import LiveFigures
    from ragsieve.bench.queries import QueryFigures
    from ragsieve.bench.scans import ScanFigures
    from ragsieve.bench.shortcuts import ApproximateFigures

NOISE = (
    "Times on a shared machine are noisy: compare ratios, and repeat. How much a plain "
    "implementation needs is measured by the programs of the repository's folder benchmarks, "
    "not here."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The rankings that are judged.

    :param source: ``queries``, ``contexts`` or ``stand-ins``.
    :param encode_ms_p50: of encoding one query; None where nothing was encoded.
    """

    source: str
    rankings: tuple[Ranking, ...]
    encode_ms_p50: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """Everything that was measured.

    :param live: empty for a corpus of one document.
    :param approximate: None without FAISS.
    """

    queries: tuple[QueryFigures, ...]
    scans: tuple[ScanFigures, ...]
    live: tuple[LiveFigures, ...]
    approximate: ApproximateFigures | None

    @property
    def decisions_equal(self) -> bool:
        """Whether every quicker way decided as the whole one; approximate graphs have no part."""
        equal = [one.decisions_equal for one in self.queries]
        equal += [one.decisions_equal for one in self.scans]
        return all([*equal, *(one.decisions_equal for one in self.live)])


def bench(
    documents: options.Documents,
    embeddings: options.Embeddings,
    queries: Annotated[
        Path | None, typer.Option(help="Queries, one JSON object a line; needs the encoder.")
    ] = None,
    contexts: Annotated[
        Path | None, typer.Option(help="Contexts from `retrieve`, instead of --queries.")
    ] = None,
    rankings: Annotated[int, typer.Option(min=1, help="Rankings to judge at most.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Times everything warm is measured.")] = 3,
    encoder: options.Encoder = None,
    encoder_path: options.EncoderPath = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    token_layer: options.TokenLayer = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure filter, scan, live index and approximate graph on a corpus, decisions compared.

    Exit codes: 0 every decision equal, 1 a quicker way decided otherwise, 2 usage or bad input.
    """
    from ragsieve.files.corpus import read_corpus
    from ragsieve.files.embeddings import read_embeddings

    console = Console(as_json=as_json)
    if queries is not None and contexts is not None:
        raise ConfigError("expected --queries or --contexts, found both; choose one")
    settings = load_settings(
        config,
        models_dir=models_dir,
        models={
            "retriever": encoder,
            "retriever_path": encoder_path,
            "causal": causal_model,
            "encoder": token_model,
            "encoder_layer": token_layer,
            "device": device,
        },
    )
    # A feature store would make the first pass a warm one.
    settings = settings.model_copy(update={"features": FeatureSettings()})
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    depth = max(settings.query.documents, settings.paper.query.documents)
    if contexts is not None:
        asked = _from_contexts(contexts, rankings)
    elif queries is not None:
        asked = _from_queries(settings, queries, (corpus, rows, embeddings), rankings, depth)
    else:
        asked = _stand_ins(corpus, rows, rankings, depth)
    tables = _measured(console, settings, corpus, rows, asked, repeats)
    notes = _notes(tables, asked)
    for note in notes:
        console.note(note)
    fields = {
        "documents": len(corpus),
        "dimension": int(rows.shape[1]),
        "repeats": repeats,
        "machine": {
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
        },
        "questions": {
            "source": asked.source,
            "rankings": len(asked.rankings),
            "depth": max((len(one) for one in asked.rankings), default=0),
            "encode_ms_p50": asked.encode_ms_p50,
        },
        "decisions_equal": tables.decisions_equal,
        **_fields(tables),
        "notes": notes,
    }
    _show(console, tables)
    verdict = (
        "Every decision is equal." if tables.decisions_equal else "DECISIONS DIFFER: report this."
    )
    console.result(fields, [verdict])
    leave(findings=not tables.decisions_equal, partial=False)


def _measured(
    console: Console,
    settings: Settings,
    corpus: tuple[Document, ...],
    rows: FloatArray,
    asked: Asked,
    repeats: int,
) -> Tables:
    from ragsieve.assembly import ingest_gate, query_detector
    from ragsieve.bench.changes import live_figures
    from ragsieve.bench.queries import query_figures
    from ragsieve.bench.scans import scan_figures
    from ragsieve.bench.shortcuts import approximate_figures
    from ragsieve.detectors.profiles import PROFILES

    filters, scans, changes, approximate = [], [], [], None
    for profile in PROFILES:
        own = settings.model_copy(update={"profile": profile})
        rule = still_rule(own, console.note)
        with console.progress(f"scanning, profile {profile}", repeats * len(corpus)) as advance:
            figures, scan = scan_figures(rule, corpus, rows, repeats, advance)
        scans.append(figures)
        known = None
        if profile == "default":
            gate = ingest_gate(own, confirm=False)
            known = gate.features(gate.snapshot(scan, rows))
        filters.append(query_figures(query_detector(own, known), asked.rankings, repeats))
        if len(corpus) > 1:
            changes.append(live_figures(rule, corpus, rows, scan, figures.total_seconds, repeats))
        if profile == "paper" and importlib.util.find_spec("faiss") is not None:
            approximate = approximate_figures(
                rule, corpus, rows, scan, figures.graph_seconds, repeats
            )
    return Tables(tuple(filters), tuple(scans), tuple(changes), approximate)


def _from_contexts(path: Path, count: int) -> Asked:
    from ragsieve.files.contexts import read_contexts

    return Asked("contexts", tuple(row.ranking for row in read_contexts(path)[:count]))


def _from_queries(
    settings: Settings,
    path: Path,
    index: tuple[Sequence[Document], FloatArray, Path],
    count: int,
    depth: int,
) -> Asked:
    import numpy as np

    from ragsieve.assembly import text_embedder
    from ragsieve.bench.timing import median, timed
    from ragsieve.files.corpus import read_queries
    from ragsieve.retrieval import rank

    corpus, rows, embeddings = index
    questions = read_queries(path)[:count]
    embedder = text_embedder(settings)
    context_commands.check_query_encoder(embeddings, embedder.identity)
    embedder.embed_queries([questions[0].text])  # loads the model
    runs = [timed(functools.partial(embedder.embed_queries, [one.text])) for one in questions]
    vectors = np.concatenate([found for _, found in runs])
    found = rank(questions, corpus, vectors, rows, depth=depth)
    return Asked("queries", tuple(found), 1e3 * median([spent for spent, _ in runs]))


def _stand_ins(corpus: Sequence[Document], rows: FloatArray, count: int, depth: int) -> Asked:
    from ragsieve.bench.questions import stand_in_rankings

    return Asked("stand-ins", tuple(stand_in_rankings(corpus, rows, count=count, depth=depth)))


def _notes(tables: Tables, asked: Asked) -> list[str]:
    notes = []
    if asked.source == "stand-ins":
        notes.append(
            "no --queries and no --contexts: titles and first sentences of sampled documents stand "
            "in for questions, ranked by their document's vector, the document itself left out"
        )
    for one in tables.queries:
        for reason in one.unavailable:
            notes.append(f"query filter, profile {one.profile}, measured without {reason}")
    if not tables.live:
        notes.append("live index: not measured, the corpus holds a single document")
    if tables.approximate is None:
        notes.append("approximate graph: not measured, faiss is not installed")
    return [*notes, "scans ask no causal language model", NOISE]


def _fields(tables: Tables) -> dict[str, Any]:
    return {
        "query": {one.profile: dataclasses.asdict(one) for one in tables.queries},
        "scan": {one.profile: dataclasses.asdict(one) for one in tables.scans},
        "live": {one.profile: dataclasses.asdict(one) for one in tables.live},
        "approximate": None
        if tables.approximate is None
        else dataclasses.asdict(tables.approximate),
    }


def _show(console: Console, tables: Tables) -> None:
    console.table(
        "Query filter, ms a ranking (P50 / P95)",
        ("profile", "rankings", "first pass", "full", "decision", "full : decision", "equal"),
        [
            (
                one.profile,
                f"{one.rankings}",
                f"{one.first_pass_ms_p50:.1f} / {one.first_pass_ms_p95:.1f}",
                f"{one.full_ms_p50:.2f} / {one.full_ms_p95:.2f}",
                f"{one.decision_ms_p50:.2f} / {one.decision_ms_p95:.2f}",
                f"{one.decision_mode_speedup:.1f}",
                _yes(one.decisions_equal),
            )
            for one in tables.queries
        ],
    )
    console.table(
        "Scan, seconds",
        ("profile", "graph", "text cold", "from features", "cold : features", "total", "equal"),
        [
            (
                one.profile,
                f"{one.graph_seconds:.3f}",
                f"{one.text_cold_seconds:.3f}",
                f"{one.text_warm_seconds:.3f}",
                f"{one.text_speedup_warm:.1f}",
                f"{one.total_seconds:.3f}",
                _yes(one.decisions_equal),
            )
            for one in tables.scans
        ],
    )
    console.table(
        "Live index, seconds with a scan",
        ("profile", "batch", "add", "remove", "full scan", "share", "equal"),
        [
            (
                one.profile,
                f"{one.batch}",
                f"{one.add_seconds:.3f}",
                "-" if one.remove_seconds is None else f"{one.remove_seconds:.3f}",
                f"{one.full_scan_seconds:.3f}",
                f"{one.live_add_share:.1%}",
                _yes(one.decisions_equal),
            )
            for one in tables.live
        ],
    )
    if tables.approximate is not None:
        _show_approximate(console, tables.approximate)


def _show_approximate(console: Console, one: ApproximateFigures) -> None:
    console.table(
        f"Approximate graph ({one.method}), recall@{one.neighbors}",
        ("recall", "95% interval", "all rows", "seconds", "exact", "ratio", "decided otherwise"),
        [
            (
                f"{one.recall:.4f}",
                f"{one.recall_low:.4f}-{one.recall_high:.4f} ({one.sampled_rows} rows)",
                f"{one.recall_all_rows:.4f}",
                f"{one.approximate_seconds:.3f}",
                f"{one.exact_seconds:.3f}",
                f"{one.graph_speedup:.2g}",
                f"{one.changed_decisions}",
            )
        ],
    )


def _yes(equal: bool) -> str:
    return "yes" if equal else "NO"
