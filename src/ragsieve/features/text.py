"""The documents of a corpus as numbers: tokens, words, how they open, what they declare."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tokens import fold_number, is_word, opens_with_question, tokens
from ragsieve.features.origins import Origins
from ragsieve.features.ragged import Ragged
from ragsieve.records import Provenance

TOKENS_EXAMINED = 600


class Vocabulary:
    """Tokens by number, in order of first appearance; grows as texts are read.

    :param known: tokens of an earlier corpus, in their order.
    """

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._ids: dict[str, int] = {token: place for place, token in enumerate(known)}
        if len(self._ids) != len(known):
            raise ValueError("a vocabulary holds each token once")

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, found: Sequence[str]) -> npt.NDArray[np.int32]:
        """The numbers of tokens; new ones are added."""
        known = self._ids
        return np.array([known.setdefault(token, len(known)) for token in found], dtype=np.int32)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token, by number."""
        return tuple(self._ids)


@dataclasses.dataclass(frozen=True, slots=True)
class TextFeatures:
    """What the rules read off each text, by column; V texts.

    :param tokens: the first 600 tokens of each, as vocabulary numbers, in order.
    :param words: the distinct tokens of each whole text that hold a letter or digit, sorted;
        all numbers are one.
    :param questions: shape (V,), whether the first sentence ends in a question mark.
    :param mixing: shape (V,), whether scripts are mixed without a reason.
    :param hidden: shape (V,), evidence of invisible characters, in [0, 1].
    :param origins: where each says it comes from.
    """

    tokens: Ragged
    words: Ragged
    questions: npt.NDArray[np.bool_]
    mixing: npt.NDArray[np.bool_]
    hidden: npt.NDArray[np.float64]
    origins: Origins

    def __len__(self) -> int:
        return len(self.tokens)

    def followed_by(self, other: TextFeatures) -> TextFeatures:
        """These texts, then the other's; both numbered by one vocabulary."""
        return TextFeatures(
            self.tokens.followed_by(other.tokens),
            self.words.followed_by(other.words),
            np.concatenate([self.questions, other.questions]),
            np.concatenate([self.mixing, other.mixing]),
            np.concatenate([self.hidden, other.hidden]),
            self.origins.followed_by(other.origins),
        )

    def containments(self, row: int, others: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Share of the smaller word set that the text and each of the others share.

        :param others: shape (n,), rows.
        :returns: shape (n,), in [0, 1]; 0 where either text has no word.
        """
        own = self.words[row]
        parts = [self.words[other] for other in others.tolist()]
        sizes = np.array([part.size for part in parts], dtype=np.int64)
        if own.size == 0 or not sizes.any():
            return np.zeros(sizes.size)
        joined = np.concatenate(parts)
        place = np.minimum(np.searchsorted(own, joined), own.size - 1)
        shared = np.concatenate(([0], np.cumsum(own[place] == joined)))
        ends = sizes.cumsum()
        smaller = np.minimum(sizes, own.size)
        return np.asarray((shared[ends] - shared[ends - sizes]) / np.maximum(1, smaller))


def text_features(
    contents: Sequence[str],
    vocabulary: Vocabulary,
    declared: Sequence[Provenance],
    *,
    mixes: Callable[[str], bool],
    hides: Callable[[str], float],
) -> TextFeatures:
    """Read every text; the vocabulary grows by what is new in them.

    :param declared: their provenance.
    :param mixes: whether a text mixes scripts without a reason.
    :param hides: evidence of a text's invisible characters.
    """
    first, words = [], []
    worded: dict[str, bool] = {}
    for text in contents:
        found = tokens(text)
        first.append(vocabulary.ids(found[:TOKENS_EXAMINED]))
        distinct = []
        for token in dict.fromkeys(found):
            holds = worded.get(token)
            if holds is None:
                holds = worded[token] = is_word(token)
            if holds:
                distinct.append(fold_number(token))
        words.append(np.unique(vocabulary.ids(distinct)))
    return TextFeatures(
        tokens=Ragged.of(first),
        words=Ragged.of(words),
        questions=np.array([opens_with_question(text) for text in contents], dtype=np.bool_),
        mixing=np.array([mixes(text) for text in contents], dtype=np.bool_),
        hidden=np.array([hides(text) for text in contents], dtype=np.float64),
        origins=Origins.of(declared),
    )
