"""The facts behind the evidences of a scan, looked up for one document."""

from __future__ import annotations

import math

from ragsieve.evidence.alien import AlienDetail
from ragsieve.evidence.gap import GapDetail, StandingOut
from ragsieve.evidence.tokens import Span, token_spans
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.neighborhood import neighborhood
from ragsieve.features.text import TOKENS_EXAMINED
from ragsieve.records import Scan


def gap_detail(scan: Scan, knowledge: CorpusKnowledge, row: int, threshold: float) -> GapDetail:
    """Which neighbours stand out around a document, and above what."""
    graph, gaps = scan.graph, knowledge.gaps
    near = neighborhood(
        knowledge.features, knowledge.first + row, graph.indices[row], graph.similarities[row]
    )
    names = scan.earlier_ids + scan.document_ids
    size = int(gaps.group[row])
    group = zip(near.kept[:size].tolist(), near.similarities[:size].tolist(), strict=True)
    return GapDetail(
        gap=float(gaps.gap[row]),
        threshold=threshold,
        group=tuple(StandingOut(names[other], similarity) for other, similarity in group),
        mean=float(gaps.mean[row]),
        floor=float(gaps.floor[row]),
        copies=tuple(names[other] for other in near.copies.tolist()),
    )


def run_detail(
    text: str, knowledge: CorpusKnowledge, row: int, threshold_nats: float
) -> AlienDetail:
    """Where a document's alien run stands in its text.

    :param text: the document's content, as far as it was examined.
    """
    run = knowledge.runs[row]
    peak = float(knowledge.peaks[row])
    span = run_span(text, run.start, run.stop)
    return AlienDetail(
        run=run,
        span=span,
        excerpt="" if span is None else text[span.start : span.stop],
        threshold_nats=threshold_nats,
        confirmation=None if math.isnan(peak) else peak,
    )


def run_span(text: str, start: int, stop: int) -> Span | None:
    """The characters of tokens ``start`` to ``stop`` (exclusive); None for no token."""
    spans = token_spans(text, min(stop, TOKENS_EXAMINED))[start:]
    return Span(spans[0].start, spans[-1].stop) if spans else None
