"""Exact cosine nearest neighbours: a checked shell around a bare kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragsieve.errors import EmbeddingError
from ragsieve.evidence.copies import Copies, find_copies
from ragsieve.evidence.shortlist import exact_similarities, ranges
from ragsieve.evidence.tiles import (
    Float32Product,
    Found,
    MakeProduct,
    nearest_joined,
    nearest_of_all,
    nearest_of_some,
)
from ragsieve.records import NeighborGraph

BLOCK_BYTES = 32 * 1024 * 1024
# Finding copies looks at every row; for the neighbours of a few rows it does not pay.
_FEW = 8
_MOVED = 4096

Rows = npt.NDArray[np.float32]


def unit_rows(embeddings: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Embeddings as unit rows in float32.

    :param embeddings: shape (V, d), any float dtype.
    :returns: shape (V, d), each row of length 1.
    :raises EmbeddingError: when the shape is wrong, or a row is not finite or is zero.
    """
    raw = np.asarray(embeddings)
    if raw.ndim != 2 or raw.shape[1] == 0:  # noqa: PLR2004 -- a matrix
        raise EmbeddingError(f"expected embeddings of shape (rows, dimension), found {raw.shape}")
    if not np.issubdtype(raw.dtype, np.floating):
        raise EmbeddingError(f"expected floating point embeddings, found {raw.dtype}")
    unit = np.empty(raw.shape, dtype=np.float32)
    step = max(1, BLOCK_BYTES // (8 * raw.shape[1]))
    for start in range(0, raw.shape[0], step):
        block = raw[start : start + step].astype(np.float64)
        finite = np.isfinite(block).all(axis=1)
        if not bool(finite.all()):
            row = start + int(np.argmin(finite))
            raise EmbeddingError(f"embedding row {row} (from 0) holds NaN or infinity; re-embed it")
        # Scaling first keeps rows of huge or tiny numbers from overflowing their length.
        largest = np.abs(block).max(axis=1, keepdims=True)
        if not bool((largest > 0).all()):
            row = start + int(np.argmin(largest[:, 0] > 0))
            raise EmbeddingError(f"embedding row {row} (from 0) is all zeros; re-embed it")
        block /= largest
        unit[start : start + step] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return unit


def cosine_knn(
    embeddings: npt.ArrayLike,
    k: int,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    progress: Callable[[int], None] | None = None,
    product: MakeProduct = Float32Product,
) -> NeighborGraph:
    """Exact top ``k`` cosine neighbours of every row, itself excluded.

    Rows are sorted by (-similarity, index). Similarities are summed in float64 in one
    order, so those of a pair are equal from both sides and do not depend on where in the
    corpus the rows stand. An approximate product only decides which pairs are summed: it
    comes with a bound on its error, and no pair within the bound is left out. Beside the
    embeddings and their unit rows, memory is bounded by blocks and by candidates, not V x V.

    :param embeddings: shape (V, d), any float dtype; may be memory-mapped.
    :param k: neighbours wanted, >= 1; V - 1 are given in a corpus of fewer than k + 1.
    :param rows: the rows whose neighbours are wanted, in the order they are given back; all
        of them when None.
    :param progress: called with numbers of rows that add up to all, in proportion to the work.
    :param product: makes the approximate product of two sets of unit rows.
    :raises EmbeddingError: for rows that are not finite or are zero.
    :raises ValueError: when k < 1.
    """
    if k < 1:
        raise ValueError("k must be at least 1")
    return _graph(unit_rows(embeddings), k, rows, progress, product, spend=True)


def unit_graph(
    unit: Rows,
    k: int,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    progress: Callable[[int], None] | None = None,
    product: MakeProduct = Float32Product,
) -> NeighborGraph:
    """As :func:`cosine_knn`, from rows that :func:`unit_rows` gave.

    Rows equal to the last bit are searched once.
    """
    return _graph(unit, k, rows, progress, product, spend=False)


def nearest_rows(
    queries: npt.ArrayLike, embeddings: npt.ArrayLike, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The ``k`` corpus rows most similar to each query, by (-similarity, index).

    :param queries: shape (q, d).
    :param embeddings: shape (V, d).
    :returns: indices and cosines, each of shape (q, min(k, V)).
    :raises EmbeddingError: when rows are unusable or the dimensions differ.
    """
    asked, unit = unit_rows(queries), unit_rows(embeddings)
    if asked.shape[1] != unit.shape[1]:
        raise EmbeddingError(
            f"query vectors have dimension {asked.shape[1]}, documents {unit.shape[1]}; "
            "embed both with one encoder"
        )
    used = min(k, unit.shape[0])
    if not used or not asked.shape[0]:
        shape = asked.shape[0], used
        return np.empty(shape, np.int64), np.empty(shape)
    return nearest_of_some(asked, unit, used, _side(), Float32Product(asked, unit))


def joined_graph(
    embeddings: npt.ArrayLike,
    earlier: NeighborGraph,
    k: int,
    *,
    product: MakeProduct = Float32Product,
) -> NeighborGraph:
    """The graph of a corpus that grew at its end, equal to one computed afresh.

    Looks at pairs with a new row only, unless they are a third of all rows or more.

    :param embeddings: shape (V, d), the rows of ``earlier`` first.
    :param earlier: the exact graph of the first rows, with min(k, rows - 1) neighbours.
    :raises EmbeddingError: for rows that are not finite or are zero.
    """
    return joined_unit_graph(unit_rows(embeddings), earlier, k, product=product)


def joined_unit_graph(
    unit: Rows, earlier: NeighborGraph, k: int, *, product: MakeProduct = Float32Product
) -> NeighborGraph:
    """As :func:`joined_graph`, from rows that :func:`unit_rows` gave."""
    size = unit.shape[0]
    used = min(k, max(0, size - 1))
    if len(earlier) == size and earlier.k >= used:
        return NeighborGraph(earlier.indices[:, :used], earlier.similarities[:, :used])
    if not used or earlier.k < used or 3 * len(earlier) < 2 * size:
        return unit_graph(unit, k, product=product)
    known = earlier.indices[:, :used], earlier.similarities[:, :used]
    return NeighborGraph(*nearest_joined(unit, known, used, _side(), product))


def _side() -> int:
    """Rows of a square tile of float32."""
    return max(1, math.isqrt(BLOCK_BYTES // 4))


def _graph(
    unit: Rows,
    k: int,
    rows: npt.NDArray[np.int64] | None,
    progress: Callable[[int], None] | None,
    product: MakeProduct,
    *,
    spend: bool,
) -> NeighborGraph:
    """:param spend: whether ``unit`` may be overwritten."""
    size = unit.shape[0]
    used = min(k, max(0, size - 1))
    wanted = None if rows is None else np.asarray(rows, dtype=np.int64)
    if not used or (wanted is not None and not wanted.size):
        asked = size if wanted is None else wanted.size
        return NeighborGraph(np.empty((asked, used), np.int64), np.empty((asked, used)))
    few = wanted is not None and wanted.size * _FEW < size
    copies = None if few else find_copies(unit)
    if copies is None:
        return NeighborGraph(*_found(unit, used, wanted, progress, product))
    if spend:
        # A group's lowest row never comes before its number: rows move to the front in place.
        for part in ranges(copies.first.size, _MOVED):
            unit[part] = unit[copies.first[part]]
        single = unit[: copies.first.size]
    else:
        single = unit[copies.first]
    return NeighborGraph(*_among_copies(single, copies, used, wanted, progress, product))


def _found(
    unit: Rows,
    k: int,
    wanted: npt.NDArray[np.int64] | None,
    progress: Callable[[int], None] | None,
    product: MakeProduct,
) -> Found:
    if wanted is None:
        return nearest_of_all(unit, k, _side(), product(unit, unit), progress)
    asked = unit[wanted]
    return nearest_of_some(asked, unit, k, _side(), product(asked, unit), wanted, progress)


def _among_copies(
    single: Rows,
    copies: Copies,
    k: int,
    wanted: npt.NDArray[np.int64] | None,
    progress: Callable[[int], None] | None,
    product: MakeProduct,
) -> Found:
    groups = np.arange(copies.first.size)
    own = exact_similarities(single, single, groups, groups)
    rows = np.arange(copies.group.size) if wanted is None else wanted
    few = min(k, groups.size - 1)
    near, cosines = np.empty((groups.size, few), np.int64), np.empty((groups.size, few))
    if few:
        if wanted is None:
            near, cosines = _found(single, few, None, progress, product)
        else:
            groups = np.unique(copies.group[wanted])
            near[groups], cosines[groups] = _found(single, few, groups, progress, product)
    if progress is not None:
        progress(rows.size - (groups.size if few else 0))
    return copies.expanded(rows, near, cosines, own, k)
