"""From features and neighbours to what is known about a corpus."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.alien import alien_run
from ragsieve.evidence.tails import bulk
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.neighborhood import gaps_of_rows
from ragsieve.features.origins import habits
from ragsieve.features.statistics import (
    EXCLUDED_NEIGHBORS,
    CorpusStatistics,
    TokenCounts,
    alien_flags,
)
from ragsieve.features.text import TextFeatures
from ragsieve.records import NeighborGraph


def learn_corpus(
    features: TextFeatures,
    counts: TokenCounts,
    graph: NeighborGraph,
    *,
    gap_ceiling: float,
    run_ceiling_nats: float,
    pair_weight: float,
) -> CorpusKnowledge:
    """Statistics of a whole corpus, and each of its documents measured.

    :param counts: of exactly these documents.
    :param graph: one row a document.
    """
    everything = range(len(features))
    gaps, groups = gaps_of_rows(features, graph, everything, pair_weight)
    flags = _alien(features, counts, graph, everything, len(features))
    total = sum(one.size for one in flags)
    share = sum(int(one.sum()) for one in flags) / total if total else 0.0
    runs = tuple(alien_run(one, share) for one in flags)
    ratios = np.array([run.ratio_nats for run in runs], dtype=np.float64)
    # Documents of the bulk show what is usual; a campaign must not teach its own habit.
    usual = np.flatnonzero((gaps.gap < gap_ceiling) & (gaps.group > 0))
    nearest = np.array([groups[row][0] for row in usual.tolist()], dtype=np.int64)
    statistics = CorpusStatistics(
        counts=counts,
        alien_share=share,
        gap=bulk(gaps.gap, gap_ceiling),
        run_nats=bulk(ratios, run_ceiling_nats),
        question_share=float(features.questions.mean()) if len(features) else 0.0,
        habits=habits(features.origins, usual, nearest),
    )
    unasked = np.full(len(features), np.nan)
    return CorpusKnowledge(features, statistics, gaps, groups, runs, unasked)


def measure_newcomers(
    features: TextFeatures,
    statistics: CorpusStatistics,
    graph: NeighborGraph,
    known: int,
    *,
    pair_weight: float,
) -> CorpusKnowledge:
    """Documents measured against a corpus whose statistics stay as they are.

    :param features: the ``known`` documents of the corpus, then the newcomers.
    :param graph: one row a newcomer.
    """
    rows = range(known, len(features))
    gaps, groups = gaps_of_rows(features, graph, rows, pair_weight)
    flags = _alien(features, statistics.counts, graph, rows, known)
    runs = tuple(alien_run(one, statistics.alien_share) for one in flags)
    unasked = np.full(len(rows), np.nan)
    return CorpusKnowledge(features, statistics, gaps, groups, runs, unasked)


def _alien(
    features: TextFeatures,
    counts: TokenCounts,
    graph: NeighborGraph,
    rows: range,
    counted: int,
) -> list[npt.NDArray[np.bool_]]:
    """Alien tokens of the documents in ``rows``; ``counts`` holds the first ``counted``."""
    glue = counts.glue()
    held = np.arange(len(features)) < counted
    return [
        alien_flags(
            features.tokens,
            row,
            graph.indices[place][:EXCLUDED_NEIGHBORS],
            counts,
            glue,
            counted=held,
        )
        for place, row in enumerate(rows)
    ]
