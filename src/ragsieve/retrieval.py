"""Rank a corpus for queries by the retriever's own vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from ragsieve.evidence.knn import nearest_rows
from ragsieve.ports import TextEmbedder
from ragsieve.records import Document, Query, RankedDocument, Ranking


def retrieve(
    queries: Sequence[Query],
    documents: Sequence[Document],
    embeddings: npt.ArrayLike,
    embedder: TextEmbedder,
    *,
    depth: int = 100,
) -> list[Ranking]:
    """The ``depth`` documents nearest to each query by cosine, ties by corpus order.

    :param embeddings: shape (len(documents), d), made by the same encoder.
    :raises EmbeddingError: when rows are unusable or of another dimension than the queries'.
    :raises ValueError: when depth < 1.
    """
    if depth < 1:
        raise ValueError("depth must be at least 1")
    asked = embedder.embed_queries([query.text for query in queries])
    return rank(queries, documents, asked, embeddings, depth=depth)


def rank(
    queries: Sequence[Query],
    documents: Sequence[Document],
    query_embeddings: npt.ArrayLike,
    embeddings: npt.ArrayLike,
    *,
    depth: int,
) -> list[Ranking]:
    """As :func:`retrieve`, from query vectors computed earlier."""
    indices, similarities = nearest_rows(query_embeddings, embeddings, depth)
    return [
        Ranking(
            query.id,
            query.text,
            tuple(
                RankedDocument(documents[row], place, float(similarity))
                for place, (row, similarity) in enumerate(zip(rows, near, strict=True), start=1)
            ),
        )
        for query, rows, near in zip(queries, indices.tolist(), similarities.tolist(), strict=True)
    ]


class CorpusRetriever:
    """A :class:`ragsieve.ports.Retriever` over a corpus in memory, searched exactly.

    :param embeddings: shape (len(documents), d), made by the same encoder.
    """

    def __init__(
        self, documents: Sequence[Document], embeddings: npt.ArrayLike, embedder: TextEmbedder
    ) -> None:
        self._documents = documents
        self._embeddings = embeddings
        self._embedder = embedder

    def retrieve(
        self, query: Query, *, depth: int, without: frozenset[str] = frozenset()
    ) -> Ranking:
        """The ``depth`` nearest documents that are not left out, ties by corpus order.

        :raises BackendError: when the encoder fails.
        :raises EmbeddingError: when rows are unusable or of another dimension than the query's.
        """
        deep = depth + len(without)
        [found] = retrieve([query], self._documents, self._embeddings, self._embedder, depth=deep)
        left = [entry for entry in found.entries if entry.document.id not in without]
        return found.renumbered(left[:depth])
