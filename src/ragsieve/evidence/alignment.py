"""How a document's windows align with the query, and the largest jump between two of them."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tails import excess_evidence, upper_tail
from ragsieve.records import Detail

WINDOW_TOKENS = 32
STRIDE_TOKENS = 16
LEVEL = 0.05
_FLOOR = 1e-8
_BLOCK_PRODUCTS = 200_000


@dataclasses.dataclass(frozen=True, slots=True)
class AlignmentTail(Detail):
    """A candidate's largest alignment jump against those of the tail.

    :param jump: in [0, 2], large is suspicious.
    :param probability: mid-rank upper tail, in (0, 1).
    :param evidence: ``max(0, ln(alpha / p) / ln(1 / alpha))``; at most 0.157 with m = 15.
    """

    jump: float
    probability: float
    evidence: float
    tail_maximum: float


def alignment_trace(
    document_states: npt.NDArray[np.floating],
    query_states: npt.NDArray[np.floating],
    *,
    window: int = WINDOW_TOKENS,
    stride: int = STRIDE_TOKENS,
) -> npt.NDArray[np.float64]:
    """F1 between the query and each window of a document's tokens.

    ``F1 = 2 P R / max(P + R, 1e-8)``: P is the mean over window tokens of the best cosine to a
    query token, R the mean over query tokens of the best cosine to a window token. Windows
    start every ``stride`` tokens; the last is flush with the end.

    :param document_states: unit rows, shape (t, d).
    :param query_states: unit rows, shape (u, d).
    :returns: shape (windows,); empty when either side has no token.
    :raises ValueError: when the dimensions differ.
    """
    document = np.asarray(document_states)
    query = np.asarray(query_states, dtype=np.float64)
    if document.shape[0] == 0 or query.shape[0] == 0:
        return np.empty(0, dtype=np.float64)
    if document.shape[1] != query.shape[1]:
        raise ValueError("document and query states must have the same dimension")
    cosines = _products(document, query)
    rows = _window_rows(document.shape[0], window, stride)
    precision = cosines.max(axis=1)[rows].mean(axis=1)
    recall = cosines[rows].max(axis=1).mean(axis=1)
    total = precision + recall
    return np.asarray(2 * precision * recall / np.maximum(total, _FLOOR), dtype=np.float64)


def alignment_jump(trace: npt.NDArray[np.float64]) -> float:
    """Largest step between neighbouring windows, ``max |f_(j+1) - f_j|``.

    :returns: >= 0, large is suspicious; 0 with fewer than two windows.
    """
    return float(np.abs(np.diff(trace)).max()) if trace.size > 1 else 0.0


def alignment_evidence(jump: float, tail_jumps: npt.NDArray[np.float64]) -> AlignmentTail:
    """RSQ's ``E_s`` of one candidate against m tail documents, alpha = 0.05.

    :param tail_jumps: shape (m,), m >= 1.
    :raises ValueError: when the tail is empty.
    """
    probability = upper_tail(jump, tail_jumps)
    return AlignmentTail(
        jump, probability, excess_evidence(probability, LEVEL), float(np.max(tail_jumps))
    )


def _products(
    document: npt.NDArray[np.floating], query: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """``document @ query.T`` in float64, a few rows at a time.

    Blocks fit the cache, and are too small for a linear algebra library to wake its threads:
    on a busy machine waiting for those costs far more than the work.
    """
    columns = np.ascontiguousarray(query.T)
    size = max(1, _BLOCK_PRODUCTS // max(1, columns.size))
    found = np.empty((document.shape[0], query.shape[0]))
    for start in range(0, document.shape[0], size):
        block = document[start : start + size].astype(np.float64)
        np.matmul(block, columns, out=found[start : start + size])
    return found


@functools.lru_cache(maxsize=1024)
def _window_rows(tokens: int, window: int, stride: int) -> npt.NDArray[np.intp]:
    """The tokens of each window, shape (windows, width)."""
    starts = [0]
    if tokens > window:
        starts = list(range(0, tokens - window + 1, stride))
        if starts[-1] != tokens - window:
            starts.append(tokens - window)
    return np.array(starts)[:, None] + np.arange(min(window, tokens))
