"""Plant poison in real documentation, defend, count, report."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import scipy

import ragsieve
from ragsieve import assembly
from ragsieve.defense.pipeline import Pipeline
from ragsieve.defense.serial import Quarantine, serial_defense
from ragsieve.detectors.campaigns import campaigns
from ragsieve.errors import EmbeddingError, OutputError
from ragsieve.files.embeddings import encoder_of, read_embeddings, write_embeddings
from ragsieve.lab.demo.corpus import docstring_corpus
from ragsieve.lab.demo.measure import Staging, Trial, defense_row, find_catches, find_misses
from ragsieve.lab.demo.poison import Attack, draw, plant
from ragsieve.lab.demo.questions import demo_questions
from ragsieve.lab.demo.report import PlotData, write_report
from ragsieve.lab.demo.result import DemoResult, read_result, save_result
from ragsieve.ports import FeatureSource, TextEmbedder
from ragsieve.records import Document, FloatArray, Level, Query, Ranking, Scan
from ragsieve.retrieval import rank
from ragsieve.settings import Settings

DEPTH = 100
UNPOISONED = 56
FILTER, BOTH, BOTH_HELD = "RSQ filter", "both", "both, review held"


def run_demo(
    settings: Settings, output: Path, *, seed: int, note: Callable[[str], None]
) -> DemoResult:
    """Run the demo, or read its saved result when nothing it depends on has changed.

    :param output: folder for embeddings, results and the report.
    :param note: called with one line about each stage.
    :raises ModelFilesError: when the embedded models were not pulled.
    :raises OutputError: when the folder cannot be written.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{output}: cannot be created ({error.strerror})") from error
    key = _fingerprint(settings, seed)
    saved = output / f"result-{seed}-{key}.json"
    report = output / f"report-{seed}.html"
    if saved.exists() and report.exists():
        note("nothing has changed since the last run; its result:")
        return read_result(saved)
    result = _run(settings, output, report, seed, note)
    save_result(saved, result)
    return result


def _run(
    settings: Settings, output: Path, report: Path, seed: int, note: Callable[[str], None]
) -> DemoResult:
    note("reading the documentation of the standard library, numpy and scipy")
    clean = docstring_corpus()
    staging = _staged(seed)
    documents = (*clean, *staging.documents)
    embedder = assembly.text_embedder(settings)
    rows = np.concatenate(
        [
            _corpus_rows(output / "corpus.npy", clean, embedder, note),
            embedder.embed_documents([document.content for document in staging.documents]),
        ]
    )
    note(f"scanning {len(documents):,} documents")
    corpus_detector = assembly.corpus_detector(settings)
    scan = corpus_detector.scan(documents, rows)
    features = _features(settings, scan, rows)
    asked = [Query(one.id, one.question) for one in (*staging.targets, *staging.unpoisoned)]
    vectors = embedder.embed_queries([query.text for query in asked])
    rankings = rank(asked, documents, vectors, rows, depth=DEPTH)
    note(f"judging {len(rankings)} retrievals, alone and after the quarantine")
    trials, unavailable = _trials(settings, scan, features, rankings)
    context_size = settings.query.candidates
    result = DemoResult(
        seed=seed,
        documents=len(clean),
        planted=len(staging.documents),
        targets=len(staging.targets),
        unpoisoned=len(staging.unpoisoned),
        planted_by_attack=_planted(staging),
        poison_flagged_by_scan=sum(name in staging.labels for name in scan.flagged_ids),
        clean_flagged_by_scan=sum(name not in staging.labels for name in scan.flagged_ids),
        clean_quarantined_by_scan=sum(
            name not in staging.labels for name in scan.flagged_at(settings.filter.quarantine_at)
        ),
        campaigns=len(campaigns(scan)),
        rows=tuple(defense_row(trial, staging, context_size) for trial in trials),
        catches=find_catches(corpus_detector, scan, documents, trials[-1], staging),
        misses=find_misses(trials[-1], scan, documents, staging),
        unavailable=unavailable,
        report=str(report),
    )
    write_report(report, result, _plot_data(scan, trials, staging))
    return result


