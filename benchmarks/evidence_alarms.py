"""How often each evidence of profile ``default`` speaks on clean documents of a real corpus.

    python benchmarks/evidence_alarms.py --bench DIR

Scan: every document of the unpoisoned corpus. Filter: the first five of every question over it.
Columns: share of documents with any of the evidence, with half a threshold, with a whole one,
and flagged only because of it (without it the score stays below the threshold).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench import load_bench, shared_options
from detection import Case, Detectors, FilterTable
from ragsieve.records import Verdict


def print_alarms(title: str, verdicts: Sequence[Verdict]) -> None:
    print(f"\n{title}: {len(verdicts)} clean documents")
    print(f"{'evidence':<18}{'any':>8}{'half':>8}{'whole':>8}{'decides':>9}")
    for name in dict.fromkeys(one.name for verdict in verdicts for one in verdict.evidences):
        values, decides = [], 0
        for verdict in verdicts:
            found = {one.name: one.value or 0.0 for one in verdict.evidences}
            values.append(found.pop(name, 0.0))
            rest = math.sqrt(sum(value * value for value in found.values()))
            decides += verdict.flagged and rest < verdict.threshold
        array = np.array(values)
        shares = [(array > 0).mean(), (array >= 0.5).mean(), (array >= 1).mean()]
        cells = "".join(f"{share:>8.3f}" for share in shares)
        print(f"{name:<18}{cells}{decides / len(verdicts):>9.3f}")
    remarks = sum(bool(verdict.annotations) for verdict in verdicts)
    if remarks:
        print(
            f"{'uncorroborated':<18}{remarks / len(verdicts):>8.3f}   (remark, outside the score)"
        )


def main() -> None:
    bench = load_bench(shared_options("How often each evidence speaks on clean text.").parse_args())
    clean = Case.clean(bench)
    detectors = Detectors(clean, "scan")
    print_alarms("scan", list(detectors.scan("default", clean)))
    rankings = FilterTable(bench, detectors, ["default"]).rankings(bench.queries())
    judged = detectors.clean("default", rankings)
    print_alarms("filter", [verdict for verdicts in judged for verdict in verdicts])


if __name__ == "__main__":
    main()
