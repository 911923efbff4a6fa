"""One unit vector per token: the hidden states of one layer of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.backends._edges import model_errors
from ragsieve.backends.batches import (
    CPU_BATCH_TOKENS,
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
from ragsieve.backends.loading import LoadedModel, LoadOptions, ModelSource, load_encoder
from ragsieve.backends.packing import pack_linears
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
        chosen = options or LoadOptions()
        self._model = DeferredModel(source, chosen, lambda: _ready(source, chosen, layer))
        self._layer = layer
        self._asked_tokens = batch_tokens
        layers = self._model.outline.layers
        if not 0 <= layer <= layers:
            raise ConfigError(
                f"layer: expected 0 to {layers} for {self._model.identity}, found {layer}"
            )

    @property
    def identity(self) -> str:
        """Model, revision, layer and dtype."""
        return (
            f"{self._model.identity} layer={self._layer} dtype={self._model.dtype} "
            f"max_characters={MAX_TEXT_CHARACTERS}"
        )

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Unit float32 states, one array (tokens, d) a text, in the order of ``texts``.

        Special tokens are read by the model and then dropped. At most ``max_tokens``
        tokens from the text's beginning, fewer where the model has fewer positions.

        :raises BackendError: when the model fails.
        """
        outline = self._model.outline
        nothing = np.empty((0, outline.hidden_size), dtype=np.float32)
        results: list[FloatArray] = [nothing] * len(texts)
        loaded = self._model.loaded
        budget = batch_budget(self._asked_tokens, loaded.device, BATCH_TOKENS)
        with model_errors(loaded.identity):
            room = max_tokens + int(loaded.tokenizer.num_special_tokens_to_add(pair=False))
            limit = token_limit(outline, room)
            tokens = tokenize(loaded.tokenizer, texts, max_tokens=limit)
            filled = [row for row, text in enumerate(tokens) if len(text)]
            lengths = [len(tokens[row]) for row in filled]
            for batch in length_sorted_batches(lengths, token_budget=budget):
                rows = [filled[position] for position in batch]
                states = self._forward(loaded, [tokens[row] for row in rows])
                for row, own in zip(rows, states, strict=True):
                    results[row] = own
        return results

    def _forward(self, loaded: LoadedModel, texts: Sequence[TokenizedText]) -> list[FloatArray]:
        torch = require("torch", extra="models")
        device = loaded.device
        ids, mask = padded([text.ids for text in texts], pad_id=pad_id_of(loaded.tokenizer))
        cut = self._model.outline.model_type in _CUTTABLE
        with torch.inference_mode():
            output = loaded.model(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=torch.from_numpy(mask).to(device),
                output_hidden_states=not cut,
            )
            states = output.last_hidden_state if cut else output.hidden_states[self._layer]
            unit = torch.nn.functional.normalize(states.float(), dim=-1).cpu().numpy()
        # Indexing copies, so a short text does not keep its whole batch alive.
        return [unit[row, : len(text)][~text.special] for row, text in enumerate(texts)]


def _ready(source: ModelSource, options: LoadOptions, layer: int) -> LoadedModel:
    loaded = load_encoder(source, options)
    with model_errors(loaded.identity):
        _cut_layers(loaded.model, layer)
        if loaded.device == "cpu":
            pack_linears(loaded.model, rows=CPU_BATCH_TOKENS)
    return loaded


def _cut_layers(model: Any, layer: int) -> bool:
    """Drop the layers above ``layer`` where that is safe; whether it was done."""
    if model.config.model_type not in _CUTTABLE:
        return False
    model.encoder.layer = model.encoder.layer[:layer]
    return True
