"""Masked language models: the probability of a word's token when it alone is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ragsieve._extras import require
from ragsieve.errors import BackendError, ModelFilesError
from ragsieve.evidence.tokens import Span

_MAX_TOKENS = 512
_BATCH = 16
_MAX_CHARACTERS = 100_000


class MaskedModel(Protocol):
    """A model that guesses a hidden token from both sides."""

    @property
    def identity(self) -> str:
        """Model and truncation: whatever changes the numbers."""
        ...

    def probabilities(self, text: str, spans: Sequence[Span]) -> list[float]:
        """Probability in [0, 1] of the original token at each span's beginning, hidden alone.

        NaN where the model does not read that far.

        :raises BackendError: when the model fails.
        """
        ...


class TransformersMaskedModel:
    """A masked language model of transformers, from a local folder or the local hub cache.

    Nothing is downloaded and no code shipped with a model is run.

    :raises ModelFilesError: when it is not here, or its checkpoint kept no masked-word head:
        encoders trained for retrieval usually dropped it.
    """

    def __init__(self, name_or_path: str) -> None:
        transformers = require("transformers", extra="models")
        place = {"local_files_only": True}
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name_or_path, **place)
            model, report = transformers.AutoModelForMaskedLM.from_pretrained(
                name_or_path, output_loading_info=True, **place
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise ModelFilesError(
                f"{name_or_path}: expected a masked language model in a local folder or the local "
                f"hub cache; download one, such as bert-base-uncased, first ({error})"
            ) from error
        missing = sorted(report["missing_keys"])
        if missing:
            raise ModelFilesError(
                f"{name_or_path}: the checkpoint lacks {len(missing)} tensors of a masked language "
                f"model (first: {missing[0]}); use one that kept its head"
            )
        if self._tokenizer.mask_token_id is None or not self._tokenizer.is_fast:
            raise ModelFilesError(
                f"{name_or_path}: expected a fast tokenizer with a mask token, found none"
            )
        self._model: Any = model.eval()
        self._limit = min(_MAX_TOKENS, int(model.config.max_position_embeddings))
        self.identity = f"{Path(name_or_path).name} masked max_tokens={self._limit}"

    def probabilities(self, text: str, spans: Sequence[Span]) -> list[float]:
        """One forward pass a distinct token, in batches."""
        torch = require("torch", extra="models")
        try:
            encoded = self._tokenizer(
                text[:_MAX_CHARACTERS],
                truncation=True,
                max_length=self._limit,
                return_offsets_mapping=True,
            )
            places = [_token_at(encoded["offset_mapping"], span.start) for span in spans]
            wanted = sorted({place for place in places if place is not None})
            found: dict[int, float] = {}
            with torch.inference_mode():
                for start in range(0, len(wanted), _BATCH):
                    batch = wanted[start : start + _BATCH]
                    found |= self._guess(torch, encoded["input_ids"], batch)
        except (RuntimeError, ValueError, IndexError) as error:
            raise BackendError(f"{self.identity}: the model failed: {error}") from error
        return [float("nan") if place is None else found[place] for place in places]

    def _guess(self, torch: Any, ids: Sequence[int], places: Sequence[int]) -> dict[int, float]:
        rows = torch.tensor([list(ids)] * len(places))
        order = torch.arange(len(places))
        spots = torch.tensor(list(places))
        rows[order, spots] = self._tokenizer.mask_token_id
        logits = self._model(input_ids=rows).logits[order, spots].float()
        original = torch.tensor([ids[place] for place in places])
        chances = torch.softmax(logits, dim=-1)[order, original].tolist()
        return dict(zip(places, chances, strict=True))


def _token_at(offsets: Sequence[tuple[int, int]], character: int) -> int | None:
    # Special tokens have empty offsets and hold no character.
    for place, (start, stop) in enumerate(offsets):
        if start <= character < stop:
            return place
    return None
