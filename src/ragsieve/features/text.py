"""The documents of a corpus as numbers: tokens, words, how they open, what they declare."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tokens import fold_number, is_word, opens_with_question, tokens
from ragsieve.features.origins import Origins
from ragsieve.features.overlaps import containments
from ragsieve.features.ragged import Ragged
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.records import Provenance

TOKENS_EXAMINED = 600


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
        return containments(self.words, np.full(others.size, row), others)

    def take(self, rows: npt.NDArray[np.int64]) -> TextFeatures:
        """The texts in ``rows``, in the order given."""
        return TextFeatures(
            self.tokens.take(rows),
            self.words.take(rows),
            self.questions[rows],
            self.mixing[rows],
            self.hidden[rows],
            self.origins.take(rows),
        )


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
    everything: list[int] = []
    sizes = []
    for text in contents:
        found = tokens(text)
        sizes.append(len(found))
        everything.extend(vocabulary.numbers(found))
    numbers, lengths = np.array(everything, dtype=np.int32), np.array(sizes, dtype=np.int64)
    return TextFeatures(
        tokens=_beginnings(numbers, lengths),
        words=_words(numbers, lengths, vocabulary),
        questions=np.array([opens_with_question(text) for text in contents], dtype=np.bool_),
        mixing=np.array([mixes(text) for text in contents], dtype=np.bool_),
        hidden=np.array([hides(text) for text in contents], dtype=np.float64),
        origins=Origins.of(declared),
    )


def _beginnings(numbers: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> Ragged:
    whole = Ragged(numbers, np.concatenate(([0], np.cumsum(lengths))))
    if int(lengths.max(initial=0)) <= TOKENS_EXAMINED:
        return whole
    return Ragged.of(whole[row][:TOKENS_EXAMINED] for row in range(len(whole)))


def _words(
    numbers: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64], vocabulary: Vocabulary
) -> Ragged:
    """The distinct words among the tokens of each text."""
    # By token number; minus one marks a token that is no word.
    word = np.full(len(vocabulary), -1, dtype=np.int32)
    present = np.zeros(len(vocabulary), dtype=np.bool_)
    present[numbers] = True
    for number in np.flatnonzero(present).tolist():
        token = vocabulary.token(number)
        if is_word(token):
            word[number] = vocabulary.numbers([fold_number(token)])[0]
    values = word[numbers]
    rows = np.repeat(np.arange(lengths.size), lengths)
    return Ragged.distinct(values[values >= 0], rows[values >= 0], lengths.size)
