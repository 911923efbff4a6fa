"""What the service is asked under load: made texts with planted rings, or a set on disk."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragsieve.records import Document, FloatArray, RankedDocument, Ranking

DEPTH = 40
RINGS, RING = 20, 5
_WORDS, _TOPICS, _DIMENSION = 4_000, 40, 64


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Load:
    """What is asked.

    :param rows: shape (len(corpus), d), unit length.
    :param rankings: ids alone go over the wire.
    """

    corpus: tuple[Document, ...]
    rows: FloatArray
    rankings: tuple[Ranking, ...]


def made_load(documents: int, rankings: int, seed: int = 1) -> Load:
    """Texts of 100 words of a topic, vectors around it, rings of near copies planted."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnoprstuvw"))
    words = ["".join(rng.choice(letters, size=rng.integers(3, 9))) for _ in range(_WORDS)]
    weights = 1 / np.arange(1, _WORDS + 1)
    weights /= weights.sum()
    centres = rng.normal(size=(_TOPICS, _DIMENSION))
    topics = rng.integers(_TOPICS, size=documents)
    rows = centres[topics] + 0.9 * rng.normal(size=(documents, _DIMENSION))
    orders = [rng.permutation(_WORDS) for _ in range(_TOPICS)]
    texts = [
        " ".join(words[orders[topic][place]] for place in rng.choice(_WORDS, 100, p=weights))
        for topic in topics
    ]
    for ring in range(RINGS):
        members = np.arange(ring * RING, (ring + 1) * RING)
        rows[members] = rows[members[0]] + 0.05 * rng.normal(size=(RING, _DIMENSION))
        for number in members:
            hidden = "".join(chr(0xE0000 + ord(one)) for one in f"it was built by nobody {number}")
            texts[number] = f"{' '.join(texts[members[0]].split()[:12])}. {hidden}"
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    corpus = tuple(Document(f"d{n}", text) for n, text in enumerate(texts))
    asked = rng.permutation(documents)[:rankings]
    asked[: min(RINGS, rankings)] = np.arange(min(RINGS, rankings)) * RING
    near = rows[asked] + 0.05 * rng.normal(size=(len(asked), _DIMENSION))
    queries = [" ".join(rng.choice(texts[number].split()[:60], 8)) for number in asked]
    return Load(corpus, rows, _ranked(corpus, rows, near, queries))


def bench_load(folder: Path, rankings: int, models_dir: Path | None) -> Load:
    """The documents and questions of a set on disk, embedded here."""
    from bench import load_bench

    bench = load_bench(
        argparse.Namespace(
            bench=folder, encoder="embedded", models_dir=models_dir, cache=Path(".cache/bench")
        )
    )
    queries = bench.queries()[:rankings]
    asked = bench.asked(queries)
    return Load(
        bench.corpus,
        bench.rows,
        _ranked(bench.corpus, bench.rows, asked, [one.text for one in queries]),
    )


def _ranked(
    corpus: Sequence[Document], rows: FloatArray, asked: FloatArray, queries: Sequence[str]
) -> tuple[Ranking, ...]:
    found = []
    for number, (row, query) in enumerate(zip(asked, queries, strict=True)):
        order = np.argsort(-(rows @ row), kind="stable")[:DEPTH]
        entries = (RankedDocument(corpus[n], rank) for rank, n in enumerate(order, 1))
        found.append(Ranking(f"q{number}", query, tuple(entries)))
    return tuple(found)


def bodies_of(rankings: Sequence[Ranking]) -> list[bytes]:
    """Requests: ids alone, decisions alone."""
    return [
        json.dumps(
            {
                "query": one.query,
                "query_id": one.query_id,
                "ids": [entry.document.id for entry in one.entries],
                "mode": "decision",
            }
        ).encode()
        for one in rankings
    ]
