"""Models for the benchmarks of queries: synthetic, embedded, remembered."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.installed import model_path
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.presets import EMBEDDED_CAUSAL, EMBEDDED_TOKENS
from ragsieve.backends.tokens import HubTokenEncoder
from ragsieve.ports import CausalScorer, TokenEncoder
from ragsieve.records import FloatArray
from ragsieve.settings import load_settings

_DIMENSION = 384


class Answers:
    """A model's answers by text: a scorer, an encoder, and lists for the plain side."""

    identity = "answers"

    def __init__(self, scorer: CausalScorer, encoder: TokenEncoder) -> None:
        self._scorer = scorer
        self._encoder = encoder
        self.vocabulary_size = scorer.vocabulary_size
        self._losses: dict[str, FloatArray] = {}
        self._states: dict[tuple[str, int], FloatArray] = {}

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """As the scorer gave them."""
        new = [text for text in dict.fromkeys(texts) if text not in self._losses]
        self._losses.update(zip(new, self._scorer.losses(new) if new else [], strict=True))
        return [self._losses[text] for text in texts]

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """As the encoder gave them."""
        keys = [(text, max_tokens) for text in texts]
        new = [key for key in dict.fromkeys(keys) if key not in self._states]
        answers = self._encoder.states([text for text, _ in new], max_tokens=max_tokens)
        self._states.update(zip(new, answers if new else [], strict=True))
        return [self._states[key] for key in keys]


class WordModel:
    """Losses and states of the size a model's have; words decide, and are the same every time."""

    identity = "words"
    vocabulary_size = 50_000

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Rare-looking words cost more."""
        return [
            np.array([_loss(word) for word in text.split()[1:512]], dtype=np.float32)
            for text in texts
        ]

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """One unit row a word."""
        found = []
        for text in texts:
            words = text.lower().split()[:max_tokens]
            rows = [_vector(word) for word in words]
            found.append(np.array(rows, dtype=np.float32).reshape(-1, _DIMENSION))
        return found


@functools.lru_cache(maxsize=200_000)
def _loss(word: str) -> float:
    return 1.0 + zlib.crc32(word.encode()) % 997 / 200 + (4.0 if len(word) > 9 else 0.0)


@functools.lru_cache(maxsize=200_000)
def _vector(word: str) -> FloatArray:
    row = np.random.default_rng(zlib.crc32(word.encode())).normal(size=_DIMENSION) + 0.6
    return np.asarray(row / np.linalg.norm(row))


def word_answers() -> Answers:
    """Synthetic answers, made when first asked for."""
    model = WordModel()
    return Answers(model, model)


def embedded_models(models_dir: Path | None) -> tuple[CausalScorer, TokenEncoder]:
    """The embedded models on the CPU, in float32, without a memory."""
    settings = load_settings(models_dir=models_dir)
    options = LoadOptions(device="cpu")
    causal, tokens = (
        ModelSource(str(model_path(settings.models_dir, name)))
        for name in (EMBEDDED_CAUSAL.model, EMBEDDED_TOKENS.model)
    )
    return (
        HubCausalScorer(causal, options=options),
        HubTokenEncoder(tokens, layer=EMBEDDED_TOKENS.layer, options=options),
    )
