"""Does anything else in the ranking say what a direct answer says? A remark, never evidence."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

from ragsieve.evidence.tokens import Span, is_word, token_spans, word_set

_SENTENCE = re.compile(r"[^.!?\n？！。؟]+")
_LONGEST_TEXT_TOKENS = 600
_SHORTEST_WORD = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Uncorroborated:
    """A name or figure in a direct answer that no other document of the ranking holds.

    :param span: characters of the document's content.
    """

    words: str
    span: Span


def uncorroborated(
    query: str, candidates: Sequence[str], tail: Sequence[str]
) -> tuple[Uncorroborated | None, ...]:
    """What each candidate asserts alone; None where it is shared, or the document is no direct answer.

    Direct: one of its sentences holds more of the query's words than any sentence of the
    tail. Asserted alone: the longest run of capitalised words or numbers of that sentence
    that is not in the query and that no other document holds. Scripts without capitals
    have numbers only. Where facts are told once this marks true documents as well: it says
    nothing about truth.

    :param tail: documents behind the candidates.
    """
    asked = {word for word in word_set(query) if len(word) >= _SHORTEST_WORD}
    behind = max((_best_sentence(asked, text)[0] for text in tail), default=0)
    folded = [text.casefold() for text in (*candidates, *tail)]
    found: list[Uncorroborated | None] = []
    for place, text in enumerate(candidates):
        covered, sentence = _best_sentence(asked, text)
        if covered <= behind:
            found.append(None)
            continue
        others = folded[:place] + folded[place + 1 :]
        found.append(_alone(text, sentence, word_set(query), others))
    return tuple(found)


def _best_sentence(asked: set[str], text: str) -> tuple[int, Span]:
    best = (0, Span(0, 0))
    for match in _SENTENCE.finditer(text):
        covered = len(asked & word_set(match.group()))
        if covered > best[0]:
            best = (covered, Span(match.start(), match.end()))
    return best


def _alone(
    text: str, sentence: Span, asked: frozenset[str], others: Sequence[str]
) -> Uncorroborated | None:
    part = text[sentence.start : sentence.stop]
    marked = []
    for place, span in enumerate(token_spans(part, _LONGEST_TEXT_TOKENS)):
        token = part[span.start : span.stop]
        named = token[:1].isupper() or token.isnumeric()
        if is_word(token) and named and token.casefold() not in asked:
            marked.append((place, span))
    runs: list[Span] = []
    for _, group in itertools.groupby(enumerate(marked), key=lambda one: one[1][0] - one[0]):
        spans = [span for _, (_, span) in group]
        runs.append(Span(spans[0].start, spans[-1].stop))
    for run in sorted(runs, key=lambda run: run.start - run.stop):
        words = part[run.start : run.stop]
        if not any(words.casefold() in other for other in others):
            return Uncorroborated(
                words, Span(sentence.start + run.start, sentence.start + run.stop)
            )
    return None
