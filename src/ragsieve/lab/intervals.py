"""95% intervals by a cluster bootstrap: targets are drawn again, each with all its documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.lab.metrics import auroc, detected_at

Counts = npt.NDArray[np.float64]

RESAMPLES = 2000
COVERAGE = 0.95
# Of a block of resamples times score levels; keeps memory near 100 MB.
_BLOCK_NUMBERS = 6_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its percentile interval; shares in [0, 1].

    :param low: None, as ``high``, where there are fewer than two targets to draw from.
    """

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Scores, and the target each belongs to.

    :param scores: shape (n,), large is suspicious.
    :param targets: shape (n,), numbers of targets from 0; -1 for a document of no target,
        which stands in every resample once.
    """

    scores: npt.NDArray[np.float64]
    targets: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Separation:
    """How well one method separates poison from clean documents."""

    auroc: Interval
    detected: Interval


def separation(
    poison: Clustered,
    clean: Clustered,
    targets: int,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    share: float = 0.05,
) -> Separation:
    """AUROC and detection at ``share`` of the clean documents, with intervals.

    A resample that draws a target twice counts its documents twice. Resamples without a poison
    or without a clean document say nothing and are left out.

    :param targets: how many there are; their numbers lie below it.
    :raises ValueError: when either side is empty, a score is NaN or a number is out of range.
    """
    value = auroc(poison.scores, clean.scores)
    found = detected_at(poison.scores, clean.scores, share)
    _check(poison, clean, targets)
    if targets < 2:  # noqa: PLR2004 -- nothing to draw from
        return Separation(Interval(value, None, None), Interval(found, None, None))
    levels = np.unique(np.concatenate([poison.scores, clean.scores]))
    own, fixed_poison = _by_level(poison, levels, targets)
    other, fixed_clean = _by_level(clean, levels, targets)
    areas, detections = [], []
    for drawn in _drawn(targets, resamples, seed, levels.size):
        in_poison, in_clean = drawn @ own + fixed_poison, drawn @ other + fixed_clean
        areas.append(_areas(in_poison, in_clean))
        detections.append(_detections(in_poison, in_clean, share))
    return Separation(
        _interval(value, np.concatenate(areas)), _interval(found, np.concatenate(detections))
    )


def ratio(
    hits: npt.ArrayLike,
    of: npt.ArrayLike,
    *,
    seed: int,
    fixed: tuple[float, float] = (0.0, 0.0),
    resamples: int = RESAMPLES,
) -> Interval | None:
    """A share, sum of ``hits`` over sum of ``of``, both counted by target.

    :param hits: shape (targets,).
    :param of: shape (targets,); ones give a mean over targets.
    :param fixed: hits and counts that belong to no target.
    :returns: None when nothing was counted; without an interval when no target was.
    """
    above = np.asarray(hits, dtype=np.float64)
    below = np.asarray(of, dtype=np.float64)
    total = float(below.sum()) + fixed[1]
    if not total > 0:
        return None
    value = (float(above.sum()) + fixed[0]) / total
    if above.size < 2 or not below.any():  # noqa: PLR2004 -- nothing to draw from
        return Interval(value, None, None)
    found = []
    for drawn in _drawn(above.size, resamples, seed, above.size):
        counted = drawn @ below + fixed[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append((drawn @ above + fixed[0]) / counted)
    return _interval(value, np.concatenate(found))


def macro(values: Sequence[float | None]) -> float | None:
    """Equal-weight mean over cells; None when one of them lacks the figure, or there is none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _drawn(targets: int, resamples: int, seed: int, width: int) -> Iterator[Counts]:
    """How often each target stands in each resample, in blocks of shape (b, targets)."""
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK_NUMBERS // max(1, width))
    share = np.full(targets, 1 / targets)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        yield rng.multinomial(targets, share, size=size).astype(np.float64)


def _by_level(side: Clustered, levels: Counts, targets: int) -> tuple[Counts, Counts]:
    """Documents of each target, and of none, at each level of the score."""
    place = np.searchsorted(levels, side.scores)
    counts = np.zeros((targets + 1, levels.size))
    # Number -1 is the last row.
    np.add.at(counts, (side.targets, place), 1.0)
    return counts[:-1], counts[-1]


def _areas(poison: Counts, clean: Counts) -> Counts:
    """Mid-rank AUROC of each resample from counts by level, both of shape (b, levels)."""
    below = np.cumsum(clean, axis=1) - clean / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        area: Counts = (poison * below).sum(axis=1) / (poison.sum(axis=1) * clean.sum(axis=1))
    return area


def _detections(poison: Counts, clean: Counts, share: float) -> Counts:
    """Share of each resample's poison strictly above its own threshold."""
    total = clean.sum(axis=1)
    place = np.minimum(np.floor(share * total), total - 1) + 1
    from_above = np.cumsum(clean[:, ::-1], axis=1)
    level = clean.shape[1] - 1 - np.argmax(from_above >= place[:, None], axis=1)
    all_poison = poison.sum(axis=1)
    upto = np.take_along_axis(np.cumsum(poison, axis=1), level[:, None], axis=1)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Counts = np.where(total > 0, (all_poison - upto) / all_poison, np.nan)
    return found


def _interval(value: float, resampled: Counts) -> Interval:
    known = resampled[np.isfinite(resampled)]
    if known.size == 0:
        return Interval(value, None, None)
    edge = (1 - COVERAGE) / 2
    low, high = np.quantile(known, [edge, 1 - edge])
    return Interval(value, float(low), float(high))


def _check(poison: Clustered, clean: Clustered, targets: int) -> None:
    for side in (poison, clean):
        if side.scores.shape != side.targets.shape:
            raise ValueError("expected one target number a score")
        if side.targets.min() < -1 or side.targets.max() >= targets:
            raise ValueError(f"a target number lies outside -1..{targets - 1}")
