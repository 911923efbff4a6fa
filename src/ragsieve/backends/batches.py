"""Texts into token batches: cut, tokenise, sort by length, pad on the right."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve.backends.deferred import ModelOutline

MAX_TEXT_CHARACTERS = 100_000
"""Characters of a text that are tokenised. Tokenizers truncate only after reading the
whole text, so a document of ten million characters has to be cut before."""

CPU_BATCH_TOKENS = 512
"""On a CPU a larger batch is slower: what a layer makes of it no longer fits the caches."""

_CHUNK_TEXTS = 256
_CHUNK_CHARACTERS = 2_000_000

# Truncation is a state of a fast tokenizer, so calls from several threads must take turns.
_TOKENIZER_LOCK = threading.Lock()

TokenIds = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TokenizedText:
    """One text's tokens.

    :param ids: shape (tokens,), special tokens included.
    :param special: shape (tokens,), True for tokens that the tokenizer added.
    """

    ids: TokenIds
    special: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.ids.shape[0])


def text_chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts, cut to ``MAX_TEXT_CHARACTERS``, in runs small enough to tokenise at once."""
    chunk: list[str] = []
    characters = 0
    for text in texts:
        cut = text[:MAX_TEXT_CHARACTERS]
        if chunk and (len(chunk) == _CHUNK_TEXTS or characters + len(cut) > _CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(cut)
        characters += len(cut)
    if chunk:
        yield chunk


def tokenize(tokenizer: Any, texts: Sequence[str], *, max_tokens: int) -> list[TokenizedText]:
    """Tokenise with the special tokens that the tokenizer adds by default.

    :param max_tokens: at most this many a text, special tokens included.
    """
    tokenized: list[TokenizedText] = []
    for chunk in text_chunks(texts):
        with _TOKENIZER_LOCK:
            encoded = tokenizer(
                chunk,
                truncation=True,
                max_length=max_tokens,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                return_special_tokens_mask=True,
            )
        tokenized += [
            TokenizedText(np.asarray(ids, dtype=np.int32), np.asarray(special, dtype=np.bool_))
            for ids, special in zip(
                encoded["input_ids"], encoded["special_tokens_mask"], strict=True
            )
        ]
    return tokenized


def batch_budget(
    asked: int | None, device: str, accelerated: int, *, cpu: int = CPU_BATCH_TOKENS
) -> int:
    """Tokens of a batch: what was asked for, or what the device is quickest with.

    :param device: ``cpu`` or ``cuda``.
    :param accelerated: for anything but a CPU.
    :param cpu: for a CPU.
    """
    if asked is not None:
        return asked
    return cpu if device == "cpu" else accelerated


def length_sorted_batches(
    lengths: Sequence[int], *, token_budget: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Positions of texts of similar length, longest first, in batches.

    A batch holds at most ``token_budget`` tokens, padding included, and at least one
    text. The longest come first, so memory runs out at once or never.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = max(1, token_budget // max(1, int(lengths[order[start]])))
        yield order[start : start + size]
        start += size


def padded(
    sequences: Sequence[TokenIds], *, pad_id: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Token ids and attention mask, both of shape (texts, longest), padded on the right."""
    width = max(len(sequence) for sequence in sequences)
    ids = np.full((len(sequences), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(sequences), width), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return ids, mask


def pad_id_of(tokenizer: Any) -> int:
    """The tokenizer's padding token; 0 when it has none, since padding is masked anyway."""
    return 0 if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)


def token_limit(outline: ModelOutline, max_tokens: int) -> int:
    """``max_tokens``, or fewer when the model has no positions for so many.

    Models of the RoBERTa family count positions from the padding index + 1.
    """
    if outline.positions is None:
        return max_tokens
    offset = 0
    if outline.model_type in {"roberta", "xlm-roberta", "mpnet"}:
        offset = (outline.pad_id or 0) + 1
    return min(max_tokens, outline.positions - offset)
