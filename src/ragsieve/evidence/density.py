"""Eligible edges of a document's neighbourhood, and how dense they stand against its edge."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.records import Detail

EDGE_COSINE = 0.85
EDGE_OVERLAP = 0.60
TOP_EDGES = 4
FULL_SUPPORT = 2
_FLOOR = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """One neighbour as the density sees it.

    :param similarity: cosine, in [-1, 1].
    :param overlap: Jaccard of word sets, in [0, 1].
    :param eligible: whether it counts as support: similar vectors, different words.
    """

    document_id: str
    similarity: float
    overlap: float
    eligible: bool


@dataclasses.dataclass(frozen=True, slots=True)
class DensityContrast:
    """How far a document's eligible neighbours stand above the edge of its neighbourhood.

    :param density: D in [0, 1], large is suspicious.
    :param eligible: eligible neighbours, N.
    :param mean_top: mean similarity of the (at most 4) nearest eligible ones; 0 when none.
    :param background: similarity of the last of the k neighbours, b.
    """

    density: float
    eligible: int
    mean_top: float
    background: float


@dataclasses.dataclass(frozen=True, slots=True)
class Densities:
    """Density contrasts of many documents, by column; fields as in :class:`DensityContrast`.

    :param density: shape (V,).
    :param eligible: shape (V,).
    """

    density: npt.NDArray[np.float64]
    eligible: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class NeighborhoodDetail(Detail):
    """A document's neighbourhood against the whole corpus.

    :param edges: its k neighbours, nearest first.
    :param probability: share of the corpus at least as dense, in (0, 1).
    :param budget: the alert budget that was left, in [0, 1).
    """

    contrast: DensityContrast
    edges: tuple[Edge, ...]
    probability: float
    budget: float


def density_contrast(
    eligible_similarities: npt.NDArray[np.float64], background: float
) -> DensityContrast:
    """RSG's ``D = min(1, N / 2) clip01((mu - b) / max(1e-6, 1 - b))``, 0 without support.

    :param eligible_similarities: cosines of the eligible neighbours, any order.
    :param background: cosine of the last neighbour, b.
    """
    count = int(eligible_similarities.size)
    if count == 0:
        return DensityContrast(0.0, 0, 0.0, background)
    top = np.sort(eligible_similarities)[::-1][:TOP_EDGES]
    mean = float(top.mean())
    lift = (mean - background) / max(_FLOOR, 1.0 - background)
    density = min(1.0, count / FULL_SUPPORT) * min(1.0, max(0.0, lift))
    return DensityContrast(density, count, mean, background)


def density_contrasts(
    similarities: npt.NDArray[np.float64], eligible: npt.NDArray[np.bool_]
) -> Densities:
    """:func:`density_contrast` of many documents at once, to the last bit.

    :param similarities: shape (V, k), each row non-increasing; the last column is b.
    :param eligible: shape (V, k), which neighbours support.
    """
    size, width = similarities.shape
    count = eligible.sum(axis=1)
    if width == 0:
        return Densities(np.zeros(size), count)
    top = eligible & (np.cumsum(eligible, axis=1) <= TOP_EDGES)
    total = np.zeros(size)
    # In the order of the row, as the mean of the sorted top adds them.
    for column in range(width):
        total += np.where(top[:, column], similarities[:, column], 0.0)
    supported = count > 0
    mean = total / np.where(supported, np.minimum(count, TOP_EDGES), 1)
    background = similarities[:, -1]
    lift = (mean - background) / np.maximum(_FLOOR, 1.0 - background)
    density = np.minimum(1.0, count / FULL_SUPPORT) * np.minimum(1.0, np.maximum(0.0, lift))
    return Densities(np.where(supported, density, 0.0), count)


def is_eligible(similarity: float, overlap: float) -> bool:
    """Whether a neighbour supports: cosine >= 0.85 and Jaccard of words <= 0.60."""
    return similarity >= EDGE_COSINE and overlap <= EDGE_OVERLAP
