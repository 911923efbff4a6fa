"""RSQ of profile ``default``: each candidate against a tail its own siblings were taken out of."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.ranking_view import RankingView, view_ranking
from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import BackendError, ConfigError
from ragsieve.evidence.alien import RunTailDetail
from ragsieve.evidence.anchors import answer_anchors, is_anchor
from ragsieve.evidence.copying import CopyDetail, copied_run, copy_evidence
from ragsieve.evidence.corroboration import uncorroborated
from ragsieve.evidence.gap import GapDetail, StandingOut
from ragsieve.evidence.hidden import hidden_text
from ragsieve.evidence.scripts import ShareTail, script_profile
from ragsieve.evidence.surprisal import peak_surprisal
from ragsieve.evidence.tokens import Span, token_spans
from ragsieve.evidence.writing import writing_profile
from ragsieve.ports import CausalScorer
from ragsieve.records import Annotation, Evidence, Level, Surroundings

NEIGHBOR_GAP = "neighbor_gap"
ANSWER_ANCHOR = "answer_anchor"
ALIEN_RUN = "alien_run"
QUERY_COPY = "query_copy"
SCRIPT_SHARE = "script_share"
HIDDEN_TEXT = "hidden_text"
PEAK_SURPRISAL = "peak_surprisal"
UNCORROBORATED = "uncorroborated"

_LARGEST = 1.5
_ANCHOR_TAIL = 15
_GAP_WITHOUT_SCAN = (0.55, 0.80)
_GAP_UNITS = (0.74, 1.08)
_PROMOTED_SHARE = 0.5
_ANCHOR_START = 0.35
_RUN_UNIT_NATS = 8.0
_RUN_FLOOR_NATS = 7.0
_PEAK_START, _PEAK_UNIT = 0.65, 0.15
_SCRIPT_EVIDENCE, _SCRIPT_FLOOR = 0.5, 0.01


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
        return math.sqrt(math.fsum(value * value for value in values))

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
            for one in uncorroborated(view.query, view.candidates, near)
        )

    def measure(self, views: Sequence[QueryView]) -> list[tuple[tuple[Evidence, ...], ...]]:
        """The evidences of each candidate of each view, in a fixed order."""
        peaks = self._peaks(views)
        return [self._measure(view, peak) for view, peak in zip(views, peaks, strict=True)]

    def _measure(
        self, view: QueryView, peaks: tuple[Evidence, ...] | None
    ) -> tuple[tuple[Evidence, ...], ...]:
        count = len(view.candidates)
        if view.problem is not None:
            names = (NEIGHBOR_GAP, ANSWER_ANCHOR, ALIEN_RUN, QUERY_COPY, SCRIPT_SHARE)
            columns = [(Evidence.unavailable(name, view.problem),) * count for name in names]
        else:
            seen = view_ranking(view)
            columns = [
                _gaps(seen, view.surroundings),
                _anchors(seen),
                _runs(seen),
                _copies(seen, self.config.copy_choice(view.surroundings).cap),
                self._scripts(seen),
            ]
        if self.config.scripts == "unicode":
            columns.append(tuple(_hidden(text) for text in view.candidates))
        if peaks is not None:
            columns.append(peaks)
        return tuple(zip(*columns, strict=True))

    def _scripts(self, seen: RankingView) -> tuple[Evidence, ...]:
        share: Callable[[str], float] = _unicode_share
        if self.config.scripts == "paper":
            share = _published_share
        highest = max((share(seen.texts[row]) for row in seen.tail), default=0.0)
        found = []
        for row in range(seen.candidates):
            own = share(seen.texts[row])
            value = _SCRIPT_EVIDENCE if own > max(_SCRIPT_FLOOR, highest) else 0.0
            found.append(Evidence(SCRIPT_SHARE, value, detail=ShareTail(own, highest)))
        return tuple(found)

    def _peaks(self, views: Sequence[QueryView]) -> list[tuple[Evidence, ...] | None]:
        if self._causal is None:
            return [None] * len(views)
        texts = list(dict.fromkeys(text for view in views for text in view.candidates))
        try:
            traces = self._causal.losses(texts)
        except BackendError as error:
            lost = Evidence.unavailable(PEAK_SURPRISAL, f"causal language model failed: {error}")
            return [(lost,) * len(view.candidates) for view in views]
        size = self._causal.vocabulary_size
        found = {text: _peak(trace, size) for text, trace in zip(texts, traces, strict=True)}
        return [tuple(found[text] for text in view.candidates) for view in views]


def _gaps(seen: RankingView, surroundings: Surroundings) -> tuple[Evidence, ...]:
    if seen.gaps is None:
        return (Evidence.unavailable(NEIGHBOR_GAP, seen.missing_embeddings),) * seen.candidates
    low, high = _GAP_WITHOUT_SCAN
    if surroundings.gap_threshold is not None:
        low, high = (unit * surroundings.gap_threshold for unit in _GAP_UNITS)
    found = []
    for row in range(seen.candidates):
        gap = float(seen.gaps.gap[row])
        # A topic of the corpus stands together wherever its parts rank; promotion ranks them high.
        share = seen.promoted_share(row)
        value = min(1.0, share / _PROMOTED_SHARE) * min(
            _LARGEST, max(0.0, (gap - low) / (high - low))
        )
        detail = GapDetail(
            gap=gap,
            threshold=high,
            group=tuple(
                StandingOut(f"rank {other + 1}", similarity)
                for other, similarity in seen.group(row)
            ),
            mean=float(seen.gaps.mean[row]),
            floor=float(seen.gaps.floor[row]),
            copies=tuple(f"rank {other + 1}" for other in seen.copies[row]),
        )
        found.append(
            Evidence(
                NEIGHBOR_GAP,
                value,
                components=(("gap", gap), ("gap_promoted", share)),
                detail=detail,
            )
        )
    return tuple(found)


def _anchors(seen: RankingView) -> tuple[Evidence, ...]:
    judged = answer_anchors(
        seen.query_words,
        seen.words[: seen.candidates],
        [seen.words[row] for row in seen.tail[:_ANCHOR_TAIL]],
        admit=is_anchor,
    )
    return tuple(
        Evidence(
            ANSWER_ANCHOR,
            min(_LARGEST, max(0.0, (one.evidence - _ANCHOR_START) / (1.0 - _ANCHOR_START))),
            probability=one.probability,
            detail=one,
        )
        for one in judged
    )


def _runs(seen: RankingView) -> tuple[Evidence, ...]:
    of_tail = [seen.runs_nats[row] for row in seen.tail]
    known = [run for run in of_tail if run is not None]
    reference = float(np.median(known)) if known else 0.0
    start = max(_RUN_FLOOR_NATS, 1.5 * reference)
    found = []
    for run in seen.runs_nats[: seen.candidates]:
        if run is None or not known:
            reason = "no ingest scan of this document and its ranking is at hand"
            found.append(Evidence.unavailable(ALIEN_RUN, reason))
            continue
        value = min(_LARGEST, max(0.0, run - start) / _RUN_UNIT_NATS)
        detail = RunTailDetail(run, reference, start)
        found.append(
            Evidence(ALIEN_RUN, value, components=(("alien_run_nats", run),), detail=detail)
        )
    return tuple(found)


def _copies(seen: RankingView, cap: float) -> tuple[Evidence, ...]:
    longest = max(
        (copied_run(seen.query_tokens, seen.tokens(row)).length for row in seen.tail), default=0
    )
    sample = seen.tail[:_ANCHOR_TAIL]
    share = sum(seen.questions[row] for row in sample) / len(sample) if sample else 0.0
    size = len(seen.query_tokens)
    found = []
    for row in range(seen.candidates):
        run = copied_run(seen.query_tokens, seen.tokens(row))
        value = copy_evidence(run.length, longest, size, share, cap)
        words = _span(seen.query, run.query_start, run.length)
        detail = CopyDetail(
            run=run,
            query_tokens=size,
            tail_longest=longest,
            question_share=share,
            cap=cap,
            excerpt="" if words is None else seen.query[words.start : words.stop],
            span=_span(seen.texts[row], run.document_start, run.length),
        )
        components = (("query_copy_tokens", run.length), ("query_copy_cap", cap))
        found.append(Evidence(QUERY_COPY, value, components=components, detail=detail))
    return tuple(found)


def _span(text: str, start: int, length: int) -> Span | None:
    if not length:
        return None
    spans = token_spans(text, start + length)
    return Span(spans[start].start, spans[-1].stop)


def _hidden(text: str) -> Evidence:
    found = hidden_text(text)
    return Evidence(HIDDEN_TEXT, found.value, detail=found)


def _peak(losses: npt.NDArray[np.floating], vocabulary_size: int) -> Evidence:
    if not bool(np.isfinite(losses).all()):
        return Evidence.unavailable(
            PEAK_SURPRISAL, "the causal language model gave no finite losses"
        )
    peak = peak_surprisal(losses, vocabulary_size)
    value = min(_LARGEST, max(0.0, (peak.share - _PEAK_START) / _PEAK_UNIT))
    return Evidence(
        PEAK_SURPRISAL, value, components=(("peak_surprisal_share", peak.share),), detail=peak
    )


def _unicode_share(text: str) -> float:
    return writing_profile(text).minority_share


def _published_share(text: str) -> float:
    return script_profile(text).minority_share
