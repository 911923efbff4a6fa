"""What a live index asks of a profile, and how profile ``paper`` answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.detectors.rules import CorpusRule, Measurement
from ragsieve.evidence.density import Densities
from ragsieve.features.growing import GrowingArray, GrowingRagged
from ragsieve.features.paper import PaperFeatures, densities, paper_features
from ragsieve.features.ragged import Ragged
from ragsieve.features.statistics import CorpusStatistics
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.live.neighbors import LiveNeighbors
from ragsieve.records import Document

Rows = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]
Fields = dict[str, Any]


class LiveJudge(Protocol):
    """What one profile keeps of every document, by slot, so that a change costs little."""

    @property
    def rule(self) -> CorpusRule:
        """The rule whose scan this equals."""
        ...

    statistics: CorpusStatistics | None
    """The estimate in force; None where the profile has none, or no document was there."""

    def read(self, documents: Sequence[Document]) -> None:
        """Take documents in, in the next slots."""
        ...

    def settle(self, gone: Rows, fresh: Rows, touched: Rows, neighbors: LiveNeighbors) -> None:
        """Measure again what a change touched.

        :param gone: slots that left; the index holds them no longer.
        :param fresh: slots that came.
        :param touched: slots whose neighbours changed.
        """
        ...

    def measure(self, neighbors: LiveNeighbors) -> Measurement:
        """The evidences of all documents, in the order of their slots."""
        ...

    def release(self, gone: Rows) -> None:
        """Forget what documents that left add to counts, without measuring anything."""
        ...

    def compact(self, kept: Rows) -> None:
        """Keep some slots, which get the first numbers in their order."""
        ...

    def settle_all(self, neighbors: LiveNeighbors) -> None:
        """Measure every document, from what was read of it and its neighbours."""
        ...

    def estimate(self, neighbors: LiveNeighbors) -> None:
        """Estimate the statistics of the corpus as it is, and measure by them."""
        ...

    def dump(self, first: int) -> tuple[Fields, Arrays]:
        """What was read of the slots from ``first`` on, and of the corpus, for storage."""
        ...

    def load(self, fields: Fields, arrays: Arrays) -> None:
        """Take in what :meth:`dump` gave, in the next slots."""
        ...


class PaperJudge:
    """Profile ``paper``: words, scripts and densities."""

    def __init__(self, rule: PaperCorpusRule) -> None:
        self.rule = rule
        self.statistics: CorpusStatistics | None = None
        self._vocabulary = Vocabulary()
        self._written = 0
        self._clear()

    def read(self, documents: Sequence[Document]) -> None:
        """Words and scripts."""
        limit = self.rule.max_characters
        contents = [document.content[:limit] for document in documents]
        self._take(paper_features(contents, self._vocabulary))

    def settle(self, gone: Rows, fresh: Rows, touched: Rows, neighbors: LiveNeighbors) -> None:  # noqa: ARG002
        """Densities of the documents whose neighbours changed."""
        found = densities(self._words.view, touched, *neighbors.near(touched))
        self._density.view[touched] = found.density
        self._eligible.view[touched] = found.eligible

    def settle_all(self, neighbors: LiveNeighbors) -> None:
        """Densities of all documents."""
        everything = np.flatnonzero(neighbors.alive)
        self.settle(everything[:0], everything, everything, neighbors)

    def estimate(self, neighbors: LiveNeighbors) -> None:
        """Nothing: every quantity is that of the corpus as it is."""

    def measure(self, neighbors: LiveNeighbors) -> Measurement:
        """The published evidences."""
        alive = neighbors.alive
        found = Densities(self._density.view[alive], self._eligible.view[alive])
        return self.rule.judge_density(found, self._integrity.view[alive])

    def release(self, gone: Rows) -> None:
        """Nothing is counted."""

    def compact(self, kept: Rows) -> None:
        """Keep some slots."""
        features = PaperFeatures(self._words.view.take(kept), self._integrity.view[kept])
        density, eligible = self._density.view[kept], self._eligible.view[kept]
        # Words of documents that left are forgotten.
        self._vocabulary, moved = self._vocabulary.only(features.words.values)
        words = Ragged(moved[features.words.values], features.words.offsets)
        self._clear()
        self._take(PaperFeatures(words, features.integrity))
        self._density.view[:], self._eligible.view[:] = density, eligible

    def dump(self, first: int) -> tuple[Fields, Arrays]:
        """Words, scripts, and the vocabulary behind what was dumped before."""
        words = self._words.view.rows(first, len(self._words))
        known = 0 if first == 0 else self._written
        self._written = len(self._vocabulary)
        features = PaperFeatures(words, self._integrity.view[first:])
        return {"vocabulary": self._vocabulary.since(known)}, dict(features.arrays())

    def load(self, fields: Fields, arrays: Arrays) -> None:
        """Take in what was dumped."""
        self._vocabulary.numbers(fields["vocabulary"])
        self._written = len(self._vocabulary)
        self._take(PaperFeatures.from_arrays(arrays))

    def _clear(self) -> None:
        self._words = GrowingRagged()
        self._integrity = GrowingArray(np.bool_)
        self._density = GrowingArray(np.float64)
        self._eligible = GrowingArray(np.int64)

    def _take(self, features: PaperFeatures) -> None:
        self._words.append(features.words)
        self._integrity.append(features.integrity)
        self._density.extend_to(len(self._words), 0.0)
        self._eligible.extend_to(len(self._words), 0)
