"""Answer anchors: words the query does not ask with that the candidates share and the tail lacks."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ragsieve.evidence.tails import hypergeometric_tail, log_evidence, simes
from ragsieve.evidence.tokens import is_one_character_word
from ragsieve.records import Detail

MINIMUM_CHARACTERS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Anchor:
    """One tested word.

    :param in_candidates: candidates that hold it, x_t.
    :param in_ranking: documents of the ranking that hold it, K_t.
    :param probability: chance of at least x_t candidates, in (0, 1].
    """

    word: str
    in_candidates: int
    in_ranking: int
    probability: float


@dataclasses.dataclass(frozen=True, slots=True)
class AnchorEvidence(Detail):
    """What the tested words say about one candidate.

    :param probability: Simes over its anchors, in (0, 1]; 1 when it holds none.
    :param evidence: >= 0; 1 when the combination is as unlikely as the test can tell.
    :param anchors: the tested words it holds, most telling first.
    :param candidates: k.
    :param documents: n.
    """

    probability: float
    evidence: float
    anchors: tuple[Anchor, ...]
    candidates: int
    documents: int


def is_paper_anchor(word: str) -> bool:
    """The paper's choice: at least 3 characters, or digits of any length."""
    return len(word) >= MINIMUM_CHARACTERS or word.isdigit()


def is_anchor(word: str) -> bool:
    """As the paper's, and one character of a script that is written without spaces."""
    return is_paper_anchor(word) or is_one_character_word(word)


def answer_anchors(
    query_words: Collection[str],
    candidates: Sequence[Collection[str]],
    tail: Sequence[Collection[str]],
    *,
    admit: Callable[[str], bool] = is_paper_anchor,
) -> tuple[AnchorEvidence, ...]:
    """Score how far each candidate carries words concentrated among the candidates.

    A word type outside the query with at least 3 characters (digits of any length)
    that occurs in at least 2 candidates is tested: ``p_t = P[X >= x_t]``,
    ``X ~ Hypergeometric(n, K_t, k)``. A candidate's p is Simes over its tested words,
    ``E_a = log p / log(1 / C(n, k))``.

    :param query_words: words of the query.
    :param candidates: k >= 1 word collections.
    :param tail: n - k >= 1 word collections.
    :param admit: which words may be anchors.
    :returns: one record a candidate, in their order.
    :raises ValueError: when there is no candidate or no tail.
    """
    tested = _tested(query_words, candidates, tail, admit)
    return tuple(_judge(words, tested) for words in tested.candidates)


def anchor_evidence(
    query_words: Collection[str],
    candidates: Sequence[Collection[str]],
    tail: Sequence[Collection[str]],
    *,
    admit: Callable[[str], bool] = is_paper_anchor,
) -> tuple[tuple[float, float], ...]:
    """Probability and evidence of each candidate, the numbers of :func:`answer_anchors` alone."""
    tested = _tested(query_words, candidates, tail, admit)
    return tuple(tested.combined(words) for words in tested.candidates)


@dataclasses.dataclass(frozen=True, slots=True)
class _Tested:
    """The tested words of a ranking.

    :param hits: candidates that hold each word.
    :param everywhere: documents of the ranking that hold it.
    :param probabilities: of so many candidates.
    :param smallest: the smallest probability there can be.
    """

    candidates: tuple[frozenset[str], ...]
    words: frozenset[str]
    hits: Mapping[str, int]
    everywhere: Mapping[str, int]
    probabilities: Mapping[str, float]
    documents: int
    smallest: float

    def combined(self, words: frozenset[str]) -> tuple[float, float]:
        """Probability and evidence of a candidate with these words."""
        probability = simes([self.probabilities[word] for word in words & self.words])
        return probability, log_evidence(probability, self.smallest)


def _tested(
    query_words: Collection[str],
    candidates: Sequence[Collection[str]],
    tail: Sequence[Collection[str]],
    admit: Callable[[str], bool],
) -> _Tested:
    if not candidates or not tail:
        raise ValueError("answer anchors need at least one candidate and one tail document")
    sets = tuple(frozenset(words) for words in candidates)
    # Whole sets are cut against each other: far fewer steps than counting word by word.
    once: set[str] = set()
    shared: set[str] = set()
    for words in sets:
        shared |= once & words
        once |= words
    shared.difference_update(query_words)
    tested = frozenset(filter(admit, shared))
    hits = _holders(tested, sets)
    behind = _holders(tested, tail)
    everywhere = {word: count + behind[word] for word, count in hits.items()}
    k, n = len(sets), len(sets) + len(tail)
    probabilities = {
        word: hypergeometric_tail(count, n, everywhere[word], k) for word, count in hits.items()
    }
    smallest = 1.0 / math.comb(n, k)
    return _Tested(sets, tested, hits, everywhere, probabilities, n, smallest)


def _holders(
    words: frozenset[str], documents: Sequence[Collection[str]]
) -> collections.Counter[str]:
    """How many of the documents hold each word."""
    held = (words.intersection(document) for document in documents)
    return collections.Counter(itertools.chain.from_iterable(held))


def _judge(words: frozenset[str], tested: _Tested) -> AnchorEvidence:
    own = [
        Anchor(word, tested.hits[word], tested.everywhere[word], tested.probabilities[word])
        for word in words & tested.words
    ]
    own.sort(key=lambda anchor: (anchor.probability, anchor.word))
    probability = simes([anchor.probability for anchor in own])
    evidence = log_evidence(probability, tested.smallest)
    k, n = len(tested.candidates), tested.documents
    return AnchorEvidence(probability, evidence, tuple(own), k, n)
