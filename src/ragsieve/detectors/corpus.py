"""RSG: judge every document of an index against its own neighbourhood, before any query."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.profiles import DEFAULT_PROFILE, corpus_rule
from ragsieve.detectors.rules import CorpusRule, Measurement, decide, level_of
from ragsieve.errors import EmbeddingError, InputError
from ragsieve.evidence.knn import cosine_knn
from ragsieve.ports import CausalScorer
from ragsieve.records import Decision, Document, Level, NeighborGraph, Scan, Verdict


class CorpusDetector:
    """Scans corpus snapshots; keeps nothing between calls.

    Thresholds belong to the snapshot, so there is no ``fit`` and no verdict on a document
    alone. A score is evidence of promotion, not of falsehood.

    :param profile: a profile's name, or a rule of one's own.
    :param causal: causal language model, for profiles that use one.
    :raises ConfigError: for an unknown profile.
    """

    def __init__(
        self, profile: str | CorpusRule = DEFAULT_PROFILE, *, causal: CausalScorer | None = None
    ) -> None:
        self._rule = corpus_rule(profile, causal=causal) if isinstance(profile, str) else profile
        self.fingerprint = self._rule.fingerprint()

    @property
    def profile(self) -> str:
        """The rule's name."""
        return self._rule.profile

    @property
    def neighbors(self) -> int:
        """Neighbours per document the rule asks for, k."""
        return self._rule.neighbors

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        return self._rule.threshold

    def scan(
        self,
        documents: Sequence[Document],
        embeddings: npt.ArrayLike,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Scan:
        """Judge every document.

        :param embeddings: the retriever's own vectors, one row a document in the same
            order, any float dtype.
        :param progress: called with the number of rows whose neighbours are found.
        :raises EmbeddingError: when the rows do not fit the documents, are not finite or
            are zero.
        :raises InputError: when there is no document.
        """
        vectors = np.asarray(embeddings)
        rows = vectors.shape[0] if vectors.ndim else 0
        if rows != len(documents):
            raise EmbeddingError(
                f"expected one embedding row a document ({len(documents)}), found {rows}; "
                "embed this corpus again"
            )
        graph = cosine_knn(vectors, self._rule.neighbors, progress=progress)
        return self.scan_graph(documents, graph)

    def scan_graph(self, documents: Sequence[Document], graph: NeighborGraph) -> Scan:
        """Judge every document over a neighbour graph computed elsewhere.

        :raises InputError: when there is no document, or the graph breaks its laws: one
            row a document, sorted, without self.
        """
        if not documents:
            raise InputError("expected at least one document, found none")
        check_graph(graph, len(documents))
        limit = self._rule.max_characters
        contents = [document.content for document in documents]
        excess = np.array([max(0, len(text) - limit) for text in contents], dtype=np.int64)
        declared = [document.provenance for document in documents]
        measured = self._rule.measure([text[:limit] for text in contents], graph, declared)
        return judged(
            self._rule, tuple(document.id for document in documents), graph, measured, excess
        )

    def explain(self, documents: Sequence[Document], scan: Scan, row: int) -> Verdict:
        """The verdict on one document with the facts behind every evidence attached.

        :param documents: those the scan was made from, in the same order.
        :raises InputError: when they are not.
        """
        if tuple(document.id for document in documents) != scan.document_ids:
            raise InputError("the documents are not those of the scan; scan this corpus first")
        verdict = scan.verdict(row)
        details = self._rule.details(documents, scan, row)
        evidences = tuple(
            dataclasses.replace(evidence, detail=detail) if evidence.measured else evidence
            for evidence, detail in zip(verdict.evidences, details, strict=True)
        )
        return dataclasses.replace(verdict, evidences=evidences)


def judged(
    rule: CorpusRule,
    document_ids: tuple[str, ...],
    graph: NeighborGraph,
    measured: Measurement,
    truncated_characters: npt.NDArray[np.int64],
) -> Scan:
    """Combine what was measured, decide, and set levels.

    :param graph: one row a document of ``document_ids``.
    """
    columns = measured.columns
    values = np.stack([column.values for column in columns])
    scores = _combined(rule, values)
    required = [row for row, column in enumerate(columns) if not column.optional]
    complete = np.logical_not(np.isnan(values[required]).any(axis=0))
    # Three outcomes for all rows: a decision each would cost more than the measuring.
    threshold = rule.threshold
    outcomes = np.array(
        [
            decide(-1.0, threshold, complete=False),
            decide(-1.0, threshold, complete=True),
            decide(threshold, threshold, complete=True),
        ],
        dtype=object,
    )
    places = np.where(scores >= threshold, 2, complete.astype(np.int64))
    decisions: tuple[Decision, ...] = tuple(outcomes[places].tolist())
    levels = [Level.INFO] * len(decisions)
    for row in np.flatnonzero(places != 1).tolist():
        evidences = tuple(column.at(row) for column in columns)
        levels[row] = level_of(decisions[row], rule.level, evidences, float(scores[row]))
    return Scan(
        document_ids=document_ids,
        evidences=columns,
        scores=scores,
        decisions=decisions,
        levels=tuple(levels),
        threshold=threshold,
        profile=rule.profile,
        fingerprint=rule.fingerprint(),
        graph=graph,
        truncated_characters=truncated_characters,
        knowledge=measured.knowledge,
        notes=measured.notes,
    )


def _combined(rule: CorpusRule, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The score of every column of values, NaN left out; equal columns are combined once."""
    known: dict[tuple[float, ...], float] = {}
    scores = np.empty(values.shape[1])
    # Evidence is never negative, so a negative number can stand for one that is missing.
    for row, column in enumerate(
        zip(*np.where(np.isnan(values), -1.0, values).tolist(), strict=True)
    ):
        score = known.get(column)
        if score is None:
            score = known[column] = rule.combine([value for value in column if value >= 0])
        scores[row] = score
    return scores


def check_graph(graph: NeighborGraph, size: int) -> None:
    """Whether a graph keeps its laws: one row a document, sorted, without self.

    :raises InputError: when it does not.
    """
    indices, similarities = graph.indices, graph.similarities
    if indices.shape != similarities.shape or len(graph) != size:
        raise InputError(
            f"expected a neighbour graph of {size} rows, found indices {indices.shape} and "
            f"similarities {similarities.shape}"
        )
    if indices.size == 0:
        return
    if bool((indices == np.arange(size)[:, None]).any()):
        raise InputError("a document is its own neighbour; exclude self from the graph")
    if indices.min() < 0 or indices.max() >= size:
        raise InputError(f"a neighbour index lies outside 0..{size - 1}")
    if not bool((np.diff(similarities, axis=1) <= 0).all()):
        raise InputError("neighbours must be sorted, most similar first")
