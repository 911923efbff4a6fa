"""Losses of a language model kept on disk: a text that was read once is never read again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragsieve._atomic import replacing
from ragsieve.errors import OutputError
from ragsieve.ports import CausalScorer
from ragsieve.records import FloatArray


class KeptCausalScorer:
    """A :class:`ragsieve.ports.CausalScorer` whose losses outlive the process.

    :param folder: one small file a text; made when missing.
    """

    def __init__(self, scorer: CausalScorer, folder: Path) -> None:
        self._scorer = scorer
        self._folder = folder

    @property
    def identity(self) -> str:
        """The wrapped scorer's: remembering changes no number."""
        return self._scorer.identity

    @property
    def vocabulary_size(self) -> int:
        """The wrapped scorer's."""
        return self._scorer.vocabulary_size

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Losses in nats; only texts that were never seen reach the model.

        :raises BackendError: when the model fails.
        :raises OutputError: when they cannot be kept.
        """
        found = {path: _load(path) for path in map(self._path, texts)}
        missing = {
            path: text
            for path, text in zip(map(self._path, texts), texts, strict=True)
            if found[path] is None
        }
        if missing:
            computed = self._scorer.losses(list(missing.values()))
            for path, losses in zip(missing, computed, strict=True):
                _save(path, losses)
                found[path] = losses
        rows = (found[self._path(text)] for text in texts)
        return [row for row in rows if row is not None]

    def _path(self, text: str) -> Path:
        digest = hashlib.sha256(self.identity.encode())
        digest.update(b"\0" + text.encode("utf-8", "surrogatepass"))
        return self._folder / f"{digest.hexdigest()[:32]}.npy"


def _load(path: Path) -> FloatArray | None:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError):
        # Absent or damaged: computed again.
        return None


def _save(path: Path, losses: FloatArray) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot be created ({error.strerror})") from error
    with replacing(path) as handle:
        np.save(handle, losses, allow_pickle=False)
