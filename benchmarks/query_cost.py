"""What judging one retrieval costs, against the rule written down plainly, in one run.

    python benchmarks/query_cost.py [--bench DIR] [--rankings N] [--plain N] [--repeats N]
        [--models synthetic|embedded] [--cold N] [--clock wall|processor] [--json]

Warm: every text was seen before and every model has answered, so what is measured is the
judging; the query's vector is the one it was retrieved with. The plain side gets the models'
answers for nothing, as lists. Full mode and decision mode judge the same rankings in turns; times
are medians over repeats, and the ratio of two medians is what counts. Every
decision of the three is compared, and the program fails when two differ.

Rankings are those of ``--bench`` (a folder with ``corpus.jsonl``, ``queries.jsonl`` and
``attacks``), clean and with the documents of one attack's target planted; without a folder, those
of the embedded dataset. On a machine that others use, ``--clock processor`` counts the time the
processor spent on the program. ``--models synthetic`` makes losses and states of the size a model's have;
``embedded`` asks the embedded models. ``--cold`` judges so many rankings of each kind whose texts
nobody has seen, with the embedded models: the plain side one text at a time, nothing remembered.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from query_cells import Cell, bench_cells, embedded_cells
from query_cold import PROFILES, Clock, ColdCost, cold_cost, warmed_models
from query_models import Answers, embedded_models, word_answers
from query_ways import Bench, Tally
from ragsieve.records import FloatArray, Ranking

CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.process_time}


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What one ranking of one kind costs with one profile; medians, in milliseconds.

    :param plain_ms: the plain side; None where it was not run.
    :param numpy_ms: the same, inner products of token states by numpy; None where there are none.
    """

    profile: str
    cell: str
    rankings: int
    full_ms: float
    full_ms_p95: float
    decision_ms: float
    plain_ms: float | None
    numpy_ms: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class QueryCost:
    """The whole run; the figures without a profile's name are of ``paper``, in full mode.

    :param compared: decisions that were compared.
    :param warm_query_speedup: plain over full mode.
    :param warm_query_speedup_numpy: the same with numpy for the plain side's inner products.
    :param decision_mode_speedup: full over decision mode, the smallest over the cells.
    """

    models: str
    compared: int
    decisions_equal: bool
    warm_query_ms_p50: float
    warm_query_ms_p95: float
    warm_query_speedup: float
    warm_query_speedup_numpy: float
    default_query_ms_p50: float
    default_query_ms_p95: float
    default_query_speedup: float
    decision_mode_speedup: float
    default_decision_mode_speedup: float
    costs: tuple[Cost, ...]
    cold: tuple[ColdCost, ...] = ()


def timed(
    modes: Sequence[Callable[[Ranking], object]],
    rankings: Sequence[Ranking],
    repeats: int,
    clock: Clock,
) -> FloatArray:
    """Median milliseconds of each mode on each ranking, shape (modes, rankings).

    A mode judges all rankings before the next one does, as in use; the modes take turns, so
    that noise falls on all alike.
    """
    seconds = np.empty((repeats, len(modes), len(rankings)))
    for row in seconds:
        for place, mode in enumerate(modes):
            for column, ranking in enumerate(rankings):
                start = clock()
                mode(ranking)
                row[place, column] = clock() - start
    return np.asarray(np.median(seconds, axis=0) * 1e3)


def spent(call: Callable[[], object], clock: Clock) -> float:
    """Milliseconds of one call."""
    start = clock()
    call()
    return (clock() - start) * 1e3


def measure(
    bench: Bench,
    profile: str,
    cell: Cell,
    tally: Tally,
    *,
    plain_rankings: int,
    repeats: int,
    clock: Clock,
) -> Cost:
    """One row of the table."""
    detector = bench.detector(profile, cell)
    for ranking in cell.rankings:
        verdicts, rulings = detector.score(ranking), detector.decide(ranking)
        tally.same(
            [(one.decision, one.level) for one in verdicts],
            [(one.decision, one.level) for one in rulings],
        )
    full, decision = timed((detector.score, detector.decide), cell.rankings, repeats, clock)
    plainly, by_numpy = [], []
    for ranking in cell.rankings[:plain_rankings]:
        judge = bench.plain(profile, cell, ranking)
        flags = [one.flagged for one in detector.score(ranking)]
        tally.same(flags, [one.flagged for one in judge()])
        plainly.append(spent(judge, clock))
        if profile == "paper":
            by_numpy.append(spent(bench.plain(profile, cell, ranking, np.dot), clock))
    return Cost(
        profile=profile,
        cell=cell.name,
        rankings=len(cell.rankings),
        full_ms=float(np.median(full)),
        full_ms_p95=float(np.quantile(full, 0.95)),
        decision_ms=float(np.median(decision)),
        plain_ms=float(np.median(plainly)) if plainly else None,
        numpy_ms=float(np.median(by_numpy)) if by_numpy else None,
    )


