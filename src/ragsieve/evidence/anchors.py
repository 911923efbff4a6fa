"""Answer anchors: words the query does not ask with that the candidates share and the tail lacks."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Sequence

from ragsieve.evidence.tails import hypergeometric_tail, log_evidence, simes
from ragsieve.evidence.tokens import is_one_character_word
from ragsieve.records import Detail

MINIMUM_CHARACTERS = 3
MINIMUM_CANDIDATES = 2


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
    if not candidates or not tail:
        raise ValueError("answer anchors need at least one candidate and one tail document")
    query = frozenset(query_words)
    candidate_sets = [frozenset(words) - query for words in candidates]
    tail_sets = [frozenset(words) for words in tail]
    anchors = _tested(candidate_sets, tail_sets, admit)
    k, n = len(candidate_sets), len(candidate_sets) + len(tail_sets)
    smallest = 1.0 / math.comb(n, k)
    return tuple(_judge(words, anchors, smallest, k, n) for words in candidate_sets)


def _tested(
    candidates: Sequence[frozenset[str]],
    tail: Sequence[frozenset[str]],
    admit: Callable[[str], bool],
) -> dict[str, Anchor]:
    counts = collections.Counter(word for words in candidates for word in words)
    shared = {
        word: count for word, count in counts.items() if count >= MINIMUM_CANDIDATES and admit(word)
    }
    k, n = len(candidates), len(candidates) + len(tail)
    anchors = {}
    for word, hits in shared.items():
        everywhere = hits + sum(word in words for words in tail)
        anchors[word] = Anchor(word, hits, everywhere, hypergeometric_tail(hits, n, everywhere, k))
    return anchors


def _judge(
    words: frozenset[str], anchors: dict[str, Anchor], smallest: float, k: int, n: int
) -> AnchorEvidence:
    own = sorted(
        (anchors[word] for word in words if word in anchors),
        key=lambda anchor: (anchor.probability, anchor.word),
    )
    probability = simes([anchor.probability for anchor in own])
    return AnchorEvidence(probability, log_evidence(probability, smallest), tuple(own), k, n)
