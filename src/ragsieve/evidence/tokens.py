"""Words of a text, and how far two texts share them."""

from __future__ import annotations

import re

_PAPER_WORD = re.compile(r"[a-z0-9]+")


def paper_words(text: str) -> list[str]:
    """The paper's words: ``[a-z0-9]+`` on the casefolded text, in order.

    Blind outside Latin: a Chinese text has none.
    """
    return _PAPER_WORD.findall(text.casefold())


def paper_word_set(text: str) -> frozenset[str]:
    """The distinct paper words of a text."""
    return frozenset(_PAPER_WORD.findall(text.casefold()))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared share of two word sets, ``|A n B| / |A u B|``.

    :returns: in [0, 1]; 0 when both are empty.
    """
    if not left and not right:
        return 0.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)
