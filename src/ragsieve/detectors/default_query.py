"""RSQ of profile ``default``: each candidate against a tail its own siblings were taken out of."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import ClassVar, Literal

from ragsieve.detectors.cascade import Stage, measure_all
from ragsieve.detectors.default_evidence import (
    ALIEN_RUN,
    ANSWER_ANCHOR,
    HIDDEN_TEXT,
    LARGEST,
    NEIGHBOR_GAP,
    QUERY_COPY,
    SCRIPT_SHARE,
    DefaultBatch,
)
from ragsieve.detectors.losses import LossEvidence
from ragsieve.detectors.readings import SENTENCES
from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.corroboration import uncorroborated
from ragsieve.evidence.surprisal import PeakSurprisal, peak_surprisal
from ragsieve.ports import CausalScorer
from ragsieve.records import Annotation, Evidence, Level, Surroundings

PEAK_SURPRISAL = "peak_surprisal"
UNCORROBORATED = "uncorroborated"

_PEAK_START, _PEAK_UNIT = 0.65, 0.15


class QueryCopy(enum.StrEnum):
    """What repeating the query word for word may do on its own."""

    STRICT = "strict"
    FAQ_SAFE = "faq-safe"
    AUTO = "auto"


@dataclasses.dataclass(frozen=True, slots=True)
class CopyChoice:
    """How far a copied query counts, and why.

    :param cap: largest value of the evidence: at 1.2 it removes alone, at .95 never.
    """

    mode: QueryCopy
    cap: float
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultQueryConfig:
    """Constants of the query rule.

    :param candidates: judged per ranking.
    :param documents: looked at per ranking, tail included; the full depth.
    :param fewest_documents: depth of the reduced form.
    :param threshold: flagged at or above.
    :param query_copy: ``strict``, ``faq-safe`` or ``auto``.
    :param scripts: ``unicode`` for this profile's rule, ``paper`` for the published one.
    :param max_characters: of a document examined.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    candidates: int = 5
    documents: int = 40
    fewest_documents: int = 20
    threshold: float = 1.0
    query_copy: QueryCopy = QueryCopy.AUTO
    strict_cap: float = 1.2
    faq_cap: float = 0.95
    faq_question_share: float = 0.01
    scripts: Literal["unicode", "paper"] = "unicode"
    max_characters: int = 1_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.candidates < self.fewest_documents <= self.documents:
            raise ConfigError(
                "query: expected 1 <= candidates < fewest_documents <= documents, found "
                f"{self.candidates}, {self.fewest_documents} and {self.documents}"
            )
        if not self.threshold > 0 or self.max_characters < 1:
            raise ConfigError("query: threshold must be above 0 and max_characters at least 1")
        if self.scripts not in {"unicode", "paper"}:
            raise ConfigError(f"query: scripts must be unicode or paper, found {self.scripts!r}")
        if self.query_copy not in set(QueryCopy):
            raise ConfigError(
                f"query: query_copy must be one of {', '.join(QueryCopy)}, found {self.query_copy!r}"
            )

    def copy_choice(self, surroundings: Surroundings) -> CopyChoice:
        """Resolve ``auto``: strict only where documents hardly ever open with a question."""
        if self.query_copy != QueryCopy.AUTO:
            cap = self.strict_cap if self.query_copy == QueryCopy.STRICT else self.faq_cap
            return CopyChoice(QueryCopy(self.query_copy), cap, "as configured")
        share = surroundings.question_share
        if share is None:
            reason = "no ingest scan says how many documents open with a question"
            return CopyChoice(QueryCopy.FAQ_SAFE, self.faq_cap, reason)
        reason = f"{share:.1%} of the corpus's documents open with a question"
        if share < self.faq_question_share:
            return CopyChoice(QueryCopy.STRICT, self.strict_cap, reason)
        return CopyChoice(QueryCopy.FAQ_SAFE, self.faq_cap, reason)


