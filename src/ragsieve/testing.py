"""Public fakes of the ports: deterministic, no model, for tests of code that uses ragsieve."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ragsieve.errors import BackendError
from ragsieve.records import FloatArray

_DIMENSION = 32


class FakeCausalScorer:
    """Losses that depend on the words alone; words in ``surprising`` cost more.

    :param surprising: words whose loss is 12 nats; others lie in [1, 2).
    :param failing: raise instead of scoring.
    """

    identity = "fake-causal"
    vocabulary_size = 50_000

    def __init__(self, surprising: Sequence[str] = (), *, failing: bool = False) -> None:
        self._surprising = frozenset(surprising)
        self._failing = failing
        self.calls: list[tuple[str, ...]] = []

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """One loss in nats for each word but the first.

        :raises BackendError: when made to fail.
        """
        self.calls.append(tuple(texts))
        if self._failing:
            raise BackendError("the fake model was told to fail")
        return [np.array([self._loss(word) for word in text.split()[1:]]) for text in texts]

    def _loss(self, word: str) -> float:
        return 12.0 if word in self._surprising else 1.0 + _number(word)


class FakeTokenEncoder:
    """One unit vector a word, the same for the same word."""

    identity = "fake-tokens"

    def __init__(self, *, failing: bool = False) -> None:
        self._failing = failing
        self.calls: list[tuple[str, ...]] = []

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Unit rows, shape (words, 32), of at most ``max_tokens`` words.

        :raises BackendError: when made to fail.
        """
        self.calls.append(tuple(texts))
        if self._failing:
            raise BackendError("the fake encoder was told to fail")
        return [
            np.array([_vector(word) for word in text.split()[:max_tokens]]).reshape(-1, _DIMENSION)
            for text in texts
        ]


class FakeTextEmbedder:
    """The normalised sum of a text's word vectors."""

    identity = "fake-embedder"
    dimension = _DIMENSION

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows, shape (len(texts), 32)."""
        return np.array([_bag(text) for text in texts]).reshape(-1, _DIMENSION)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows, shape (len(texts), 32)."""
        return self.embed_documents(texts)


def _bag(text: str) -> FloatArray:
    total = sum((_vector(word) for word in text.lower().split()), _vector(""))
    unit: FloatArray = total / np.linalg.norm(total)
    return unit


def _vector(word: str) -> FloatArray:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8], "big")
    row = np.random.default_rng(seed).normal(size=_DIMENSION)
    unit: FloatArray = row / np.linalg.norm(row)
    return unit


def _number(word: str) -> float:
    return hashlib.sha256(word.encode("utf-8", "replace")).digest()[0] / 256
