"""Neighbour gaps over a corpus, copies of a document left out."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.gap import COPY_CONTAINMENT, Gaps, neighbor_gaps
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
    features: TextFeatures, graph: NeighborGraph, rows: range, pair_weight: float
) -> tuple[Gaps, Ragged]:
    """The gap of each document in ``rows``, and the neighbours that stand out around it.

    :param graph: one row a document of ``rows``, numbered as ``features``.
    """
    kept = np.full((len(rows), graph.k), np.nan)
    near = []
    for place, row in enumerate(rows):
        around = neighborhood(features, row, graph.indices[place], graph.similarities[place])
        kept[place, : around.similarities.size] = around.similarities
        near.append(around.kept)
    gaps = neighbor_gaps(kept, pair_weight=pair_weight)
    groups = [own[:size] for own, size in zip(near, gaps.group.tolist(), strict=True)]
    return gaps, Ragged.of(group.astype(np.int32) for group in groups)
