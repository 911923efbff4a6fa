"""What rankings cost whose texts nobody has seen, with the embedded models."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import plain_query as plain
from plain_models import PlainModels
from query_cells import Cell
from query_models import Answers, embedded_models
from query_ways import QUERY_TOKENS, Bench, Tally
from ragsieve.backends.memo import MemoCausalScorer, MemoTokenEncoder
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.readings import forget_texts
from ragsieve.ports import CausalScorer, TokenEncoder
from ragsieve.records import Ranking

PROFILES = ("paper", "default")
Clock = Callable[[], float]


@dataclasses.dataclass(frozen=True, slots=True)
class ColdCost:
    """What rankings cost whose texts nobody has seen, with the embedded models; in seconds each.

    :param plain_seconds: one text at a time, nothing remembered.
    """

    profile: str
    rankings: int
    plain_seconds: float
    full_seconds: float
    decision_seconds: float


def cold_cost(
    cells: Sequence[Cell],
    causal: CausalScorer,
    encoder: TokenEncoder,
    plainly_asked: PlainModels,
    tally: Tally,
    count: int,
    clock: Clock = time.perf_counter,
) -> tuple[ColdCost, ...]:
    """Judge rankings whose texts nobody has seen; the first of each cell, together.

    :param causal: without a memory.
    :param encoder: without a memory.
    :param plainly_asked: the same models, for the plain side.
    """
    found = []
    for profile in PROFILES:
        plainly, full, decision, judged = 0.0, 0.0, 0.0, 0
        for cell in cells:
            rankings = cell.rankings[:count]
            judged += len(rankings)
            start = clock()
            flags = [
                [one.flagged for one in _judged_plainly(profile, cell, ranking, plainly_asked)]
                for ranking in rankings
            ]
            plainly += clock() - start
            start = clock()
            verdicts = _fresh(profile, cell, causal, encoder).score_many(rankings)
            full += clock() - start
            start = clock()
            rulings = _fresh(profile, cell, causal, encoder).decide_many(rankings)
            decision += clock() - start
            for plain_flags, own, quick in zip(flags, verdicts, rulings, strict=True):
                tally.same([one.flagged for one in own], plain_flags)
                tally.same([one.decision for one in own], [one.decision for one in quick])
        found.append(ColdCost(profile, judged, plainly / judged, full / judged, decision / judged))
    return tuple(found)


def _fresh(profile: str, cell: Cell, causal: CausalScorer, encoder: TokenEncoder) -> QueryDetector:
    forget_texts()
    if profile == "default":
        return QueryDetector(profile, features=cell.features)
    return QueryDetector(
        profile, causal=MemoCausalScorer(causal), encoder=MemoTokenEncoder(encoder)
    )


def _judged_plainly(
    profile: str, cell: Cell, ranking: Ranking, models: PlainModels
) -> list[plain.PlainVerdict]:
    bench = Bench(Answers(models, models))
    return bench.plain(profile, cell, ranking)()


def warmed_models(models_dir: Path | None) -> tuple[CausalScorer, TokenEncoder, PlainModels]:
    """The embedded models and the plain side's, each asked once: what is made at a first call is
    not what a ranking costs.
    """
    causal, encoder = embedded_models(models_dir)
    plainly_asked = PlainModels(models_dir)
    text = ["Once, so that everything is loaded."]
    for scorer in (causal, plainly_asked):
        scorer.losses(text)
    for other in (encoder, plainly_asked):
        other.states(text, max_tokens=QUERY_TOKENS)
    return causal, encoder, plainly_asked
