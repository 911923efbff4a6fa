"""One ranking as profile ``default`` sees it: who resembles whom, and which tail is left."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ragsieve.detectors.rules import QueryView
from ragsieve.evidence.gap import COPY_CONTAINMENT, Gaps, neighbor_gaps
from ragsieve.evidence.tokens import containment, fold_number, is_word, opens_with_question, tokens
from ragsieve.features.text import TOKENS_EXAMINED
from ragsieve.records import FloatArray

LARGEST_GROUP = 10
SIBLING_GAP = 0.4
FEWEST_TAIL = 5


@dataclasses.dataclass(frozen=True, slots=True)
class RankingView:
    """Numbers a ranking is judged by; documents by their place, from 0.

    :param candidates: k, the first places.
    :param words: distinct words of each document.
    :param copies: for each candidate, the places that share nearly all words with it.
    :param kept: for each candidate, the other places, most similar first; None without
        embeddings.
    :param gaps: of the candidates; None when an embedding is missing.
    :param missing_embeddings: why there are no gaps.
    :param tail: places behind the candidates without their siblings.
    :param runs_nats: alien run of each document at ingest; None where unknown.
    """

    query: str
    texts: tuple[str, ...]
    candidates: int
    query_tokens: tuple[str, ...]
    query_words: frozenset[str]
    words: tuple[frozenset[str], ...]
    questions: tuple[bool, ...]
    copies: tuple[tuple[int, ...], ...]
    kept: tuple[tuple[tuple[int, float], ...], ...] | None
    gaps: Gaps | None
    missing_embeddings: str
    tail: tuple[int, ...]
    runs_nats: tuple[float | None, ...]

    def tokens(self, place: int) -> tuple[str, ...]:
        """The first 600 tokens of a document."""
        return _read(self.texts[place]).tokens

    def promoted_share(self, place: int) -> float:
        """How much of the group around a candidate the query itself brought to the top.

        Members that are candidates, or near copies of one, over the members that could be.

        :returns: in [0, 1]; 1 without a group.
        """
        others = [other for other, _ in self.group(place)]
        possible = min(len(others), self.candidates - 1)
        if not possible:
            return 1.0
        return min(1.0, sum(map(self._is_promoted, others)) / possible)

    def _is_promoted(self, place: int) -> bool:
        return place < self.candidates or any(place in copies for copies in self.copies)

    def group(self, place: int) -> tuple[tuple[int, float], ...]:
        """The places that stand out around a candidate, with their similarities."""
        if self.gaps is None or self.kept is None:
            return ()
        return self.kept[place][: int(self.gaps.group[place])]


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    tokens: tuple[str, ...]
    words: frozenset[str]
    folded: frozenset[str]
    question: bool


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    found = tokens(text)
    words = frozenset(filter(is_word, set(found)))
    folded = frozenset(map(fold_number, words))
    return _Read(tuple(found[:TOKENS_EXAMINED]), words, folded, opens_with_question(text))


def view_ranking(view: QueryView) -> RankingView:
    """Read one ranking.

    Siblings of a candidate are its copies and, from a gap of .4 on, every document at or
    above the last one that stands out; no sibling of any candidate is left in the tail,
    unless fewer than five documents would remain.
    """
    texts = view.candidates + view.tail
    read = [_read(text) for text in texts]
    words = tuple(one.words for one in read)
    folded = [one.folded for one in read]
    count = len(view.candidates)
    copies = tuple(
        tuple(
            other
            for other in range(len(texts))
            if other != place and containment(folded[place], folded[other]) > COPY_CONTAINMENT
        )
        for place in range(count)
    )
    rows, missing = _embeddings(view)
    kept = None if rows is None else _neighbors(rows, count, copies)
    gaps = None if kept is None else _gaps(kept)
    siblings = {other for own in copies for other in own}
    if gaps is not None and kept is not None:
        for place in range(count):
            size = int(gaps.group[place])
            if size and gaps.gap[place] >= SIBLING_GAP:
                last = kept[place][size - 1][1]
                siblings |= {other for other, similarity in kept[place] if similarity >= last}
    behind = tuple(range(count, len(texts)))
    tail = tuple(place for place in behind if place not in siblings)
    features = view.features or ()
    return RankingView(
        query=view.query,
        texts=texts,
        candidates=count,
        query_tokens=tuple(tokens(view.query)),
        query_words=frozenset(filter(is_word, tokens(view.query))),
        words=words,
        questions=tuple(one.question for one in read),
        copies=copies,
        kept=kept,
        gaps=gaps,
        missing_embeddings=missing,
        tail=tail if len(tail) >= FEWEST_TAIL else behind,
        runs_nats=tuple(one.alien_run_nats for one in features) or (None,) * len(texts),
    )


def _embeddings(view: QueryView) -> tuple[FloatArray | None, str]:
    if view.features is None:
        return None, "no embeddings of the retrieved documents are at hand; give a state or vectors"
    rows = [one.embedding for one in view.features if one.embedding is not None]
    missing = len(view.features) - len(rows)
    if missing:
        return None, f"{missing} of {len(view.features)} retrieved documents have no embedding"
    return np.stack(rows).astype(np.float64), ""


def _neighbors(
    rows: FloatArray, count: int, copies: tuple[tuple[int, ...], ...]
) -> tuple[tuple[tuple[int, float], ...], ...]:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similarity = np.clip(unit[:count] @ unit.T, -1.0, 1.0)
    found = []
    for place in range(count):
        order = np.argsort(-similarity[place], kind="stable").tolist()
        left_out = {place, *copies[place]}
        found.append(
            tuple(
                (other, float(similarity[place, other])) for other in order if other not in left_out
            )
        )
    return tuple(found)


def _gaps(kept: tuple[tuple[tuple[int, float], ...], ...]) -> Gaps:
    table = np.full((len(kept), max(map(len, kept), default=0)), np.nan)
    for place, near in enumerate(kept):
        table[place, : len(near)] = [similarity for _, similarity in near]
    return neighbor_gaps(table, LARGEST_GROUP)
