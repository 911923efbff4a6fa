"""Sentences, halves and longest common subsequences of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def sentences(text: str) -> list[str]:
    """Stretches that end with a full stop, question or exclamation mark, or at a line's end."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def halves(text: str) -> tuple[str, str]:
    """The first and the second half of a text's words; the first has the odd one."""
    words = text.split()
    middle = (len(words) + 1) // 2
    return " ".join(words[:middle]), " ".join(words[middle:])


def common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence of two token lists.

    Bit-parallel: one row of the dynamic programme is one integer, so the cost is
    len(left) operations on integers of len(right) bits.
    """
    places: dict[str, int] = {}
    for place, token in enumerate(right):
        places[token] = places.get(token, 0) | 1 << place
    row = 0
    for token in left:
        both = row | places.get(token, 0)
        row = both & (both ^ (both - ((row << 1) | 1)))
    return row.bit_count()


def rouge_l(left: Sequence[str], right: Sequence[str]) -> float:
    """ROUGE-L F1 of two token lists, ``2 LCS / (|A| + |B|)``.

    :returns: in [0, 1]; 0 when either is empty.
    """
    if not left or not right:
        return 0.0
    return 2 * common_subsequence(left, right) / (len(left) + len(right))
