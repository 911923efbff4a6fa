"""What a scan costs: the neighbour graph, the text part from texts and from kept features."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.bench.timing import median, same_scan, timed
from ragsieve.detectors.corpus import CorpusDetector, judged
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.rules import Measurement
from ragsieve.evidence.knn import cosine_knn
from ragsieve.features.paper import paper_features
from ragsieve.features.statistics import CorpusStatistics, TokenCounts
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.live.index import Rule
from ragsieve.records import Document, NeighborGraph, Scan


@dataclasses.dataclass(frozen=True, slots=True)
class ScanFigures:
    """Medians over repeats, in seconds.

    :param graph_seconds: exact neighbours of all documents.
    :param text_cold_seconds: judging them from their texts.
    :param text_warm_seconds: from features read before.
    :param text_speedup_warm: cold over warm.
    :param total_seconds: graph and text, cold.
    """

    profile: str
    documents: int
    neighbors: int
    flagged: int
    graph_seconds: float
    text_cold_seconds: float
    text_warm_seconds: float
    text_speedup_warm: float
    total_seconds: float
    decisions_equal: bool


def scan_figures(
    rule: Rule,
    documents: Sequence[Document],
    embeddings: npt.NDArray[np.floating],
    repeats: int,
    progress: Callable[[int], None] | None = None,
) -> tuple[ScanFigures, Scan]:
    """Scan a corpus, in parts that take turns.

    :param rule: without a language model.
    :param progress: called with numbers of rows that add up to all, in every repeat.
    :returns: the figures, and the scan.
    """
    detector = CorpusDetector(rule)
    warm_part = _from_features(rule, documents)
    seconds = np.empty((repeats, 3))
    scan: Scan | None = None
    equal = True
    for row in seconds:
        row[0], graph = timed(lambda: cosine_knn(embeddings, rule.neighbors, progress=progress))
        row[1], cold = timed(functools.partial(detector.scan_graph, documents, graph))
        row[2], warm = timed(functools.partial(warm_part, graph))
        scan = cold if scan is None else scan
        equal &= same_scan(cold, scan) and same_scan(warm, scan)
    assert scan is not None  # noqa: S101 -- repeats >= 1
    middle = np.median(seconds, axis=0)
    return ScanFigures(
        profile=rule.profile,
        documents=len(documents),
        neighbors=scan.k_used,
        flagged=len(scan.flagged_ids),
        graph_seconds=float(middle[0]),
        text_cold_seconds=float(middle[1]),
        text_warm_seconds=float(middle[2]),
        text_speedup_warm=float(middle[1] / middle[2]),
        total_seconds=median((seconds[:, 0] + seconds[:, 1]).tolist()),
        decisions_equal=equal,
    ), scan


def held_scan(
    rule: Rule,
    documents: Sequence[Document],
    graph: NeighborGraph,
    held: CorpusStatistics | None,
) -> Scan:
    """A scan of all documents over their graph.

    :param held: for profile ``default``, an earlier estimate to judge by.
    """
    contents = _contents(rule, documents)
    declared = [document.provenance for document in documents]
    if isinstance(rule, DefaultCorpusRule):
        measured = rule.measure(contents, graph, declared, held)
    else:
        measured = rule.measure(contents, graph, declared)
    return _judged(rule, documents, graph, measured)


def _from_features(rule: Rule, documents: Sequence[Document]) -> Callable[[NeighborGraph], Scan]:
    contents, vocabulary = _contents(rule, documents), Vocabulary()
    if isinstance(rule, DefaultCorpusRule):
        known = rule.read(contents, vocabulary, [one.provenance for one in documents])
        counts = TokenCounts.empty(rule.config.pair_memory_bytes)
        counts = counts.extended(vocabulary.tokens, known.tokens)
        return lambda graph: _judged(
            rule, documents, graph, rule.judge(contents, rule.learn(known, counts, graph))
        )
    features = paper_features(contents, vocabulary)
    return lambda graph: _judged(rule, documents, graph, rule.judge(features, graph))


def _contents(rule: Rule, documents: Sequence[Document]) -> list[str]:
    return [document.content[: rule.max_characters] for document in documents]


def _judged(
    rule: Rule, documents: Sequence[Document], graph: NeighborGraph, measured: Measurement
) -> Scan:
    lengths = np.array([len(one.content) for one in documents], dtype=np.int64)
    excess = np.maximum(0, lengths - rule.max_characters)
    return judged(rule, tuple(one.id for one in documents), graph, measured, excess)
