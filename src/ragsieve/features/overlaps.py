"""How many words pairs of documents share, many pairs at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from ragsieve.features.ragged import Ragged, places_of

_CHUNK_WORDS = 1 << 22

Rows = npt.NDArray[np.int64]


def shared_words(words: Ragged, left: Rows, right: Rows) -> npt.NDArray[np.int64]:
    """Words that both documents of each pair hold.

    :param words: sorted rows, each word once.
    :param left: shape (n,), rows.
    :param right: shape (n,), rows.
    :returns: shape (n,).
    """
    shared = np.empty(left.size, dtype=np.int64)
    if not left.size:
        return shared
    width = int(words.values.max(initial=0)) + 1
    lengths = words.lengths
    ends = np.cumsum(lengths[left] + lengths[right])
    cuts = np.searchsorted(ends, np.arange(_CHUNK_WORDS, int(ends[-1]), _CHUNK_WORDS))
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), left.size], strict=True):
        one = _matrix(words, left[start:stop], width)
        other = _matrix(words, right[start:stop], width)
        shared[start:stop] = np.diff(one.multiply(other).tocsr().indptr)
    return shared


def jaccards(words: Ragged, left: Rows, right: Rows) -> npt.NDArray[np.float64]:
    """``|A n B| / |A u B|`` of each pair; 0 when both are empty."""
    shared = shared_words(words, left, right)
    lengths = words.lengths
    together = lengths[left] + lengths[right] - shared
    return np.asarray(shared / np.maximum(1, together))


def containments(words: Ragged, left: Rows, right: Rows) -> npt.NDArray[np.float64]:
    """``|A n B| / min(|A|, |B|)`` of each pair; 0 when either is empty."""
    shared = shared_words(words, left, right)
    lengths = words.lengths
    return np.asarray(shared / np.maximum(1, np.minimum(lengths[left], lengths[right])))


def _matrix(words: Ragged, rows: Rows, width: int) -> csr_matrix:
    places, offsets = places_of(words.offsets, rows)
    ones = np.ones(places.size, dtype=np.int8)
    found = csr_matrix((ones, words.values[places], offsets), shape=(rows.size, width))
    found.has_sorted_indices = True
    found.has_canonical_format = True
    return found
