"""RSG of profile ``paper`` on a real corpus with published poison, all targets poisoned at once.

    python benchmarks/paper_scan.py --bench DIR [--models-dir DIR] [--cache DIR]

DIR holds ``corpus.jsonl`` and ``attacks/*.jsonl``. Prints one row for each attack and number
of documents per target: AUROC, poison found at 5% clean removal, poison and clean documents
removed by the fixed rule. Embeddings are kept in the cache directory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bench import embedded, encoder
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.files.corpus import read_corpus
from ragsieve.lab.datasets import read_attacks
from ragsieve.lab.metrics import auroc, detected_at
from ragsieve.records import Decision

ATTACKS = ("pr_b", "natural", "pr_w_contriever")
COUNTS = (1, 3, 5)
TARGETS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/benchmarks"))
    options = parser.parse_args()

    embedder = encoder("embedded", models_dir=options.models_dir, cache=options.cache)
    corpus = list(read_corpus(options.bench / "corpus.jsonl"))
    clean_rows = embedded(embedder, corpus, options.cache)
    detector = CorpusDetector("paper")
    print(f"{len(corpus)} documents, {embedder.identity}")
    print(f"{'attack':<16}{'n':>3}{'AUROC':>8}{'@5%':>8}{'fixed':>8}{'clean':>8}")
    for attack in ATTACKS:
        targets = read_attacks(options.bench / "attacks" / f"{attack}.jsonl")[:TARGETS]
        planted = [document for target in targets for document in target.documents[: max(COUNTS)]]
        place = {document.id: row for row, document in enumerate(planted)}
        poison_rows = embedded(embedder, planted, options.cache)
        for count in COUNTS:
            chosen = [document for target in targets for document in target.documents[:count]]
            rows = poison_rows[[place[document.id] for document in chosen]]
            scan = detector.scan([*corpus, *chosen], np.concatenate([clean_rows, rows]))
            clean, poison = scan.scores[: len(corpus)], scan.scores[len(corpus) :]
            flags = np.array([decision is Decision.FLAGGED for decision in scan.decisions])
            print(
                f"{attack:<16}{count:>3}{auroc(poison, clean):>8.3f}"
                f"{detected_at(poison, clean, 0.05):>8.3f}{flags[len(corpus) :].mean():>8.3f}"
                f"{flags[: len(corpus)].mean():>8.3f}"
            )


if __name__ == "__main__":
    main()
