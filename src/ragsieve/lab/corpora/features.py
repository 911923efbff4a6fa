"""Embeddings kept on disk by what was embedded: no text is embedded twice by one encoder.

A cache is a folder with one folder an encoder, in which every batch is a file of its own,
complete or absent: what was embedded before an interruption is found again after it. A file
that is damaged, or of another encoder, counts as absent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragsieve._atomic import replacing
from ragsieve.errors import EmbeddingError, OutputError
from ragsieve.lab.corpora.records import Dataset
from ragsieve.ports import TextEmbedder
from ragsieve.records import FloatArray

BATCH = 256
_DOCUMENT, _QUERY = "document", "query"
# What numpy and its archives raise over damaged files.
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError, NotImplementedError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Features:
    """The rows of a dataset.

    :param encoder: identity of the encoder.
    :param documents: shape (documents, d), in corpus order.
    :param queries: shape (questions, d), in their order.
    """

    encoder: str
    documents: FloatArray
    queries: FloatArray


def features_of(
    dataset: Dataset,
    embedder: TextEmbedder,
    cache: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> Features:
    """Embed a dataset, or find its rows in the cache.

    :param cache: a folder, made when it is not there.
    :param progress: called after each batch with the number of texts embedded.
    :raises EmbeddingError: when the encoder gives rows of a wrong shape, or not finite.
    :raises OutputError: when the cache cannot be written.
    :raises BackendError: when the model fails.
    """
    kept = CachedEmbedder(embedder, cache, progress=progress)
    return Features(
        kept.identity,
        kept.embed_documents([document.content for document in dataset.documents]),
        kept.embed_queries([query.text for query in dataset.queries]),
    )


class CachedEmbedder:
    """A :class:`ragsieve.ports.TextEmbedder` that keeps its rows in a folder.

    :param cache: the folder; one serves any number of encoders and datasets.
    :param progress: called after each batch with the number of texts embedded.
    :raises OutputError: when the folder cannot be made.
    """

    def __init__(
        self,
        embedder: TextEmbedder,
        cache: Path,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._embedder = embedder
        self._progress = progress
        name = hashlib.sha256(embedder.identity.encode("utf-8")).hexdigest()[:16]
        self._folder = cache / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self._folder}: cannot be created ({error.strerror})") from error
        self._rows: dict[bytes, FloatArray] = {}
        for path in sorted(self._folder.glob("*.npz")):
            self._rows.update(self._read(path))

    @property
    def identity(self) -> str:
        """The wrapped encoder's: keeping rows changes none."""
        return self._embedder.identity

    @property
    def dimension(self) -> int:
        """The wrapped encoder's."""
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Rows, shape (len(texts), dimension); only texts not kept reach the wrapped encoder.

        :raises EmbeddingError: when it gives rows of a wrong shape, or not finite.
        :raises OutputError: when the cache cannot be written.
        :raises BackendError: when the model fails.
        """
        return self._embed(texts, _DOCUMENT, self._embedder.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """As :meth:`embed_documents`; a text is another one when it is a question."""
        return self._embed(texts, _QUERY, self._embedder.embed_queries)

    def _embed(
        self, texts: Sequence[str], kind: str, embed: Callable[[Sequence[str]], FloatArray]
    ) -> FloatArray:
        keys = [_key(kind, text) for text in texts]
        missing = {
            key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows
        }
        for batch in _batches(list(missing.items())):
            rows = np.asarray(embed([text for _, text in batch]))
            self._check(rows, len(batch))
            self._write([key for key, _ in batch], rows)
            self._rows.update(zip((key for key, _ in batch), rows, strict=True))
            if self._progress is not None:
                self._progress(len(batch))
        if not keys:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([self._rows[key] for key in keys])

    def _check(self, rows: FloatArray, count: int) -> None:
        if rows.shape != (count, self.dimension):
            raise EmbeddingError(
                f"{self.identity}: expected rows of shape {(count, self.dimension)}, "
                f"found {rows.shape}"
            )
        if not bool(np.isfinite(rows).all()):
            raise EmbeddingError(f"{self.identity}: gave rows that are not finite; none was kept")

    def _write(self, keys: Sequence[bytes], rows: FloatArray) -> None:
        names = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
        name = hashlib.sha256(names.tobytes()).hexdigest()[:32]
        with replacing(self._folder / f"{name}.npz") as handle:
            np.savez(handle, keys=names, rows=rows, seal=self._seal(names, rows))

    def _read(self, path: Path) -> dict[bytes, FloatArray]:
        try:
            # Opened here: numpy leaves a file open whose archive it cannot read.
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as stored:
                keys, rows, seal = stored["keys"], stored["rows"], stored["seal"]
            usable = np.array_equal(seal, self._seal(keys, rows))
        except _UNREADABLE:
            return {}
        if not usable or rows.shape != (len(keys), self.dimension):
            return {}
        return dict(zip((key.tobytes() for key in keys), rows, strict=True))

    def _seal(self, keys: npt.NDArray[np.uint8], rows: FloatArray) -> npt.NDArray[np.uint8]:
        """A digest over encoder and content: neither damage nor a moved file goes unnoticed."""
        digest = hashlib.sha256(self.identity.encode("utf-8"))
        for part in (str(rows.dtype).encode(), str(rows.shape).encode(), keys.tobytes()):
            digest.update(len(part).to_bytes(8, "big") + part)
        digest.update(np.ascontiguousarray(rows).tobytes())
        return np.frombuffer(digest.digest(), dtype=np.uint8)


def _batches(items: Sequence[tuple[bytes, str]]) -> Iterable[Sequence[tuple[bytes, str]]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _key(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).digest()
