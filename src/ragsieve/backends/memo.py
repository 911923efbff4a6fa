"""Never compute the same text twice within a process: memory-bounded wrappers of the ports."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ragsieve.errors import ConfigError
from ragsieve.ports import CausalScorer, TokenEncoder
from ragsieve.records import FloatArray

MAX_BYTES = 512 * 1024 * 1024

# Digest, array header and the dictionary's own entry, roughly: empty arrays count too.
_ENTRY_BYTES = 256


class MemoCausalScorer:
    """A :class:`ragsieve.ports.CausalScorer` that remembers; arrays it gives are read-only.

    :param max_bytes: memory for remembered arrays; the least recently used go first.
    """

    def __init__(self, scorer: CausalScorer, *, max_bytes: int = MAX_BYTES) -> None:
        self._scorer = scorer
        self._memory = _Memory(max_bytes)

    @property
    def identity(self) -> str:
        """The wrapped scorer's: remembering changes no number."""
        return self._scorer.identity

    @property
    def vocabulary_size(self) -> int:
        """The wrapped scorer's."""
        return self._scorer.vocabulary_size

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Losses in nats; only texts not remembered reach the wrapped scorer, in one call.

        :raises BackendError: when the model fails.
        """
        return self._memory.recall(texts, "", self._scorer.losses)


class MemoTokenEncoder:
    """A :class:`ragsieve.ports.TokenEncoder` that remembers; arrays it gives are read-only.

    :param max_bytes: memory for remembered arrays; the least recently used go first.
    """

    def __init__(self, encoder: TokenEncoder, *, max_bytes: int = MAX_BYTES) -> None:
        self._encoder = encoder
        self._memory = _Memory(max_bytes)

    @property
    def identity(self) -> str:
        """The wrapped encoder's: remembering changes no number."""
        return self._encoder.identity

    def states(self, texts: Sequence[str], *, max_tokens: int) -> list[FloatArray]:
        """Token states; only texts not remembered reach the wrapped encoder, in one call.

        :raises BackendError: when the model fails.
        """
        return self._memory.recall(
            texts,
            str(max_tokens),
            lambda missing: self._encoder.states(missing, max_tokens=max_tokens),
        )


class _Memory:
    """Arrays by text, bounded in bytes, least recently used out first."""

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ConfigError(f"max_bytes: expected 0 or more, found {max_bytes}")
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._arrays: OrderedDict[bytes, FloatArray] = OrderedDict()
        self._lock = threading.Lock()

    def recall(
        self,
        texts: Sequence[str],
        variant: str,
        compute: Callable[[list[str]], list[FloatArray]],
    ) -> list[FloatArray]:
        """One array a text; ``compute`` gets each distinct missing text once."""
        keys = [_key(variant, text) for text in texts]
        found = self._lookup(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            # Outside the lock: a model must not block readers of what is already known.
            computed = compute(list(missing.values()))
            fresh = dict(zip(missing, computed, strict=True))
            self._remember(fresh)
            found |= fresh
        return [found[key] for key in keys]

    def _lookup(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        found = {}
        with self._lock:
            for key in keys:
                if key in self._arrays:
                    self._arrays.move_to_end(key)
                    found[key] = self._arrays[key]
        return found

    def _remember(self, fresh: dict[bytes, FloatArray]) -> None:
        with self._lock:
            for key, array in fresh.items():
                array.setflags(write=False)
                cost = array.nbytes + _ENTRY_BYTES
                if key in self._arrays or cost > self._max_bytes:
                    continue
                self._arrays[key] = array
                self._used_bytes += cost
            while self._used_bytes > self._max_bytes:
                _, dropped = self._arrays.popitem(last=False)
                self._used_bytes -= dropped.nbytes + _ENTRY_BYTES


def _key(variant: str, text: str) -> bytes:
    # A digest and not the text: keys of long documents would be as large as their arrays.
    # surrogatepass: what to do with a lone surrogate is the wrapped object's decision.
    content = f"{variant}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=32).digest()
