"""The model ports in front of the store: a text that was read once is not read again.

A stored array is bit for bit what the model gave when it read the text, though models themselves
may differ in the last bits from batch to batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragsieve.errors import EmbeddingError
from ragsieve.featurestore.bounds import STATES
from ragsieve.featurestore.codecs import ArrayCodec
from ragsieve.featurestore.recall import CHUNK_TEXTS, Ensured, Recall
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore
from ragsieve.ports import CausalScorer, TextEmbedder, TokenEncoder
from ragsieve.records import FloatArray

LOSSES, DOCUMENT_ROWS, QUERY_ROWS = "losses", "document-embeddings", "query-embeddings"


class StoredCausalScorer:
    """A :class:`ragsieve.ports.CausalScorer` whose losses are kept; they are read-only."""

    def __init__(self, scorer: CausalScorer, store: FeatureStore) -> None:
        self._scorer = scorer
        self._recall = Recall(store, Space(LOSSES, scorer.identity), ArrayCodec())

    @property
    def identity(self) -> str:
        """The wrapped scorer's: remembering changes no number."""
        return self._scorer.identity

    @property
    def vocabulary_size(self) -> int:
        """The wrapped scorer's."""
        return self._scorer.vocabulary_size

    @property
    def space(self) -> Space:
        """Where its losses stand."""
        return self._recall.space

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Losses in nats; only texts that are not stored reach the model.

        :raises BackendError: when the model fails; what was finished before is kept.
        """
        return self._recall.values(texts, self._compute)

    def ensure(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> Ensured:
        """Compute and keep what is missing, and hold nothing of it.

        :raises BackendError: when the model fails.
        """
        return self._recall.ensure(texts, self._compute, progress)

    def _compute(self, texts: list[str]) -> list[FloatArray]:
        return _frozen(self._scorer.losses(texts))


class StoredTokenEncoder:
    """A :class:`ragsieve.ports.TokenEncoder` whose document states are kept; they are read-only.

    States of texts cut to another length, as queries are, go past the store: nothing is kept
    of what users ask.

    :param document_tokens: tokens of a document; only states cut to so many are kept.
    """

    def __init__(self, encoder: TokenEncoder, store: FeatureStore, *, document_tokens: int) -> None:
        self._encoder = encoder
        self._tokens = document_tokens
        space = Space(STATES, f"{encoder.identity} max_tokens={document_tokens}")
        self._recall = Recall(store, space, ArrayCodec())

    @property
    def identity(self) -> str:
        """The wrapped encoder's: remembering changes no number."""
        return self._encoder.identity

    @property
    def space(self) -> Space:
        """Where its states stand."""
        return self._recall.space

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Token states; only texts that are not stored reach the model.

        :raises BackendError: when the model fails; what was finished before is kept.
        """
        if max_tokens != self._tokens:
            return self._encoder.states(texts, max_tokens=max_tokens)
        return self._recall.values(texts, self._compute)

    def ensure(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> Ensured:
        """Compute and keep what is missing, and hold nothing of it.

        :raises BackendError: when the model fails.
        """
        return self._recall.ensure(texts, self._compute, progress)

    def _compute(self, texts: list[str]) -> list[FloatArray]:
        return _frozen(self._encoder.states(texts, max_tokens=self._tokens))


class StoredTextEmbedder:
    """A :class:`ragsieve.ports.TextEmbedder` whose rows are kept.

    :param queries: keep what users ask as well; without it queries go past the store.
    :param progress: called after each chunk with the number of texts embedded.
    """

    def __init__(
        self,
        embedder: TextEmbedder,
        store: FeatureStore,
        *,
        queries: bool = False,
        progress: Callable[[int], None] | None = None,
        chunk_texts: int = CHUNK_TEXTS,
    ) -> None:
        self._embedder = embedder
        self._keeps_queries = queries
        self._progress = progress
        self._documents, self._queries = (
            Recall(store, Space(kind, embedder.identity), ArrayCodec(), chunk_texts=chunk_texts)
            for kind in (DOCUMENT_ROWS, QUERY_ROWS)
        )

    @property
    def identity(self) -> str:
        """The wrapped encoder's: remembering changes no number."""
        return self._embedder.identity

    @property
    def dimension(self) -> int:
        """The wrapped encoder's."""
        return self._embedder.dimension

    @property
    def space(self) -> Space:
        """Where the rows of documents stand."""
        return self._documents.space

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Rows, shape (len(texts), dimension); only texts that are not stored reach the model.

        :raises EmbeddingError: when it gives rows of a wrong shape, or not finite.
        :raises BackendError: when the model fails; what was finished before is kept.
        """
        rows = self._documents.values(texts, self._compute_documents, self._progress)
        return self._stacked(rows)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """As :meth:`embed_documents`; a text is another one when it is a query."""
        if not self._keeps_queries:
            return self._embedder.embed_queries(texts)
        return self._stacked(self._queries.values(texts, self._compute_queries, self._progress))

    def _compute_documents(self, texts: list[str]) -> list[FloatArray]:
        return self._checked(self._embedder.embed_documents(texts), len(texts))

    def _compute_queries(self, texts: list[str]) -> list[FloatArray]:
        return self._checked(self._embedder.embed_queries(texts), len(texts))

    def _stacked(self, rows: list[FloatArray]) -> FloatArray:
        return np.stack(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)

    def _checked(self, rows: FloatArray, count: int) -> list[FloatArray]:
        if rows.shape != (count, self.dimension):
            raise EmbeddingError(
                f"{self.identity}: expected rows of shape {(count, self.dimension)}, "
                f"found {rows.shape}"
            )
        if not bool(np.isfinite(rows).all()):
            raise EmbeddingError(f"{self.identity}: gave rows that are not finite; none was kept")
        return list(rows)


def _frozen(arrays: list[FloatArray]) -> list[FloatArray]:
    # As those that come from the store: whether a text was known must not show.
    for array in arrays:
        array.setflags(write=False)
    return arrays
