"""A retriever's encoder: one unit vector per text, as the model's authors pool it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.backends._edges import check_finite, model_errors
from ragsieve.backends.batches import (
    CPU_BATCH_TOKENS,
    MAX_TEXT_CHARACTERS,
    batch_budget,
    length_sorted_batches,
    pad_id_of,
    padded,
    token_limit,
    tokenize,
)
from ragsieve.backends.deferred import ModelOutline
from ragsieve.backends.loading import LoadOptions, ModelSource, load_encoder
from ragsieve.backends.packing import pack_linears
from ragsieve.backends.presets import Pooling, RetrieverPreset
from ragsieve.records import FloatArray

BATCH_TOKENS = 8_192
"""On anything but a CPU."""


class HubTextEmbedder:
    """A transformers encoder as a :class:`ragsieve.ports.TextEmbedder`.

    :param preset: pooling, prefixes and truncation of this model.
    :param batch_tokens: tokens of one batch, padding included; as suits the device when None.
    :param progress: called after each batch with the number of texts it held.
    :raises ModelFilesError: when the model is not here or damaged.
    """

    def __init__(
        self,
        source: ModelSource,
        preset: RetrieverPreset,
        *,
        options: LoadOptions | None = None,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._loaded = load_encoder(source, options)
        self._preset = preset
        device = self._loaded.device
        self._batch_tokens = batch_budget(batch_tokens, device, BATCH_TOKENS)
        if device == "cpu":
            with model_errors(self._loaded.identity):
                pack_linears(self._loaded.model, rows=CPU_BATCH_TOKENS)
        self._progress = progress
        self._max_tokens = token_limit(
            ModelOutline.of(self._loaded.model.config), preset.max_tokens
        )

    @property
    def identity(self) -> str:
        """Model, revision, pooling, prefixes, dtype and truncation."""
        preset = self._preset
        return (
            f"{self._loaded.identity} pooling={preset.pooling} query={preset.query_prefix!r} "
            f"passage={preset.passage_prefix!r} dtype={self._loaded.dtype} "
            f"max_tokens={self._max_tokens} max_characters={MAX_TEXT_CHARACTERS}"
        )

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._loaded.model.config.hidden_size)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit float32 rows in the order of ``texts``, shape (len(texts), dimension).

        :raises BackendError: when the model fails or gives a vector that is not finite.
        """
        return self._embed(texts, self._preset.passage_prefix)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Unit float32 rows in the order of ``texts``, with the query prefix.

        :raises BackendError: when the model fails or gives a vector that is not finite.
        """
        return self._embed(texts, self._preset.query_prefix)

    def _embed(self, texts: Sequence[str], prefix: str) -> FloatArray:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        with model_errors(self._loaded.identity):
            prefixed = [prefix + text[:MAX_TEXT_CHARACTERS] for text in texts]
            tokens = tokenize(self._loaded.tokenizer, prefixed, max_tokens=self._max_tokens)
            lengths = [len(text) for text in tokens]
            for rows in length_sorted_batches(lengths, token_budget=self._batch_tokens):
                vectors[rows] = self._forward([tokens[row].ids for row in rows])
                if self._progress is not None:
                    self._progress(len(rows))
        remedy = "use dtype float32, or check the weights"
        check_finite(self._loaded.identity, vectors, remedy=remedy)
        return vectors

    def _forward(self, sequences: Sequence[Any]) -> FloatArray:
        torch = require("torch", extra="models")
        ids, mask = padded(sequences, pad_id=pad_id_of(self._loaded.tokenizer))
        device = self._loaded.device
        with torch.inference_mode():
            attention = torch.from_numpy(mask).to(device)
            output = self._loaded.model(
                input_ids=torch.from_numpy(ids).to(device), attention_mask=attention
            )
            pooled = _pool(output.last_hidden_state.float(), attention, self._preset.pooling)
            unit = torch.nn.functional.normalize(pooled, dim=-1)
        array: FloatArray = unit.cpu().numpy()
        return array


def _pool(states: Any, attention: Any, pooling: Pooling) -> Any:
    # states (texts, tokens, d), attention (texts, tokens) -> (texts, d)
    if pooling is Pooling.CLS:
        return states[:, 0]
    weights = attention.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)