def query_cost(
    cells: Sequence[Cell],
    answers: Answers,
    *,
    models: str = "synthetic",
    plain_rankings: int = 4,
    repeats: int = 5,
    clock: Clock = time.perf_counter,
) -> QueryCost:
    """Measure every cell with both profiles.

    :param models: what the answers come from, to be said.
    :param plain_rankings: of each cell, that the plain side judges too.
    :param clock: in seconds.
    """
    bench, tally = Bench(answers), Tally()
    costs = tuple(
        measure(
            bench, profile, cell, tally, plain_rankings=plain_rankings, repeats=repeats, clock=clock
        )
        for profile in PROFILES
        for cell in cells
    )
    paper = [one for one in costs if one.profile == "paper"]
    default = [one for one in costs if one.profile == "default"]
    return QueryCost(
        models=models,
        compared=tally.compared,
        decisions_equal=tally.different == 0,
        warm_query_ms_p50=_middle(paper, "full_ms"),
        warm_query_ms_p95=max(one.full_ms_p95 for one in paper),
        warm_query_speedup=_middle(paper, "plain_ms") / _middle(paper, "full_ms"),
        warm_query_speedup_numpy=_middle(paper, "numpy_ms") / _middle(paper, "full_ms"),
        default_query_ms_p50=_middle(default, "full_ms"),
        default_query_ms_p95=max(one.full_ms_p95 for one in default),
        default_query_speedup=_middle(default, "plain_ms") / _middle(default, "full_ms"),
        decision_mode_speedup=min(one.full_ms / one.decision_ms for one in paper),
        default_decision_mode_speedup=min(one.full_ms / one.decision_ms for one in default),
        costs=costs,
    )


def _middle(costs: Sequence[Cost], name: str) -> float:
    values = [getattr(one, name) for one in costs]
    return float(np.median([value for value in values if value is not None]))


def parsed_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="What judging one retrieval costs.")
    parser.add_argument("--bench", type=Path, help="folder of a set; the embedded one by default")
    parser.add_argument("--rankings", type=int, default=20, help="of each kind")
    parser.add_argument("--plain", type=int, default=4, help="of those, judged plainly too")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--models", choices=("synthetic", "embedded"), default="synthetic")
    parser.add_argument("--cold", type=int, default=0, help="rankings of each kind; needs models")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/benchmarks"))
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def show(cost: QueryCost) -> None:
    """Print the tables."""
    print(f"models: {cost.models}; {cost.compared} decisions compared, "
          f"{'all equal' if cost.decisions_equal else 'NOT EQUAL'}\n")  # fmt: skip
    print(
        "| profile | rankings | plain ms | full ms | P95 | decision ms | plain : full | full : decision |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for one in cost.costs:
        plainly = "-" if one.plain_ms is None else f"{one.plain_ms:.0f}"
        ratio = "-" if one.plain_ms is None else f"{one.plain_ms / one.full_ms:.0f}"
        print(f"| {one.profile} | {one.rankings} {one.cell} | {plainly} | {one.full_ms:.2f} | "
              f"{one.full_ms_p95:.2f} | {one.decision_ms:.2f} | {ratio} | "
              f"{one.full_ms / one.decision_ms:.1f} |")  # fmt: skip
    print(f"\nprofile paper, inner products of the plain side by numpy: "
          f"{cost.warm_query_speedup_numpy:.0f} to 1")  # fmt: skip
    for cold in cost.cold:
        print(f"cold, {cold.profile}, {cold.rankings} rankings, seconds each: plain "
              f"{cold.plain_seconds:.3f}, full {cold.full_seconds:.3f}, decision "
              f"{cold.decision_seconds:.3f}")  # fmt: skip


def main() -> None:
    options = parsed_options()
    if options.bench is None:
        cells = embedded_cells(options.rankings)
    else:
        cells = bench_cells(options.bench, options.models_dir, options.cache, options.rankings)
    answers = word_answers()
    if options.models == "embedded":
        answers = Answers(*embedded_models(options.models_dir))
    cost = query_cost(
        cells,
        answers,
        models=options.models,
        plain_rankings=options.plain,
        repeats=options.repeats,
        clock=CLOCKS[options.clock],
    )
    if options.cold:
        tally = Tally()
        cold = cold_cost(
            cells, *warmed_models(options.models_dir), tally, options.cold, CLOCKS[options.clock]
        )
        equal = cost.decisions_equal and tally.different == 0
        compared = cost.compared + tally.compared
        cost = dataclasses.replace(cost, cold=cold, compared=compared, decisions_equal=equal)
    if options.json:
        print(json.dumps(dataclasses.asdict(cost), indent=1))
    else:
        show(cost)
    if not cost.decisions_equal:
        sys.exit("decisions differ")


if __name__ == "__main__":
    main()
