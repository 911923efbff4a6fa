"""Values of texts from the store; what is not there is computed, kept and counted."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from ragsieve.errors import ConfigError
from ragsieve.featurestore.codecs import Codec
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore

CHUNK_TEXTS = 256
"""Texts computed between two writes: what an interruption costs at most."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Ensured:
    """What making sure of texts took, in distinct texts.

    :param present: texts whose values were there.
    :param computed: texts whose values were not.
    :param absent: texts that have no value now: it could not be kept, or had to go again.
    """

    present: int
    computed: int
    absent: int


class StoredFeatures(Protocol):
    """One kind of feature that can be computed ahead."""

    @property
    def space(self) -> Space:
        """Where it stands."""
        ...

    def ensure(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> Ensured:
        """Compute and keep what is missing, and hold nothing of it.

        :param progress: called with the number of distinct texts dealt with since the last call.
        :raises BackendError: when a model fails; what was finished before is kept.
        """
        ...


class Recall(Generic[T]):
    """Values of one space.

    :param chunk_texts: texts handed to the computation at once, of similar length.
    :raises ConfigError: when ``chunk_texts`` is below 1.
    """

    def __init__(
        self, store: FeatureStore, space: Space, codec: Codec[T], *, chunk_texts: int = CHUNK_TEXTS
    ) -> None:
        if chunk_texts < 1:
            raise ConfigError(f"chunk_texts: expected at least 1, found {chunk_texts}")
        self._store = store
        self._codec = codec
        self._chunk_texts = chunk_texts
        self.space = dataclasses.replace(
            space, fingerprint=f"{space.fingerprint} codec={codec.name}"
        )

    def values(
        self,
        texts: Sequence[str],
        compute: Callable[[list[str]], Sequence[T]],
        progress: Callable[[int], None] | None = None,
    ) -> list[T]:
        """One value a text, in their order.

        :param compute: gets each distinct text that has no value, once, in chunks; what a chunk
            gave is kept before the next one begins.
        :param progress: called after each chunk with the number of texts computed.
        """
        keys = self.space.keys(texts)
        found = self._found(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        for chunk in self._chunks(missing):
            found |= self._computed(chunk, compute)
            if progress is not None:
                progress(len(chunk))
        return [found[key] for key in keys]

    def ensure(
        self,
        texts: Sequence[str],
        compute: Callable[[list[str]], Sequence[T]],
        progress: Callable[[int], None] | None = None,
    ) -> Ensured:
        """See to it that each text has a value, and hold none of them.

        Several processes may do this at once for the same texts: each begins elsewhere, and
        looks again before each chunk.

        :param progress: called with the number of distinct texts dealt with since the last call.
        """
        wanted = dict(zip(self.space.keys(texts), texts, strict=True))
        chunks = self._chunks(wanted)
        start = os.getpid() % max(1, len(chunks))
        computed = 0
        for chunk in chunks[start:] + chunks[:start]:
            held = self._store.holds(list(chunk))
            missing = {key: text for key, text in chunk.items() if key not in held}
            if missing:
                self._computed(missing, compute)
            computed += len(missing)
            if progress is not None:
                progress(len(chunk))
        absent = len(wanted) - len(self._store.holds(list(wanted)))
        return Ensured(len(wanted) - computed, computed, absent)

    def _found(self, keys: Sequence[bytes]) -> dict[bytes, T]:
        found = {}
        for key, raw in self._store.fetch(keys).items():
            try:
                found[key] = self._codec.decode(raw)
            except ValueError:
                self._store.spoiled(key)
        return found

    def _computed(
        self, chunk: dict[bytes, str], compute: Callable[[list[str]], Sequence[T]]
    ) -> dict[bytes, T]:
        values = dict(zip(chunk, compute(list(chunk.values())), strict=True))
        encoded = {key: self._codec.encode(value) for key, value in values.items()}
        self._store.keep(self.space, {key: raw for key, raw in encoded.items() if raw is not None})
        return values

    def _chunks(self, wanted: dict[bytes, str]) -> list[dict[bytes, str]]:
        # Texts of similar length together: models pad a batch to its longest.
        items = iter(sorted(wanted.items(), key=lambda item: -len(item[1])))
        chunks = []
        while chunk := dict(itertools.islice(items, self._chunk_texts)):
            chunks.append(chunk)
        return chunks
