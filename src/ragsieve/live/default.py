"""Profile ``default`` over documents that come and go, under statistics that stand a while."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.rules import Measurement
from ragsieve.evidence.alien import AlienRun, alien_runs
from ragsieve.evidence.gap import Gaps
from ragsieve.features.growing import GrowingArray
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.learning import estimated
from ragsieve.features.neighborhood import gaps_of_rows
from ragsieve.features.novelty import PairIndex
from ragsieve.features.pairs import PairTable
from ragsieve.features.ragged import Ragged, places_of
from ragsieve.features.statistics import EXCLUDED_NEIGHBORS, CorpusStatistics, TokenCounts
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.live.columns import FeatureColumns
from ragsieve.live.judging import Arrays, Fields, Rows
from ragsieve.live.neighbors import LiveNeighbors
from ragsieve.records import Document, NeighborGraph

_MAX_GROUP = 8
_NO_RUN = AlienRun(0.0, 0, 0, 0, 0, 0)


class DefaultJudge:
    """Profile ``default``: gaps, runs and counts, and the statistics in force.

    Which pairs of tokens are novel is always that of the corpus as it is; the everyday
    tokens, the alien share, the bulks, the share of questions and the habits of origin are
    the estimate's.
    """

    def __init__(self, rule: DefaultCorpusRule) -> None:
        self.rule = rule
        self.statistics: CorpusStatistics | None = None
        self._vocabulary = Vocabulary()
        self._written = 0
        self._runs: list[AlienRun] = []
        self._clear()

    def read(self, documents: Sequence[Document]) -> None:
        """Tokens, words, openings, characters, origins."""
        limit = self.rule.max_characters
        contents = [document.content[:limit] for document in documents]
        declared = [document.provenance for document in documents]
        first = len(self._columns)
        self._columns.append(self.rule.read(contents, self._vocabulary, declared))
        self._count(first)

    def settle(self, gone: Rows, fresh: Rows, touched: Rows, neighbors: LiveNeighbors) -> None:
        """Gaps where neighbours changed; novelty there and wherever a rare pair came or went."""
        offsets = self._columns.tokens.offsets
        rare = self._changed_pairs(gone, fresh)
        if gone.size:
            self._pairs.release(offsets, gone)
            self._frequencies.view[:] -= self._token_documents(gone)
        self._measure_gaps(touched, neighbors)
        _, holders = self._pairs.holders(offsets, rare)
        affected = np.union1d(touched, holders[neighbors.alive[holders]])
        changed = self._measure_novelty(affected, neighbors)
        if self.statistics is not None:
            self._measure_runs(np.union1d(changed, fresh))

    def settle_all(self, neighbors: LiveNeighbors) -> None:
        """Everything measured anew."""
        everything = np.flatnonzero(neighbors.alive)
        self._measure_gaps(everything, neighbors)
        self._measure_novelty(everything, neighbors)
        if self.statistics is not None:
            self._measure_runs(everything)

    def estimate(self, neighbors: LiveNeighbors) -> None:
        """The statistics of the corpus as it is, by the one estimator a scan uses."""
        alive = neighbors.alive
        rows = np.flatnonzero(alive)
        if not rows.size:
            return
        places, _ = places_of(self._columns.tokens.offsets, rows)
        number = self.statistics.estimate + 1 if self.statistics is not None else 1
        found, runs = estimated(
            self._columns.take(rows),
            self._token_counts(rows.size),
            self._gaps_of(rows),
            self._groups_of(alive),
            self._novel.view[places],
            self.rule.ceilings,
        )
        # Counts follow the corpus and are put in when it is measured.
        none = TokenCounts.empty(self.rule.config.pair_memory_bytes)
        self.statistics = dataclasses.replace(found, counts=none, estimate=number)
        self._marks = GrowingArray(np.bool_)
        self._keep_runs(rows, runs)

    def measure(self, neighbors: LiveNeighbors) -> Measurement:
        """The evidences of profile ``default`` under the statistics in force."""
        if self.statistics is None:
            raise ValueError("no document was ever there")
        alive = neighbors.alive
        rows = np.flatnonzero(alive)
        whole = rows.size == alive.size
        counts = self._token_counts(rows.size)
        knowledge = CorpusKnowledge(
            features=self._columns.view() if whole else self._columns.take(rows),
            statistics=dataclasses.replace(self.statistics, counts=counts),
            gaps=self._gaps_of(rows),
            groups=self._groups_of(alive),
            runs=tuple(self._runs if whole else [self._runs[row] for row in rows.tolist()]),
            peaks=np.full(rows.size, np.nan),
        )
        return self.rule.judge([""] * rows.size, knowledge)

    def compact(self, kept: Rows) -> None:
        """Keep some slots."""
        places, _ = places_of(self._columns.tokens.offsets, kept)
        features, novel = self._columns.take(kept), self._novel.view[places]
        gaps, group = self._gaps_of(kept), self._group.view[kept]
        rank = np.zeros(len(self._columns), dtype=np.int32)
        rank[kept] = np.arange(kept.size, dtype=np.int32)
        runs = [self._runs[row] for row in kept.tolist()]
        # Tokens of documents that left are forgotten.
        tokens, words = features.tokens, features.words
        self._vocabulary, moved = self._vocabulary.only(
            np.concatenate([tokens.values, words.values])
        )
        features = dataclasses.replace(
            features,
            tokens=Ragged(moved[tokens.values], tokens.offsets),
            words=Ragged(moved[words.values], words.offsets),
        )
        self._clear()
        self._columns.append(features)
        self._count(0)
        self._novel.view[:] = novel
        self._store_gaps(np.arange(kept.size), gaps, np.where(group < 0, -1, rank[group]))
        self._runs = runs

    def dump(self, first: int) -> tuple[Fields, Arrays]:
        """Columns from ``first`` on, and the vocabulary behind what was dumped before."""
        known = 0 if first == 0 else self._written
        self._written = len(self._vocabulary)
        fields, arrays = self._columns.dump(first)
        return fields | {"vocabulary": self._vocabulary.since(known)}, arrays

    def load(self, fields: Fields, arrays: Arrays) -> None:
        """Take in what was dumped; :meth:`settle_all` has to follow."""
        self._vocabulary.numbers(fields["vocabulary"])
        self._written = len(self._vocabulary)
        first = len(self._columns)
        self._columns.load(fields, arrays)
        self._count(first)

    def release(self, gone: Rows) -> None:
        """Count documents no longer, without measuring anything."""
        self._pairs.release(self._columns.tokens.offsets, gone)
        self._frequencies.view[:] -= self._token_documents(gone)

    def _clear(self) -> None:
        self._columns = FeatureColumns()
        self._pairs = PairIndex()
        self._frequencies = GrowingArray(np.int64)
        self._novel = GrowingArray(np.bool_)
        self._gap = tuple(
            GrowingArray(np.int64 if field.name == "group" else np.float64)
            for field in dataclasses.fields(Gaps)
        )
        self._group = GrowingArray(np.int32, _MAX_GROUP)
        self._runs = []
        self._marks = GrowingArray(np.bool_)

    def _count(self, first: int) -> None:
        """Make room for the slots from ``first`` on, and count their tokens and pairs."""
        size = len(self._columns)
        self._pairs.append(self._columns.tokens.rows(first, size))
        self._frequencies.extend_to(len(self._vocabulary), 0)
        self._frequencies.view[:] += self._token_documents(np.arange(first, size))
        self._novel.extend_to(int(self._columns.tokens.offsets[-1]), True)
        for column in self._gap:
            column.extend_to(size, 0)
        self._group.extend_to(size, -1)
        self._runs.extend([_NO_RUN] * (size - len(self._runs)))

    def _token_documents(self, slots: Rows) -> Rows:
        """By token, in how many of some documents it stands."""
        own = self._columns.tokens.take(slots)
        rows = np.repeat(np.arange(slots.size), own.lengths)
        distinct = Ragged.distinct(own.values, rows, slots.size)
        return np.bincount(distinct.values, minlength=len(self._vocabulary)).astype(np.int64)

    def _changed_pairs(self, gone: Rows, fresh: Rows) -> npt.NDArray[np.int32]:
        """Pairs whose coming or going can change what is novel: those of few documents.

        Those that leave are still counted.
        """
        offsets = self._columns.tokens.offsets
        left, lost = self._pairs.pairs_of(offsets, gone)
        came, won = self._pairs.pairs_of(offsets, fresh)
        # Beyond a document and its nearest neighbours, more holders change nothing.
        most = EXCLUDED_NEIGHBORS + 1
        left = left[self._pairs.counts(left) - lost <= most]
        came = came[self._pairs.counts(came) - won <= most]
        return np.union1d(left, came)

    def _measure_gaps(self, slots: Rows, neighbors: LiveNeighbors) -> None:
        graph = NeighborGraph(*neighbors.near(slots))
        gaps, groups = gaps_of_rows(self._columns.words, graph, slots, self.rule.config.pair_weight)
        group = np.full((slots.size, _MAX_GROUP), -1, dtype=np.int32)
        group[np.arange(_MAX_GROUP) < gaps.group[:, None]] = groups.values
        self._store_gaps(slots, gaps, group)

    def _store_gaps(self, slots: Rows, gaps: Gaps, group: npt.NDArray[np.int32]) -> None:
        for column, field in zip(self._gap, dataclasses.fields(Gaps), strict=True):
            column.view[slots] = getattr(gaps, field.name)
        self._group.view[slots] = group

    def _measure_novelty(self, slots: Rows, neighbors: LiveNeighbors) -> Rows:
        """Novel tokens of some documents; those among them where any differs from before."""
        offsets = self._columns.tokens.offsets
        near, _ = neighbors.near(slots)
        found = self._pairs.novel(offsets, slots, near[:, :EXCLUDED_NEIGHBORS], neighbors.alive)
        places, ends = places_of(offsets, slots)
        differs = np.flatnonzero(self._novel.view[places] != found)
        self._novel.view[places] = found
        return slots[np.unique(np.searchsorted(ends, differs, side="right") - 1)]

    def _measure_runs(self, slots: Rows) -> None:
        if self.statistics is None or not slots.size:
            return
        places, offsets = places_of(self._columns.tokens.offsets, slots)
        tokens = self._columns.tokens.values[places]
        alien = self._novel.view[places] & ~self._everyday()[tokens]
        self._keep_runs(slots, alien_runs(alien, offsets, self.statistics.alien_share))

    def _keep_runs(self, slots: Rows, runs: list[AlienRun]) -> None:
        for slot, run in zip(slots.tolist(), runs, strict=True):
            self._runs[slot] = run

    def _everyday(self) -> npt.NDArray[np.bool_]:
        """By token, whether the estimate in force calls it an everyday one."""
        if self.statistics is not None and not len(self._marks):
            self._marks.extend_to(len(self._vocabulary), False)
            self._marks.view[self._vocabulary.known(self.statistics.everyday)] = True
        self._marks.extend_to(len(self._vocabulary), False)
        return self._marks.view

    def _token_counts(self, documents: int) -> TokenCounts:
        keys, counts = self._pairs.table()
        table = PairTable.counted(keys, counts, self.rule.config.pair_memory_bytes)
        return TokenCounts(self._vocabulary.tokens, documents, self._frequencies.view.copy(), table)

    def _gaps_of(self, slots: Rows) -> Gaps:
        return Gaps(*(column.view[slots] for column in self._gap))

    def _groups_of(self, alive: npt.NDArray[np.bool_]) -> Ragged:
        rank = (np.cumsum(alive) - 1).astype(np.int32)
        group = self._group.view[alive]
        standing = group >= 0
        offsets = np.concatenate(([0], np.cumsum(standing.sum(axis=1))))
        return Ragged(rank[group[standing]], offsets)
