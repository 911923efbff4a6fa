"""One ranking as profile ``default`` sees it: who resembles whom, and which tail is left."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.query_runs import QueryRuns
from ragsieve.detectors.readings import DEFAULT, Reading, near_copies
from ragsieve.detectors.rules import QueryView
from ragsieve.evidence.gap import Gaps, neighbor_gaps
from ragsieve.evidence.tokens import is_word, tokens
from ragsieve.records import FloatArray

LARGEST_GROUP = 10
SIBLING_GAP = 0.4
FEWEST_TAIL = 5
SAMPLED_TAIL = 15


@dataclasses.dataclass(frozen=True, slots=True)
class Near:
    """The other documents around a candidate, its copies left out, most similar first.

    :param places: from 0.
    :param similarities: theirs, cosines.
    """

    places: tuple[int, ...]
    similarities: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RankingView:
    """Numbers a ranking is judged by; documents by their place, from 0.

    :param candidates: k, the first places.
    :param query_runs: to find the query's tokens in documents.
    :param read: what each document's text says.
    :param copies: for each candidate, the places that share nearly all words with it.
    :param copied: the places of all of them.
    :param kept: of each candidate; None without embeddings.
    :param gaps: of the candidates; None when an embedding is missing.
    :param missing_embeddings: why there are no gaps.
    :param tail: places behind the candidates without their siblings.
    :param question_share: share of the first fifteen of the tail that open with a question.
    :param runs_nats: alien run of each document at ingest; None where unknown.
    """

    query: str
    texts: tuple[str, ...]
    candidates: int
    query_tokens: tuple[str, ...]
    query_words: frozenset[str]
    query_runs: QueryRuns
    read: tuple[Reading, ...]
    copies: tuple[tuple[int, ...], ...]
    copied: frozenset[int]
    kept: tuple[Near, ...] | None
    gaps: Gaps | None
    missing_embeddings: str
    tail: tuple[int, ...]
    question_share: float
    runs_nats: tuple[float | None, ...]

    def promoted_share(self, place: int) -> float:
        """How much of the group around a candidate the query itself brought to the top.

        Members that are candidates, or near copies of one, over the members that could be.

        :returns: in [0, 1]; 1 without a group.
        """
        if self.gaps is None or self.kept is None:
            return 1.0
        others = self.kept[place].places[: self.gaps.group[place]]
        possible = min(len(others), self.candidates - 1)
        if not possible:
            return 1.0
        count, copied = self.candidates, self.copied
        promoted = sum([other < count or other in copied for other in others])
        return min(1.0, promoted / possible)

    def group(self, place: int) -> tuple[tuple[int, float], ...]:
        """The places that stand out around a candidate, with their similarities."""
        if self.gaps is None or self.kept is None:
            return ()
        near, size = self.kept[place], int(self.gaps.group[place])
        return tuple(zip(near.places[:size], near.similarities[:size], strict=True))


def view_ranking(view: QueryView) -> RankingView:
    """Read one ranking.

    Siblings of a candidate are its copies and, from a gap of .4 on, every document at or
    above the last one that stands out; no sibling of any candidate is left in the tail,
    unless fewer than five documents would remain.
    """
    texts = view.candidates + view.tail
    read = tuple(DEFAULT.many(texts))
    count = len(view.candidates)
    copies = near_copies(read, range(count))
    rows, missing = _embeddings(view)
    kept, gaps = (None, None) if rows is None else _neighbors(rows, copies)
    copied = frozenset(other for own in copies for other in own)
    siblings = set(copied)
    if gaps is not None and kept is not None:
        sizes = zip(kept, gaps.group.tolist(), gaps.gap.tolist(), strict=True)
        for near, size, gap in sizes:
            if size and gap >= SIBLING_GAP:
                last = near.similarities[size - 1]
                siblings.update(near.places[: _reaching(near.similarities, last, size)])
    behind = tuple(range(count, len(texts)))
    tail = tuple(place for place in behind if place not in siblings)
    if len(tail) < FEWEST_TAIL:
        tail = behind
    sample = [read[place].question for place in tail[:SAMPLED_TAIL]]
    features = view.features or ()
    query_tokens = tuple(tokens(view.query))
    query_words = frozenset(filter(is_word, set(query_tokens)))
    return RankingView(
        query=view.query,
        texts=texts,
        candidates=count,
        query_tokens=query_tokens,
        query_words=query_words,
        query_runs=QueryRuns(query_tokens, query_words),
        read=read,
        copies=copies,
        copied=copied,
        kept=kept,
        gaps=gaps,
        missing_embeddings=missing,
        tail=tail,
        question_share=sum(sample) / len(sample) if sample else 0.0,
        runs_nats=tuple(one.alien_run_nats for one in features) or (None,) * len(texts),
    )


def _embeddings(view: QueryView) -> tuple[FloatArray | None, str]:
    if view.features is None:
        return None, "no embeddings of the retrieved documents are at hand; give a state or vectors"
    rows = [one.embedding for one in view.features if one.embedding is not None]
    missing = len(view.features) - len(rows)
    if missing:
        return None, f"{missing} of {len(view.features)} retrieved documents have no embedding"
    return np.array(rows, dtype=np.float64), ""


def _neighbors(
    rows: FloatArray, copies: tuple[tuple[int, ...], ...]
) -> tuple[tuple[Near, ...], Gaps]:
    """The neighbours of the first rows, one for each tuple of copies, and their gaps."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similarity = unit[: len(copies)] @ unit.T
    np.minimum(np.maximum(similarity, -1.0, out=similarity), 1.0, out=similarity)
    for place, own in enumerate(copies):
        similarity[place, [place, *own]] = -np.inf
    orders = np.argsort(-similarity, axis=1, kind="stable")
    ordered = np.take_along_axis(similarity, orders, axis=1)
    kept = []
    for order, near, own in zip(orders.tolist(), ordered, copies, strict=True):
        left = len(order) - 1 - len(own)
        near[left:] = np.nan
        kept.append(Near(tuple(order[:left]), tuple(near[:left].tolist())))
    return tuple(kept), neighbor_gaps(ordered[:, :-1], LARGEST_GROUP)


def _reaching(similarities: Sequence[float], last: float, size: int) -> int:
    """How many of the sorted similarities are at least ``last``, given that ``size`` are."""
    while size < len(similarities) and similarities[size] >= last:
        size += 1
    return size
