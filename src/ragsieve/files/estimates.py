"""An estimate of a corpus's statistics as JSON fields and arrays; counts are kept elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.concentration import Habits
from ragsieve.evidence.tails import Bulk
from ragsieve.features.statistics import CorpusStatistics, TokenCounts

_DAYS_APART = "days_apart"


def estimate_fields(statistics: CorpusStatistics) -> dict[str, Any]:
    """The numbers and tokens of an estimate."""
    return {
        "statistics_version": statistics.version,
        "alien_share": statistics.alien_share,
        "gap": dataclasses.asdict(statistics.gap),
        "run_nats": dataclasses.asdict(statistics.run_nats),
        "question_share": statistics.question_share,
        "source_habit": statistics.habits.source,
        "author_habit": statistics.habits.author,
        "everyday": list(statistics.everyday),
        "estimated_documents": statistics.documents,
        "estimate": statistics.estimate,
    }


def estimate_arrays(statistics: CorpusStatistics) -> dict[str, npt.NDArray[np.float64]]:
    """The arrays of an estimate, which may be none."""
    days = statistics.habits.days_apart
    return {} if days is None else {_DAYS_APART: days}


def read_estimate(
    fields: Mapping[str, Any], days_apart: npt.NDArray[np.float64] | None, counts: TokenCounts
) -> CorpusStatistics:
    """An estimate written earlier.

    :raises KeyError: when a field is missing.
    :raises TypeError: when one is of the wrong kind.
    """
    everyday = fields["everyday"]
    if not isinstance(everyday, list) or not all(isinstance(one, str) for one in everyday):
        raise TypeError("everyday: expected a list of texts")
    return CorpusStatistics(
        counts=counts,
        alien_share=float(fields["alien_share"]),
        gap=Bulk(**fields["gap"]),
        run_nats=Bulk(**fields["run_nats"]),
        question_share=float(fields["question_share"]),
        habits=Habits(fields["source_habit"], fields["author_habit"], days_apart),
        everyday=tuple(everyday),
        documents=int(fields["estimated_documents"]),
        estimate=int(fields["estimate"]),
        version=int(fields["statistics_version"]),
    )
