"""What a scan reads off the texts of a sharded corpus, shard by shard, then put together.

Every shard is read with a vocabulary of its own. Put together, numbers and counts are those of
reading all texts in one go, to the last one.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ragsieve.cluster.executors import Executor
from ragsieve.cluster.parquet import read_documents
from ragsieve.cluster.shards import Shard
from ragsieve.errors import InputError
from ragsieve.evidence.tokens import tokens as tokens_of
from ragsieve.features.origins import Origins
from ragsieve.features.pairs import Keys, PairTable
from ragsieve.features.paper import PaperFeatures, paper_features
from ragsieve.features.ragged import Ragged
from ragsieve.features.statistics import TokenCounts
from ragsieve.features.text import TextFeatures
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.records import Document, Provenance

# Reads texts, and what they declare, with a vocabulary that grows by what is new in them.
ReadTexts = Callable[[Sequence[str], Vocabulary, Sequence[Provenance]], TextFeatures]

Features = TypeVar("Features")

_REPEATED = 4_000_000
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


@dataclasses.dataclass(frozen=True, slots=True)
class PaperTexts:
    """What profile ``paper`` needs of all texts.

    :param truncated_characters: shape (V,), characters at a text's end that were not examined.
    """

    document_ids: tuple[str, ...]
    features: PaperFeatures
    truncated_characters: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class LearnedTexts:
    """What profile ``default`` needs of all texts.

    :param counts: of exactly these texts; its vocabulary numbers ``features``.
    :param truncated_characters: shape (V,), characters at a text's end that were not examined.
    """

    document_ids: tuple[str, ...]
    features: TextFeatures
    counts: TokenCounts
    truncated_characters: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    """One shard's texts.

    :param words: the shard's vocabulary.
    :param found: how many of them stand in a text; the rest was derived from those.
    """

    document_ids: tuple[str, ...]
    truncated_characters: npt.NDArray[np.int64]
    words: tuple[str, ...]
    found: int


def paper_texts(
    shards: Sequence[Shard],
    executor: Executor,
    *,
    max_characters: int,
    progress: Callable[[int], None] | None = None,
) -> PaperTexts:
    """Words and scripts of every text.

    :param shards: Parquet files with columns ``id`` and ``text``.
    :param max_characters: of a text that are examined.
    :param progress: called with the rows of each shard that was read.
    :raises InputError: when a shard has no texts, or an id stands twice.
    """
    task = functools.partial(_read_paper, max_characters)
    found = _gathered(executor, task, shards, progress)
    _, numbers = _numbered([read for read, _ in found])
    features = PaperFeatures(
        _renumbered([one.words for _, one in found], numbers, sort=True),
        np.concatenate([one.integrity for _, one in found]),
    )
    return PaperTexts(_ids(found), features, _truncated(found))


def learned_texts(
    shards: Sequence[Shard],
    read: ReadTexts,
    executor: Executor,
    *,
    max_characters: int,
    pair_memory_bytes: int,
    progress: Callable[[int], None] | None = None,
) -> LearnedTexts:
    """Features of every text, and how many texts hold each token and each pair of tokens.

    :param shards: Parquet files with columns ``id`` and ``text``.
    :param read: the rule's reader, picklable.
    :param max_characters: of a text that are examined.
    :param pair_memory_bytes: bound on the table of pairs of all texts; a worker's table of one
        shard has none.
    :param progress: called with the rows of each shard that was read.
    :raises InputError: when a shard has no texts, or an id stands twice.
    """
    task = functools.partial(_read_learned, read, max_characters)
    found = _gathered(executor, task, shards, progress)
    vocabulary, numbers = _numbered([one for one, _ in found])
    parts = [one for _, (one, _) in found]
    features = TextFeatures(
        tokens=_renumbered([one.tokens for one in parts], numbers, sort=False),
        words=_renumbered([one.words for one in parts], numbers, sort=True),
        questions=np.concatenate([one.questions for one in parts]),
        mixing=np.concatenate([one.mixing for one in parts]),
        hidden=np.concatenate([one.hidden for one in parts]),
        origins=Origins(
            tuple(name for one in parts for name in one.origins.sources),
            tuple(name for one in parts for name in one.origins.authors),
            np.concatenate([one.origins.days for one in parts]),
        ),
    )
    frequencies = np.zeros(len(vocabulary), dtype=np.int64)
    pairs = PairTable(pair_memory_bytes)
    for (_, (_, counts)), own in zip(found, numbers, strict=True):
        frequencies[own] += counts.frequencies
        _add_pairs(pairs, counts.pairs, own)
    counts = TokenCounts(vocabulary.tokens, len(features), frequencies, pairs)
    return LearnedTexts(_ids(found), features, counts, _truncated(found))


def _read_paper(max_characters: int, shard: Shard) -> tuple[_Read, PaperFeatures]:
    documents, contents, excess = _contents(shard, max_characters)
    vocabulary = Vocabulary()
    features = paper_features(contents, vocabulary)
    words = vocabulary.tokens
    return _Read(_names(documents), excess, words, len(words)), features


def _read_learned(
    read: ReadTexts, max_characters: int, shard: Shard
) -> tuple[_Read, tuple[TextFeatures, TokenCounts]]:
    documents, contents, excess = _contents(shard, max_characters)
    vocabulary = Vocabulary()
    features = read(contents, vocabulary, [one.provenance for one in documents])
    words = vocabulary.tokens
    # Exact whatever its size: a sketch of one shard's numbers says nothing about another's.
    counts = TokenCounts.empty(sys.maxsize).extended(words, features.tokens)
    return _Read(_names(documents), excess, words, _found(words, contents)), (features, counts)


def _contents(
    shard: Shard, max_characters: int
) -> tuple[list[Document], list[str], npt.NDArray[np.int64]]:
    path = Path(shard.path)
    if path.suffix != ".parquet":
        raise InputError(f"{path}: expected a Parquet file with columns id and text")
    documents = read_documents(path)
    if len(documents) != shard.rows:
        raise InputError(f"{path}: expected {shard.rows} rows, found {len(documents)}")
    contents = [one.content for one in documents]
    excess = np.array([max(0, len(text) - max_characters) for text in contents], dtype=np.int64)
    return documents, [text[:max_characters] for text in contents], excess


def _found(words: Sequence[str], contents: Sequence[str]) -> int:
    """How many words of a vocabulary stand in a text: readers add derived ones at the end."""
    count = len(words)
    while count:
        last = words[count - 1]
        if any(last in text.casefold() and last in tokens_of(text) for text in reversed(contents)):
            return count
        count -= 1
    return count


def _gathered(
    executor: Executor,
    task: Callable[[Shard], tuple[_Read, Features]],
    shards: Sequence[Shard],
    progress: Callable[[int], None] | None,
) -> list[tuple[_Read, Features]]:
    """What was read off each shard, in row order."""
    results = {}
    for number, result in executor.run(task, shards):
        results[number] = result
        if progress is not None:
            progress(shards[number].rows)
    return [results[number] for number in range(len(shards))]


def _numbered(read: Sequence[_Read]) -> tuple[Vocabulary, list[npt.NDArray[np.int32]]]:
    """One vocabulary for all shards, and the number of each shard's words in it.

    Its order is that of reading all texts in one go: what stands in them by first appearance,
    then what was derived.
    """
    vocabulary = Vocabulary()
    for one in read:
        vocabulary.numbers(one.words[: one.found])
    return vocabulary, [vocabulary.ids(one.words) for one in read]


def _renumbered(
    parts: Sequence[Ragged], numbers: Sequence[npt.NDArray[np.int32]], *, sort: bool
) -> Ragged:
    """The rows of all shards end to end, by the common vocabulary.

    :param sort: whether rows are sets of numbers, kept sorted.
    """
    moved = []
    for part, own in zip(parts, numbers, strict=True):
        values = own[part.values]
        if sort:
            rows = np.repeat(np.arange(len(part)), part.lengths)
            moved.append(Ragged.distinct(values, rows, len(part)))
        else:
            moved.append(Ragged(values, part.offsets))
    lengths = np.concatenate([one.lengths for one in moved])
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return Ragged(np.concatenate([one.values for one in moved]), offsets)


def _add_pairs(pairs: PairTable, shard: PairTable, own: npt.NDArray[np.int32]) -> None:
    """Count a shard's pairs, each as often as it was counted there."""
    arrays = shard.arrays()
    keys: Keys = arrays["keys"].astype(np.uint64)
    times = arrays["counts"].astype(np.int64)
    wide = own.astype(np.uint64)
    keys = (wide[keys >> _HIGH] << _HIGH) | wide[keys & _LOW]
    ends = np.cumsum(times)
    last = int(ends[-1]) if ends.size else 0
    cuts = np.searchsorted(ends, np.arange(_REPEATED, last, _REPEATED))
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), keys.size], strict=True):
        pairs.add(np.repeat(keys[start:stop], times[start:stop]))


def _names(documents: Iterable[Document]) -> tuple[str, ...]:
    return tuple(one.id for one in documents)


def _ids(found: Iterable[tuple[_Read, object]]) -> tuple[str, ...]:
    names = tuple(name for read, _ in found for name in read.document_ids)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"id {name!r} stands in the shards twice; ids are unique")
        seen.add(name)
    return names


def _truncated(found: Iterable[tuple[_Read, object]]) -> npt.NDArray[np.int64]:
    return np.concatenate([read.truncated_characters for read, _ in found])
