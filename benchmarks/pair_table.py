"""Counting pairs of tokens in bounded memory: what a sketch costs against the exact table.

    python benchmarks/pair_table.py [--bench DIR] [--encoder NAME] [--attack NAME] [--count N]
        [--documents N ...] [--memory-mib N ...]

With ``--bench``: an index with all targets of an attack poisoned is scanned once with exact
counts and once for each size of sketch, everything else being equal. A sketch never counts too
little: tokens go from alien to familiar, not back. A run may rise all the same when the tokens
around it become familiar.

Then synthetic corpora: documents of 120 tokens, each drawn on its own from 200,000 by Zipf's law
(p of rank r proportional to 1 / r), from a fixed seed. Text repeats its pairs more than such
draws do, so a corpus of the same size has fewer. *Too high* is the share of the pairs of 2,000
counted documents whose count exceeds the exact one; *familiar* the share of the unseen pairs of
2,000 further documents that the table takes for seen. ``(1 - exp(-pairs / width))^4`` predicts
the latter. Time is that of finding the pairs of the documents and counting them. Prints Markdown
tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench import ATTACKS, ENCODERS, TARGETS, load_bench
from detection import Case
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.rules import Measurement
from ragsieve.evidence.knn import cosine_knn
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.pairs import MEMORY_BYTES, Keys, PairTable
from ragsieve.features.ragged import Ragged
from ragsieve.features.statistics import (
    EXCLUDED_NEIGHBORS,
    TokenCounts,
    alien_flags,
    distinct_pairs,
)
from ragsieve.features.text import Vocabulary
from ragsieve.lab.metrics import auroc
from ragsieve.records import Decision, NeighborGraph, Provenance

SKETCH_ROWS = 4
CORPUS_WIDTHS = (1 << 20, 1 << 19, 1 << 18, 1 << 17, 1 << 16, 1 << 15)
VOCABULARY, TOKENS = 200_000, 120
SIZES = (10_000, 100_000, 1_000_000)
BATCH = 32_000  # documents; near the 4,000,000 pairs that a scan counts at once
SAMPLE = 2_000
SEED = 7
UNBOUNDED = 1 << 50
MIB = 1 << 20


def sketch(width: int) -> PairTable:
    """An empty table that is a sketch from the start."""
    empty = np.zeros((SKETCH_ROWS, width), dtype=np.uint8)
    return PairTable.from_arrays({"sketch": empty}, empty.nbytes)


def expected_collisions(pairs: int, width: int) -> float:
    """Share of unseen pairs whose place is taken in all four rows."""
    return (1.0 - math.exp(-pairs / width)) ** SKETCH_ROWS


class TableRule(DefaultCorpusRule):
    """The ingest rule with a table of one's own.

    :param table: empty; it is not changed, its counts are in the scan's knowledge.
    """

    def __init__(self, table: PairTable) -> None:
        super().__init__()
        self._table = table

    def measure(
        self, contents: Sequence[str], graph: NeighborGraph, declared: Sequence[Provenance]
    ) -> Measurement:
        """Learn the corpus with this table, then judge every document of it."""
        vocabulary = Vocabulary()
        features = self.read(contents, vocabulary, declared)
        counts = TokenCounts((), 0, np.empty(0, np.int64), self._table)
        counts = counts.extended(vocabulary.tokens, features.tokens)
        return self.judge(contents, self.learn(features, counts, graph))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A scan that used one table.

    :param aliens: alien tokens, documents end to end.
    :param runs: shape (V,), nats.
    """

    knowledge: CorpusKnowledge
    aliens: npt.NDArray[np.bool_]
    runs: npt.NDArray[np.float64]
    scores: npt.NDArray[np.float64]
    flagged: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, case: Case, graph: NeighborGraph, table: PairTable) -> Judged:
        """The index by the counts of this table."""
        scan = CorpusDetector(TableRule(table)).scan_graph(case.documents, graph)
        knowledge = scan.knowledge
        assert isinstance(knowledge, CorpusKnowledge)  # noqa: S101 -- profile default's
        tokens, counts = knowledge.features.tokens, knowledge.statistics.counts
        glue, counted = counts.glue(), np.ones(len(tokens), dtype=np.bool_)
        near = graph.indices[:, :EXCLUDED_NEIGHBORS]
        aliens = [
            alien_flags(tokens, row, near[row], counts, glue, counted=counted)
            for row in range(len(tokens))
        ]
        return cls(
            knowledge=knowledge,
            aliens=np.concatenate(aliens),
            runs=np.array([run.ratio_nats for run in knowledge.runs]),
            scores=scan.scores,
            flagged=np.array([one is Decision.FLAGGED for one in scan.decisions]),
        )


