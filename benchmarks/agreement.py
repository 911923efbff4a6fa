"""How closely encoder ``light`` agrees with the float32 model it was made from.

    python benchmarks/agreement.py --bench DIR

Cosine between the two vectors of each text, for the corpus, the planted documents and the
questions; then, profile by profile, how many decisions of the ingest scan differ with all targets
of an attack poisoned at once, and which of the scan's figures differs most. Prints Markdown
tables.
"""

from __future__ import annotations

import argparse

import numpy as np

from bench import ATTACKS, TARGETS, Bench, load_bench, shared_options
from detection import COUNTS, PROFILES, Case, Detectors, ScanFigures, scan_figures
from ragsieve.records import FloatArray

FIGURES = ("auroc", "found", "fixed", "clean")


def cosines(left: FloatArray, right: FloatArray) -> FloatArray:
    """Row by row; both of shape (n, d).

    :returns: shape (n,).
    """
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.asarray((left.astype(np.float64) * right).sum(axis=1) / lengths)


def both_encoders(options: argparse.Namespace) -> tuple[Bench, Bench]:
    """The set embedded with the float32 model and with the light one."""
    found = []
    for name in ("embedded", "light"):
        options.encoder = name
        found.append(load_bench(options))
    return found[0], found[1]


def largest_difference(exact: ScanFigures, light: ScanFigures) -> str:
    """The figure that differs most, and by how much."""
    pairs = {name: (getattr(exact, name), getattr(light, name)) for name in FIGURES}
    known = {name: (a, b) for name, (a, b) in pairs.items() if a is not None and b is not None}
    name = max(known, key=lambda one: abs(known[one][0] - known[one][1]))
    a, b = known[name]
    return f"{abs(a - b):.3f} {name}"


def main() -> None:
    exact, light = both_encoders(shared_options(__doc__.splitlines()[0]).parse_args())
    print(f"{exact.embedder.identity}\n{light.embedder.identity}\n")
    print("| texts | number | cosine min | 1% | median | below .999 |")
    print("|---|---:|---:|---:|---:|---:|")
    parts = [("corpus", exact.rows, light.rows)]
    for attack in ATTACKS:
        rows = [
            np.concatenate([poison.rows for poison in bench.poison(attack, 5)])
            for bench in (exact, light)
        ]
        parts.append((attack, rows[0], rows[1]))
    queries = exact.queries()
    parts.append(("questions", exact.asked(queries), light.asked(queries)))
    for name, left, right in parts:
        near = cosines(left, right)
        low, middle = np.quantile(near, (0.01, 0.5))
        below = int((near < 0.999).sum())
        print(f"| {name} | {near.size} | {near.min():.5f} | {low:.5f} | {middle:.5f} | {below} |")

    heads = [f"{name}: decisions changed | largest difference" for name in PROFILES]
    print(f"\n| attack | n | documents | {' | '.join(heads)} |")
    print("|---|---:|---:" + "|---:|---" * len(PROFILES) + "|")
    size = len(exact.corpus)
    cases = [(Case.clean(exact), Case.clean(light))]
    cases += [
        (Case.of(exact, attack, count, TARGETS), Case.of(light, attack, count, TARGETS))
        for attack in ATTACKS
        for count in COUNTS
    ]
    both = [Detectors(case, "scan") for case in cases[0]]
    for pair in cases:
        cells = []
        for profile in PROFILES:
            scans = [one.scan(profile, case) for one, case in zip(both, pair, strict=True)]
            decisions = zip(scans[0].decisions, scans[1].decisions, strict=True)
            cells.append(str(sum(one is not other for one, other in decisions)))
            figures = [
                scan_figures(one, case, profile, size) for one, case in zip(both, pair, strict=True)
            ]
            cells.append(largest_difference(*figures))
        case = pair[0]
        cells = [case.attack, str(case.count), str(len(case.documents)), *cells]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
