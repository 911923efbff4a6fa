"""The protocols through which models are reached; anything that fits may be handed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragsieve.records import (
    ChatMessage,
    ChatReply,
    DocumentFeatures,
    FloatArray,
    Query,
    Ranking,
    Surroundings,
)


@runtime_checkable
class CausalScorer(Protocol):
    """A causal language model that says how surprising a text's tokens are."""

    @property
    def identity(self) -> str:
        """Model, revision, dtype and truncation: whatever changes the numbers."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Tokens the model chooses from, V."""
        ...

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Negative log likelihood of each token, in nats.

        The first token has none, so a text of t tokens gives an array of shape
        (max(0, t - 1),).

        :raises BackendError: when the model fails.
        """
        ...


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that gives one state per token of a text."""

    @property
    def identity(self) -> str:
        """Model, revision, layer and dtype: whatever changes the numbers."""
        ...

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Unit-length token states without special tokens, one array (tokens, d) a text.

        At most ``max_tokens`` tokens from the text's beginning.

        :raises BackendError: when the model fails.
        """
        ...


@runtime_checkable
class TextEmbedder(Protocol):
    """A retriever's encoder: one unit vector per text."""

    @property
    def identity(self) -> str:
        """Model, revision, pooling, prefixes, dtype and truncation."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows, shape (len(texts), dimension).

        :raises BackendError: when the model fails.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows, shape (len(texts), dimension), with the query prefix where there is one.

        :raises BackendError: when the model fails.
        """
        ...


@runtime_checkable
class FeatureSource(Protocol):
    """What an ingest scan knows, by document id."""

    @property
    def surroundings(self) -> Surroundings:
        """Facts about the corpus as a whole."""
        ...

    def features(self, document_ids: Sequence[str]) -> tuple[DocumentFeatures, ...]:
        """Facts about each document, in the order asked; empty ones where nothing is known."""
        ...


@runtime_checkable
class ChatModel(Protocol):
    """A model that answers a conversation."""

    @property
    def identity(self) -> str:
        """Model, server and settings: whatever changes the replies."""
        ...

    def reply(self, messages: Sequence[ChatMessage], *, max_tokens: int) -> ChatReply:
        """One reply at temperature 0.

        :param messages: the conversation, oldest first.
        :raises BackendError: when there is none.
        """
        ...


@runtime_checkable
class Retriever(Protocol):
    """A searchable index."""

    def retrieve(
        self, query: Query, *, depth: int, without: frozenset[str] = frozenset()
    ) -> Ranking:
        """The best ``depth`` documents, fewer where the index has no more.

        :param without: ids that must not be returned; others take their places.
        :raises BackendError: when the index cannot be searched.
        """
        ...
