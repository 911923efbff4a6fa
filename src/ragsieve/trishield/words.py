"""The rings' words, and which texts say the same in the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsieve.evidence.gap import COPY_CONTAINMENT
from ragsieve.evidence.tokens import containment, is_word, tokens, word_set

LEAST_SIZE_SHARE = 0.5
"""A text of less than half the words of another is no near-copy of it, however well contained."""

_WORD = re.compile(r"\w+")


def ring_words(text: str) -> list[str]:
    r"""The words of the rings' equations: ``\w+`` of the lowercased text, in order."""
    return _WORD.findall(text.lower())


def word_run(text: str) -> str:
    """The words of a text in any script, one space around each: a run is a substring of runs."""
    return f" {' '.join(filter(is_word, tokens(text)))} "


def voices(contents: Sequence[str]) -> tuple[int, ...]:
    """For each text the number of the group of near-copies it belongs to, from 0.

    Near-copies share 90% of the smaller word set, and the smaller is at least half of the
    larger. Containment is not transitive: a group is what resembles its largest member, so that
    no text can tie two others together that do not resemble one another. The order of the texts
    moves nothing but the numbers.
    """
    distinct = sorted(
        ((word_set(text), text) for text in set(contents)),
        key=lambda pair: (-len(pair[0]), pair[1]),
    )
    leaders: list[frozenset[str]] = []
    found: dict[str, int] = {}
    for words, text in distinct:
        group = next(
            (place for place, leader in enumerate(leaders) if _is_near_copy(words, leader)), None
        )
        if group is None:
            group = len(leaders)
            leaders.append(words)
        found[text] = group
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(found[text], len(numbers)) for text in contents)


def _is_near_copy(words: frozenset[str], leader: frozenset[str]) -> bool:
    return (
        len(words) >= LEAST_SIZE_SHARE * len(leader)
        and containment(words, leader) > COPY_CONTAINMENT
    )
