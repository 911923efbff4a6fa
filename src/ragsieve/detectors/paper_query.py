"""RSQ as published: answer anchors, script integrity, surprisal and query alignment, summed."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ragsieve.detectors.cascade import Seat, Stage, by_view, measure_all
from ragsieve.detectors.losses import LossEvidence
from ragsieve.detectors.readings import PAPER
from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import BackendError, ConfigError
from ragsieve.evidence.alignment import LEVEL, alignment_evidence, alignment_jump, alignment_trace
from ragsieve.evidence.anchors import anchor_evidence, answer_anchors
from ragsieve.evidence.scripts import ScriptTail, script_integrity
from ragsieve.evidence.surprisal import SurprisalEvidence, surprisal_evidence
from ragsieve.evidence.tails import excess_evidence
from ragsieve.evidence.tokens import paper_word_set
from ragsieve.ports import CausalScorer, TokenEncoder
from ragsieve.records import Annotation, Evidence, FloatArray, Level

ANSWER_ANCHOR = "answer_anchor"
SCRIPT_INTEGRITY = "script_integrity"
SURPRISAL = "surprisal"
QUERY_ALIGNMENT = "query_alignment"

_LARGEST = 1.0  # of evidence on the scale of the smallest probability there can be


@dataclasses.dataclass(frozen=True, slots=True)
class PaperQueryConfig:
    """Constants of RSQ, equation symbols in brackets.

    :param candidates: judged per ranking [k].
    :param documents: looked at per ranking, tail included [n].
    :param threshold: flagged at or above [eta_Q].
    :param document_tokens: token states of a document [256].
    :param query_tokens: token states of a query [64].
    :param max_characters: of a document examined for words and scripts; ours, not the paper's.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    candidates: int = 5
    documents: int = 20
    threshold: float = 1.0
    document_tokens: int = 256
    query_tokens: int = 64
    max_characters: int = 1_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.candidates < self.documents:
            raise ConfigError(
                f"query: expected 1 <= candidates < documents, found candidates="
                f"{self.candidates} and documents={self.documents}"
            )
        if not self.threshold > 0:
            raise ConfigError(f"query: threshold must be above 0, found {self.threshold}")
        if min(self.document_tokens, self.query_tokens, self.max_characters) < 1:
            raise ConfigError("query: token and character limits must be at least 1")


class PaperQueryRule:
    """Measures RSQ's four evidences.

    :param causal: causal language model for surprisal; without one it is unavailable.
    :param encoder: token encoder for query alignment; without one it is unavailable.
    """

    profile = "paper"

    def __init__(
        self,
        config: PaperQueryConfig | None = None,
        *,
        causal: CausalScorer | None = None,
        encoder: TokenEncoder | None = None,
    ) -> None:
        self.config = config or PaperQueryConfig()
        self._causal = causal
        self._encoder = encoder
        self._surprise = LossEvidence(
            SURPRISAL, causal, read=surprisal_evidence, evidence=_surprised, limit=math.inf
        )

    @property
    def candidates(self) -> int:
        """Candidates per ranking, k."""
        return self.config.candidates

    @property
    def documents(self) -> int:
        """Documents of the ranking that are looked at, n."""
        return self.config.documents

    @property
    def fewest_documents(self) -> int:
        """The published rule needs its whole depth."""
        return self.config.documents

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        return self.config.threshold

    @property
    def max_characters(self) -> int:
        """Characters of a document that are examined."""
        return self.config.max_characters

    def fingerprint(self) -> str:
        """Hash of the constants and of the models in use."""
        causal = self._causal.identity if self._causal else None
        encoder = self._encoder.identity if self._encoder else None
        return fingerprint(self.profile, self.config, causal, encoder)

    @property
    def evidence_names(self) -> tuple[str, ...]:
        """The evidences in the order of ``measure``."""
        return (ANSWER_ANCHOR, SCRIPT_INTEGRITY, SURPRISAL, QUERY_ALIGNMENT)

    def combine(self, values: Sequence[float]) -> float:
        """The plain sum of the published detector, rounded after each addition."""
        # Not sum(): newer Pythons compensate, and a score must not depend on the Python.
        total = 0.0
        for value in values:
            total += value
        return total

    def annotate(self, view: QueryView) -> tuple[tuple[Annotation, ...], ...]:
        """The published detector makes no remarks."""
        return ((),) * len(view.candidates)

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """The published detector knows one flag."""
        return Level.QUARANTINE

    def measure(self, views: Sequence[QueryView]) -> list[tuple[tuple[Evidence, ...], ...]]:
        """Four evidences for each candidate of each view.

        Models see each distinct text of the batch once. A failing model makes its
        evidence unavailable, with the reason.
        """
        return measure_all(self._stages(views, details=True), self.evidence_names, views)

    def stages(self, views: Sequence[QueryView]) -> tuple[Stage, ...]:
        """Scripts and words first, then the language model, then the token encoder."""
        return self._stages(views, details=False)

    def _stages(self, views: Sequence[QueryView], *, details: bool) -> tuple[Stage, ...]:
        alignment = _Alignment(views, self._encoder, self.config)

        def problem(seat: Seat) -> str | None:
            return views[seat.view].problem

        def largest(seat: Seat) -> float:  # noqa: ARG001
            return _LARGEST

        return (
            Stage(
                SCRIPT_INTEGRITY, largest, by_view(views, lambda _, view: _scripts(view)), problem
            ),
            Stage(
                ANSWER_ANCHOR,
                largest,
                by_view(views, lambda _, view: _anchors(view, details=details)),
                problem,
            ),
            self._surprise.stage(views),
            Stage(QUERY_ALIGNMENT, alignment.limit, alignment.measure, alignment.missing),
        )


