"""From features and neighbours to what is known about a corpus."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.alien import AlienRun, alien_run, alien_runs
from ragsieve.evidence.gap import Gaps
from ragsieve.evidence.tails import bulk
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.neighborhood import gaps_of_rows
from ragsieve.features.novelty import PairIndex
from ragsieve.features.origins import habits
from ragsieve.features.ragged import Ragged, chunks
from ragsieve.features.statistics import (
    EXCLUDED_NEIGHBORS,
    CorpusStatistics,
    TokenCounts,
    alien_flags,
)
from ragsieve.features.text import TextFeatures
from ragsieve.records import NeighborGraph

Flags = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True)
class BulkCeilings:
    """Values at or above these are no part of the bulk of a corpus."""

    gap: float
    run_nats: float


def learn_corpus(
    features: TextFeatures,
    counts: TokenCounts,
    graph: NeighborGraph,
    *,
    ceilings: BulkCeilings,
    pair_weight: float,
    held: CorpusStatistics | None = None,
) -> CorpusKnowledge:
    """Statistics of a whole corpus, and each of its documents measured.

    :param counts: of exactly these documents.
    :param graph: one row a document.
    :param held: an earlier estimate, which stands but for its counts; None estimates afresh.
    """
    rows = np.arange(len(features))
    gaps, groups = gaps_of_rows(features.words, graph, rows, pair_weight)
    novel = _novel(features, counts, graph)
    if held is None:
        statistics, runs = estimated(features, counts, gaps, groups, novel, ceilings)
    else:
        statistics = dataclasses.replace(held, counts=counts)
        alien = novel & ~counts.marks(held.everyday)[features.tokens.values]
        runs = alien_runs(alien, features.tokens.offsets, held.alien_share)
    unasked = np.full(len(features), np.nan)
    return CorpusKnowledge(features, statistics, gaps, groups, tuple(runs), unasked)


def estimated(
    features: TextFeatures,
    counts: TokenCounts,
    gaps: Gaps,
    groups: Ragged,
    novel: Flags,
    ceilings: BulkCeilings,
) -> tuple[CorpusStatistics, list[AlienRun]]:
    """The statistics of a corpus, and the alien runs they were estimated from.

    :param novel: which tokens are novel, documents end to end.
    """
    everyday = counts.everyday()
    alien = novel & ~counts.marks(everyday)[features.tokens.values]
    share = int(alien.sum()) / alien.size if alien.size else 0.0
    runs = alien_runs(alien, features.tokens.offsets, share)
    ratios = np.array([run.ratio_nats for run in runs], dtype=np.float64)
    # Documents of the bulk show what is usual; a campaign must not teach its own habit.
    usual = np.flatnonzero((gaps.gap < ceilings.gap) & (gaps.group > 0))
    nearest = groups.values[groups.offsets[usual]].astype(np.int64)
    statistics = CorpusStatistics(
        counts=counts,
        alien_share=share,
        gap=bulk(gaps.gap, ceilings.gap),
        run_nats=bulk(ratios, ceilings.run_nats),
        question_share=float(features.questions.mean()) if len(features) else 0.0,
        habits=habits(features.origins, usual, nearest),
        everyday=everyday,
        documents=len(features),
    )
    return statistics, runs


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
    rows = np.arange(known, len(features))
    gaps, groups = gaps_of_rows(features.words, graph, rows, pair_weight)
    glue = statistics.counts.marks(statistics.everyday)
    flags = _alien(features, statistics.counts, glue, graph, rows, known)
    runs = tuple(alien_run(one, statistics.alien_share) for one in flags)
    unasked = np.full(len(rows), np.nan)
    return CorpusKnowledge(features, statistics, gaps, groups, runs, unasked)


def _novel(features: TextFeatures, counts: TokenCounts, graph: NeighborGraph) -> Flags:
    """Which tokens are novel, documents end to end; everyday ones may or may not be."""
    rows = np.arange(len(features))
    if counts.pairs.exact:
        index = PairIndex()
        offsets = features.tokens.offsets
        for start, stop in chunks(offsets):
            index.append(features.tokens.rows(start, stop))
        alive = np.ones(rows.size, dtype=np.bool_)
        near = graph.indices[:, :EXCLUDED_NEIGHBORS]
        found = [
            index.novel(offsets, rows[start:stop], near[start:stop], alive)
            for start, stop in chunks(offsets)
        ]
        return np.concatenate([*found, np.empty(0, dtype=np.bool_)])
    glue = np.zeros(len(counts.vocabulary), dtype=np.bool_)
    flags = _alien(features, counts, glue, graph, rows, len(features))
    return np.concatenate([*flags, np.empty(0, dtype=np.bool_)])


def _alien(
    features: TextFeatures,
    counts: TokenCounts,
    glue: Flags,
    graph: NeighborGraph,
    rows: npt.NDArray[np.int64],
    counted: int,
) -> list[Flags]:
    """Alien tokens of the documents in ``rows``; ``counts`` holds the first ``counted``."""
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
        for place, row in enumerate(rows.tolist())
    ]
