"""One retrieval on its way through the stages, timed, with every failure a policy's case."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ragsieve.defense.pipeline import Flow, Pipeline, Stage
from ragsieve.errors import RagsieveError, RankingError
from ragsieve.outcomes import Action, Outcome, Step
from ragsieve.ports import Retriever
from ragsieve.records import Query, RankedDocument, Ranking
from ragsieve.trishield.policy import Mode, ShieldConfig
from ragsieve.trishield.trace import Attempt, DocumentTrace, Fallback, StageRun

Clock = Callable[[], float]

_STOPPED = "no answer from this retrieval"


class Passage:
    """Retrieves and runs the stages; nobody is asked yet.

    :param stages: run in order.
    :param clock: seconds, for measuring.
    """

    def __init__(
        self, retriever: Retriever, stages: Sequence[Stage], config: ShieldConfig, clock: Clock
    ) -> None:
        self._retriever = retriever
        self._stages = tuple(stages)
        self._config = config
        self._clock = clock

    def run(
        self, query: Query, number: int, without: frozenset[str]
    ) -> tuple[Attempt, list[Fallback]]:
        """One attempt, without replies; it has a refusal when nobody may be asked.

        :param number: of the attempt; documents are put back in the first alone.
        :param without: ids that must not come back.
        :raises RankingError: when a stage's own policy says raise.
        """
        start = self._clock()
        found = self._retrieved(query, without)
        nothing = Attempt(
            number, self._config.depth, tuple(sorted(without)), (), (), (),
            partial=True, retrieval_seconds=self._clock() - start,
        )  # fmt: skip
        if isinstance(found, str):
            mode = Mode(self._config.on_retrieval_failure)
            problem = f"the retrieval failed: {found}"
            said = _STOPPED if mode is Mode.CLOSED else "asked without documents"
            refusal = problem if mode is Mode.CLOSED else None
            failed = Fallback("retrieval", problem, said, mode)
            return dataclasses.replace(nothing, refusal=refusal), [failed]
        if not found.entries:
            return dataclasses.replace(nothing, refusal="nothing was retrieved"), []
        watch = _Watch(self._clock, Mode(self._config.on_stage_failure), Flow(found, found))
        outcome = self._through_stages(found, watch)
        kept, fallbacks, more = outcome.kept, watch.fallbacks, tuple[Step, ...]()
        refusal = watch.refusal
        if refusal is None and not kept:
            refusal = "every retrieved document was taken out"
            mode = Mode(self._config.on_nothing_left)
            said = _STOPPED
            if mode is Mode.OPEN and number == 1:
                kept, more = _restored(found, self._config.context_size)
                said = f"the first {len(kept)} documents of the retrieval were put back"
            fallbacks.append(Fallback("context", refusal, said, mode))
            refusal = None if more else refusal
        steps = (*outcome.trace, *more)
        attempt = dataclasses.replace(
            nothing,
            documents=_documents(outcome, kept, steps),
            stages=tuple(watch.runs),
            notes=tuple(step for step in steps if step.document_id is None),
            partial=outcome.partial or bool(more),
            refusal=refusal,
        )
        return attempt, fallbacks

    def _retrieved(self, query: Query, without: frozenset[str]) -> Ranking | str:
        """What the index gives, or why it gives nothing."""
        try:
            found = self._retriever.retrieve(query, depth=self._config.depth, without=without)
            # Whatever the index does, a document that was taken out does not come back.
            left = [entry for entry in found.entries if entry.document.id not in without]
            return Ranking(query.id, query.text, ()).renumbered(left[: self._config.depth])
        except Exception as error:  # noqa: BLE001 -- an index that fails is a policy's case
            return _said(error)

    def _through_stages(self, ranking: Ranking, watch: _Watch) -> Outcome:
        pipeline = Pipeline(
            [_Watched(stage, watch) for stage in self._stages],
            context_size=self._config.context_size,
            on_few_survivors=self._config.on_few_survivors,
        )
        try:
            return pipeline.run(ranking)
        except _StageFailedError:
            # Nothing is handed over; the trace says how far it came.
            flow = watch.flow
            return Outcome(
                ranking=flow.retrieved,
                kept=(),
                survivors=flow.ranking,
                quarantined_ids=flow.quarantined_ids,
                removed_ids=flow.removed_ids,
                verdicts=flow.verdicts,
                trace=flow.trace,
                partial=True,
            )


class _StageFailedError(Exception):
    """A stage failed and the policy is closed."""


class _Watch:
    """What the stages of one run took and did; holds the flow as the last one left it."""

    def __init__(self, clock: Clock, mode: Mode, flow: Flow) -> None:
        self.clock = clock
        self.mode = mode
        self.flow = flow
        self.runs: list[StageRun] = []
        self.fallbacks: list[Fallback] = []
        self.refusal: str | None = None


class _Watched:
    """A stage that is timed, and whose failure is a policy's case."""

    def __init__(self, stage: Stage, watch: _Watch) -> None:
        self._stage = stage
        self._watch = watch
        self.name = stage.name

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        watch, entered = self._watch, len(flows[0].ranking)
        start = watch.clock()
        problem = None
        try:
            moved = list(self._stage.run(flows))
        except RankingError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever breaks a stage is a policy's case
            problem = _said(error)
            note = Step(self.name, Action.NOTED, f"failed: {problem}")
            moved = [flow.noted(note, partial=True) for flow in flows]
        watch.flow = moved[0]
        seconds = watch.clock() - start
        watch.runs.append(StageRun(self.name, seconds, entered, len(moved[0].ranking), problem))
        if problem is not None:
            refusal = f"the stage {self.name} failed: {problem}"
            closed = watch.mode is Mode.CLOSED
            said = _STOPPED if closed else "went on without the stage"
            watch.fallbacks.append(Fallback("stage", refusal, said, watch.mode))
            if closed:
                watch.refusal = refusal
                raise _StageFailedError
        return moved


def _restored(ranking: Ranking, size: int) -> tuple[tuple[RankedDocument, ...], tuple[Step, ...]]:
    kept = ranking.entries[:size]
    reason = "put back, because every document was taken out and the policy is open"
    steps = (Step("context", Action.RESTORED, reason, one.document.id, one.rank) for one in kept)
    return ranking.renumbered(kept).entries, tuple(steps)


def _documents(
    outcome: Outcome, kept: Sequence[RankedDocument], steps: Sequence[Step]
) -> tuple[DocumentTrace, ...]:
    places = {entry.document.id: entry.rank for entry in reversed(kept)}
    verdicts = {verdict.document_id: verdict for verdict in outcome.verdicts}
    found = []
    for entry in outcome.ranking.entries:
        name = entry.document.id
        own = tuple(step for step in steps if step.document_id == name)
        # An id that stands twice is in the context once; the repeat has no place.
        place = places.pop(name, None)
        found.append(
            DocumentTrace(entry.document, entry.rank, entry.similarity, place, own,
                          verdicts.get(name))
        )  # fmt: skip
    return tuple(found)


def _said(error: Exception) -> str:
    # The message of a foreign exception may hold what must not be shown.
    if isinstance(error, RagsieveError):
        return str(error) or type(error).__name__
    return f"unexpected {type(error).__name__}"
