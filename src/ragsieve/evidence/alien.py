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
_CHUNK_TOKENS = 1 << 21


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
    return alien_runs(alien, np.array([0, alien.size], dtype=np.int64), background)[0]


def alien_runs(
    alien: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64], background: float
) -> list[AlienRun]:
    """:func:`alien_run` of many documents.

    :param alien: shape (n,), one flag a token, documents end to end.
    :param offsets: shape (documents + 1,), from 0 to n.
    """
    if offsets[-1] > _CHUNK_TOKENS and offsets.size > 2:  # noqa: PLR2004 -- more than one
        half = int(np.clip(np.searchsorted(offsets, offsets[-1] // 2), 1, offsets.size - 2))
        cut = offsets[half]
        first = alien_runs(alien[:cut], offsets[: half + 1], background)
        return first + alien_runs(alien[cut:], offsets[half:] - cut, background)
    sums = np.concatenate(([0], np.cumsum(alien, dtype=np.int64)))
    sizes = np.diff(offsets)
    totals = sums[offsets[1:]] - sums[offsets[:-1]]
    best = [
        AlienRun(0.0, 0, 0, 0, total, size)
        for total, size in zip(totals.tolist(), sizes.tolist(), strict=True)
    ]
    for window in WINDOWS:
        rows = np.flatnonzero((sizes >= window) & (window <= np.maximum(SHORT_WINDOW, sizes / 2)))
        if not rows.size:
            continue
        starts, hits = _fullest(sums, offsets[rows], sizes[rows] - window + 1, window)
        for row, start, hit in zip(rows.tolist(), starts.tolist(), hits.tolist(), strict=True):
            own = best[row]
            ratio = _ratio(hit, window, own.aliens + own.outside, own.tokens, background)
            if ratio > own.ratio_nats:
                outside = own.aliens + own.outside - hit
                best[row] = AlienRun(ratio, start, start + window, hit, outside, own.tokens)
    return best


def _fullest(
    sums: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    window: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first window of each document that holds most aliens: its start, and how many.

    At one share of the whole the ratio grows with the hits, so no other can win.

    :param begins: where each document begins.
    :param places: windows it has, at least 1.
    """
    ends = np.cumsum(places)
    within = np.arange(ends[-1]) - np.repeat(ends - places, places)
    where = np.repeat(begins, places) + within
    inside = sums[where + window] - sums[where]
    # One number orders windows by their hits, then by their place.
    packed = (inside << 32) - within
    most = np.maximum.reduceat(packed, ends - places)
    hits = (most + (1 << 32) - 1) >> 32
    return (hits << 32) - most, hits


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
