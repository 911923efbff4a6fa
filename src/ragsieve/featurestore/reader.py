"""Readings of texts from memory, then the store, then the text itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ragsieve.featurestore.recall import Ensured, Recall
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore
from ragsieve.featurestore.texts import Reading

MEMORY_TEXTS = 8192

T = TypeVar("T")


class StoredReader(Generic[T]):
    """What texts show, read once.

    :param store: None to remember within the process alone.
    :param memory_texts: texts remembered in memory; the least recently used go first.
    """

    def __init__(
        self,
        reading: Reading[T],
        store: FeatureStore | None = None,
        *,
        memory_texts: int = MEMORY_TEXTS,
    ) -> None:
        self._reading = reading
        self._recall = None if store is None else Recall(store, reading.space, reading)
        self._memory: OrderedDict[str, T] = OrderedDict()
        self._memory_texts = memory_texts
        self._lock = threading.Lock()

    @property
    def space(self) -> Space:
        """Where its readings stand."""
        return self._reading.space if self._recall is None else self._recall.space

    def read(self, texts: Sequence[str]) -> list[T]:
        """What each text shows, in their order."""
        found = self._remembered(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            fresh = (
                self._reading.read(missing)
                if self._recall is None
                else self._recall.values(missing, self._reading.read)
            )
            read = dict(zip(missing, fresh, strict=True))
            self._remember(read)
            found |= read
        return [found[text] for text in texts]

    def ensure(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> Ensured:
        """Read and keep what is not stored, and hold nothing of it."""
        if self._recall is None:
            return Ensured(0, 0, len(set(texts)))
        return self._recall.ensure(texts, self._reading.read, progress)

    def _remembered(self, texts: Sequence[str]) -> dict[str, T]:
        found = {}
        with self._lock:
            for text in texts:
                if text in self._memory:
                    self._memory.move_to_end(text)
                    found[text] = self._memory[text]
        return found

    def _remember(self, read: dict[str, T]) -> None:
        with self._lock:
            self._memory |= read
            while len(self._memory) > self._memory_texts:
                self._memory.popitem(last=False)
