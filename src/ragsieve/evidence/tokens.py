"""Words of a text, and how far two texts share them."""

from __future__ import annotations

import dataclasses
import itertools
import re

import regex

_PAPER_WORD = re.compile(r"[a-z0-9]+")
_SINGLE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}"
_TOKEN = regex.compile(
    rf"[{_SINGLE}]|[[\p{{L}}\p{{N}}\p{{M}}]--[{_SINGLE}]]+|[^\s_]", regex.VERSION1
)
# The same in a text of ASCII alone, where the standard library's engine is much faster. The
# four separators of information are no white space to the larger pattern.
_ASCII_TOKEN = re.compile(r"[a-z0-9]+|[^\sa-z0-9_]|[\x1c-\x1f]")
_HOLDS_WORD = regex.compile(r"[\p{L}\p{N}]", regex.VERSION1)
_ONE_CHARACTER_WORD = regex.compile(rf"[{_SINGLE}]", regex.VERSION1)
_QUESTION_MARKS = "?？؟"
_END_MARK = re.compile(r"[.!?？؟]")


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text, in characters from its beginning; ``stop`` is exclusive."""

    start: int
    stop: int


def paper_words(text: str) -> list[str]:
    """The paper's words: ``[a-z0-9]+`` on the casefolded text, in order.

    Blind outside Latin: a Chinese text has none.
    """
    return _PAPER_WORD.findall(text.casefold())


def paper_word_set(text: str) -> frozenset[str]:
    """The distinct paper words of a text."""
    return frozenset(_PAPER_WORD.findall(text.casefold()))


def tokens(text: str) -> list[str]:
    """The casefolded tokens of a text in any script, in order.

    One Han, Hiragana, Katakana or Hangul character; else a longest run of letters, digits
    and combining marks outside those scripts; else one other character that is neither
    white space nor an underscore.
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    return _TOKEN.findall(text.casefold())


def token_spans(text: str, limit: int) -> list[Span]:
    """Where the first ``limit`` tokens stand in the text as it was given."""
    # Folding changes the length of some characters, never where a token begins or ends.
    found = itertools.islice(_TOKEN.finditer(text), limit)
    return [Span(match.start(), match.end()) for match in found]


def is_word(token: str) -> bool:
    """Whether a token holds a letter or a digit."""
    return token.isalnum() or _HOLDS_WORD.search(token) is not None


def fold_number(token: str) -> str:
    """A token that compares equal to every other number when it is one.

    Tables that differ in their figures alone are versions of one another.
    """
    return "0" if token.isdecimal() else token


def word_set(text: str) -> frozenset[str]:
    """The distinct tokens of a whole text that hold a letter or digit."""
    return frozenset(filter(is_word, set(tokens(text))))


def is_one_character_word(token: str) -> bool:
    """Whether a token is one character of a script that is written without spaces."""
    return _ONE_CHARACTER_WORD.fullmatch(token) is not None


def opens_with_question(text: str) -> bool:
    """Whether the first sentence mark of a text (``. ! ?`` and kin) is a question mark."""
    mark = _END_MARK.search(text)
    return mark is not None and mark.group() in _QUESTION_MARKS


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared share of two word sets, ``|A n B| / |A u B|``.

    :returns: in [0, 1]; 0 when both are empty.
    """
    if not left and not right:
        return 0.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


def containment(left: frozenset[str], right: frozenset[str]) -> float:
    """How much of the smaller word set the other holds, ``|A n B| / min(|A|, |B|)``.

    :returns: in [0, 1]; 0 when either is empty.
    """
    if not left or not right:
        return 0.0
    return len(left & right) / min(len(left), len(right))
