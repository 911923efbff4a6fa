"""Answers of one cell: from contexts, by a defence that answers, or by a pipeline."""

from __future__ import annotations

import dataclasses
from typing import cast

from ragsieve.lab.comparators.base import ControlPoint, GenerationDefense
from ragsieve.lab.experiments.answering import Examiner, judge_of
from ragsieve.lab.experiments.asked import Bill
from ragsieve.lab.experiments.judging import Judges
from ragsieve.lab.experiments.materials import Case, Materials, Staged
from ragsieve.lab.experiments.needs import Parts, Surrounds
from ragsieve.lab.experiments.outcome import Condition, Judged
from ragsieve.lab.experiments.pipelines import (
    Plan,
    RewrittenRetriever,
    plan_of,
    shield_of,
    stages_of,
)
from ragsieve.lab.experiments.spec import Cell, Experiment, MethodKind, PipelineName
from ragsieve.ports import Retriever
from ragsieve.records import Query, Ranking
from ragsieve.retrieval import rank
from ragsieve.trishield.orchestrator import Shield
from ragsieve.trishield.retrieved import RetrievedBefore


class Answering:
    """Asks the experiment's members and adds their answers to what was judged."""

    def __init__(
        self, experiment: Experiment, parts: Parts, materials: Materials, judges: Judges
    ) -> None:
        self._experiment = experiment
        self._parts = parts
        self._materials = materials
        self._judges = judges

    def answered(self, cell: Cell, staged: Staged, judged: Judged) -> Judged:
        """The same with answers; unchanged where the experiment asks for none.

        :raises UnavailableError: when no chat model is at hand.
        :raises BackendError: when a member or the judge fails.
        """
        answers = self._experiment.answers
        if answers is None:
            return judged
        members = self._parts.members(answers)
        bill = Bill(members)
        examiner = Examiner(
            bill=bill,
            # Its replies are no part of what an answer cost.
            judge=judge_of(answers, next(iter(members.values()))),
            targets={target.query.id: target for target in staged.written.targets},
            references=self._materials.dataset.answers,
            tokens=answers.answer_tokens,
        )
        cases = {Condition.POISONED: staged.poisoned, Condition.UNPOISONED: staged.unpoisoned}
        if cell.method.kind is MethodKind.PIPELINE:
            judged = self._piped(cell, judged, examiner, cases)
        elif judged.facts.control_point == ControlPoint.GENERATION:
            found = examiner.from_defense(self._defense(cell, staged), cases)
            judged = dataclasses.replace(judged, answers=found)
        else:
            found = examiner.from_contexts(judged.contexts, cases)
            judged = dataclasses.replace(judged, answers=found)
        return dataclasses.replace(judged, judge=examiner.judge.identity)

    def _piped(
        self, cell: Cell, judged: Judged, examiner: Examiner, cases: dict[Condition, Case]
    ) -> Judged:
        plan = plan_of(PipelineName(cell.method.name), self._experiment)
        rewriting: list[RewrittenRetriever] = []

        def shield(_: Condition, case: Case) -> Shield:
            retriever: Retriever = RetrievedBefore(case.rankings)
            if plan.name is PipelineName.PARAPHRASED:
                rewriting.append(RewrittenRetriever(examiner.bill.first, self._search(case)))
                retriever = rewriting[-1]
            return self._shield(plan, case, retriever, examiner.bill)

        contexts, answers = examiner.from_pipeline(shield, cases, self._experiment.context)
        notes = list(judged.notes)
        if unusable := sum(one.unusable for one in rewriting):
            asked = sum(one.asked for one in rewriting)
            notes.append(
                f"{unusable} of {asked} rewrites were no other question; the question itself was "
                "retrieved for"
            )
        return dataclasses.replace(judged, contexts=contexts, answers=answers, notes=tuple(notes))

    def _shield(self, plan: Plan, case: Case, retriever: Retriever, bill: Bill) -> Shield:
        sieving = self._judges.sieving(case) if plan.name.sieves else ()
        return shield_of(plan, retriever, stages_of(plan, case, sieving), bill.members)

    def _search(self, case: Case) -> _Search:
        return _Search(self._parts, self._experiment.retriever, case)

    def _defense(self, cell: Cell, staged: Staged) -> GenerationDefense:
        around = Surrounds(
            dataset=self._materials.dataset,
            clean_rows=self._materials.rows,
            documents=staged.poisoned.documents,
            rows=staged.poisoned.rows,
            targets=frozenset(staged.targets),
            retriever=self._experiment.retriever,
        )
        built = self._parts.comparator(cell.method.name, around, self._experiment.models)
        # Its declared control point is generation.
        return cast(GenerationDefense, built)


@dataclasses.dataclass(frozen=True, slots=True)
class _Search:
    """Ranks a case's index for a text that is none of its questions."""

    parts: Parts
    retriever: str
    case: Case

    def __call__(self, query: Query, depth: int) -> Ranking:
        vectors = self.parts.asked([query.text], self.retriever)
        return rank([query], self.case.documents, vectors, self.case.rows, depth=depth)[0]
