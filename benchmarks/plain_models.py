"""The models asked plainly: transformers as its documentation shows it, one text at a time.

What the cold cost is measured against: all logits at once, no packed weights, no batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsieve.backends.installed import model_path
from ragsieve.backends.presets import EMBEDDED_CAUSAL, EMBEDDED_TOKENS
from ragsieve.records import FloatArray
from ragsieve.settings import load_settings


class PlainModels:
    """The embedded models in float32 on the CPU."""

    identity = "plain"

    def __init__(self, models_dir: Path | None) -> None:
        import transformers

        folder = load_settings(models_dir=models_dir).models_dir
        causal, encoder = (
            str(model_path(folder, one.model)) for one in (EMBEDDED_CAUSAL, EMBEDDED_TOKENS)
        )
        transformers.utils.logging.disable_progress_bar()
        self._causal_tokenizer: Any = transformers.AutoTokenizer.from_pretrained(causal)
        self._causal: Any = transformers.AutoModelForCausalLM.from_pretrained(causal).eval()
        self._encoder_tokenizer: Any = transformers.AutoTokenizer.from_pretrained(encoder)
        self._encoder: Any = transformers.AutoModel.from_pretrained(encoder).eval()
        self.vocabulary_size = int(self._causal.config.vocab_size)

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Negative log likelihoods, at most 512 tokens a text."""
        return [self._loss(text) for text in texts]

    def _loss(self, text: str) -> FloatArray:
        import torch

        ids = self._causal_tokenizer(
            text, return_tensors="pt", truncation=True, max_length=EMBEDDED_CAUSAL.max_tokens
        )["input_ids"]
        if ids.shape[1] <= 1:
            return np.empty(0, dtype=np.float32)
        with torch.inference_mode():
            logits = self._causal(ids).logits[0, :-1]
            chosen = torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])
        return np.asarray(-chosen[:, 0].numpy())

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Unit states of the preset's layer, special tokens dropped."""
        return [self._state(text, max_tokens) for text in texts]

    def _state(self, text: str, max_tokens: int) -> FloatArray:
        import torch

        room = max_tokens + self._encoder_tokenizer.num_special_tokens_to_add()
        asked = self._encoder_tokenizer(
            text,
            return_tensors="pt",
            truncation=True,
            max_length=room,
            return_special_tokens_mask=True,
        )
        special = asked.pop("special_tokens_mask")[0].bool().numpy()
        with torch.inference_mode():
            found = self._encoder(**asked, output_hidden_states=True)
            rows = found.hidden_states[EMBEDDED_TOKENS.layer][0]
            unit = torch.nn.functional.normalize(rows, dim=-1).numpy()
        return np.asarray(unit[~special])
