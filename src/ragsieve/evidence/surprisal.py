"""Bursts and change points in the trace of a language model's token losses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from ragsieve.records import Detail

WINDOWS = (8, 16)
GATE_NATS = 5 * math.log(2)
GATE_WINDOW = 16
PEAK_WINDOW = 16


@dataclasses.dataclass(frozen=True, slots=True)
class WindowSurprisal:
    """What one window width sees, in nats per token.

    :param burst_nats: highest rolling mean above the lower median one, >= 0.
    :param change_nats: largest difference between the means left and right of a boundary, >= 0.
    :param gate_nats: ``5 ln 2 sqrt(16 / w)``; at the gate the evidence starts.
    :param burst_token: first token of the highest window.
    """

    window: int
    burst_nats: float
    change_nats: float
    gate_nats: float
    burst_token: int


@dataclasses.dataclass(frozen=True, slots=True)
class SurprisalEvidence(Detail):
    """How far a text's loss trace leaves its own level.

    :param evidence: ``max(0, max_w max(B_w, C_w) / tau_w - 1)``, >= 0.
    :param tokens: losses in the trace.
    """

    evidence: float
    windows: tuple[WindowSurprisal, ...]
    tokens: int

    @property
    def strongest(self) -> WindowSurprisal:
        """The window that decides."""
        return max(self.windows, key=lambda w: max(w.burst_nats, w.change_nats) / w.gate_nats)


def surprisal_profile(losses_nats: npt.NDArray[np.floating], window: int) -> WindowSurprisal:
    """Burst and change of a loss trace at one window width.

    Rolling means of width w (the mean of all tokens when fewer than w, nothing when there
    is none). Burst: highest mean minus the lower median of the means. Change: largest
    ``|mean(left w) - mean(right w)|`` over boundaries w, w + w//2, ... <= N - w; 0 when
    N < 2 w.

    :param losses_nats: shape (N,), finite, N >= 0.
    :param window: w >= 2 tokens.
    :raises ValueError: when a loss is not finite or the window too small.
    """
    losses = np.asarray(losses_nats, dtype=np.float64)
    if losses.ndim != 1 or not bool(np.isfinite(losses).all()):
        raise ValueError("losses must be one-dimensional and finite")
    if window < 2:  # noqa: PLR2004 -- the boundary step is half a window
        raise ValueError("window must hold at least 2 tokens")
    gate = GATE_NATS * math.sqrt(GATE_WINDOW / window)
    if losses.size == 0:
        return WindowSurprisal(window, 0.0, 0.0, gate, 0)
    if losses.size < window:
        means = np.array([losses.mean()])
    else:
        means = np.lib.stride_tricks.sliding_window_view(losses, window).mean(axis=1)
    lower_median = np.sort(means)[(means.size - 1) // 2]
    burst = float(means.max() - lower_median)
    change = 0.0
    if losses.size >= 2 * window:
        boundaries = np.arange(window, losses.size - window + 1, window // 2)
        change = float(np.abs(means[boundaries - window] - means[boundaries]).max())
    return WindowSurprisal(window, burst, change, gate, int(means.argmax()))


def surprisal_evidence(
    losses_nats: npt.NDArray[np.floating], windows: tuple[int, ...] = WINDOWS
) -> SurprisalEvidence:
    """RSQ's ``E_p = max(0, max_w max(B_w, C_w) / tau_w - 1)``.

    :param losses_nats: shape (N,), negative log likelihoods in nats, N >= 0.
    :raises ValueError: when a loss is not finite.
    """
    seen = tuple(surprisal_profile(losses_nats, window) for window in windows)
    ratio = max(max(w.burst_nats, w.change_nats) / w.gate_nats for w in seen)
    return SurprisalEvidence(max(0.0, ratio - 1.0), seen, int(np.size(losses_nats)))


@dataclasses.dataclass(frozen=True, slots=True)
class PeakSurprisal(Detail):
    """The most surprising stretch of a text, on the scale of the model's vocabulary.

    :param share: highest mean loss over 16 tokens divided by ln V; 1 is a blind guess.
    :param start: first token of that stretch.
    :param mean_nats: its mean loss.
    :param tokens: losses in the trace.
    """

    share: float
    start: int
    mean_nats: float
    tokens: int


def peak_surprisal(losses_nats: npt.NDArray[np.floating], vocabulary_size: int) -> PeakSurprisal:
    """``m = max over 16 tokens of mean NLL / ln V``; over all tokens of a shorter text.

    :param losses_nats: shape (N,), negative log likelihoods in nats, N >= 0.
    :param vocabulary_size: V >= 2.
    :returns: share >= 0, large is suspicious; 0 for a text without a loss.
    :raises ValueError: when a loss is not finite.
    """
    losses = np.asarray(losses_nats, dtype=np.float64)
    if losses.ndim != 1 or not bool(np.isfinite(losses).all()):
        raise ValueError("losses must be one-dimensional and finite")
    if losses.size == 0:
        return PeakSurprisal(0.0, 0, 0.0, 0)
    width = min(PEAK_WINDOW, losses.size)
    means = np.lib.stride_tricks.sliding_window_view(losses, width).mean(axis=1)
    start = int(means.argmax())
    highest = float(means[start])
    return PeakSurprisal(highest / math.log(vocabulary_size), start, highest, int(losses.size))
