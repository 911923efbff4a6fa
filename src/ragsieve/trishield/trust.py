"""Ring 2's measures: how far a document agrees with the others, and how far it is trusted."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Literal

from ragsieve.trishield.words import ring_words, voices

_RELEASED_WEIGHTS = (0.45, 0.35, 0.20)


def consistencies(
    contents: Sequence[str],
    option: Literal["voices", "overlap", "paper"],
    groups: Sequence[int] | None = None,
) -> list[float | None]:
    r"""S_con of each text among the others, in [0, 1]; None where it cannot be measured.

    ``overlap``: ``sum_t min(c_i(t), C(t) - c_i(t)) / |d_i|`` over words t, with counts c_i of
    the text and C of all. ``voices``: the same against the other groups of near-copies, each
    counted once by the most its members say of each word. ``paper``: distinct words,
    ``|B n B_i| / |B \ B_i|`` clipped to [0, 1], and 1 where nothing is left over.

    :param groups: the group of near-copies of each text, for ``voices``.
    """
    counts = [collections.Counter(ring_words(text)) for text in contents]
    if option == "paper":
        everything = set().union(*counts) if counts else set()
        return [_paper_consistency(set(own), len(everything)) for own in counts]
    spoken = list(range(len(counts))) if option == "overlap" else list(groups or voices(contents))
    said: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for group, own in zip(spoken, counts, strict=True):
        said[group] |= own
    total: collections.Counter[str] = collections.Counter()
    for one in said.values():
        total.update(one)
    found: list[float | None] = []
    for group, own in zip(spoken, counts, strict=True):
        size = own.total()
        if not size or len(counts) == 1:
            found.append(None)
            continue
        shared = sum(min(count, total[t] - said[group][t]) for t, count in own.items())
        found.append(shared / size)
    return found


def relevance_of(similarity: float | None) -> float | None:
    """s_rel: the retriever's similarity clipped to [0, 1]; None when there is none."""
    if similarity is None or math.isnan(similarity):
        return None
    return min(1.0, max(0.0, similarity))


def trust_of(
    weight: float,
    consistency: float | None,
    relevance: float | None,
    option: Literal["paper", "released"],
) -> float | None:
    """T, in [0, 1]: ``w S_con + (1 - w) s_rel``, or ``.45 w + .35 S_con + .20 s_rel``.

    What was not measured is left out and the weights of the rest are scaled to 1.

    :returns: None when no weight is left.
    """
    if option == "paper":
        parts = ((weight, consistency), (1.0 - weight, relevance))
    else:
        parts = tuple(zip(_RELEASED_WEIGHTS, (weight, consistency, relevance), strict=True))  # type: ignore[assignment]
    measured = [(share, value) for share, value in parts if value is not None]
    whole = sum(share for share, _ in measured)
    return sum(share * value for share, value in measured) / whole if whole > 0 else None


def _paper_consistency(own: set[str], everything: int) -> float | None:
    if not own:
        return None
    rest = everything - len(own)
    return 1.0 if rest == 0 else min(1.0, len(own) / rest)
