"""Stand-ins for questions nobody has given: what documents are called, asked of all others."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.records import Document, Query, Ranking
from ragsieve.retrieval import rank

_LONGEST = 200
_SENTENCE = re.compile(r"(.+?(?:[.!?](?=\s|$)|[。？！]|$))", re.DOTALL)


def stand_in_rankings(
    documents: Sequence[Document],
    embeddings: npt.NDArray[np.floating],
    *,
    count: int,
    depth: int,
    seed: int = 0,
) -> list[Ranking]:
    """Titles or first sentences of sampled documents, ranked by their document's own vector.

    The document itself is left out of its ranking: no question is copied from what it finds.

    :param count: rankings wanted; fewer when fewer documents hold text.
    :param depth: documents of each at most.
    :returns: in corpus order.
    """
    order = np.random.default_rng(seed).permutation(len(documents)).tolist()
    asked = {row: text for row in order if (text := stand_in(documents[row]))}
    rows = sorted(list(asked)[:count])
    queries = [Query(f"stand-in {row}", asked[row]) for row in rows]
    found = rank(queries, documents, np.asarray(embeddings[rows]), embeddings, depth=depth + 1)
    return [
        one.renumbered([entry for entry in one.entries if entry.document is not documents[row]])
        for row, one in zip(rows, found, strict=True)
    ]


def stand_in(document: Document) -> str:
    """A document's title, else its first sentence; at most 200 characters, "" without text."""
    if document.title.strip():
        return document.title.strip()[:_LONGEST]
    # Beyond the longest stand-in there is nothing to look for.
    sentence = _SENTENCE.match(document.text[: 4 * _LONGEST].strip())
    return "" if sentence is None else sentence.group(1)[:_LONGEST]
