"""What a scan learned about its corpus, so that later documents and retrievals can be judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.alien import AlienRun
from ragsieve.evidence.gap import Gaps
from ragsieve.features.ragged import Ragged
from ragsieve.features.statistics import CorpusStatistics
from ragsieve.features.text import TextFeatures
from ragsieve.records import DocumentFeatures, Knowledge, NeighborGraph, Surroundings


@dataclasses.dataclass(frozen=True, slots=True)
class CorpusKnowledge(Knowledge):
    """Features of documents, the statistics they were judged by, and what was measured.

    :param features: U texts as numbers; the last V of them were measured.
    :param gaps: neighbour gaps of those V.
    :param groups: the neighbours that stand out around each, nearest first.
    :param runs: their alien runs.
    :param peaks: shape (V,), peak surprisal over ln(vocabulary) where a language model was
        asked, else NaN.
    """

    features: TextFeatures
    statistics: CorpusStatistics
    gaps: Gaps
    groups: Ragged
    runs: tuple[AlienRun, ...]
    peaks: npt.NDArray[np.float64]

    @property
    def first(self) -> int:
        """The first of ``features`` that was measured."""
        return len(self.features) - len(self.runs)

    def of_last(self, count: int) -> CorpusKnowledge:
        """The same, measured documents but the last ``count`` left out."""
        start = len(self.runs) - count
        return dataclasses.replace(
            self,
            gaps=Gaps(*(column[start:] for column in dataclasses.astuple(self.gaps))),
            groups=self.groups.rows(start, len(self.runs)),
            runs=self.runs[start:],
            peaks=self.peaks[start:],
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A scanned corpus as later judgements need it.

    :param embeddings: shape (V, d), unit rows.
    :param encoder: identity of the encoder of the rows, as their manifest states it.
    :param constants: hash of the constants of the rule that scanned.
    """

    document_ids: tuple[str, ...]
    embeddings: npt.NDArray[np.float32]
    graph: NeighborGraph
    knowledge: CorpusKnowledge
    encoder: str
    constants: str

    def __len__(self) -> int:
        return len(self.document_ids)


class SnapshotFeatures:
    """Answers, by document id, what the query rule needs from a scanned corpus.

    :param surroundings: the corpus as a whole, by the rule that scanned it.
    :param more: documents that were judged against the snapshot and are not in it.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        surroundings: Surroundings,
        more: Mapping[str, DocumentFeatures] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._more = dict(more or {})
        self._rows = {name: row for row, name in enumerate(snapshot.document_ids)}
        self.surroundings = surroundings

    def features(self, document_ids: Sequence[str]) -> tuple[DocumentFeatures, ...]:
        """Embedding and alien run of each document; empty for one the scan never saw."""
        return tuple(self._of(name) for name in document_ids)

    def _of(self, name: str) -> DocumentFeatures:
        row = self._rows.get(name)
        if row is None:
            return self._more.get(name, DocumentFeatures())
        return DocumentFeatures(
            self._snapshot.embeddings[row], self._snapshot.knowledge.runs[row].ratio_nats
        )
