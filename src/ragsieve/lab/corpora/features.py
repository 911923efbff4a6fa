"""Embeddings kept on disk by what was embedded: no text is embedded twice by one encoder.

A cache is a folder with a feature store, which serves any number of encoders and datasets: what
was embedded before an interruption is found again after it; what is damaged, or of another
encoder, counts as absent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from ragsieve.errors import OutputError
from ragsieve.featurestore.models import StoredTextEmbedder
from ragsieve.featurestore.store import FeatureStore
from ragsieve.lab.corpora.records import Dataset
from ragsieve.ports import TextEmbedder
from ragsieve.records import FloatArray

BATCH = 256
STORE = "features.sqlite"

# An experiment must find tomorrow what it computed today: nothing is pruned.
_UNBOUNDED_BYTES = 2**50


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
    :raises OutputError: when the cache cannot be made.
    :raises BackendError: when the model fails.
    """
    kept = CachedEmbedder(embedder, cache, progress=progress)
    return Features(
        kept.identity,
        kept.embed_documents([document.content for document in dataset.documents]),
        kept.embed_queries([query.text for query in dataset.queries]),
    )


class CachedEmbedder(StoredTextEmbedder):
    """A :class:`ragsieve.ports.TextEmbedder` that keeps its rows, those of questions as well.

    :param cache: the folder, made when it is not there.
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
        super().__init__(
            embedder, lab_store(cache), queries=True, progress=progress, chunk_texts=BATCH
        )


def lab_store(folder: Path) -> FeatureStore:
    """The feature store of a folder, which is made when it is not there.

    :raises OutputError: when the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be created ({error.strerror})") from error
    return FeatureStore(folder / STORE, max_bytes=_UNBOUNDED_BYTES, states_share=1.0)
