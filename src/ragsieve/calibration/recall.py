"""What a threshold finds of documents that were planted on purpose and replayed."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ragsieve.calibration.intervals import Interval, clustered_share
from ragsieve.calibration.samples import Sample

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Scores of replayed planted documents.

    :param sample: its groups are campaigns.
    :param sizes: shape (n,), documents planted in each one's campaign; 0 where nobody said.
    :param not_judged: planted documents that no judgement reached, e.g. ranked too low.
    """

    sample: Sample
    sizes: npt.NDArray[np.int64]
    not_judged: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A share that was found.

    :param share: with its interval over campaigns.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    found: int
    of: int
    share: Interval


@dataclasses.dataclass(frozen=True, slots=True)
class SizeRecall:
    """Recall in campaigns of one size.

    :param size: documents planted; None where nobody said.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    size: int | None
    documents: Found
    campaigns: Found


@dataclasses.dataclass(frozen=True, slots=True)
class Recall:
    """Recall at a threshold, of the planted documents that were judged.

    :param campaigns: those with any document found.
    :param not_judged: planted documents that are in no figure here.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    threshold: float
    documents: Found
    campaigns: Found
    by_size: tuple[SizeRecall, ...]
    not_judged: int


def recall_at(replayed: Replayed, threshold: float, confidence: float) -> Recall:
    """What is found at ``threshold``, as a whole and for each size of campaign."""
    documents, campaigns = _both(replayed.sample, threshold, confidence)
    by_size = []
    for size in np.unique(replayed.sizes).tolist():
        own = replayed.sizes == size
        part = Sample(replayed.sample.scores[own], replayed.sample.groups[own])
        by_size.append(SizeRecall(size or None, *_both(part, threshold, confidence)))
    return Recall(threshold, documents, campaigns, tuple(by_size), replayed.not_judged)


def _both(part: Sample, threshold: float, confidence: float) -> tuple[Found, Found]:
    return _found(part, threshold, confidence), _found(part.highest(), threshold, confidence)


def _found(part: Sample, threshold: float, confidence: float) -> Found:
    count = int(np.count_nonzero(part.scores >= threshold))
    share = clustered_share(count, len(part), part.effective, confidence)
    return Found(count, len(part), share)