class DefaultQueryRule:
    """Measures the candidates of rankings; no model is needed.

    :param causal: language model for the optional peak surprisal; without one that evidence
        is no part of the rule.
    """

    profile = "default"

    def __init__(
        self, config: DefaultQueryConfig | None = None, *, causal: CausalScorer | None = None
    ) -> None:
        self.config = config or DefaultQueryConfig()
        self._causal = causal
        self._peak = None if causal is None else _peak_evidence(causal)

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
        """Depth of the reduced form."""
        return self.config.fewest_documents

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        return self.config.threshold

    @property
    def max_characters(self) -> int:
        """Characters of a document that are examined."""
        return self.config.max_characters

    def fingerprint(self) -> str:
        """Hash of the constants and of the language model in use."""
        causal = self._causal.identity if self._causal else None
        return fingerprint(self.profile, self.config, causal)

    def combine(self, values: Sequence[float]) -> float:
        """``S = sqrt(sum of squares)``."""
        return math.sqrt(math.fsum([value * value for value in values]))

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """Review where a copied query, or an alien run no model confirms, decides alone."""
        unsure = {QUERY_COPY, *([] if self._causal else [ALIEN_RUN])}
        sure = [one.value for one in evidences if one.value is not None and one.name not in unsure]
        both = [one.value for one in evidences if one.value and one.name in unsure]
        agreed = self.combine(sure) >= self.threshold or len(both) + bool(sum(sure)) > 1
        return Level.QUARANTINE if agreed else Level.REVIEW

    def annotate(self, view: QueryView) -> tuple[tuple[Annotation, ...], ...]:
        """Where a direct answer asserts what nothing else in the first twenty documents says."""
        if view.problem is not None:
            return ((),) * len(view.candidates)
        near = view.tail[: self.config.fewest_documents - len(view.candidates)]
        return tuple(
            ()
            if one is None
            else (Annotation(UNCORROBORATED, one.words, one.span.start, one.span.stop),)
            for one in uncorroborated(view.query, view.candidates, near, sentences=SENTENCES)
        )

    @property
    def evidence_names(self) -> tuple[str, ...]:
        """The evidences in the order of ``measure``."""
        names = (NEIGHBOR_GAP, ANSWER_ANCHOR, ALIEN_RUN, QUERY_COPY, SCRIPT_SHARE)
        hidden = (HIDDEN_TEXT,) if self.config.scripts == "unicode" else ()
        return names + hidden + ((PEAK_SURPRISAL,) if self._causal else ())

    def measure(self, views: Sequence[QueryView]) -> list[tuple[tuple[Evidence, ...], ...]]:
        """The evidences of each candidate of each view, in a fixed order."""
        return measure_all(self._stages(views, details=True), self.evidence_names, views)

    def stages(self, views: Sequence[QueryView]) -> tuple[Stage, ...]:
        """What a text shows alone, then what the ranking shows, then the language model."""
        return self._stages(views, details=False)

    def _stages(self, views: Sequence[QueryView], *, details: bool) -> tuple[Stage, ...]:
        caps = [self.config.copy_choice(view.surroundings).cap for view in views]
        batch = DefaultBatch(views, caps, details=details)
        return (
            *([batch.hidden()] if self.config.scripts == "unicode" else []),
            batch.gaps(),
            batch.runs(),
            batch.scripts(published=self.config.scripts == "paper"),
            batch.anchors(),
            batch.copies(),
            *([self._peak.stage(views)] if self._peak else []),
        )


def _peak_evidence(causal: CausalScorer) -> LossEvidence[PeakSurprisal]:
    return LossEvidence(
        PEAK_SURPRISAL,
        causal,
        read=lambda losses: peak_surprisal(losses, causal.vocabulary_size),
        evidence=_peaked,
        limit=LARGEST,
    )


def _peaked(peak: PeakSurprisal) -> Evidence:
    value = min(LARGEST, max(0.0, (peak.share - _PEAK_START) / _PEAK_UNIT))
    return Evidence(
        PEAK_SURPRISAL, value, components=(("peak_surprisal_share", peak.share),), detail=peak
    )
