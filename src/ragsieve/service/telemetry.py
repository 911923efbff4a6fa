"""OpenTelemetry spans. The conventions' names stand here as strings: they still move."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ragsieve.explain import MEANING
from ragsieve.outcomes import Outcome, Ruling
from ragsieve.records import Verdict

# open-telemetry/semantic-conventions-genai, all "Development".
OPERATION = "gen_ai.operation.name"
SOURCE = "gen_ai.data_source.id"
TOP_K = "gen_ai.retrieval.top_k"
DOCUMENTS = "gen_ai.retrieval.documents"
QUERY_TEXT = "gen_ai.retrieval.query.text"
EVALUATION = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
SCORE_VALUE = "gen_ai.evaluation.score.value"
SCORE_WORD = "gen_ai.evaluation.score.label"
EXPLANATION = "gen_ai.evaluation.explanation"
# OpenInference.
SPAN_KIND = "openinference.span.kind"
# Ours.
DETECTOR = "ragsieve.detector"
THRESHOLD = "ragsieve.threshold"
FLAGGED_IDS = "ragsieve.flagged_ids"
WITHHELD_IDS = "ragsieve.withheld_ids"
REFILLED = "ragsieve.refilled"
TAIL_SIZE = "ragsieve.tail_size"
POLICY_VERSION = "ragsieve.policy.version"
DOCUMENT_ID = "ragsieve.document.id"
MODE = "ragsieve.mode"
PARTIAL = "ragsieve.partial"
FALLBACK = "ragsieve.fallback"
EVIDENCE = "ragsieve.evidence."

FILTER_SPAN, GATE_SPAN = "ragsieve.filter", "ragsieve.gate"
_MOST_DOCUMENTS = 64


class Telemetry:
    """Spans of one app; without an SDK they cost next to nothing.

    :param questions: whether spans carry the text of questions.
    """

    def __init__(self, *, version: str, questions: bool = False) -> None:
        self._tracer = trace.get_tracer("ragsieve.service", version)
        self._questions = questions

    @contextlib.contextmanager
    def span(self, name: str, headers: Mapping[str, str], collection: str) -> Iterator[Span]:
        """A span that continues the caller's trace.

        :param headers: of the request; ``traceparent`` is read.
        """
        context = propagate.extract(dict(headers)) if "traceparent" in headers else None
        with self._tracer.start_as_current_span(
            name, context=context, kind=SpanKind.INTERNAL, record_exception=False
        ) as span:
            if span.is_recording():
                span.set_attribute(OPERATION, "retrieval")
                span.set_attribute(SPAN_KIND, "RERANKER" if name == FILTER_SPAN else "GUARDRAIL")
                span.set_attribute(SOURCE, collection)
            yield span

    def filtered(self, span: Span, outcome: Outcome, *, mode: str, fingerprint: str) -> None:
        """What was decided about one retrieval, on its span."""
        if not span.is_recording():
            return
        judged = outcome.verdicts or outcome.rulings
        names = [one.document_id for one in judged if one.flagged]
        entries = outcome.ranking.entries
        shown = [
            {"id": entry.document.id, "score": entry.similarity}
            for entry in entries[:_MOST_DOCUMENTS]
        ]
        first = {entry.document.id for entry in entries[: len(outcome.kept)]}
        span.set_attributes(
            {
                TOP_K: len(entries),
                DOCUMENTS: json.dumps(shown),
                MODE: str(mode),
                FLAGGED_IDS: names,
                WITHHELD_IDS: list(outcome.quarantined_ids),
                REFILLED: sum(one.document.id not in first for one in outcome.kept),
                TAIL_SIZE: max(0, len(entries) - len(judged) - len(outcome.quarantined_ids)),
                POLICY_VERSION: fingerprint,
                PARTIAL: outcome.partial,
            }
        )
        if self._questions:
            span.set_attribute(QUERY_TEXT, outcome.ranking.query)
        for one in judged:
            _evaluate(span, one)

    @staticmethod
    def failed(span: Span, reason: str) -> None:
        """That nothing was judged, and why."""
        span.set_attribute(FALLBACK, reason)
        span.set_status(Status(StatusCode.ERROR, reason))


def _evaluate(span: Span, one: Verdict | Ruling) -> None:
    score = one.score if isinstance(one, Verdict) else one.bounds.lower
    attributes: dict[str, str | float] = {
        EVALUATION_NAME: "ragsieve.promotion",
        SCORE_WORD: str(one.decision),
        EXPLANATION: MEANING,
        DETECTOR: one.profile,
        THRESHOLD: one.threshold,
        DOCUMENT_ID: one.document_id,
    }
    if math.isfinite(score):
        attributes[SCORE_VALUE] = score
    for evidence in one.evidences:
        if evidence.value is not None:
            attributes[EVIDENCE + evidence.name] = evidence.value
    span.add_event(EVALUATION, attributes)
