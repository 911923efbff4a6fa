"""Never read the same text twice within a process: what was read off texts, bounded in bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

Reading = TypeVar("Reading")

# The dictionary's own entry and the tuple in it, roughly.
_ENTRY_BYTES = 200


class TextCache(Generic[Reading]):
    """Something by text; may be shared between threads.

    :param size_bytes: roughly what a reading takes, its text aside.
    :param max_bytes: memory for texts and readings; the least recently used go first.
    """

    def __init__(self, size_bytes: Callable[[Reading], int], *, max_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._kept: OrderedDict[str, tuple[Reading, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def used_bytes(self) -> int:
        """Memory of what is kept."""
        return self._used_bytes

    def known(self, texts: Sequence[str]) -> dict[str, Reading]:
        """What is remembered of the texts."""
        kept = self._kept
        found = {}
        with self._lock:
            for text in texts:
                entry = kept.get(text)
                if entry is not None:
                    kept.move_to_end(text)
                    found[text] = entry[0]
        return found

    def keep(self, fresh: Mapping[str, Reading]) -> None:
        """Remember, as far as there is room."""
        costs = {
            text: self._size_bytes(reading) + sys.getsizeof(text) + _ENTRY_BYTES
            for text, reading in fresh.items()
        }
        with self._lock:
            for text, reading in fresh.items():
                if text in self._kept or costs[text] > self._max_bytes:
                    continue
                self._kept[text] = (reading, costs[text])
                self._used_bytes += costs[text]
            while self._used_bytes > self._max_bytes:
                _, (_, cost) = self._kept.popitem(last=False)
                self._used_bytes -= cost

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._used_bytes = 0


class TextMemo(Generic[Reading]):
    """Remembers what a function reads off a text; may be shared between threads.

    :param read: depends on its text alone; its readings are never changed.
    :param size_bytes: roughly what a reading takes, its text aside.
    :param max_bytes: memory for texts and readings; the least recently used go first.
    """

    def __init__(
        self,
        read: Callable[[str], Reading],
        size_bytes: Callable[[Reading], int],
        *,
        max_bytes: int,
    ) -> None:
        self._read = read
        self.cache = TextCache(size_bytes, max_bytes=max_bytes)

    def __call__(self, text: str) -> Reading:
        """What is read off one text."""
        return self.many((text,))[0]

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The texts that would have to be read, each once."""
        found = self.cache.known(texts)
        return [text for text in dict.fromkeys(texts) if text not in found]

    def keep(self, fresh: Mapping[str, Reading]) -> None:
        """Take what was read elsewhere, as far as there is room."""
        self.cache.keep(fresh)

    def many(self, texts: Sequence[str]) -> list[Reading]:
        """What is read off each text, in their order; only texts not remembered are read."""
        found = self.cache.known(texts)
        missing = [text for text in texts if text not in found]
        if missing:
            # Outside the lock: two threads may read one text, and both get the same.
            fresh = {text: self._read(text) for text in dict.fromkeys(missing)}
            self.cache.keep(fresh)
            found |= fresh
        return [found[text] for text in texts]