def print_corpus(case: Case, clean_size: int) -> None:
    """The exact table against sketches on a real corpus."""
    graph = cosine_knn(case.rows, DefaultCorpusRule().neighbors)
    exact = Judged.of(case, graph, PairTable(UNBOUNDED))
    tokens, size = exact.knowledge.features.tokens, len(case.documents)
    keys = np.unique(pairs_of(tokens))
    truth = exact.knowledge.statistics.counts.pairs.counts(keys)
    print(
        f"{size} documents ({case.attack}, {case.count} a target), {tokens.values.size / size:.0f} "
        f"tokens each on average; {keys.size} distinct pairs, {keys.size / size:.0f} a document\n"
    )
    print(
        "| table | KiB | pairs / width | too high | aliens lost | fall, rise of a run, nats ",
        end="",
    )
    print("| AUROC | found | clean | flags lost | gained |\n|---|---:" + "|---:" * 9 + "|")
    for width in (0, *CORPUS_WIDTHS):
        one = Judged.of(case, graph, sketch(width)) if width else exact
        pairs = one.knowledge.statistics.counts.pairs
        changed = (one.aliens != exact.aliens).sum() / exact.aliens.sum()
        cells = [
            "sketch" if width else "exact",
            f"{pairs.used_bytes / 1024:.0f}",
            f"{keys.size / width:.2f}" if width else "-",
            f"{(pairs.counts(keys) > truth).mean():.4f}",
            f"{changed:.4f}",
            f"{(exact.runs - one.runs).max():.1f}, {(one.runs - exact.runs).max():.1f}",
            f"{auroc(one.scores[clean_size:], one.scores[:clean_size]):.3f}",
            f"{one.flagged[clean_size:].mean():.3f}",
            f"{one.flagged[:clean_size].mean():.3f}",
            f"{(exact.flagged & ~one.flagged).sum()}",
            f"{(one.flagged & ~exact.flagged).sum()}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def zipf_documents(first: int, stop: int, seed: int) -> Iterator[Ragged]:
    """Synthetic documents from number ``first`` to ``stop`` (exclusive), in batches."""
    bounds = np.cumsum(1.0 / np.arange(1, VOCABULARY + 1))
    bounds /= bounds[-1]
    for start in range(first, stop, BATCH):
        rng = np.random.default_rng((seed, start))
        size = min(BATCH, stop - start)
        values = np.searchsorted(bounds, rng.random(size * TOKENS)).astype(np.int32)
        yield Ragged(values, np.arange(size + 1) * TOKENS)


def pairs_of(documents: Ragged) -> Keys:
    """The distinct pairs of each document, end to end."""
    return np.concatenate([distinct_pairs(documents, row) for row in range(len(documents))])


def print_synthetic(sizes: list[int], memories: list[int]) -> None:
    """The table within a bound on synthetic corpora that grow."""
    print(f"\n{TOKENS} tokens a document from {VOCABULARY}, Zipf, seed {SEED}\n")
    print("| documents | distinct pairs | exact, MiB | allowed, MiB | table | used, MiB ", end="")
    print("| too high | familiar | predicted | s / 1,000 documents |\n|---:" + "|---:" * 9 + "|")
    sizes = sorted(sizes)
    exact = PairTable(UNBOUNDED)
    tables = [PairTable(memory * MIB) for memory in memories]
    seconds = [0.0] * len(tables)
    fresh = np.unique(pairs_of(next(zipf_documents(0, SAMPLE, SEED + 1))))
    known = np.empty(0, np.uint64)
    done = 0
    for size in sizes:
        for documents in zipf_documents(done, size, SEED):
            start = time.perf_counter()
            keys = pairs_of(documents)
            finding = time.perf_counter() - start
            if not known.size:
                known = np.unique(pairs_of(documents.rows(0, min(SAMPLE, len(documents)))))
            exact.add(keys)
            for place, table in enumerate(tables):
                start = time.perf_counter()
                table.add(keys)
                seconds[place] += finding + time.perf_counter() - start
        done = size
        pairs = exact.used_bytes // 10
        unseen = fresh[exact.counts(fresh) == 0]
        truth = exact.counts(known)
        for place, table in enumerate(tables):
            width = table.used_bytes // SKETCH_ROWS
            cells = [
                f"{size:,}",
                f"{pairs:,}",
                f"{exact.used_bytes / MIB:.0f}",
                f"{memories[place]}",
                "exact" if table.exact else "sketch",
                f"{table.used_bytes / MIB:.0f}",
                f"{(table.counts(known) > truth).mean():.5f}",
                f"{(table.counts(unseen) > 0).mean():.5f}",
                "0" if table.exact else f"{expected_collisions(pairs, width):.5f}",
                f"{1000 * seconds[place] / size:.3f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


def parsed_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, help="folder of a real set")
    parser.add_argument("--encoder", choices=ENCODERS, default="embedded")
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/benchmarks"))
    parser.add_argument("--attack", choices=ATTACKS, default="pr_w_contriever")
    parser.add_argument("--count", type=int, default=5, help="documents a target")
    parser.add_argument("--documents", nargs="*", type=int, default=SIZES)
    parser.add_argument("--memory-mib", nargs="+", type=int, default=[MEMORY_BYTES // MIB, 64])
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    if options.bench:
        bench = load_bench(options)
        print(bench.embedder.identity)
        print_corpus(Case.of(bench, options.attack, options.count, TARGETS), len(bench.corpus))
    if options.documents:
        print_synthetic(list(options.documents), options.memory_mib)


if __name__ == "__main__":
    main()
