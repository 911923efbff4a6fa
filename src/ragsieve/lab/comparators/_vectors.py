"""Unit vectors of candidates, queries and corpora, checked before a comparator uses them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import QueryView
from ragsieve.errors import ConfigError
from ragsieve.evidence.knn import unit_rows
from ragsieve.lab.comparators.base import UnmeasuredError
from ragsieve.ports import TextEmbedder
from ragsieve.records import FloatArray, NeighborGraph


def document_rows(view: QueryView, embedder: TextEmbedder | None) -> npt.NDArray[np.float64]:
    """Unit rows of a view's candidates, from the ingest scan or else from the encoder.

    :returns: shape (candidates, d).
    :raises UnmeasuredError: when neither knows them.
    """
    known = (view.features or ())[: len(view.candidates)]
    found = [one.embedding for one in known]
    rows = [row for row in found if row is not None]
    if rows and len(rows) == len(view.candidates):
        return normalised(np.stack(rows))
    if embedder is None:
        raise UnmeasuredError(
            "no embeddings of these documents are at hand; scan the corpus, or give an encoder"
        )
    return normalised(embedder.embed_documents(list(view.candidates)))


def query_row(query: str, embedder: TextEmbedder, dimension: int) -> npt.NDArray[np.float64]:
    """The query's unit vector, shape (dimension,).

    :raises UnmeasuredError: when the encoder is not the one of the documents.
    """
    row: npt.NDArray[np.float64] = normalised(embedder.embed_queries([query]))[0]
    if row.shape[0] != dimension:
        raise UnmeasuredError(
            f"the encoder gives vectors of dimension {row.shape[0]}, the documents' have "
            f"{dimension}; use the encoder of the index"
        )
    return row


def normalised(rows: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Rows of length 1, shape (n, d); a zero or non-finite row becomes NaN."""
    raw = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0)
    unit: npt.NDArray[np.float64] = np.where(usable, raw, np.nan) / np.where(usable, lengths, 1.0)
    return unit


def corpus_rows(rows: FloatArray) -> npt.NDArray[np.float32]:
    """A corpus's vectors as unit rows, shape (V, d).

    :raises EmbeddingError: when a row is zero or not finite.
    """
    return unit_rows(rows)


def check_rows(rows: FloatArray, documents: int) -> None:
    """Whether vectors given at construction can be those of the documents scanned.

    :raises ConfigError: when there is not one row a document.
    """
    if len(rows) != documents:
        raise ConfigError(
            f"rows: expected one embedding row a document ({documents}), found {len(rows)}; "
            "build the comparator with the rows of this corpus"
        )


def nearest(graph: NeighborGraph, k: int) -> NeighborGraph:
    """The first ``k`` neighbours of every document; all others in a corpus of fewer.

    :raises UnmeasuredError: when the graph knows fewer.
    """
    wanted = min(k, max(0, len(graph) - 1))
    if graph.k < wanted:
        raise UnmeasuredError(f"the graph has {graph.k} neighbours a document, {wanted} are needed")
    return NeighborGraph(graph.indices[:, :wanted], graph.similarities[:, :wanted])
