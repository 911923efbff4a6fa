"""One unit vector per token: the hidden states of one layer of an encoder."""

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
from ragsieve.backends.loading import LoadOptions, ModelSource, load_encoder
from ragsieve.errors import ConfigError
from ragsieve.records import FloatArray

BATCH_TOKENS = 8_192

# Encoders whose last hidden state is the last layer's output as it is: cutting layers off
# changes none of the earlier ones. Others may norm at the end, so they run in full.
_CUTTABLE = frozenset({"bert", "roberta", "xlm-roberta", "mpnet", "electra"})


class HubTokenEncoder:
    """A transformers encoder as a :class:`ragsieve.ports.TokenEncoder`.

    :param layer: index into the hidden states; 0 is the embeddings, 1 the first layer.
    :param batch_tokens: tokens of one batch, padding included; as suits the device when None.
    :raises ConfigError: when the model has no such layer.
    :raises ModelFilesError: when the model is not here or damaged.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        layer: int,
        options: LoadOptions | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self._loaded = load_encoder(source, options)
        self._layer = layer
        self._batch_tokens = batch_budget(batch_tokens, self._loaded.device, BATCH_TOKENS)
        layers = int(self._loaded.model.config.num_hidden_layers)
        if not 0 <= layer <= layers:
            raise ConfigError(
                f"layer: expected 0 to {layers} for {self._loaded.identity}, found {layer}"
            )
        with model_errors(self._loaded.identity):
            self._cut = _cut_layers(self._loaded.model, layer)

    @property
    def identity(self) -> str:
        """Model, revision, layer and dtype."""
        return (
            f"{self._loaded.identity} layer={self._layer} dtype={self._loaded.dtype} "
            f"max_characters={MAX_TEXT_CHARACTERS}"
        )

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Unit float32 states, one array (tokens, d) a text, in the order of ``texts``.

        Special tokens are read by the model and then dropped. At most ``max_tokens``
        tokens from the text's beginning, fewer where the model has fewer positions.

        :raises BackendError: when the model fails.
        """
        loaded = self._loaded
        nothing = np.empty((0, int(loaded.model.config.hidden_size)), dtype=np.float32)
        results: list[FloatArray] = [nothing] * len(texts)
        with model_errors(loaded.identity):
            room = max_tokens + int(loaded.tokenizer.num_special_tokens_to_add(pair=False))
            limit = token_limit(loaded.model, room)
            tokens = tokenize(loaded.tokenizer, texts, max_tokens=limit)
            filled = [row for row, text in enumerate(tokens) if len(text)]
            lengths = [len(tokens[row]) for row in filled]
            for batch in length_sorted_batches(lengths, token_budget=self._batch_tokens):
                rows = [filled[position] for position in batch]
                for row, states in zip(rows, self._forward([tokens[r] for r in rows]), strict=True):
                    results[row] = states
        return results

    def _forward(self, texts: Sequence[TokenizedText]) -> list[FloatArray]:
        torch = require("torch", extra="models")
        device = self._loaded.device
        ids, mask = padded([text.ids for text in texts], pad_id=pad_id_of(self._loaded.tokenizer))
        with torch.inference_mode():
            output = self._loaded.model(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=torch.from_numpy(mask).to(device),
                output_hidden_states=not self._cut,
            )
            states = output.last_hidden_state if self._cut else output.hidden_states[self._layer]
            unit = torch.nn.functional.normalize(states.float(), dim=-1).cpu().numpy()
        # Indexing copies, so a short text does not keep its whole batch alive.
        return [unit[row, : len(text)][~text.special] for row, text in enumerate(texts)]


def _cut_layers(model: Any, layer: int) -> bool:
    """Drop the layers above ``layer`` where that is safe; whether it was done."""
    if model.config.model_type not in _CUTTABLE:
        return False
    model.encoder.layer = model.encoder.layer[:layer]
    return True
