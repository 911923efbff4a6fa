"""Rankings to judge, clean and planted, with what an ingest scan knows of their documents."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench import ATTACKS, Poison, load_bench
from detection import DEPTH, Case, Detectors, FilterTable, with_poison
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.evidence.tokens import paper_words
from ragsieve.features.knowledge import SnapshotFeatures
from ragsieve.lab.corpora.embedded import docstrings_dataset
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.datasets import AttackTarget
from ragsieve.ports import FeatureSource
from ragsieve.records import Document, FloatArray, Ranking
from ragsieve.retrieval import rank

CLEAN = "clean"
_DIMENSION = 96


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Rankings of one kind.

    :param name: ``clean``, or how the documents were made that were planted.
    """

    name: str
    rankings: tuple[Ranking, ...]
    features: FeatureSource


def bench_cells(folder: Path, models_dir: Path | None, cache: Path, count: int) -> tuple[Cell, ...]:
    """Rankings of a set on disk, each attack's with the five documents of one target planted.

    :param count: rankings of each cell.
    """
    bench = load_bench(
        argparse.Namespace(bench=folder, encoder="embedded", models_dir=models_dir, cache=cache)
    )
    clean = Case.clean(bench)
    detectors = Detectors(clean, "scan")
    table = FilterTable(bench, detectors, ("default",))
    gate = IngestGate(DefaultCorpusRule())
    known = gate.features(detectors.snapshot)
    cells = [Cell(CLEAN, tuple(table.rankings(bench.queries()[:count])), known)]
    for attack in ATTACKS:
        case = Case.of(bench, attack, 5, 100)
        queries = [one.query for one in case.poison[:count]]
        rankings = tuple(
            with_poison(ranking, one, vector)
            for ranking, one, vector in zip(
                table.rankings(queries), case.poison, bench.asked(queries), strict=False
            )
        )
        whole = gate.snapshot(detectors.scan("default", case), case.rows)
        cells.append(Cell(attack, rankings, SnapshotFeatures(whole, known.surroundings)))
    return tuple(cells)


def embedded_cells(count: int) -> tuple[Cell, ...]:
    """Rankings of the embedded dataset; embeddings are sums of word vectors, so no model is needed.

    :param count: rankings of each cell.
    """
    data = docstrings_dataset()
    rows = _embedded([document.content for document in data.documents])
    rule = DefaultCorpusRule()
    gate = IngestGate(rule)
    snapshot = gate.snapshot(CorpusDetector(rule).scan(data.documents, rows), rows)
    known = gate.features(snapshot)
    queries = [one.query for one in data.targets[:count]]
    vectors = _embedded([query.text for query in queries])
    clean = rank(queries, data.documents, vectors, rows, depth=DEPTH)
    planted = [_planted(target) for target in data.targets[:count]]
    documents = [document for one in planted for document in one.documents]
    vector_of = zip(clean, planted, vectors, strict=True)
    poisoned = tuple(with_poison(ranking, one, vector) for ranking, one, vector in vector_of)
    judged = gate.features(snapshot, documents, np.concatenate([one.rows for one in planted]))
    return Cell(CLEAN, tuple(clean), known), Cell("question and passage", poisoned, judged)


def _planted(target: Target) -> Poison:
    """The target's passages, each behind its question."""
    documents = tuple(
        Document(f"{target.query.id}-{place}", f"{target.query.text} {text}")
        for place, text in enumerate(target.payloads)
    )
    attack = AttackTarget(
        query_id=target.query.id,
        query=target.query.text,
        target_answer=target.target_answer,
        attack="question and passage",
        documents=documents,
    )
    return Poison(attack, documents, _embedded([document.text for document in documents]))


def _embedded(texts: Sequence[str]) -> FloatArray:
    found = []
    for text in texts:
        words = sorted(set(paper_words(text))) or [""]
        # Long words tell more than short ones, which every text has.
        total = sum(len(word) ** 2 * _word_vector(word) for word in words)
        found.append(total / np.linalg.norm(total))
    return np.array(found)


@functools.lru_cache(maxsize=100_000)
def _word_vector(word: str) -> FloatArray:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=_DIMENSION)
