"""What the query rules read off a document's text alone: once for each text, bounded in memory."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence

from ragsieve.detectors.text_memo import TextMemo
from ragsieve.evidence.corroboration import Sentence, read_sentences
from ragsieve.evidence.gap import COPY_CONTAINMENT
from ragsieve.evidence.hidden import HiddenText, hidden_text
from ragsieve.evidence.scripts import ScriptProfile, script_profile
from ragsieve.evidence.tokens import (
    Span,
    containment,
    fold_number,
    is_word,
    opens_with_question,
    paper_word_set,
    token_spans,
    tokens,
)
from ragsieve.evidence.writing import writing_profile
from ragsieve.features.text import TOKENS_EXAMINED

_MIB = 1 << 20
_SKETCH_BITS = 1024
# A little more than a copy may lack, so that rounding decides nothing.
_LACKING = 1.001 - COPY_CONTAINMENT
# A token's own string and a small record, roughly.
_TOKEN_BYTES, _RECORD_BYTES = 60, 200


@dataclasses.dataclass(frozen=True, slots=True)
class PaperReading:
    """What profile ``paper`` reads.

    :param words: distinct paper words.
    """

    words: frozenset[str]
    script: ScriptProfile


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What profile ``default`` reads.

    :param tokens: the first 600.
    :param words: distinct tokens of the whole text that hold a letter or digit.
    :param folded: the same, all numbers as one.
    :param sketch: one bit for each folded word, of 1,024; differs between processes.
    :param copied_bits: a near copy of no fewer words shares at least so many of them.
    :param question: whether the first sentence ends in a question mark.
    :param script_share: letters outside the main writing system, in [0, 1].
    """

    tokens: tuple[str, ...]
    words: frozenset[str]
    folded: frozenset[str]
    sketch: int
    copied_bits: float
    question: bool
    script_share: float


def near_copies(read: Sequence[Reading], places: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """For each of the places, the other texts that share nearly all words of the smaller one."""
    signs = [(one.sketch, one.copied_bits) for one in read]
    found = []
    for place in places:
        words = read[place].folded
        sketch, least = signs[place]
        # The sketches rule out nearly every text; the others are compared word by word.
        likely = [
            other
            for other, (sign, bits) in enumerate(signs)
            if (sketch & sign).bit_count() >= (bits if bits < least else least)
        ]
        found.append(
            tuple(
                other
                for other in likely
                if other != place and containment(words, read[other].folded) > COPY_CONTAINMENT
            )
        )
    return tuple(found)


def read_for_paper(text: str) -> PaperReading:
    """Read one text for profile ``paper``."""
    return PaperReading(paper_word_set(text), script_profile(text))


def read_for_default(text: str) -> Reading:
    """Read one text for profile ``default``."""
    found = tokens(text)
    return default_reading(
        found[:TOKENS_EXAMINED],
        filter(is_word, set(found)),
        question=opens_with_question(text),
        script_share=writing_profile(text).minority_share,
    )


def default_reading(
    first: Sequence[str], words: Iterable[str], *, question: bool, script_share: float
) -> Reading:
    """The reading of a text whose tokens are known.

    :param first: its first tokens, in order.
    :param words: its tokens that hold a letter or digit.
    """
    # One string a token; interned ones would outlive the bound on memory in some Pythons.
    pool = {word: word for word in words}
    held = frozenset(pool)
    folded = frozenset(map(fold_number, held))
    sketch = 0
    for word in folded:
        sketch |= 1 << (hash(word) % _SKETCH_BITS)
    return Reading(
        tokens=tuple([pool.setdefault(token, token) for token in first]),
        words=held,
        folded=held if folded == held else folded,
        sketch=sketch,
        # A bit that is not shared is a word the copy lacks; it may lack a tenth of them.
        copied_bits=sketch.bit_count() - _LACKING * len(folded),
        question=question,
        script_share=script_share,
    )


def _paper_bytes(reading: PaperReading) -> int:
    return _RECORD_BYTES + sys.getsizeof(reading.words) + _TOKEN_BYTES * len(reading.words)


def _default_bytes(reading: Reading) -> int:
    sets = sys.getsizeof(reading.words) + sys.getsizeof(reading.folded)
    return _RECORD_BYTES + sets + sys.getsizeof(reading.tokens) + _TOKEN_BYTES * len(reading.words)


def _sentence_bytes(sentences: Sequence[Sentence]) -> int:
    words = sum(sys.getsizeof(one.words) + _TOKEN_BYTES * len(one.words) for one in sentences)
    return words + _RECORD_BYTES * len(sentences)


def _span_bytes(spans: Sequence[Span]) -> int:
    return _RECORD_BYTES + (_RECORD_BYTES // 2) * len(spans)


def _hidden_bytes(found: HiddenText) -> int:
    return _RECORD_BYTES * (1 + len(found.characters)) + len(found.message)


# Shared by every detector of a process, so that the bounds are the process's.
PAPER = TextMemo(read_for_paper, _paper_bytes, max_bytes=48 * _MIB)
DEFAULT = TextMemo(read_for_default, _default_bytes, max_bytes=96 * _MIB)
PAPER_SHARES = TextMemo(
    lambda text: script_profile(text).minority_share, lambda _: 32, max_bytes=4 * _MIB
)
SENTENCES = TextMemo(read_sentences, _sentence_bytes, max_bytes=48 * _MIB)
SPANS = TextMemo(lambda text: token_spans(text, TOKENS_EXAMINED), _span_bytes, max_bytes=16 * _MIB)
HIDDEN = TextMemo(hidden_text, _hidden_bytes, max_bytes=8 * _MIB)


def forget_texts() -> None:
    """Forget everything that was read off texts."""
    PAPER.cache.clear()
    DEFAULT.cache.clear()
    PAPER_SHARES.cache.clear()
    SENTENCES.cache.clear()
    SPANS.cache.clear()
    HIDDEN.cache.clear()
