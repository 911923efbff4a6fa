"""Run stages over retrievals, keep one trace, hand the first k survivors to the generator."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Protocol

from ragsieve.defense.policy import Resort
from ragsieve.errors import RankingError
from ragsieve.outcomes import Action, Outcome, Ruling, Step
from ragsieve.records import Ranking, Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """A retrieval on its way through the stages.

    :param ranking: what is left, renumbered, in its full depth.
    :param partial: True once something could not be judged or supplied.
    """

    retrieved: Ranking
    ranking: Ranking
    quarantined_ids: tuple[str, ...] = ()
    removed_ids: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    trace: tuple[Step, ...] = ()
    partial: bool = False

    def noted(self, *steps: Step, partial: bool = False) -> Flow:
        """This flow with further steps in its trace."""
        return dataclasses.replace(self, trace=self.trace + steps, partial=self.partial or partial)


class Stage(Protocol):
    """One step of a defence."""

    @property
    def name(self) -> str:
        """As it stands in traces."""
        ...

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        """The flows after this stage, in the same order.

        :raises RankingError: when a ranking cannot be judged and the policy says raise.
        """
        ...


class Pipeline:
    """A sequence of stages and the size of the context they leave.

    :param stages: run in order.
    :param context_size: documents handed to the generator, k >= 1.
    :param on_few_survivors: what fewer than k survivors lead to.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        context_size: int = 5,
        on_few_survivors: Resort = Resort.KEEP,
    ) -> None:
        if context_size < 1:
            raise ValueError("context_size must be at least 1")
        self._stages = tuple(stages)
        self._context_size = context_size
        self._on_few_survivors = on_few_survivors

    def run(self, ranking: Ranking) -> Outcome:
        """Defend one retrieval.

        :raises RankingError: when it cannot be judged and the policy says raise.
        """
        return self.run_many([ranking])[0]

    def run_many(self, rankings: Sequence[Ranking]) -> list[Outcome]:
        """Defend several retrievals; stages see them together and batch their model calls.

        :raises RankingError: when one cannot be judged and the policy says raise.
        """
        flows = [Flow(retrieved=ranking, ranking=ranking) for ranking in rankings]
        for stage in self._stages:
            flows = stage.run(flows)
        return [self._finish(flow) for flow in flows]

    def _finish(self, flow: Flow) -> Outcome:
        kept = flow.ranking.entries[: self._context_size]
        first = {entry.document.id for entry in flow.retrieved.entries[: self._context_size]}
        measured: dict[str | None, set[str]] = {}
        for step in flow.trace:
            if step.components:
                measured.setdefault(step.document_id, set()).add(step.stage)
        steps = [
            Step("refill", Action.REFILLED, _moved_up(measured.get(entry.document.id, set())),
                 entry.document.id, entry.rank)
            if entry.document.id not in first
            else Step("refill", Action.KEPT, "among the first survivors", entry.document.id, entry.rank)
            for entry in kept
        ]  # fmt: skip
        partial = flow.partial
        if len(kept) < self._context_size:
            partial = True
            problem = f"{len(kept)} documents survive, the context holds {self._context_size}"
            if self._on_few_survivors is Resort.RAISE:
                raise RankingError(
                    f"query {flow.ranking.query_id!r}: {problem}; retrieve deeper, or choose "
                    "keep or remove"
                )
            if self._on_few_survivors is Resort.REMOVE:
                kept, steps = (), []
                problem += "; nothing is handed over"
            steps.append(Step("refill", Action.NOTED, problem))
        return Outcome(
            ranking=flow.retrieved,
            kept=flow.ranking.renumbered(kept).entries,
            survivors=flow.ranking,
            quarantined_ids=flow.quarantined_ids,
            removed_ids=flow.removed_ids,
            verdicts=flow.verdicts,
            rulings=flow.rulings,
            trace=(*flow.trace, *steps),
            partial=partial,
        )


def _moved_up(stages: Collection[str]) -> str:
    if not stages:
        return "next survivor of the same ranking, not scored again"
    return f"next survivor of the same ranking, scored by {', '.join(sorted(stages))} alone"
