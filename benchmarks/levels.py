"""What the levels mean for an operator: alarms, precision at a prevalence, a reviewer's budget.

    python benchmarks/levels.py --bench DIR [--encoder NAME]

All targets of an attack are poisoned at once and the index is scanned with profile ``default``
without a language model. *Review* is every flagged document, *quarantine* those at that level.

Precision is what the measured rates would give where a share ``p`` of the corpus is poison::

    precision = p * found / (p * found + (1 - p) * clean)

with ``found`` the share of planted and ``clean`` the share of clean documents that reach the
level. It carries the rates over to a prevalence at which they were not measured. Where no clean
document reaches the level, ``clean`` is taken at its upper 95% limit, 3 / documents, and the
precision is a lower bound, marked with a sign.

Campaigns come from a scan with ten targets attacked; a budget of N documents is spent on them in
their order. Prints Markdown tables.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from bench import ATTACKS, TARGETS, Bench, load_bench, shared_options
from detection import Case
from ragsieve.detectors.campaigns import campaigns, cut
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.records import Decision, Level, Scan

COUNTS = (1, 3, 5, 10)
PREVALENCES = (0.0001, 0.001, 0.01)
PRECISE_COUNTS = (3, 5)
CAMPAIGN_TARGETS = 10
BUDGETS = (20, 50, 100)
LEVELS = (Level.QUARANTINE, Level.REVIEW)


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Shares of the planted and of the clean documents that reach a level.

    :param found: of the planted; NaN where nothing is planted.
    :param clean_size: clean documents that were judged.
    """

    found: float
    clean: float
    clean_size: int

    @classmethod
    def of(cls, scan: Scan, clean_size: int, level: Level) -> Rates:
        """Clean documents come first in the scan."""
        marks = np.array(
            [
                decision is Decision.FLAGGED and own.reaches(level)
                for decision, own in zip(scan.decisions, scan.levels, strict=True)
            ]
        )
        planted = marks[clean_size:]
        found = float(planted.mean()) if planted.size else float("nan")
        return cls(found, float(marks[:clean_size].mean()), clean_size)

    def precision(self, prevalence: float) -> str:
        """Share of the alarms that are poison where ``prevalence`` of the corpus is."""
        hits = prevalence * self.found
        clean = self.clean or 3.0 / self.clean_size
        sign = "" if self.clean else ">= "
        return f"{sign}{hits / (hits + (1.0 - prevalence) * clean):.3f}"


def _cell(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def print_rates(bench: Bench) -> dict[tuple[str, int], dict[Level, Rates]]:
    """Found and clean per level, and clean alarms in 10,000 clean documents."""
    print("| attack | n | quarantine: found | clean | per 10,000 ", end="")
    print("| review: found | clean | per 10,000 |\n|---|---:" + "|---:" * 6 + "|")
    every = {}
    size = len(bench.corpus)
    cases = [Case.clean(bench)]
    cases += [Case.of(bench, attack, count, TARGETS) for attack in ATTACKS for count in COUNTS]
    for case in cases:
        scan = CorpusDetector("default").scan(case.documents, case.rows)
        rates = {level: Rates.of(scan, size, level) for level in LEVELS}
        cells = [
            f"{_cell(one.found)} | {one.clean:.4f} | {1e4 * one.clean:.0f}"
            for one in rates.values()
        ]
        print(f"| {case.attack} | {case.count} | {' | '.join(cells)} |", flush=True)
        every[case.attack, case.count] = rates
    return every


def print_precision(every: dict[tuple[str, int], dict[Level, Rates]]) -> None:
    """Precision at a prevalence from the measured rates."""
    heads = [f"{level} at {share:.2%}" for level in LEVELS for share in PREVALENCES]
    print(f"\n| attack | n | {' | '.join(heads)} |\n|---|---:" + "|---:" * len(heads) + "|")
    for (attack, count), rates in every.items():
        if count not in PRECISE_COUNTS:
            continue
        cells = [rates[level].precision(share) for level in LEVELS for share in PREVALENCES]
        print(f"| {attack} | {count} | {' | '.join(cells)} |")


def print_campaigns(bench: Bench) -> None:
    """Campaigns with ten targets attacked, and what a budget of documents buys."""
    heads = [f"first {budget}" for budget in BUDGETS]
    print(
        "\n| attack | n | planted | flagged | of it poison | campaigns | with poison | targets ",
        end="",
    )
    print(f"| {' | '.join(heads)} |\n|---|---:" + "|---:" * (6 + len(heads)) + "|")
    size = len(bench.corpus)
    for attack in ATTACKS:
        for count in COUNTS:
            case = Case.of(bench, attack, count, CAMPAIGN_TARGETS)
            scan = CorpusDetector("default").scan(case.documents, case.rows)
            found = campaigns(scan)
            flagged = [row for one in found for row in one.rows]
            poison = [row for row in flagged if row >= size]
            holding = sum(any(row >= size for row in one.rows) for one in found)
            targets = len({(row - size) // count for row in poison})
            bought = [sum(row >= size for row in cut(found, n).within) for n in BUDGETS]
            cells = [len(case.documents) - size, len(flagged), len(poison), len(found), holding]
            cells += [targets, *bought]
            print(f"| {attack} | {count} | {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    bench = load_bench(shared_options("Levels, alarms, precision and campaigns.").parse_args())
    print(f"{len(bench.corpus)} documents, {bench.embedder.identity}\n")
    print_precision(print_rates(bench))
    print_campaigns(bench)


if __name__ == "__main__":
    main()
