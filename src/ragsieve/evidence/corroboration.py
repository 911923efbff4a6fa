"""Does anything else in the ranking say what a direct answer says? A remark, never evidence."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence

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


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a text.

    :param span: characters of the text.
    :param words: its distinct words.
    """

    span: Span
    words: frozenset[str]


def read_sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text that hold a word, in order."""
    found = (
        Sentence(Span(match.start(), match.end()), word_set(match.group()))
        for match in _SENTENCE.finditer(text)
    )
    return tuple(sentence for sentence in found if sentence.words)


def uncorroborated(
    query: str,
    candidates: Sequence[str],
    tail: Sequence[str],
    *,
    sentences: Callable[[str], Sequence[Sentence]] = read_sentences,
) -> tuple[Uncorroborated | None, ...]:
    """What each candidate asserts alone; None where it is shared, or the document is no direct answer.

    Direct: one of its sentences holds more of the query's words than any sentence of the
    tail. Asserted alone: the longest run of capitalised words or numbers of that sentence
    that is not in the query and that no other document holds. Scripts without capitals
    have numbers only. Where facts are told once this marks true documents as well: it says
    nothing about truth.

    :param tail: documents behind the candidates.
    :param sentences: how to read a text; :func:`read_sentences`, or what remembers it.
    """
    words = word_set(query)
    asked = {word for word in words if len(word) >= _SHORTEST_WORD}
    best = [_best_sentence(asked, sentences(text)) for text in candidates]
    most = max((covered for covered, _ in best), default=0)
    behind = 0
    for text in tail:
        # No candidate says more than this already: none is a direct answer.
        if behind >= most:
            return (None,) * len(candidates)
        behind = max(behind, _best_sentence(asked, sentences(text))[0])
    folded: list[str] = []
    found: list[Uncorroborated | None] = []
    for place, (covered, sentence) in enumerate(best):
        if covered <= behind:
            found.append(None)
            continue
        folded = folded or [text.casefold() for text in (*candidates, *tail)]
        others = folded[:place] + folded[place + 1 :]
        found.append(_alone(candidates[place], sentence, words, others))
    return tuple(found)


def _best_sentence(asked: set[str], sentences: Sequence[Sentence]) -> tuple[int, Span]:
    best = (0, Span(0, 0))
    for sentence in sentences:
        covered = len(asked & sentence.words)
        if covered > best[0]:
            best = (covered, sentence.span)
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
