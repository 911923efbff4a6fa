"""What an approximate neighbour graph gains on a corpus, and what it misses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.bench.timing import median, timed
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.graphs.approximate import approximate_graph
from ragsieve.graphs.recall import recall_of
from ragsieve.live.index import Rule
from ragsieve.records import Document, Scan


@dataclasses.dataclass(frozen=True, slots=True)
class ApproximateFigures:
    """An approximate graph beside the exact one; seconds are medians over repeats.

    :param method: ``exact`` for a corpus too small to be searched otherwise.
    :param neighbors: per document, the k of the recall.
    :param recall: as the graph itself estimates it on a sample, with its 95% interval.
    :param recall_all_rows: the same against the exact graph of all documents.
    :param graph_speedup: exact over approximate; tuning and the estimate are part of the latter.
    :param changed_decisions: documents that a scan over the approximate graph decides otherwise.
    """

    profile: str
    method: str
    parameters: dict[str, int | float]
    neighbors: int
    recall: float
    recall_low: float
    recall_high: float
    sampled_rows: int
    recall_all_rows: float
    approximate_seconds: float
    exact_seconds: float
    graph_speedup: float
    changed_decisions: int


def approximate_figures(
    rule: Rule,
    documents: Sequence[Document],
    embeddings: npt.NDArray[np.floating],
    scan: Scan,
    exact_seconds: float,
    repeats: int,
) -> ApproximateFigures:
    """Search a corpus approximately and compare with its exact scan.

    :param scan: of the same documents by the same rule.
    :param exact_seconds: of its graph, measured in the same run.
    :raises MissingExtraError: when FAISS is needed and not installed.
    """
    runs = [timed(lambda: approximate_graph(embeddings, rule.neighbors)) for _ in range(repeats)]
    seconds, found = median([spent for spent, _ in runs]), runs[-1][1]
    judged = CorpusDetector(rule).scan_graph(documents, found.graph)
    pairs = zip(judged.decisions, scan.decisions, strict=True)
    return ApproximateFigures(
        profile=rule.profile,
        method=found.method,
        parameters=dict(found.parameters),
        neighbors=found.recall.k,
        recall=found.recall.share,
        recall_low=found.recall.low,
        recall_high=found.recall.high,
        sampled_rows=found.recall.sampled_rows,
        recall_all_rows=recall_of(found.graph, scan.graph).share,
        approximate_seconds=seconds,
        exact_seconds=exact_seconds,
        graph_speedup=exact_seconds / seconds,
        changed_decisions=sum(one is not other for one, other in pairs),
    )
