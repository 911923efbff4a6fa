"""How surprising each token of a text is to a causal language model."""

from __future__ import annotations

from collections.abc import Sequence

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
from ragsieve.backends.deferred import DeferredModel
from ragsieve.backends.loading import LoadedModel, LoadOptions, ModelSource, load_causal
from ragsieve.backends.packing import pack_linears
from ragsieve.records import FloatArray

BATCH_TOKENS = 2_048
"""On anything but a CPU. A model of another family holds the logits of a batch: 2,048 tokens of
a vocabulary of 49 k are 400 MB."""

CPU_BATCH_TOKENS = 256
"""Fewer than an encoder's: its layers are wider, and less of a batch is padding."""

MAX_TOKENS = 512

# So few rows of logits stay in a processor's cache until they are summed up.
_LOSS_ROWS = 64

# Decoders whose logits are their last states times ``lm_head`` and nothing else. Padding stands
# behind a text and attention looks back only, so they need no mask either.
_PLAIN_HEADS = frozenset({"llama", "mistral", "qwen2", "qwen3"})


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
        chosen = options or LoadOptions()
        self._model = DeferredModel(source, chosen, lambda: _ready(source, chosen))
        self._asked_tokens = batch_tokens
        self._max_tokens = token_limit(self._model.outline, max_tokens)

    @property
    def identity(self) -> str:
        """Model, revision, dtype and truncation."""
        return (
            f"{self._model.identity} dtype={self._model.dtype} "
            f"max_tokens={self._max_tokens} max_characters={MAX_TEXT_CHARACTERS}"
        )

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens the model chooses from; ln of it is a uniform guess's loss in nats."""
        return self._model.outline.vocabulary_size

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Negative log likelihood of each token in nats, float32, in the order of ``texts``.

        A text of t tokens gives shape (max(0, t - 1),): the first token has no loss.

        :raises BackendError: when the model fails.
        """
        results: list[FloatArray] = [np.empty(0, dtype=np.float32)] * len(texts)
        loaded = self._model.loaded
        budget = batch_budget(self._asked_tokens, loaded.device, BATCH_TOKENS, cpu=CPU_BATCH_TOKENS)
        with model_errors(self._model.identity):
            tokens = tokenize(loaded.tokenizer, texts, max_tokens=self._max_tokens)
            scored = [row for row, text in enumerate(tokens) if len(text) > 1]
            lengths = [len(tokens[row]) for row in scored]
            for batch in length_sorted_batches(lengths, token_budget=budget):
                rows = [scored[position] for position in batch]
                losses = _forward(loaded, [tokens[row] for row in rows])
                for row, loss in zip(rows, losses, strict=True):
                    results[row] = loss
        return results


def _ready(source: ModelSource, options: LoadOptions) -> LoadedModel:
    loaded = load_causal(source, options)
    if loaded.device == "cpu":
        with model_errors(loaded.identity):
            pack_linears(loaded.model, rows=CPU_BATCH_TOKENS)
    return loaded


def _forward(loaded: LoadedModel, texts: Sequence[TokenizedText]) -> list[FloatArray]:
    torch = require("torch", extra="models")
    ids, mask = padded([text.ids for text in texts], pad_id=pad_id_of(loaded.tokenizer))
    model, device = loaded.model, loaded.device
    with torch.inference_mode():
        inputs = torch.from_numpy(ids).to(device)
        if model.config.model_type in _PLAIN_HEADS:
            states = model.model(input_ids=inputs, use_cache=False).last_hidden_state
            head = model.lm_head
        else:
            attention = torch.from_numpy(mask).to(device)
            states = model(input_ids=inputs, attention_mask=attention, use_cache=False).logits
            head = torch.nn.Identity()
        counts = [len(text) - 1 for text in texts]
        seen = torch.cat([states[row, :count] for row, count in enumerate(counts)])
        targets = torch.cat([inputs[row, 1 : count + 1] for row, count in enumerate(counts)])
        # In pieces: the logits of a whole batch are never held in float32.
        pieces = [
            torch.nn.functional.cross_entropy(head(part).float(), target, reduction="none")
            for part, target in zip(seen.split(_LOSS_ROWS), targets.split(_LOSS_ROWS), strict=True)
        ]
        losses = torch.cat(pieces).cpu().numpy()
    # Copies, so that a short text does not keep its whole batch alive.
    return [part.copy() for part in np.split(losses, np.cumsum(counts)[:-1])]
