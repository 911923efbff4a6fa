"""RSQ as published: answer anchors, script integrity, surprisal and query alignment, summed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import BackendError, ConfigError
from ragsieve.evidence.alignment import alignment_evidence, alignment_jump, alignment_trace
from ragsieve.evidence.anchors import answer_anchors
from ragsieve.evidence.scripts import script_integrity, script_profile
from ragsieve.evidence.surprisal import surprisal_evidence
from ragsieve.evidence.tokens import paper_word_set
from ragsieve.ports import CausalScorer, TokenEncoder
from ragsieve.records import Annotation, Evidence, FloatArray, Level

ANSWER_ANCHOR = "answer_anchor"
SCRIPT_INTEGRITY = "script_integrity"
SURPRISAL = "surprisal"
QUERY_ALIGNMENT = "query_alignment"


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

    def combine(self, values: Sequence[float]) -> float:
        """The plain sum of the published detector."""
        return float(sum(values))

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
        columns = (
            [_anchors(view) for view in views],
            [_scripts(view) for view in views],
            self._surprisal(views),
            self._alignment(views),
        )
        return [tuple(zip(*parts, strict=True)) for parts in zip(*columns, strict=True)]

    def _surprisal(self, views: Sequence[QueryView]) -> list[tuple[Evidence, ...]]:
        texts = _distinct(view.candidates for view in views)
        if self._causal is None:
            return _all_unavailable(SURPRISAL, "no causal language model is configured", views)
        try:
            losses = dict(zip(texts, self._causal.losses(texts), strict=True))
        except BackendError as error:
            return _all_unavailable(SURPRISAL, f"causal language model failed: {error}", views)
        found = {text: _surprised(trace) for text, trace in losses.items()}
        return [tuple(found[text] for text in view.candidates) for view in views]

    def _alignment(self, views: Sequence[QueryView]) -> list[tuple[Evidence, ...]]:
        if self._encoder is None:
            return _all_unavailable(QUERY_ALIGNMENT, "no token encoder is configured", views)
        usable = [view for view in views if view.problem is None]
        texts = _distinct(view.candidates + view.tail for view in usable)
        queries = _distinct((view.query,) for view in usable)
        try:
            states = self._encoder.states(texts, max_tokens=self.config.document_tokens)
            asked = self._encoder.states(queries, max_tokens=self.config.query_tokens)
        except BackendError as error:
            return _all_unavailable(QUERY_ALIGNMENT, f"token encoder failed: {error}", views)
        of_text = dict(zip(texts, states, strict=True))
        of_query = dict(zip(queries, asked, strict=True))
        return [_aligned(view, of_text, of_query) for view in views]


def _anchors(view: QueryView) -> tuple[Evidence, ...]:
    if view.problem is not None:
        return _unavailable(ANSWER_ANCHOR, view.problem, view)
    found = answer_anchors(
        paper_word_set(view.query),
        [paper_word_set(text) for text in view.candidates],
        [paper_word_set(text) for text in view.tail],
    )
    return tuple(
        Evidence(ANSWER_ANCHOR, one.evidence, probability=one.probability, detail=one)
        for one in found
    )


def _scripts(view: QueryView) -> tuple[Evidence, ...]:
    if view.problem is not None:
        return _unavailable(SCRIPT_INTEGRITY, view.problem, view)
    shares = np.array([script_profile(text).minority_share for text in view.tail])
    found = [script_integrity(script_profile(text), shares) for text in view.candidates]
    return tuple(
        Evidence(SCRIPT_INTEGRITY, one.evidence, probability=one.probability, detail=one)
        for one in found
    )


def _aligned(
    view: QueryView, of_text: dict[str, FloatArray], of_query: dict[str, FloatArray]
) -> tuple[Evidence, ...]:
    if view.problem is not None:
        return _unavailable(QUERY_ALIGNMENT, view.problem, view)
    query = of_query[view.query]
    used = [query, *(of_text[text] for text in view.candidates + view.tail)]
    if not all(bool(np.isfinite(states).all()) for states in used):
        return _unavailable(QUERY_ALIGNMENT, "the token encoder gave no finite states", view)
    jumps = np.array([alignment_jump(alignment_trace(of_text[text], query)) for text in view.tail])
    found = [
        alignment_evidence(alignment_jump(alignment_trace(of_text[text], query)), jumps)
        for text in view.candidates
    ]
    return tuple(
        Evidence(QUERY_ALIGNMENT, one.evidence, probability=one.probability, detail=one)
        for one in found
    )


def _surprised(losses: FloatArray) -> Evidence:
    # One text a model fails on says nothing about the others of its batch.
    if not bool(np.isfinite(losses).all()):
        return Evidence.unavailable(SURPRISAL, "the causal language model gave no finite losses")
    found = surprisal_evidence(losses)
    return Evidence(SURPRISAL, found.evidence, detail=found)


def _distinct(groups: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(groups)))


def _unavailable(name: str, reason: str, view: QueryView) -> tuple[Evidence, ...]:
    return (Evidence.unavailable(name, reason),) * len(view.candidates)


def _all_unavailable(
    name: str, reason: str, views: Sequence[QueryView]
) -> list[tuple[Evidence, ...]]:
    return [_unavailable(name, reason, view) for view in views]
