"""How much of the query a document repeats word for word."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence

from ragsieve.evidence.tokens import Span
from ragsieve.records import Detail

UNIT_SHARE = 0.4
FREE_TOKENS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedRun:
    """The longest run of tokens that a query and a document share.

    :param length: tokens, >= 0.
    :param query_start: where it begins in the query, in tokens.
    :param document_start: where it begins in the document, in tokens.
    """

    length: int
    query_start: int
    document_start: int


@dataclasses.dataclass(frozen=True, slots=True)
class CopyDetail(Detail):
    """A copied run against those of the tail.

    :param query_tokens: tokens of the query.
    :param tail_longest: the longest run a tail document shares with the query, in tokens.
    :param question_share: share of the tail that opens with a question, in [0, 1].
    :param cap: largest value this evidence may take.
    :param excerpt: the copied words as they stand in the query.
    :param span: characters of the document's content.
    """

    run: CopiedRun
    query_tokens: int
    tail_longest: int
    question_share: float
    cap: float
    excerpt: str
    span: Span | None


def copied_run(query: Sequence[str], document: Sequence[str]) -> CopiedRun:
    """The longest common contiguous run of tokens, the earliest of equals."""
    match = difflib.SequenceMatcher(None, query, document, autojunk=False).find_longest_match()
    return CopiedRun(match.size, match.a, match.b)


def copy_evidence(
    length: int, tail_longest: int, query_tokens: int, question_share: float, cap: float
) -> float:
    """``min(cap, (run - max(4, tail run)) / (.4 max(1, |q|))) (1 - phi)``, at least 0.

    :param question_share: phi, in [0, 1]; where the tail asks questions, asking is normal.
    :returns: in [0, cap], large is suspicious.
    """
    excess = length - max(FREE_TOKENS, tail_longest)
    raw = min(cap, excess / (UNIT_SHARE * max(1, query_tokens)))
    return max(0.0, raw) * (1.0 - question_share)
