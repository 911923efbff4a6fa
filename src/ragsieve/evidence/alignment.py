"""How a document's windows align with the query, and the largest jump between two of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tails import excess_evidence, upper_tail
from ragsieve.records import Detail

WINDOW_TOKENS = 32
STRIDE_TOKENS = 16
LEVEL = 0.05
_FLOOR = 1e-8


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
    document = np.asarray(document_states, dtype=np.float64)
    query = np.asarray(query_states, dtype=np.float64)
    if document.shape[0] == 0 or query.shape[0] == 0:
        return np.empty(0, dtype=np.float64)
    if document.shape[1] != query.shape[1]:
        raise ValueError("document and query states must have the same dimension")
    cosines = document @ query.T
    best_of_document = cosines.max(axis=1)
    trace = []
    for start in _starts(document.shape[0], window, stride):
        stop = min(start + window, document.shape[0])
        precision = best_of_document[start:stop].mean()
        recall = cosines[start:stop].max(axis=0).mean()
        trace.append(2 * precision * recall / max(precision + recall, _FLOOR))
    return np.asarray(trace, dtype=np.float64)


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


def _starts(tokens: int, window: int, stride: int) -> list[int]:
    if tokens <= window:
        return [0]
    starts = list(range(0, tokens - window + 1, stride))
    if starts[-1] != tokens - window:
        starts.append(tokens - window)
    return starts