class _Alignment:
    """Query alignment of the candidates of a batch."""

    def __init__(
        self, views: Sequence[QueryView], encoder: TokenEncoder | None, config: PaperQueryConfig
    ) -> None:
        self._views = views
        self._encoder = encoder
        self._config = config
        self._failure = None if encoder else "no token encoder is configured"

    def missing(self, seat: Seat) -> str | None:
        return self._failure or self._views[seat.view].problem

    def limit(self, seat: Seat) -> float:
        return _largest_alignment(len(self._views[seat.view].tail))

    def measure(self, seats: Sequence[Seat]) -> list[Evidence]:
        wanted: dict[int, list[str]] = {}
        for seat in seats:
            view = self._views[seat.view]
            wanted.setdefault(seat.view, []).append(view.candidates[seat.place])
        texts = _distinct([(*own, *self._views[v].tail) for v, own in wanted.items()])
        queries = _distinct([(self._views[v].query,) for v in wanted])
        assert self._encoder is not None  # noqa: S101 -- without one nothing is asked
        try:
            states = self._encoder.states(texts, max_tokens=self._config.document_tokens)
            asked = self._encoder.states(queries, max_tokens=self._config.query_tokens)
        except BackendError as error:
            self._failure = f"token encoder failed: {error}"
            return [Evidence.unavailable(QUERY_ALIGNMENT, self._failure)] * len(seats)
        of_text = dict(zip(texts, states, strict=True))
        of_query = dict(zip(queries, asked, strict=True))
        found = {
            v: _aligned(own, self._views[v].tail, of_text, of_query[self._views[v].query])
            for v, own in wanted.items()
        }
        return [found[seat.view][self._views[seat.view].candidates[seat.place]] for seat in seats]


@functools.lru_cache(maxsize=64)
def _largest_alignment(tail: int) -> float:
    """``E_s`` of a candidate above its whole tail."""
    return excess_evidence(0.5 / (tail + 1), LEVEL)


def _anchors(view: QueryView, *, details: bool) -> tuple[Evidence, ...]:
    words = [one.words for one in PAPER.many(view.candidates + view.tail)]
    candidates, tail = words[: len(view.candidates)], words[len(view.candidates) :]
    asked = paper_word_set(view.query)
    if not details:
        return tuple(
            Evidence(ANSWER_ANCHOR, evidence, probability=probability)
            for probability, evidence in anchor_evidence(asked, candidates, tail)
        )
    return tuple(
        Evidence(ANSWER_ANCHOR, one.evidence, probability=one.probability, detail=one)
        for one in answer_anchors(asked, candidates, tail)
    )


def _scripts(view: QueryView) -> tuple[Evidence, ...]:
    profiles = [one.script for one in PAPER.many(view.candidates + view.tail)]
    shares = np.array([one.minority_share for one in profiles[len(view.candidates) :]])
    by_share: dict[float, ScriptTail] = {}
    found = []
    for profile in profiles[: len(view.candidates)]:
        share = profile.minority_share
        one = by_share.get(share)
        if one is None:
            one = by_share[share] = script_integrity(profile, shares)
        one = ScriptTail(profile, one.probability, one.evidence, one.tail_maximum)
        found.append(
            Evidence(SCRIPT_INTEGRITY, one.evidence, probability=one.probability, detail=one)
        )
    return tuple(found)


def _aligned(
    candidates: Sequence[str],
    tail: Sequence[str],
    of_text: dict[str, FloatArray],
    query: FloatArray,
) -> dict[str, Evidence]:
    """Of each candidate, by text."""
    jumps: dict[str, float | None] = {}
    finite = _finite(query)
    exact = np.asarray(query, dtype=np.float64)
    for text in dict.fromkeys((*tail, *candidates)):
        states = of_text[text]
        usable = finite and _finite(states)
        jumps[text] = alignment_jump(alignment_trace(states, exact)) if usable else None
    behind = [jumps[text] for text in tail]
    known = np.array([jump for jump in behind if jump is not None])
    # A candidate the encoder fails on says nothing about the others; a tail document does.
    lost = Evidence.unavailable(QUERY_ALIGNMENT, "the token encoder gave no finite states")
    found = {}
    for text in candidates:
        own = jumps[text]
        if own is None or known.size < len(tail):
            found[text] = lost
            continue
        one = alignment_evidence(own, known)
        found[text] = Evidence(
            QUERY_ALIGNMENT, one.evidence, probability=one.probability, detail=one
        )
    return found


def _surprised(found: SurprisalEvidence) -> Evidence:
    return Evidence(SURPRISAL, found.evidence, detail=found)


def _finite(states: FloatArray) -> bool:
    # The sum of squares of finite unit rows is finite, and quicker than asking each number.
    return math.isfinite(np.vdot(states, states)) or bool(np.isfinite(states).all())


def _distinct(groups: Sequence[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(groups)))
