"""How surprising each token of a text is to a causal language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.backends._edges import model_errors
from ragsieve.backends.batches import (
    MAX_TEXT_CHARACTERS,
    TokenizedText,
    batch_budget,
    length_sorted_batches,
    pad_id_of,
    padded,
    token_limit,
    tokenize,
)
from ragsieve.backends.loading import LoadOptions, ModelSource, load_causal
from ragsieve.records import FloatArray

BATCH_TOKENS = 2_048
"""Logits are the largest thing held: 2,048 tokens of a vocabulary of 49 k are 400 MB."""

MAX_TOKENS = 512

_LOSS_ROWS = 256


class HubCausalScorer:
    """A transformers causal model as a :class:`ragsieve.ports.CausalScorer`.

    The model reads the text alone: no prompt, and a beginning-of-sequence token only
    where the tokenizer adds one by default.

    :param max_tokens: tokens of a text that are scored.
    :param batch_tokens: tokens of one batch, padding included; as suits the device when None.
    :raises ModelFilesError: when the model is not here or damaged.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        max_tokens: int = MAX_TOKENS,
        options: LoadOptions | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self._loaded = load_causal(source, options)
        self._batch_tokens = batch_budget(batch_tokens, self._loaded.device, BATCH_TOKENS)
        self._max_tokens = token_limit(self._loaded.model, max_tokens)

    @property
    def identity(self) -> str:
        """Model, revision, dtype and truncation."""
        return (
            f"{self._loaded.identity} dtype={self._loaded.dtype} "
            f"max_tokens={self._max_tokens} max_characters={MAX_TEXT_CHARACTERS}"
        )

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens the model chooses from; ln of it is a uniform guess's loss in nats."""
        return int(self._loaded.model.config.vocab_size)

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Negative log likelihood of each token in nats, float32, in the order of ``texts``.

        A text of t tokens gives shape (max(0, t - 1),): the first token has no loss.

        :raises BackendError: when the model fails.
        """
        results: list[FloatArray] = [np.empty(0, dtype=np.float32)] * len(texts)
        with model_errors(self._loaded.identity):
            tokens = tokenize(self._loaded.tokenizer, texts, max_tokens=self._max_tokens)
            scored = [row for row, text in enumerate(tokens) if len(text) > 1]
            lengths = [len(tokens[row]) for row in scored]
            for batch in length_sorted_batches(lengths, token_budget=self._batch_tokens):
                rows = [scored[position] for position in batch]
                for row, loss in zip(rows, self._forward([tokens[r] for r in rows]), strict=True):
                    results[row] = loss
        return results

    def _forward(self, texts: Sequence[TokenizedText]) -> list[FloatArray]:
        torch = require("torch", extra="models")
        ids, mask = padded([text.ids for text in texts], pad_id=pad_id_of(self._loaded.tokenizer))
        device = self._loaded.device
        with torch.inference_mode():
            inputs = torch.from_numpy(ids).to(device)
            logits = self._loaded.model(
                input_ids=inputs, attention_mask=torch.from_numpy(mask).to(device), use_cache=False
            ).logits
            return [
                _token_losses(torch, logits[row, : len(text) - 1], inputs[row, 1 : len(text)])
                for row, text in enumerate(texts)
            ]


def _token_losses(torch: Any, logits: Any, targets: Any) -> FloatArray:
    # logits (t, V), targets (t,) -> (t,) nats. In pieces: only a piece exists in float32 twice.
    pieces = [
        torch.nn.functional.cross_entropy(part.float(), target, reduction="none")
        for part, target in zip(logits.split(_LOSS_ROWS), targets.split(_LOSS_ROWS), strict=True)
    ]
    array: FloatArray = torch.cat(pieces).cpu().numpy()
    return array
