"""The neighbours of a block of rows: exact within each part of the corpus, then merged."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ragsieve.cluster.plan import Block, SearchPlan, kernel_name
from ragsieve.errors import BackendError, EmbeddingError
from ragsieve.evidence.copies import Copies, find_copies
from ragsieve.evidence.knn import BLOCK_BYTES, unit_rows
from ragsieve.evidence.shortlist import Doubles, Floats, runs
from ragsieve.evidence.tiles import Float32Product, Found, nearest_of_some


def search_block(plan: SearchPlan, block: Block) -> Found:
    """The neighbours of a block's rows among all rows, those of the single-machine search.

    :returns: corpus rows and cosines, each of shape (block.rows, plan.used), sorted by
        (-cosine, row).
    :raises EmbeddingError: when a shard is not what it was, or a row is unusable.
    :raises BackendError: when this worker would sum similarities in another way.
    """
    if kernel_name() != plan.kernel:
        raise BackendError(
            f"this worker computes with {kernel_name()!r}, the plan was made with "
            f"{plan.kernel!r}; run one version of ragsieve and numpy on one kind of processor"
        )
    asked = _unit(plan.read(block), block.start)
    own = np.arange(block.start, block.stop)[:, None]
    best = np.empty((block.rows, 0), np.int64), np.empty((block.rows, 0))
    if not plan.used:
        return best
    for shard, part in plan.parts():
        first = shard.first + part.start
        # One more than wanted: a row may find itself.
        near, cosines = nearest_in(
            asked, _unit(shard.read(part.start, part.stop), first), plan.used + 1
        )
        near += first
        cosines[near == own] = -np.inf
        best = merged(best, (near, cosines), plan.used)
    return best


def nearest_in(asked: Floats, unit: Floats, k: int) -> Found:
    """The rows of ``unit`` nearest to each of ``asked``; rows equal to the last bit searched once.

    :param asked: shape (n, d), unit rows.
    :param unit: shape (V, d), unit rows.
    :returns: rows and cosines, each of shape (n, min(k, V)), by (-cosine, row).
    """
    copies = find_copies(unit)
    single = unit if copies is None else unit[copies.first]
    side = max(1, math.isqrt(BLOCK_BYTES // 4))
    product = Float32Product(asked, single)
    near, cosines = nearest_of_some(asked, single, min(k, len(single)), side, product)
    if copies is None:
        return near, cosines
    return _expanded(copies, near, cosines, min(k, len(unit)))


def merged(one: Found, other: Found, k: int) -> Found:
    """The ``k`` best of two lists a row, by (-cosine, row), in whatever order they come."""
    near = np.concatenate([one[0], other[0]], axis=1)
    cosines = np.concatenate([one[1], other[1]], axis=1)
    order = np.lexsort((near, -cosines), axis=1)[:, :k]
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def _expanded(copies: Copies, near: npt.NDArray[np.int64], cosines: Doubles, k: int) -> Found:
    """The ``k`` nearest rows, from at least as many groups of copies, or all groups."""
    sizes = np.minimum(np.diff(copies.starts)[near], k).ravel()
    begins = np.cumsum(sizes) - sizes
    offset = np.arange(sizes.sum()) - np.repeat(begins, sizes)
    member = copies.members[np.repeat(copies.starts[near].ravel(), sizes) + offset]
    cosine = np.repeat(cosines.ravel(), sizes)
    line = np.repeat(np.repeat(np.arange(near.shape[0]), near.shape[1]), sizes)
    order = np.lexsort((member, -cosine, line))
    starts, counts = runs(line)
    order = order[np.arange(line.size) - np.repeat(starts, counts) < k]
    return member[order].reshape(-1, k), cosine[order].reshape(-1, k)


def _unit(rows: npt.NDArray[np.floating], first: int) -> Floats:
    try:
        return unit_rows(rows)
    except EmbeddingError as error:
        raise EmbeddingError(f"rows from corpus row {first}: {error}") from error
