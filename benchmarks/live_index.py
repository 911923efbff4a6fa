"""What a change to a live index costs against a scan of all documents.

    python benchmarks/live_index.py [--quick] [--json] [--documents N] [--dimension D]
        [--profiles NAME ...]

A corpus is scanned and taken over; then batches of a thousandth of its documents (100 for
100,000) are added, one is removed and one updated. *Share* is the median time of adding a batch
and scanning the index afterwards, over that of the scans of all documents before and after, median
of the two. What an estimate of the statistics of profile ``default`` costs, and writing a version
to disk, are reported beside it and not in it. *Equal* says that the last scan of the live index
gives every document the decision, the score and the neighbours that the scan of all gives; for
``default`` under the statistics in force.

Half of the vectors lie in clusters of fifty (spread as wide as their centres lie apart), the other
half anywhere; every hundredth document is planted close to its predecessor. Texts are 100 words
drawn by Zipf's law (exponent 1.3, 200,000 words) from a fixed seed, so that most pairs of words are
rare, as in text.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from ragsieve.detectors.corpus import judged
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.evidence.knn import cosine_knn
from ragsieve.features.statistics import CorpusStatistics
from ragsieve.live.index import LiveIndex, Rule
from ragsieve.live.store import LiveStore
from ragsieve.records import Decision, Document, Scan

Found = TypeVar("Found")
DOCUMENTS, DIMENSION = 100_000, 384
QUICK_DOCUMENTS = {"paper": 12_000, "default": 3_000}
PART = 1_000
BATCHES = 5
CLUSTER = 50
WORDS, VOCABULARY, EXPONENT = 100, 200_000, 1.3
RULES: dict[str, type[PaperCorpusRule] | type[DefaultCorpusRule]] = {
    "paper": PaperCorpusRule,
    "default": DefaultCorpusRule,
}


@dataclasses.dataclass(frozen=True, slots=True)
class LiveFigures:
    """What changes cost one profile.

    :param batch: documents added, removed or updated at a time.
    :param live_add_share: median of adding a batch and scanning, over a scan of all.
    :param estimate_seconds: of estimating the statistics anew; None for ``paper``.
    :param kept_add_seconds: of adding a batch and keeping it on disk, without a scan.
    :param touched: documents whose neighbours an added batch changed, median.
    """

    profile: str
    documents: int
    dimension: int
    batch: int
    full_scan_seconds: float
    add_seconds: float
    remove_seconds: float
    update_seconds: float
    estimate_seconds: float | None
    kept_add_seconds: float | None
    touched: float
    live_add_share: float
    decisions_equal: bool


def live_figures(*, quick: bool, profile: str = "paper") -> LiveFigures:
    """The figures of one profile; quick ones are of a smaller corpus."""
    documents = QUICK_DOCUMENTS[profile] if quick else DOCUMENTS
    return measured(profile, documents, DIMENSION, store=not quick)


def measured(profile: str, documents: int, dimension: int, *, store: bool) -> LiveFigures:
    """The figures of one profile on a corpus of a given size."""
    source = _Source(documents, dimension)
    rule = RULES[profile]()
    batch = max(1, documents // PART)
    base = source.take(documents)
    names = [one.id for one in base[0]]
    corpus = {one.id: (one, row) for one, row in zip(*base, strict=True)}
    first, scan = _timed(lambda: _full(rule, *base, None))
    index = LiveIndex(rule, drift_share=1.0)
    index.add(*base, graph=scan.graph)
    added, touched = [], []
    for _ in range(BATCHES):
        fresh = source.take(batch)
        spent, change = _timed(lambda fresh=fresh: (index.add(*fresh), index.scan())[0])
        added.append(spent)
        touched.append(change.touched)
        corpus |= {one.id: (one, row) for one, row in zip(*fresh, strict=True)}
    gone = names[batch : 2 * batch]
    removed, _ = _timed(lambda: (index.remove(gone), index.scan()))
    fresh = source.take(batch, names[:batch])
    updated, _ = _timed(lambda: (index.update(*fresh), index.scan()))
    for name in [*gone, *names[:batch]]:
        del corpus[name]
    corpus |= {one.id: (one, row) for one, row in zip(*fresh, strict=True)}
    kept = [one for one, _ in corpus.values()], np.array([row for _, row in corpus.values()])
    second, whole = _timed(lambda: _full(rule, *kept, index.statistics))
    equal = _equal(index.scan(), whole)
    estimate = _timed(index.estimate)[0] if profile == "default" else None
    full = statistics.median([first, second])
    add = statistics.median(added)
    return LiveFigures(
        profile=profile,
        documents=documents,
        dimension=dimension,
        batch=batch,
        full_scan_seconds=full,
        add_seconds=add,
        remove_seconds=removed,
        update_seconds=updated,
        estimate_seconds=estimate,
        kept_add_seconds=_written(rule, kept, whole, source.take(batch)) if store else None,
        touched=statistics.median(touched),
        live_add_share=add / full,
        decisions_equal=equal,
    )


class _Source:
    """Documents and vectors from a fixed seed."""

    def __init__(self, documents: int, dimension: int) -> None:
        self._rng = np.random.default_rng(7)
        shape = max(1, documents // (2 * CLUSTER)), dimension
        self._centres = self._rng.normal(size=shape).astype(np.float32)
        self._made = 0

    def take(self, count: int, names: list[str] | None = None) -> tuple[list[Document], np.ndarray]:
        """New documents and their rows."""
        rng, dimension = self._rng, self._centres.shape[1]
        rows = rng.standard_normal((count, dimension), dtype=np.float32)
        rows[::2] += self._centres[rng.integers(len(self._centres), size=len(rows[::2]))]
        close = np.arange(99, count, 100)
        rows[close] = rows[close - 1] + 0.3 * rows[close]
        drawn = np.minimum(rng.zipf(EXPONENT, size=(count, WORDS)), VOCABULARY)
        texts = [" ".join([f"w{number}" for number in one]) for one in drawn.tolist()]
        made = [
            Document(f"d{self._made + place}" if names is None else names[place], text)
            for place, text in enumerate(texts)
        ]
        self._made += count if names is None else 0
        return made, rows


def _full(
    rule: Rule, documents: list[Document], rows: np.ndarray, held: CorpusStatistics | None
) -> Scan:
    """A scan of all documents; under an earlier estimate when one is given."""
    graph = cosine_knn(rows, rule.neighbors)
    contents = [document.content for document in documents]
    declared = [document.provenance for document in documents]
    found = (
        rule.measure(contents, graph, declared, held)
        if isinstance(rule, DefaultCorpusRule)
        else rule.measure(contents, graph, declared)
    )
    names = tuple(document.id for document in documents)
    return judged(rule, names, graph, found, np.zeros(len(names), dtype=np.int64))


def _equal(live: Scan, whole: Scan) -> bool:
    flagged = [one is Decision.FLAGGED for one in live.decisions]
    return (
        live.document_ids == whole.document_ids
        and flagged == [one is Decision.FLAGGED for one in whole.decisions]
        and np.array_equal(live.scores, whole.scores)
        and np.array_equal(live.graph.indices, whole.graph.indices)
    )


def _written(
    rule: Rule,
    kept: tuple[list[Document], np.ndarray],
    scan: Scan,
    fresh: tuple[list[Document], np.ndarray],
) -> float:
    """Seconds of adding a batch and keeping it on disk."""
    with tempfile.TemporaryDirectory() as folder:
        store = LiveStore.create(Path(folder) / "live", rule)
        with store.writer(drift_share=1.0) as live:
            live.index.add(*kept, graph=scan.graph)
            live.remove([kept[0][0].id])  # the first version is a whole one
            return _timed(lambda: live.add(*fresh))[0]


def _timed(run: Callable[[], Found]) -> tuple[float, Found]:
    start = time.perf_counter()
    found = run()
    return time.perf_counter() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--documents", type=int)
    parser.add_argument("--dimension", type=int, default=DIMENSION)
    parser.add_argument("--profiles", nargs="+", choices=list(RULES), default=list(RULES))
    options = parser.parse_args()
    found = []
    for profile in options.profiles:
        size = options.documents or (QUICK_DOCUMENTS[profile] if options.quick else DOCUMENTS)
        found.append(measured(profile, size, options.dimension, store=not options.quick))
    if options.json:
        print(json.dumps({one.profile: dataclasses.asdict(one) for one in found}, indent=1))
        return
    print("| profile | documents | batch | full s | add s | share | estimate s | equal |")
    print("|---|---|---|---|---|---|---|---|")
    for one in found:
        estimate = "-" if one.estimate_seconds is None else f"{one.estimate_seconds:.2f}"
        print(
            f"| {one.profile} | {one.documents:,} | {one.batch} | {one.full_scan_seconds:.1f} "
            f"| {one.add_seconds:.3f} | {one.live_add_share:.2%} | {estimate} "
            f"| {one.decisions_equal} |"
        )


if __name__ == "__main__":
    main()
