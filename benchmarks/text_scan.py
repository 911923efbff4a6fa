"""The text part of a scan against a plain one: words, scripts, overlaps, pairs, alien runs.

    python benchmarks/text_scan.py [--quick] [--json] [--bench DIR [--encoder NAME]]

Both start from the same neighbour graph and are run in turn; figures are medians over repeats,
ratios of the plain time to ours. *Cold* reads the texts; *warm* starts from the features that were
read before (``PaperFeatures``, ``TextFeatures`` with their counts). *Equal* says that every flag is
the same. The documents are those of the lab's embedded corpus with its planted passages; for want
of an encoder their vectors are hashed counts of words with a common part, so that near pairs are
frequent (they are counted below; the more there are, the more overlaps are measured). With
``--bench`` the documents of DIR, the planted ones of an attack and their embeddings are taken.
Profile ``default`` is compared on fewer documents: the plain one needs seconds for hundreds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from bench import ENCODERS, load_bench
from plain_scan import plain_default, plain_paper_scores, plain_paper_text
from ragsieve.detectors.corpus import judged
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.detectors.rules import CorpusRule, Measurement
from ragsieve.evidence.knn import cosine_knn
from ragsieve.features.paper import paper_features
from ragsieve.features.statistics import TokenCounts
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.lab.corpora.embedded import docstrings_dataset
from ragsieve.records import Decision, Document, NeighborGraph, Provenance, Scan

Plain = TypeVar("Plain")
Found = TypeVar("Found")

DIMENSION = 512
# Of a vector's squared length, what all documents share; as encoders have that call unrelated
# texts .7 alike.
COMMON = 0.6
QUICK_DOCUMENTS, QUICK_DEFAULT = 1_000, 100
DEFAULT_DOCUMENTS = 400
REPEATS, QUICK_REPEATS = 7, 7


@dataclasses.dataclass(frozen=True, slots=True)
class TextFigures:
    """Plain time over ours, for the text part of one profile.

    :param near_edges: edges of the graph with a cosine of 0.85 or more.
    :param largest_score_difference: over all documents.
    """

    profile: str
    documents: int
    near_edges: int
    plain_seconds: float
    text_speedup_cold: float
    text_speedup_warm: float
    decisions_equal: bool
    largest_score_difference: float


def text_figures(*, quick: bool, documents: Sequence[Document] | None = None) -> TextFigures:
    """The figures of profile ``paper``.

    :param documents: to measure on; the embedded corpus when None.
    """
    chosen = _embedded() if documents is None else documents
    chosen = chosen[: QUICK_DOCUMENTS if quick else None]
    return paper_figures(chosen, hashed_vectors(chosen), QUICK_REPEATS if quick else REPEATS)


def paper_figures(documents: Sequence[Document], vectors: np.ndarray, repeats: int) -> TextFigures:
    """Words, scripts and Jaccard of profile ``paper``."""
    rule = PaperCorpusRule()
    graph = cosine_knn(vectors, rule.neighbors)
    texts = [document.content for document in documents]
    known = paper_features(texts, Vocabulary())
    nowhere = [Provenance()] * len(texts)
    return _compared(
        documents,
        rule,
        graph,
        plain=lambda: plain_paper_text(texts, graph.indices, graph.similarities),
        scored=plain_paper_scores,
        cold=lambda: rule.measure(texts, graph, nowhere),
        warm=lambda: rule.judge(known, graph),
        repeats=repeats,
    )


def default_figures(
    documents: Sequence[Document], vectors: np.ndarray, repeats: int
) -> TextFigures:
    """Tokens, words, pairs, alien runs and scripts of profile ``default``."""
    rule = DefaultCorpusRule(DefaultCorpusConfig(scripts="paper"))
    graph = cosine_knn(vectors, rule.neighbors)
    texts = [document.content for document in documents]
    nowhere = [Provenance()] * len(texts)
    vocabulary = Vocabulary()
    known = rule.read(texts, vocabulary, nowhere)
    empty = TokenCounts.empty(rule.config.pair_memory_bytes)
    counts = empty.extended(vocabulary.tokens, known.tokens)
    return _compared(
        documents,
        rule,
        graph,
        plain=lambda: plain_default(texts, graph.indices, graph.similarities),
        scored=list,
        cold=lambda: rule.measure(texts, graph, nowhere),
        warm=lambda: rule.judge(texts, rule.learn(known, counts, graph)),
        repeats=repeats,
    )


def hashed_vectors(documents: Sequence[Document]) -> np.ndarray:
    """Signed dampened counts of words in hashed places, and a part that all have in common."""
    vectors = np.zeros((len(documents), DIMENSION))
    for row, document in enumerate(documents):
        for word in document.content.lower().split():
            mark = zlib.crc32(word.encode())
            vectors[row, mark % DIMENSION] += 1.0 if mark >> 31 else -1.0
    vectors = np.sign(vectors) * np.sqrt(np.abs(vectors))
    vectors *= math.sqrt(1 - COMMON) / np.maximum(1e-9, np.linalg.norm(vectors, axis=1))[:, None]
    common = np.full((len(documents), 1), math.sqrt(COMMON))
    return np.concatenate([common, vectors], axis=1).astype(np.float32)


def _compared(
    documents: Sequence[Document],
    rule: CorpusRule,
    graph: NeighborGraph,
    *,
    plain: Callable[[], Plain],
    scored: Callable[[Plain], list[float]],
    cold: Callable[[], Measurement],
    warm: Callable[[], Measurement],
    repeats: int,
) -> TextFigures:
    seconds: dict[str, list[float]] = {"plain": [], "cold": [], "warm": []}
    scans: list[Scan] = []
    cold()  # tables of characters are made once a process
    for _ in range(repeats):
        # In turn: what disturbs the machine disturbs all three.
        spent, found = _timed(plain)
        seconds["plain"].append(spent)
        for name, run in (("cold", cold), ("warm", warm)):
            spent, measured = _timed(run)
            seconds[name].append(spent)
            scans.append(_judged(rule, documents, graph, measured))
    scores = scored(found)
    flags = [score >= rule.threshold for score in scores]
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return TextFigures(
        profile=rule.profile,
        documents=len(documents),
        near_edges=int((graph.similarities >= 0.85).sum()),
        plain_seconds=middle["plain"],
        text_speedup_cold=middle["plain"] / middle["cold"],
        text_speedup_warm=middle["plain"] / middle["warm"],
        decisions_equal=all(
            [one is Decision.FLAGGED for one in scan.decisions] == flags for scan in scans
        ),
        largest_score_difference=max(
            float(np.abs(scan.scores - np.array(scores)).max()) for scan in scans
        ),
    )


def _timed(run: Callable[[], Found]) -> tuple[float, Found]:
    start = time.perf_counter()
    found = run()
    return time.perf_counter() - start, found


def _judged(
    rule: CorpusRule, documents: Sequence[Document], graph: NeighborGraph, measured: Measurement
) -> Scan:
    names = tuple(document.id for document in documents)
    return judged(rule, names, graph, measured, np.zeros(len(names), dtype=np.int64))


def _embedded() -> list[Document]:
    """The embedded corpus, every eighth document one of its planted passages."""
    dataset = docstrings_dataset()
    planted = [
        Document(f"{target.query.id}-{number}", text)
        for target in dataset.targets
        for number, text in enumerate(target.payloads)
    ]
    mixed = []
    for place, document in enumerate(dataset.documents):
        mixed.append(document)
        if place % 7 == 6 and planted:
            mixed.append(planted.pop())
    return mixed


def _of_bench(options: argparse.Namespace) -> tuple[list[Document], np.ndarray]:
    bench = load_bench(options)
    planted = bench.poison("pr_b", 5)
    documents = [*bench.corpus, *(one for group in planted for one in group.documents)]
    return documents, np.concatenate([bench.rows, *(group.rows for group in planted)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bench", type=Path)
    parser.add_argument("--encoder", choices=ENCODERS, default="embedded")
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/benchmarks"))
    options = parser.parse_args()
    if options.bench:
        documents, vectors = _of_bench(options)
    else:
        documents = _embedded()[: QUICK_DOCUMENTS if options.quick else None]
        vectors = hashed_vectors(documents)
    fewer = QUICK_DEFAULT if options.quick else DEFAULT_DOCUMENTS
    found = [
        paper_figures(documents, vectors, QUICK_REPEATS if options.quick else REPEATS),
        default_figures(documents[:fewer], vectors[:fewer], 1 if options.quick else 3),
    ]
    if options.json:
        print(json.dumps({one.profile: dataclasses.asdict(one) for one in found}, indent=1))
        return
    print("| profile | documents | near edges | plain s | cold | warm | equal |")
    print("|---|---|---|---|---|---|---|")
    for one in found:
        print(
            f"| {one.profile} | {one.documents:,} | {one.near_edges:,} | {one.plain_seconds:.2f} "
            f"| {one.text_speedup_cold:.1f}x | {one.text_speedup_warm:.1f}x "
            f"| {one.decisions_equal} |"
        )


if __name__ == "__main__":
    main()
