"""How well scores separate poison from clean documents, and what the separation costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata


def auroc(poison: npt.NDArray[np.float64], clean: npt.NDArray[np.float64]) -> float:
    """Area under the ROC curve with mid-ranks: the chance that poison outscores clean.

    :param poison: shape (p,), scores, large is suspicious.
    :param clean: shape (c,).
    :returns: in [0, 1]; 0.5 is chance.
    :raises ValueError: when either side is empty or a score is NaN.
    """
    _check(poison, clean)
    ranks = rankdata(np.concatenate([poison, clean]))
    above = ranks[: poison.size].sum() - poison.size * (poison.size + 1) / 2
    return float(above / (poison.size * clean.size))


def threshold_at(clean: npt.NDArray[np.float64], share: float) -> float:
    """The (floor(share * c) + 1)-th highest clean score: at most ``share`` lie strictly above.

    :raises ValueError: when there is no clean score.
    """
    if clean.size == 0:
        raise ValueError("expected at least one clean score")
    place = min(int(np.floor(share * clean.size)), clean.size - 1)
    return float(np.sort(clean)[::-1][place])


def detected_at(
    poison: npt.NDArray[np.float64], clean: npt.NDArray[np.float64], share: float = 0.05
) -> float:
    """Share of poison strictly above the threshold that costs ``share`` of the clean documents.

    :returns: in [0, 1].
    :raises ValueError: when either side is empty or a score is NaN.
    """
    _check(poison, clean)
    return float(np.mean(poison > threshold_at(clean, share)))


def _check(poison: npt.NDArray[np.float64], clean: npt.NDArray[np.float64]) -> None:
    if poison.size == 0 or clean.size == 0:
        raise ValueError("expected at least one score on each side")
    if bool(np.isnan(poison).any()) or bool(np.isnan(clean).any()):
        raise ValueError("scores must not be NaN")
