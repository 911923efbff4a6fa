"""Inverted lists by spherical k-means, and how far from the nearest one a row has to look."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.evidence.shortlist import Floats, ranges
from ragsieve.records import NeighborGraph

_ITERATIONS = 8
_POINTS_PER_LIST = 48
_SCORES = 1 << 23


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """Rows by inverted list.

    :param centroids: shape (lists, d), unit length.
    :param list_of: shape (rows,), the list of each row: that of the nearest centroid.
    :param members: rows of each list, ascending.
    """

    centroids: Floats
    list_of: npt.NDArray[np.int64]
    members: tuple[npt.NDArray[np.int64], ...]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each list."""
        return np.array([rows.size for rows in self.members], dtype=np.int64)

    def shortfalls(self, unit: Floats, exact: NeighborGraph, rows: npt.NDArray[np.int64]) -> Floats:
        """How much less similar than the nearest centroid the centroid of each neighbour is.

        :param exact: the neighbours of ``rows``.
        :returns: shape (rows, k), >= 0.
        """
        scores = unit[rows] @ self.centroids.T
        theirs = np.take_along_axis(scores, self.list_of[exact.indices], axis=1)
        short: Floats = scores.max(axis=1, keepdims=True) - theirs
        return short

    def probes(
        self, unit: Floats, rows: slice, margin: float, least: int
    ) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Each list, and which of ``rows`` have to look into it.

        A row looks into every list whose centroid is at most ``margin`` less similar than the
        nearest, its own list aside, and into more until it meets ``least`` others.
        """
        sizes = self.sizes
        reached = []
        for part in ranges(rows.stop, max(1, _SCORES // sizes.size), rows.start):
            scores = unit[part] @ self.centroids.T
            reach = scores.max(axis=1) - np.float32(margin)
            near = scores >= reach[:, None]
            poor = np.flatnonzero(near @ sizes <= least)
            if poor.size:
                order = np.argsort(-scores[poor], axis=1, kind="stable")
                enough = (np.cumsum(sizes[order], axis=1) > least).argmax(axis=1)
                last = np.take_along_axis(scores[poor], order, axis=1)
                near[poor] |= scores[poor] >= last[np.arange(poor.size), enough][:, None]
            near[np.arange(near.shape[0]), self.list_of[part]] = False
            line, place = np.nonzero(near)
            reached.append(((line + part.start).astype(np.int32), place.astype(np.int32)))
        line, place = (np.concatenate(parts) for parts in zip(*reached, strict=True))
        order = np.argsort(place, kind="stable")
        line = line[order].astype(np.int64)
        ends = np.cumsum(np.bincount(place, minlength=sizes.size))
        for number, asking in enumerate(np.split(line, ends[:-1])):
            if asking.size:
                yield number, asking


def partitioned(unit: Floats, lists: int, seed: int) -> Partition:
    """Cut unit rows into lists by FAISS k-means on a sample.

    :raises MissingExtraError: when FAISS is not installed.
    """
    faiss = require("faiss", extra="approximate")
    means = faiss.Kmeans(
        unit.shape[1],
        lists,
        niter=_ITERATIONS,
        spherical=True,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=_POINTS_PER_LIST,
    )
    means.train(unit)
    list_of = np.empty(unit.shape[0], dtype=np.int64)
    for part in ranges(unit.shape[0], max(1, _SCORES // lists)):
        list_of[part] = (unit[part] @ means.centroids.T).argmax(axis=1)
    order = np.argsort(list_of, kind="stable")
    ends = np.cumsum(np.bincount(list_of, minlength=lists))
    return Partition(means.centroids, list_of, tuple(np.split(order, ends[:-1])))
