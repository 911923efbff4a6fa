"""Neighbour gaps over a corpus, copies of a document left out."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.gap import COPY_CONTAINMENT, Gaps, neighbor_gaps
from ragsieve.features.overlaps import containments
from ragsieve.features.ragged import Ragged
from ragsieve.features.text import TextFeatures
from ragsieve.records import NeighborGraph


@dataclasses.dataclass(frozen=True, slots=True)
class Neighborhood:
    """The neighbours of one document, copies apart.

    :param kept: rows, nearest first.
    :param similarities: theirs.
    :param copies: rows that share more than .9 of the smaller word set, nearest first.
    """

    kept: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]
    copies: npt.NDArray[np.int64]


def neighborhood(
    features: TextFeatures,
    row: int,
    indices: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> Neighborhood:
    """Set the copies among a document's neighbours apart.

    :param indices: shape (n,), neighbours' rows in ``features``, nearest first.
    :param similarities: shape (n,), theirs.
    """
    copy = features.containments(row, indices) > COPY_CONTAINMENT
    return Neighborhood(indices[~copy], similarities[~copy], indices[copy])


def gaps_of_rows(
    words: Ragged,
    graph: NeighborGraph,
    rows: npt.NDArray[np.int64],
    pair_weight: float,
) -> tuple[Gaps, Ragged]:
    """The gap of each document in ``rows``, and the neighbours that stand out around it.

    :param words: of all documents.
    :param graph: one row a document of ``rows``, numbered as ``words``.
    """
    own = np.repeat(rows, graph.k)
    copy = containments(words, own, graph.indices.ravel()) > COPY_CONTAINMENT
    copy = copy.reshape(graph.indices.shape)
    # Copies go behind the others, which keep their order.
    order = np.argsort(copy, axis=1, kind="stable")
    near = np.take_along_axis(graph.indices, order, axis=1)
    kept = np.take_along_axis(graph.similarities, order, axis=1)
    kept[np.take_along_axis(copy, order, axis=1)] = np.nan
    gaps = neighbor_gaps(kept, pair_weight=pair_weight)
    standing = np.arange(graph.k) < gaps.group[:, None]
    offsets = np.concatenate(([0], np.cumsum(gaps.group)))
    return gaps, Ragged(near[standing].astype(np.int32), offsets)
