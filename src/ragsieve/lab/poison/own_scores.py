"""What the project's own detectors would say about texts before they are planted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison.base import Workshop
from ragsieve.records import Document, FloatArray, RankedDocument, Ranking

SNAPSHOT = 300
_MARK = "\0candidate-"


@dataclasses.dataclass(frozen=True, slots=True)
class OwnScores:
    """The worst of some texts, each in units of its detector's threshold: 1 is flagged.

    :param query: of those that the ranking judges; 0 when none is retrieved.
    :param corpus: over the nearest documents only, so the full scan's thresholds differ.
    """

    query: float
    corpus: float

    @property
    def worst(self) -> float:
        """Below 1 when neither detector would flag."""
        return max(self.query, self.corpus)


class Judge:
    """Both detectors of a profile, without models of their own.

    Texts are judged among the documents nearest to the question: a snapshot of 300 stands for
    the corpus, so that a choice costs milliseconds.

    :param profile: a profile's name.
    """

    def __init__(self, profile: str = "default") -> None:
        self._query = QueryDetector(profile)
        self._corpus = CorpusDetector(profile)

    def fingerprint(self) -> str:
        """Hashes of both rules."""
        return f"{self._query.fingerprint}/{self._corpus.fingerprint}"

    def scores(
        self,
        target: Target,
        texts: Sequence[str],
        rows: FloatArray,
        question: FloatArray,
        workshop: Workshop,
    ) -> OwnScores:
        """Plant texts among the question's nearest documents and take the worst scores.

        :param rows: unit rows of the texts, shape (n, d).
        :param question: shape (d,).
        """
        clean = np.asarray(workshop.rows, dtype=np.float32)
        near = np.argsort(-(clean @ question), kind="stable")[:SNAPSHOT].tolist()
        documents = [workshop.dataset.documents[row] for row in near]
        documents += [Document(f"{_MARK}{row}", text) for row, text in enumerate(texts)]
        vectors = np.concatenate([clean[near], np.asarray(rows, dtype=np.float32)])
        return OwnScores(
            query=self._worst_query(target, documents, vectors @ question),
            corpus=self._worst_corpus(documents, vectors),
        )

    def _worst_query(
        self, target: Target, documents: Sequence[Document], similarities: FloatArray
    ) -> float:
        order = np.argsort(-similarities, kind="stable")[: self._query.documents].tolist()
        entries = tuple(
            RankedDocument(documents[row], place, float(similarities[row]))
            for place, row in enumerate(order, start=1)
        )
        verdicts = self._query.score(Ranking(target.query.id, target.query.text, entries))
        own = [verdict.score for verdict in verdicts if verdict.document_id.startswith(_MARK)]
        return max(own, default=0.0) / self._query.threshold

    def _worst_corpus(self, documents: Sequence[Document], vectors: FloatArray) -> float:
        scan = self._corpus.scan(documents, vectors)
        own = [
            float(score)
            for name, score in zip(scan.document_ids, scan.scores, strict=True)
            if name.startswith(_MARK)
        ]
        return max(own, default=0.0) / self._corpus.threshold
