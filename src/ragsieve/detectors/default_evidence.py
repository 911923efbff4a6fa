"""The evidences of profile ``default`` for the candidates of a batch, each when it is needed."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence

from ragsieve.detectors.cascade import Seat, Stage, by_view
from ragsieve.detectors.ranking_view import SAMPLED_TAIL, RankingView, view_ranking
from ragsieve.detectors.readings import HIDDEN, PAPER_SHARES, SPANS
from ragsieve.detectors.rules import QueryView
from ragsieve.evidence.alien import RunTailDetail
from ragsieve.evidence.anchors import anchor_evidence, answer_anchors, is_anchor
from ragsieve.evidence.copying import FREE_TOKENS, CopiedRun, CopyDetail, copy_evidence
from ragsieve.evidence.gap import GapDetail, StandingOut
from ragsieve.evidence.scripts import ShareTail
from ragsieve.evidence.tokens import Span, token_spans
from ragsieve.records import Evidence, Surroundings

NEIGHBOR_GAP = "neighbor_gap"
ANSWER_ANCHOR = "answer_anchor"
ALIEN_RUN = "alien_run"
QUERY_COPY = "query_copy"
SCRIPT_SHARE = "script_share"
HIDDEN_TEXT = "hidden_text"

LARGEST = 1.5
_GAP_WITHOUT_SCAN = (0.55, 0.80)
_GAP_UNITS = (0.74, 1.08)
_PROMOTED_SHARE = 0.5
_ANCHOR_START = 0.35
_RUN_UNIT_NATS = 8.0
_RUN_FLOOR_NATS = 7.0
_SCRIPT_EVIDENCE, _SCRIPT_FLOOR = 0.5, 0.01
_LARGEST_HIDDEN = 1.0


class DefaultBatch:
    """The stages of one batch; a ranking is read when one of them first needs it.

    :param caps: of the copied query, for each view.
    :param details: whether the facts behind each evidence are wanted.
    """

    def __init__(self, views: Sequence[QueryView], caps: Sequence[float], *, details: bool) -> None:
        self._views = views
        self._caps = caps
        self._details = details
        self._seen: list[RankingView | None] = [None] * len(views)
        self._runs: dict[Seat, CopiedRun] = {}
        self._tail_runs: dict[int, int] = {}
        self._copy_limits: dict[Seat, float] = {}

    def hidden(self) -> Stage:
        """Invisible characters; the text alone shows them."""

        def measure(seats: Sequence[Seat]) -> list[Evidence]:
            texts = [self._views[seat.view].candidates[seat.place] for seat in seats]
            found = HIDDEN.many(texts)
            if not self._details:
                return [_bare(HIDDEN_TEXT, one.value) for one in found]
            return [Evidence(HIDDEN_TEXT, one.value, detail=one) for one in found]

        return Stage(HIDDEN_TEXT, lambda _: _LARGEST_HIDDEN, measure, cheap=True)

    def gaps(self) -> Stage:
        """How far the nearest of the retrieved documents stand out."""

        def missing(seat: Seat) -> str | None:
            view = self._views[seat.view]
            if view.problem is not None:
                return view.problem
            seen = self._of(seat.view)
            return seen.missing_embeddings if seen.gaps is None else None

        return Stage(
            NEIGHBOR_GAP,
            lambda _: LARGEST,
            self._column(lambda seen, view: _gaps(seen, view.surroundings, self._details)),
            missing,
        )

    def runs(self) -> Stage:
        """The alien run at ingest."""
        column = self._column(lambda seen, _: _runs(seen, self._details))
        return Stage(ALIEN_RUN, lambda _: LARGEST, column, self._problem, cheap=True)

    def scripts(self, *, published: bool) -> Stage:
        """Letters outside the main script.

        :param published: whether scripts are the paper's.
        """
        column = self._column(lambda seen, _: _scripts(seen, published, self._details))
        return Stage(SCRIPT_SHARE, lambda _: _SCRIPT_EVIDENCE, column, self._problem, cheap=True)

    def anchors(self) -> Stage:
        """Words that the candidates share and the tail lacks."""
        column = self._column(lambda seen, _: _anchors(seen, self._details))
        return Stage(ANSWER_ANCHOR, lambda _: LARGEST, column, self._problem)

    def copies(self) -> Stage:
        """The query, word for word."""

        def limit(seat: Seat) -> float:
            seen, cap = self._seen[seat.view], self._caps[seat.view]
            if seen is None:
                return cap
            found = self._copy_limits.get(seat)
            if found is None:
                length = seen.query_runs.bound(seen.read[seat.place].words)
                size, share = len(seen.query_tokens), seen.question_share
                found = self._copy_limits[seat] = copy_evidence(length, 0, size, share, cap)
            return found

        def closer(seat: Seat) -> float:
            # The candidate's own run, with no tail to set it off against.
            seen, cap = self._of(seat.view), self._caps[seat.view]
            size, share = len(seen.query_tokens), seen.question_share
            return copy_evidence(self._run(seat).length, 0, size, share, cap)

        def measure(seats: Sequence[Seat]) -> list[Evidence]:
            return [self._copy(seat) for seat in seats]

        return Stage(QUERY_COPY, limit, measure, self._problem, closer)

    def _run(self, seat: Seat) -> CopiedRun:
        run = self._runs.get(seat)
        if run is None:
            seen = self._of(seat.view)
            run = self._runs[seat] = seen.query_runs.longest(seen.read[seat.place].tokens)
        return run

    def _of(self, view: int) -> RankingView:
        seen = self._seen[view]
        if seen is None:
            seen = self._seen[view] = view_ranking(self._views[view])
        return seen

    def _problem(self, seat: Seat) -> str | None:
        return self._views[seat.view].problem

    def _column(
        self, judge: Callable[[RankingView, QueryView], Sequence[Evidence]]
    ) -> Callable[[Sequence[Seat]], list[Evidence]]:
        return by_view(self._views, lambda v, view: judge(self._of(v), view))

    def _copy(self, seat: Seat) -> Evidence:
        seen, cap = self._of(seat.view), self._caps[seat.view]
        run = self._run(seat)
        size, share = len(seen.query_tokens), seen.question_share
        if not self._details:
            # As many tokens are free, whatever the tail holds.
            longest = self._tail_run(seat.view) if run.length > FREE_TOKENS else FREE_TOKENS
            return _bare(QUERY_COPY, copy_evidence(run.length, longest, size, share, cap))
        longest = self._tail_run(seat.view)
        words = _query_span(seen.query, run)
        detail = CopyDetail(
            run=run,
            query_tokens=size,
            tail_longest=longest,
            question_share=share,
            cap=cap,
            excerpt="" if words is None else seen.query[words.start : words.stop],
            span=_document_span(seen.texts[seat.place], run),
        )
        return Evidence(
            QUERY_COPY,
            copy_evidence(run.length, longest, size, share, cap),
            components=(("query_copy_tokens", run.length), ("query_copy_cap", cap)),
            detail=detail,
        )

    def _tail_run(self, view: int) -> int:
        if view not in self._tail_runs:
            seen = self._of(view)
            read = (seen.read[row] for row in seen.tail)
            # Without details nobody reads the figure, and shorter runs than the free ones are none.
            least = 0 if self._details else FREE_TOKENS
            self._tail_runs[view] = seen.query_runs.longest_of(
                ((one.tokens, one.words) for one in read), least
            )
        return self._tail_runs[view]


def _gaps(seen: RankingView, surroundings: Surroundings, details: bool) -> list[Evidence]:
    if seen.gaps is None:
        raise ValueError("gaps need embeddings")
    low, high = _GAP_WITHOUT_SCAN
    if surroundings.gap_threshold is not None:
        low, high = (unit * surroundings.gap_threshold for unit in _GAP_UNITS)
    found = []
    for row, gap in enumerate(seen.gaps.gap.tolist()):
        # A topic of the corpus stands together wherever its parts rank; promotion ranks them high.
        share = seen.promoted_share(row)
        value = min(1.0, share / _PROMOTED_SHARE) * min(
            LARGEST, max(0.0, (gap - low) / (high - low))
        )
        if not details:
            found.append(_bare(NEIGHBOR_GAP, value))
            continue
        components = (("gap", gap), ("gap_promoted", share))
        detail = _gap_detail(seen, row, gap, high)
        found.append(Evidence(NEIGHBOR_GAP, value, components=components, detail=detail))
    return found


def _gap_detail(seen: RankingView, row: int, gap: float, threshold: float) -> GapDetail | None:
    if seen.gaps is None:
        return None
    return GapDetail(
        gap=gap,
        threshold=threshold,
        group=tuple(
            StandingOut(f"rank {other + 1}", similarity) for other, similarity in seen.group(row)
        ),
        mean=float(seen.gaps.mean[row]),
        floor=float(seen.gaps.floor[row]),
        copies=tuple(f"rank {other + 1}" for other in seen.copies[row]),
    )


def _anchors(seen: RankingView, details: bool) -> list[Evidence]:
    words = [one.words for one in seen.read]
    asked, candidates = seen.query_words, words[: seen.candidates]
    tail = [words[row] for row in seen.tail[:SAMPLED_TAIL]]
    if not details:
        return [
            Evidence(ANSWER_ANCHOR, _anchored(evidence), probability=probability)
            for probability, evidence in anchor_evidence(asked, candidates, tail, admit=is_anchor)
        ]
    return [
        Evidence(ANSWER_ANCHOR, _anchored(one.evidence), probability=one.probability, detail=one)
        for one in answer_anchors(asked, candidates, tail, admit=is_anchor)
    ]


def _anchored(evidence: float) -> float:
    return min(LARGEST, max(0.0, (evidence - _ANCHOR_START) / (1.0 - _ANCHOR_START)))


def _runs(seen: RankingView, details: bool) -> list[Evidence]:
    of_tail = [seen.runs_nats[row] for row in seen.tail]
    known = [run for run in of_tail if run is not None]
    reference = statistics.median(known) if known else 0.0
    start = max(_RUN_FLOOR_NATS, 1.5 * reference)
    found = []
    for run in seen.runs_nats[: seen.candidates]:
        if run is None or not known:
            reason = "no ingest scan of this document and its ranking is at hand"
            found.append(Evidence.unavailable(ALIEN_RUN, reason))
            continue
        value = min(LARGEST, max(0.0, run - start) / _RUN_UNIT_NATS)
        if not details:
            found.append(_bare(ALIEN_RUN, value))
            continue
        detail = RunTailDetail(run, reference, start)
        components = (("alien_run_nats", run),)
        found.append(Evidence(ALIEN_RUN, value, components=components, detail=detail))
    return found


def _scripts(seen: RankingView, published: bool, details: bool) -> list[Evidence]:
    unicode = [one.script_share for one in seen.read]
    found = PAPER_SHARES.many(seen.texts) if published else unicode
    highest = max((found[row] for row in seen.tail), default=0.0)
    start = max(_SCRIPT_FLOOR, highest)
    judged = [
        (share, _SCRIPT_EVIDENCE if share > start else 0.0) for share in found[: seen.candidates]
    ]
    if not details:
        return [_bare(SCRIPT_SHARE, value) for _, value in judged]
    return [
        Evidence(SCRIPT_SHARE, value, detail=ShareTail(share, highest)) for share, value in judged
    ]


def _bare(name: str, value: float) -> Evidence:
    """An evidence without details; most are nothing, and that is one record for all."""
    return Evidence(name, value) if value else _nothing(name)


@functools.cache
def _nothing(name: str) -> Evidence:
    return Evidence(name, 0.0)


def _query_span(query: str, run: CopiedRun) -> Span | None:
    if not run.length:
        return None
    spans = token_spans(query, run.query_start + run.length)
    return Span(spans[run.query_start].start, spans[-1].stop)


def _document_span(text: str, run: CopiedRun) -> Span | None:
    if not run.length:
        return None
    spans = SPANS(text)
    last = spans[run.document_start + run.length - 1]
    return Span(spans[run.document_start].start, last.stop)
