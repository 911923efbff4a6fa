"""What an index of overlapping chunks costs: clean flags of documents against those of chunks.

    python benchmarks/chunks.py --bench DIR [--profile NAME] [--encoder NAME]

The corpus is cut into windows of 60 words, each beginning 45 words after the last; the title is
part of the first window only. Chunks are scanned once with their document's id as the declared
source and once without a source. Nothing is planted, so every flag is a false one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from bench import embedded, load_bench, shared_options
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.records import Decision, Document, FloatArray, Provenance

WINDOW = 60
STEP = 45


def chunks_of(document: Document) -> tuple[Document, ...]:
    """Windows over the document's content; the last may be shorter, never only overlap."""
    words = document.content.split()
    starts = range(0, max(1, len(words) - (WINDOW - STEP)), STEP)
    return tuple(
        Document(
            id=f"{document.id}#{number}",
            text=" ".join(words[start : start + WINDOW]),
            provenance=Provenance(source=document.id),
        )
        for number, start in enumerate(starts)
    )


def print_flags(
    name: str, detector: CorpusDetector, documents: Sequence[Document], rows: FloatArray
) -> None:
    scan = detector.scan(documents, rows)
    flags = np.array([decision is Decision.FLAGGED for decision in scan.decisions])
    sources = {
        document.id.partition("#")[0]
        for document, flagged in zip(documents, flags.tolist(), strict=True)
        if flagged
    }
    print(f"{name:<28}{len(documents):>8}{flags.mean():>10.3f}{len(sources):>10}", flush=True)


def main() -> None:
    parser = shared_options("Clean flags of documents against clean flags of chunks.")
    parser.add_argument("--profile", default="default")
    options = parser.parse_args()
    bench = load_bench(options)
    chunks = [chunk for document in bench.corpus for chunk in chunks_of(document)]
    rows = embedded(bench.embedder, chunks, options.cache)
    unsourced = [dataclasses.replace(chunk, provenance=Provenance()) for chunk in chunks]
    detector = CorpusDetector(options.profile)
    print(f"profile {detector.profile}, {bench.embedder.identity}")
    print(f"{'':<28}{'judged':>8}{'flagged':>10}{'sources':>10}")
    print_flags("documents", detector, bench.corpus, bench.rows)
    print_flags("chunks with a source", detector, chunks, rows)
    print_flags("chunks without a source", detector, unsourced, rows)


if __name__ == "__main__":
    main()