def _features(settings: Settings, scan: Scan, rows: FloatArray) -> FeatureSource | None:
    if settings.profile != "default":
        return None
    gate = assembly.ingest_gate(settings, confirm=False)
    return gate.features(gate.snapshot(scan, rows))


def _staged(seed: int) -> Staging:
    questions = demo_questions()
    # The draw is the first thing a planting does: the same seed gives the same targets.
    split = draw(questions, np.random.default_rng(seed))
    planting = plant(questions, np.random.default_rng(seed))
    order = np.random.default_rng(seed).permutation(len(split.untouched))[:UNPOISONED]
    rest = tuple(split.untouched[place] for place in sorted(order.tolist()))
    return Staging(planting.documents, planting.labels, split.targets, rest)


def _trials(
    settings: Settings, scan: Scan, features: FeatureSource | None, rankings: Sequence[Ranking]
) -> tuple[tuple[Trial, ...], tuple[str, ...]]:
    """The same retrievals without a defence, with each detector alone, and with both."""
    detector = assembly.query_detector(settings, features)
    size = detector.candidates
    sure, held = (
        Quarantine(scan.flagged_at(level), scanned_ids=scan.document_ids)
        for level in (settings.filter.quarantine_at, Level.REVIEW)
    )
    strict = dataclasses.replace(settings.filter, quarantine_at=Level.REVIEW)
    pipelines = (
        ("no defence", Pipeline([], context_size=size)),
        ("RSG quarantine", Pipeline([sure], context_size=size)),
        ("RSG, review held", Pipeline([held], context_size=size)),
        (FILTER, serial_defense(detector, policy=settings.filter)),
        (BOTH, serial_defense(detector, scan=scan, policy=settings.filter)),
        (BOTH_HELD, serial_defense(detector, scan=scan, policy=strict)),
    )
    trials = tuple(Trial(name, tuple(pipeline.run_many(rankings))) for name, pipeline in pipelines)
    missing = {
        f"{evidence.name}: {evidence.reason}"
        for outcome in trials[-1].outcomes
        for verdict in outcome.verdicts
        for evidence in verdict.evidences
        if not evidence.measured
    }
    return trials, tuple(sorted(missing))


def _corpus_rows(
    path: Path,
    documents: Sequence[Document],
    embedder: TextEmbedder,
    note: Callable[[str], None],
) -> FloatArray:
    """Embeddings of the clean corpus, kept beside the results between runs."""
    try:
        rows = read_embeddings(path, documents)
        if encoder_of(path) == embedder.identity:
            return np.asarray(rows)
    except EmbeddingError:
        # Absent, or of another corpus: made again below.
        pass
    note(f"embedding {len(documents):,} documents; minutes the first time, kept afterwards")
    fresh = embedder.embed_documents([document.content for document in documents])
    write_embeddings(path, fresh, documents, embedder.identity)
    return fresh


def _planted(staging: Staging) -> dict[str, int]:
    attacks = [label.attack for label in staging.labels.values()]
    return {str(attack): attacks.count(attack) for attack in Attack}


def _plot_data(scan: Scan, trials: Sequence[Trial], staging: Staging) -> PlotData:
    alone = next(trial for trial in trials if trial.defense == FILTER)
    verdicts = [
        (verdict.score, verdict.document_id in staging.labels)
        for outcome in alone.outcomes
        for verdict in outcome.verdicts
    ]
    planted = np.array([name in staging.labels for name in scan.document_ids])
    return PlotData(
        corpus_scores=scan.scores,
        corpus_planted=planted,
        corpus_threshold=scan.threshold,
        query_scores=np.array([score for score, _ in verdicts]),
        query_planted=np.array([is_planted for _, is_planted in verdicts]),
        query_threshold=alone.outcomes[0].verdicts[0].threshold,
    )


def _fingerprint(settings: Settings, seed: int) -> str:
    """Everything the result depends on: code, libraries whose documentation is read, models used."""
    digest = hashlib.sha256()
    root = Path(ragsieve.__file__).parent
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    parts = [platform.python_version(), np.__version__, scipy.__version__, str(seed)]
    parts.append(settings.model_dump_json())
    parts.append(assembly.text_embedder(settings).identity)
    parts.append(assembly.query_detector(settings).fingerprint)
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()[:16]
