"""What a language model adds to the ingest scan: alien runs screened low, then confirmed.

    python benchmarks/confirmation.py --bench DIR [--encoder NAME] [--timed N]

All targets of an attack are poisoned at once and the index is scanned twice: without a language
model, and with the embedded SmolLM2-135M, which reads the documents whose flag hangs on an alien
run above the lower threshold and confirms it at a peak surprisal of .72 ln V.

Losses are kept in the cache by model and text. Seconds per document are therefore measured apart:
the first documents that were read for the clean corpus are scored once more, past the cache.
Prints Markdown tables.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench import load_bench, shared_options
from detection import Case
from ragsieve.assembly import causal_scorer
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import ALIEN_RUN, CONFIRMATION, DefaultCorpusRule
from ragsieve.ports import CausalScorer
from ragsieve.records import Decision, FloatArray, Level, Scan
from ragsieve.settings import load_settings

CASES = (("pr_w_contriever", 1), ("pr_w_contriever", 5), ("natural", 5))
TIMED = 16


class CachedScorer:
    """A :class:`ragsieve.ports.CausalScorer` with its losses on disk.

    :param folder: where they are kept, one file a text.
    """

    def __init__(self, scorer: CausalScorer, folder: Path) -> None:
        self.scorer = scorer
        self._folder = folder
        self.asked: list[str] = []

    @property
    def identity(self) -> str:
        """The wrapped scorer's."""
        return self.scorer.identity

    @property
    def vocabulary_size(self) -> int:
        """The wrapped scorer's."""
        return self.scorer.vocabulary_size

    def losses(self, texts: Sequence[str]) -> list[FloatArray]:
        """Losses in nats; texts that are not on disk are scored one at a time."""
        self.asked += texts
        return [self._of(text) for text in texts]

    def _of(self, text: str) -> FloatArray:
        digest = hashlib.sha256(f"{self.identity}\0{text}".encode()).hexdigest()
        path = self._folder / f"{digest[:24]}.npy"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            half = path.with_suffix(f".{os.getpid()}.npy")
            np.save(half, self.scorer.losses([text])[0])
            half.replace(path)
        found: FloatArray = np.load(path)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Shares:
    """One scan, as shares of the planted and of the clean documents.

    :param read: of documents the language model was asked about.
    :param flagged: by the fixed rule.
    :param held: flagged at level quarantine.
    """

    read: tuple[float, float]
    flagged: tuple[float, float]
    held: tuple[float, float]

    @classmethod
    def of(cls, scan: Scan, clean_size: int) -> Shares:
        """Clean documents come first."""
        peaks = dict(scan.column(ALIEN_RUN).components)[CONFIRMATION]
        flags = np.array([one is Decision.FLAGGED for one in scan.decisions])
        strong = np.array([one is Level.QUARANTINE for one in scan.levels])
        return cls(
            read=_shares(~np.isnan(peaks), clean_size),
            flagged=_shares(flags, clean_size),
            held=_shares(flags & strong, clean_size),
        )


def _shares(marks: npt.NDArray[np.bool_], clean_size: int) -> tuple[float, float]:
    planted = marks[clean_size:]
    return float(planted.mean()) if planted.size else float("nan"), float(marks[:clean_size].mean())


def _cell(planted_and_clean: tuple[float, float]) -> str:
    return " / ".join("-" if np.isnan(one) else f"{one:.3f}" for one in planted_and_clean)


def seconds_a_document(scorer: CausalScorer, texts: Sequence[str]) -> float:
    """Time for one text at a time, past every cache, after one to warm up."""
    scorer.losses(["The first text a model reads is slow."])
    start = time.perf_counter()
    for text in texts:
        scorer.losses([text])
    return (time.perf_counter() - start) / len(texts)


def main() -> None:
    parser = shared_options("Alien runs with and without a language model that confirms them.")
    parser.add_argument("--timed", type=int, default=TIMED, help="documents to time; 0 for none")
    options = parser.parse_args()
    bench = load_bench(options)
    settings = load_settings(models_dir=options.models_dir, models={"causal": "embedded"})
    model = causal_scorer(settings)
    if model is None:
        raise SystemExit("the embedded causal model is not here; see `ragsieve models`")
    scorer = CachedScorer(model, options.cache / "losses")
    print(f"{len(bench.corpus)} documents, {bench.embedder.identity}\n{scorer.identity}\n")
    print("planted / clean documents, as shares\n")
    print("| attack | n | alone: flagged | quarantine | read | confirmed: flagged | quarantine |")
    print("|---|---:|---|---|---|---|---|")
    cases = [Case.clean(bench), *(Case.of(bench, name, n, 100) for name, n in CASES)]
    size = len(bench.corpus)
    read: list[str] = []
    for case in cases:
        alone = Shares.of(CorpusDetector("default").scan(case.documents, case.rows), size)
        scorer.asked = []
        rule = DefaultCorpusRule(causal=scorer)
        both = Shares.of(CorpusDetector(rule).scan(case.documents, case.rows), size)
        read = read or scorer.asked
        cells = [alone.flagged, alone.held, both.read, both.flagged, both.held]
        row = " | ".join(_cell(one) for one in cells)
        print(f"| {case.attack} | {case.count} | {row} |", flush=True)
    timed = read[: options.timed]
    if timed:
        words = np.mean([len(text.split()) for text in timed])
        # The memory in front of the model would answer at once: ask a model that knows nothing.
        fresh = causal_scorer(settings)
        if fresh is not None:
            seconds = seconds_a_document(fresh, timed)
            print(f"\n{seconds:.2f} s a document read ({len(timed)} of {words:.0f} words)")


if __name__ == "__main__":
    main()
