"""The stretch of a document that reads least like its corpus, against the rest of the document."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tokens import Span
from ragsieve.records import Detail

WINDOWS = (8, 10, 12, 16, 20, 24, 32)
SHORT_WINDOW = 12
PRIOR_TOKENS = 5.0
_RATE_BOUNDS = (0.001, 0.999)


@dataclasses.dataclass(frozen=True, slots=True)
class AlienRun:
    """The window in which alien tokens crowd most.

    :param ratio_nats: log likelihood ratio of the window against the rest, >= 0, large is
        suspicious.
    :param start: its first token; ``stop`` is exclusive; both 0 when no window stands out.
    :param aliens: alien tokens inside it.
    :param outside: alien tokens of the document outside it.
    :param tokens: tokens of the document that were looked at.
    """

    ratio_nats: float
    start: int
    stop: int
    aliens: int
    outside: int
    tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class AlienDetail(Detail):
    """An alien run as it stands in the text.

    :param span: characters of the document's content.
    :param excerpt: those characters, hostile like all corpus text.
    :param threshold_nats: the ratio at which this evidence alone reaches its unit.
    :param confirmation: peak surprisal over ln V of a language model; None without one.
    """

    run: AlienRun
    span: Span | None
    excerpt: str
    threshold_nats: float
    confirmation: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RunTailDetail(Detail):
    """A document's alien run against those of the tail, all in nats.

    :param tail_median_nats: of the tail.
    :param start_nats: where evidence begins.
    """

    run_nats: float
    tail_median_nats: float
    start_nats: float


def alien_run(alien: npt.NDArray[np.bool_], background: float) -> AlienRun:
    """Kulldorff's scan over one document: where do alien tokens crowd?

    For windows of 8 to 32 tokens, at most half the document or 12:
    ``q = clip((K - k + 5 pi) / (n - w + 5), .001, .999)``, ``p = k / w``,
    ``k ln(p/q) + (w - k) ln((1-p)/(1-q))`` where p > q, else 0; the largest over all windows.
    A document that is alien throughout scores low.

    :param alien: shape (n,), one flag a token.
    :param background: share of alien tokens in the whole corpus, pi, in [0, 1].
    """
    size = int(alien.size)
    total = int(alien.sum())
    best = AlienRun(0.0, 0, 0, 0, total, size)
    sums = np.concatenate(([0], np.cumsum(alien)))
    for window in WINDOWS:
        if window > min(size, max(SHORT_WINDOW, size / 2)):
            break
        inside = sums[window:] - sums[:-window]
        # For one width the ratio rises with the aliens inside: the fullest window decides.
        start = int(inside.argmax())
        hits = int(inside[start])
        ratio = _ratio(hits, window, total, size, background)
        if ratio > best.ratio_nats:
            best = AlienRun(ratio, start, start + window, hits, total - hits, size)
    return best


def _ratio(hits: int, window: int, total: int, size: int, background: float) -> float:
    low, high = _RATE_BOUNDS
    rest = (total - hits + PRIOR_TOKENS * background) / (size - window + PRIOR_TOKENS)
    q = min(high, max(low, rest))
    p = hits / window
    if p <= q:
        return 0.0
    ratio = hits * math.log(p / q)
    if hits < window:
        ratio += (window - hits) * math.log((1 - p) / (1 - q))
    return ratio
