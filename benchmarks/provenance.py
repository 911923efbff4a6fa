"""What declared provenance adds to the scan, on a real corpus with simulated provenance.

    python benchmarks/provenance.py --bench DIR

The corpus declares nothing, so authors and dates are drawn here, seeded: every clean document
has one of 300 authors (Zipf) and a day within five years. Planted documents of a target come
from one new account within a day (``one hand``), or from as many authors and days as clean
ones (``many hands``): what an attacker with many accounts would do. ``none`` declares nothing.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

import numpy as np

from bench import load_bench, shared_options
from detection import Case
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.records import Decision, Document, Provenance

AUTHORS = 300
DAYS = 5 * 365
FIRST = datetime.date(2020, 1, 1)


def declared(author: str, day: int) -> Provenance:
    return Provenance(author=author, created=str(FIRST + datetime.timedelta(days=day)))


def many_hands(documents: Sequence[Document], rng: np.random.Generator) -> list[Document]:
    weights = 1.0 / np.arange(1, AUTHORS + 1)
    authors = rng.choice(AUTHORS, size=len(documents), p=weights / weights.sum())
    days = rng.integers(DAYS, size=len(documents))
    return [
        dataclasses.replace(one, provenance=declared(f"author {author}", int(day)))
        for one, author, day in zip(documents, authors, days, strict=True)
    ]


def one_hand(case: Case, rng: np.random.Generator) -> list[Document]:
    found = []
    for number, poison in enumerate(case.poison):
        source = declared(f"account {number}", int(rng.integers(DAYS)))
        found += [dataclasses.replace(one, provenance=source) for one in poison.documents]
    return found


def main() -> None:
    options = shared_options("What declared provenance adds to the scan.").parse_args()
    bench = load_bench(options)
    clean = Case.clean(bench)
    size = len(clean.documents)
    print(f"{'attack':<18}{'n':>3}{'targets':>9}{'declared':>12}{'fixed':>8}{'clean':>8}")
    for attack, count, targets in (
        ("natural", 2, 50),
        ("natural", 3, 50),
        ("natural", 5, 100),
        ("pr_b", 2, 50),
    ):
        case = Case.of(bench, attack, count, targets)
        planted = list(case.documents[size:])
        for name in ("none", "many hands", "one hand"):
            rng = np.random.default_rng(42)
            usual = list(clean.documents) if name == "none" else many_hands(clean.documents, rng)
            if name == "one hand":
                planted = one_hand(case, rng)
            elif name == "many hands":
                planted = many_hands(case.documents[size:], rng)
            scan = CorpusDetector("default").scan([*usual, *planted], case.rows)
            flags = np.array([one is Decision.FLAGGED for one in scan.decisions])
            print(
                f"{attack:<18}{count:>3}{len(case.poison):>9}{name:>12}"
                f"{flags[size:].mean():>8.3f}{flags[:size].mean():>8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
