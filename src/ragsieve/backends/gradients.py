"""A retriever's encoder on token ids, with the gradient of a similarity at every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.backends._edges import check_finite, model_errors
from ragsieve.backends.batches import length_sorted_batches, pad_id_of, padded, token_limit
from ragsieve.backends.deferred import ModelOutline
from ragsieve.backends.loading import LoadedModel, LoadOptions, ModelSource, load_encoder
from ragsieve.backends.presets import Pooling, RetrieverPreset
from ragsieve.records import FloatArray

BATCH_TOKENS = 4_096
"""Few enough that the activations of a small model stay near the processor."""


class HubGradientEncoder:
    """A transformers encoder whose token embeddings can be differentiated through.

    Ids are wrapped as a document is: marker, passage prefix, ids, marker. Ids beyond the
    model's positions are cut off at the end and have gradient 0.

    :param preset: pooling, passage prefix and truncation of this model.
    :param batch_tokens: tokens of one batch, padding included.
    :raises ModelFilesError: when the model is not here or damaged.
    """

    def __init__(
        self,
        source: ModelSource,
        preset: RetrieverPreset,
        *,
        options: LoadOptions | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self._loaded = load_encoder(source, options)
        self._preset = preset
        self._batch_tokens = batch_tokens
        self._max_tokens = token_limit(
            ModelOutline.of(self._loaded.model.config), preset.max_tokens
        )
        with model_errors(self._loaded.identity):
            # Only the input is differentiated; gradients of weights would cost as much again.
            self._loaded.model.requires_grad_(False)
            opening, self._closing = _markers(self._loaded.tokenizer)
            self._opening = [*opening, *self.token_ids(preset.passage_prefix)]
            weights = self._loaded.model.get_input_embeddings().weight
            self._embeddings: FloatArray = weights.detach().float().cpu().numpy()
        self._vocabulary = _vocabulary(self._loaded, len(self._embeddings))

    @property
    def identity(self) -> str:
        """Model, revision, pooling, passage prefix, dtype and truncation."""
        preset = self._preset
        return (
            f"{self._loaded.identity} pooling={preset.pooling} passage={preset.passage_prefix!r} "
            f"dtype={self._loaded.dtype} max_tokens={self._max_tokens}"
        )

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Token strings by id; empty for a row of the embeddings that no token has."""
        return self._vocabulary

    @property
    def special_ids(self) -> frozenset[int]:
        """The tokenizer's special tokens, and embeddings without a token."""
        marked = {int(number) for number in self._loaded.tokenizer.all_special_ids}
        return frozenset(marked | {row for row, token in enumerate(self._vocabulary) if not token})

    @property
    def embeddings(self) -> FloatArray:
        """Token embeddings before positions are added, float32, shape (vocabulary, e)."""
        return self._embeddings

    def token_ids(self, text: str) -> list[int]:
        """Ids without special tokens."""
        if not text:
            return []
        with model_errors(self._loaded.identity):
            encoded = self._loaded.tokenizer(text, add_special_tokens=False, verbose=False)
        return [int(number) for number in encoded["input_ids"]]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, as the tokenizer joins them."""
        with model_errors(self._loaded.identity):
            return str(self._loaded.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def encode_ids(self, batch: Sequence[Sequence[int]]) -> FloatArray:
        """Unit float32 vectors, shape (len(batch), d), special tokens added.

        :raises BackendError: when the model fails or gives a vector that is not finite.
        """
        torch = require("torch", extra="models")
        width = int(self._loaded.model.config.hidden_size)
        vectors = np.empty((len(batch), width), dtype=np.float32)
        with model_errors(self._loaded.identity), torch.inference_mode():
            wrapped = [np.asarray(self._wrapped(ids), dtype=np.int32) for ids in batch]
            lengths = [len(ids) for ids in wrapped]
            for rows in length_sorted_batches(lengths, token_budget=self._batch_tokens):
                ids, mask = padded(
                    [wrapped[row] for row in rows], pad_id=pad_id_of(self._loaded.tokenizer)
                )
                # Rows of one length need no mask, and attention without one is cheaper.
                unit = self._forward(
                    mask if not mask.all() else None,
                    input_ids=torch.from_numpy(ids).to(self._loaded.device),
                )
                vectors[rows] = unit.cpu().numpy()
        check_finite(self._loaded.identity, vectors, remedy="use dtype float32")
        return vectors

    def gradient(self, ids: Sequence[int], objective: FloatArray) -> FloatArray:
        """Gradient of ``vector . objective`` at each token's embedding, shape (len(ids), e).

        :param objective: shape (d,).
        :raises BackendError: when the model fails.
        """
        torch = require("torch", extra="models")
        device = self._loaded.device
        wrapped = self._wrapped(ids)
        start = len(self._opening)
        kept = len(wrapped) - start - len(self._closing)
        found = np.zeros((len(ids), self._embeddings.shape[1]), dtype=np.float32)
        with model_errors(self._loaded.identity):
            table = self._loaded.model.get_input_embeddings()
            inputs = table(torch.tensor([wrapped], device=device)).detach().requires_grad_(True)
            unit = self._forward(None, inputs_embeds=inputs)
            goal = torch.as_tensor(np.asarray(objective, dtype=np.float32), device=device)
            (slope,) = torch.autograd.grad((unit[0] * goal).sum(), inputs)
            found[:kept] = slope[0, start : start + kept].float().cpu().numpy()
        return found

    def _wrapped(self, ids: Sequence[int]) -> list[int]:
        room = max(0, self._max_tokens - len(self._opening) - len(self._closing))
        return [*self._opening, *ids[:room], *self._closing]

    def _forward(self, mask: Any, **inputs: Any) -> Any:
        # -> unit rows (texts, d)
        torch = require("torch", extra="models")
        if mask is not None:
            inputs["attention_mask"] = torch.from_numpy(mask).to(self._loaded.device)
        states = self._loaded.model(**inputs).last_hidden_state.float()
        if self._preset.pooling is Pooling.CLS:
            pooled = states[:, 0]
        elif mask is None:
            pooled = states.mean(dim=1)
        else:
            weights = inputs["attention_mask"].unsqueeze(-1).to(states.dtype)
            pooled = (states * weights).sum(dim=1) / weights.sum(dim=1)
        return torch.nn.functional.normalize(pooled, dim=-1)


def _markers(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    own = [place for place, added in enumerate(special) if not added]
    return list(ids[: own[0]]), list(ids[own[-1] + 1 :])


def _vocabulary(loaded: LoadedModel, size: int) -> tuple[str, ...]:
    tokens = [""] * size
    for token, number in loaded.tokenizer.get_vocab().items():
        if number < size:
            tokens[number] = token
    return tuple(tokens)
