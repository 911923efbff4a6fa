"""What a corpus is like: everyday words, pairs of tokens, and where its bulk lies."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.concentration import Habits
from ragsieve.evidence.tails import Bulk
from ragsieve.features.pairs import Keys, PairTable, pair_keys
from ragsieve.features.ragged import Ragged, chunks

# Raise it when the same corpus starts to give other statistics.
VERSION = 1
GLUE_TOKENS = 100
EXCLUDED_NEIGHBORS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class TokenCounts:
    """Document frequencies of a corpus.

    :param vocabulary: tokens by number.
    :param documents: documents counted.
    :param frequencies: shape (len(vocabulary),), documents that hold each token among
        their first 600.
    :param pairs: documents that hold each pair of neighbouring tokens.
    """

    vocabulary: tuple[str, ...]
    documents: int
    frequencies: npt.NDArray[np.int64]
    pairs: PairTable

    def everyday(self) -> tuple[str, ...]:
        """The corpus's glue: the 100 tokens in most documents, ties by the token."""
        if not self.frequencies.any():
            return ()
        fewest = 1
        if self.frequencies.size > GLUE_TOKENS:
            fewest = max(1, int(np.partition(self.frequencies, -GLUE_TOKENS)[-GLUE_TOKENS]))
        close = np.flatnonzero(self.frequencies >= fewest).tolist()
        order = sorted(
            close, key=lambda number: (-int(self.frequencies[number]), self.vocabulary[number])
        )
        return tuple(self.vocabulary[number] for number in order[:GLUE_TOKENS])

    def marks(self, chosen: Collection[str]) -> npt.NDArray[np.bool_]:
        """Which tokens are among the chosen ones.

        :returns: shape (len(vocabulary),).
        """
        wanted = frozenset(chosen)
        return np.array([token in wanted for token in self.vocabulary], dtype=np.bool_)

    def glue(self) -> npt.NDArray[np.bool_]:
        """Which tokens are the corpus's everyday ones, shape (len(vocabulary),)."""
        return self.marks(self.everyday())

    def extended(self, vocabulary: tuple[str, ...], tokens: Ragged) -> TokenCounts:
        """These counts with further documents in them.

        :param vocabulary: this one's tokens, then the new ones.
        :param tokens: the documents to count.
        """
        frequencies = np.zeros(len(vocabulary), dtype=np.int64)
        frequencies[: self.frequencies.size] = self.frequencies
        pairs = self.pairs.copy()
        for start, stop in chunks(tokens.offsets):
            part = tokens.rows(start, stop)
            rows = np.repeat(np.arange(len(part)), part.lengths)
            frequencies += np.bincount(
                Ragged.distinct(part.values, rows, len(part)).values, minlength=len(vocabulary)
            )
            pairs.add(_distinct_pairs(part))
        return TokenCounts(vocabulary, self.documents + len(tokens), frequencies, pairs)

    @classmethod
    def empty(cls, memory_bytes: int) -> TokenCounts:
        """Counts of no document."""
        return cls((), 0, np.empty(0, np.int64), PairTable(memory_bytes))


@dataclasses.dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """What a document is judged against besides its neighbours.

    :param counts: document frequencies of tokens and pairs.
    :param alien_share: alien tokens over tokens of the corpus, pi.
    :param gap: bulk of the neighbour gap.
    :param run_nats: bulk of the alien run, in nats.
    :param question_share: share of documents that open with a question, in [0, 1].
    :param habits: how often near neighbours share an origin.
    :param everyday: the tokens that are no aliens anywhere.
    :param documents: documents that all of these but ``counts`` were estimated from.
    :param estimate: number of the estimate, from 1; the next one has the next.
    :param version: of the rules that made these statistics.
    """

    counts: TokenCounts
    alien_share: float
    gap: Bulk
    run_nats: Bulk
    question_share: float
    habits: Habits
    everyday: tuple[str, ...]
    documents: int
    estimate: int = 1
    version: int = VERSION


def distinct_pairs(tokens: Ragged, row: int) -> Keys:
    """The pairs of one document, each once, sorted."""
    return np.unique(pair_keys(tokens[row]))


def _distinct_pairs(tokens: Ragged) -> Keys:
    """The distinct pairs of each document; in what order does not matter."""
    keys = pair_keys(tokens.values)
    rows = np.repeat(np.arange(len(tokens)), tokens.lengths)
    inside = rows[1:] == rows[:-1]
    distinct, place = np.unique(keys[inside], return_inverse=True)
    found = Ragged.distinct(place.astype(np.int32), rows[1:][inside], len(tokens))
    return distinct[found.values]


def alien_flags(
    tokens: Ragged,
    row: int,
    neighbors: npt.NDArray[np.int64],
    counts: TokenCounts,
    glue: npt.NDArray[np.bool_],
    *,
    counted: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Which tokens of a document are alien.

    Alien: not glue, and its pair with the token before it stands in no document other
    than this one and its nearest neighbours. The first token has no pair.

    :param tokens: all documents.
    :param neighbors: rows of the nearest documents, shape (at most 8,).
    :param glue: everyday tokens; tokens beyond it are not glue.
    :param counted: shape (len(tokens),), whether ``counts`` holds a document.
    :returns: shape (tokens of the document,).
    """
    own = tokens[row]
    flags = np.ones(own.size, dtype=np.bool_)
    known = own < glue.size
    flags[known] = ~glue[own[known]]
    if own.size == 0:
        return flags
    keys = pair_keys(own)
    elsewhere = counts.pairs.counts(keys) - int(counted[row])
    # A neighbour can account for one document: more than all of them leaves one outside.
    open_ = np.flatnonzero((elsewhere > 0) & (elsewhere <= neighbors.size) & flags[1:])
    if open_.size:
        near = [distinct_pairs(tokens, other) for other in neighbors.tolist() if counted[other]]
        if near:
            joined = np.sort(np.concatenate(near))
            asked = keys[open_]
            held = np.searchsorted(joined, asked, "right") - np.searchsorted(joined, asked, "left")
            elsewhere[open_] -= held
    flags[1:] &= elsewhere <= 0
    return flags
