"""Ways to judge the rankings of a cell, plain and the package's, and a count of what differs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

import plain_query as plain
from query_cells import Cell
from query_models import Answers
from ragsieve.backends.memo import MemoCausalScorer, MemoTokenEncoder
from ragsieve.detectors.default_query import DefaultQueryConfig
from ragsieve.detectors.query import QueryDetector
from ragsieve.records import Ranking

DOCUMENT_TOKENS, QUERY_TOKENS = 256, 64
_MEMO_BYTES = 3 << 30


class Bench:
    """One way to judge the rankings of a cell, both profiles, plain and ours.

    :param answers: of the models.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._causal = MemoCausalScorer(answers)
        self._encoder = MemoTokenEncoder(answers, max_bytes=_MEMO_BYTES)

    def detector(self, profile: str, cell: Cell) -> QueryDetector:
        """The package's detector."""
        if profile == "paper":
            return QueryDetector(profile, causal=self._causal, encoder=self._encoder)
        return QueryDetector(profile, features=cell.features)

    def plain(
        self, profile: str, cell: Cell, ranking: Ranking, inner: plain.Inner | None = None
    ) -> Callable[[], list[plain.PlainVerdict]]:
        """The plain judgement of one ranking, everything it needs at hand.

        :param inner: how to multiply token states; numpy keeps them as arrays.
        """
        depth = plain.PAPER_DEPTH if profile == "paper" else plain.DEFAULT_DEPTH
        documents = ranking.documents[:depth]
        texts = [document.content for document in documents]
        if profile == "default":
            known = cell.features.features([document.id for document in documents])
            surroundings = cell.features.surroundings
            return functools.partial(
                plain.judge_default,
                ranking.query,
                texts,
                [np.asarray(one.embedding, np.float64).tolist() for one in known],
                [one.alien_run_nats or 0.0 for one in known],
                surroundings.gap_threshold,
                DefaultQueryConfig().copy_choice(surroundings).cap,
            )
        losses = self._answers.losses(texts[: plain.CANDIDATES])
        states = [
            one.astype(np.float64)
            for one in self._answers.states(texts, max_tokens=DOCUMENT_TOKENS)
        ]
        (asked,) = self._answers.states([ranking.query], max_tokens=QUERY_TOKENS)
        asked = asked.astype(np.float64)
        return functools.partial(
            plain.judge_paper,
            ranking.query,
            texts,
            [one.astype(np.float64).tolist() for one in losses],
            [one.tolist() for one in states] if inner is None else states,
            asked.tolist() if inner is None else asked,
            inner,
        )


@dataclasses.dataclass(slots=True)
class Tally:
    """Decisions compared, and those that differ."""

    compared: int = 0
    different: int = 0

    def same(self, one: Sequence[object], other: Sequence[object]) -> None:
        """Compare place by place."""
        self.compared += len(one)
        self.different += sum(a != b for a, b in zip(one, other, strict=True))
