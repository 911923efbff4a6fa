"""What the query filter costs: the first time, warm, and in decision mode."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.bench.timing import timed
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.readings import forget_texts
from ragsieve.errors import InputError
from ragsieve.outcomes import Ruling
from ragsieve.records import Decision, Ranking, Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class QueryFigures:
    """What judging one ranking costs, in milliseconds; quantiles over rankings.

    :param candidates: judged in each way, whose decisions and levels were compared.
    :param first_pass_ms_p50: full mode on texts not seen before, in the order of the rankings;
        the first one loads the models.
    :param full_ms_p50: full mode, everything about the texts known; of medians over repeats.
    :param decision_ms_p50: the same in decision mode.
    :param decision_mode_speedup: median of full over median of decision mode.
    :param unavailable: evidences that could not be measured, and why.
    """

    profile: str
    rankings: int
    candidates: int
    first_pass_ms_p50: float
    first_pass_ms_p95: float
    full_ms_p50: float
    full_ms_p95: float
    decision_ms_p50: float
    decision_ms_p95: float
    decision_mode_speedup: float
    undecided: int
    unavailable: tuple[str, ...]
    decisions_equal: bool


def query_figures(
    detector: QueryDetector, rankings: Sequence[Ranking], repeats: int
) -> QueryFigures:
    """Judge rankings in both modes, in turns.

    :param detector: one that has judged nothing yet.
    :raises InputError: when there is no ranking.
    """
    if not rankings:
        raise InputError("expected at least one ranking to judge, found none")
    forget_texts()
    first = []
    verdicts: list[tuple[Verdict, ...]] = []
    for ranking in rankings:
        spent, judged = timed(functools.partial(detector.score, ranking))
        first.append(spent)
        verdicts.append(judged)
    equal = True
    seconds = np.empty((repeats, 2, len(rankings)))
    for full, decision in seconds:
        # A mode judges all rankings before the other does, as in use; noise falls on both.
        for place, ranking in enumerate(rankings):
            full[place], again = timed(functools.partial(detector.score, ranking))
            equal &= _same(again, verdicts[place])
        for place, ranking in enumerate(rankings):
            decision[place], rulings = timed(functools.partial(detector.decide, ranking))
            equal &= _same(rulings, verdicts[place])
    full, decision = np.median(seconds, axis=0) * 1e3
    cold = np.array(first) * 1e3
    every = [one for judged in verdicts for one in judged]
    missing = {
        f"{evidence.name}: {evidence.reason}"
        for one in every
        for evidence in one.evidences
        if not evidence.measured and not evidence.optional
    }
    return QueryFigures(
        profile=detector.profile,
        rankings=len(rankings),
        candidates=len(every),
        first_pass_ms_p50=_quantile(cold, 0.5),
        first_pass_ms_p95=_quantile(cold, 0.95),
        full_ms_p50=_quantile(full, 0.5),
        full_ms_p95=_quantile(full, 0.95),
        decision_ms_p50=_quantile(decision, 0.5),
        decision_ms_p95=_quantile(decision, 0.95),
        decision_mode_speedup=_quantile(full, 0.5) / _quantile(decision, 0.5),
        undecided=sum(one.decision is Decision.UNDECIDED for one in every),
        unavailable=tuple(sorted(missing)),
        decisions_equal=equal,
    )


def _same(found: Sequence[Verdict | Ruling], expected: Sequence[Verdict]) -> bool:
    return [(one.document_id, one.decision, one.level) for one in found] == [
        (one.document_id, one.decision, one.level) for one in expected
    ]


def _quantile(values: npt.NDArray[np.float64], share: float) -> float:
    return float(np.quantile(values, share))
