"""Ask for answers from what each defence hands over, and mark them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from ragsieve.chat.prompts import answer_prompt
from ragsieve.lab.comparators.base import GenerationDefense
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.experiments.asked import Bill, Spent
from ragsieve.lab.experiments.materials import Case
from ragsieve.lab.experiments.outcome import Answer, Condition, Context
from ragsieve.lab.experiments.pipelines import check_trace, context_of, patient, stage_seconds
from ragsieve.lab.experiments.spec import Answers, JudgeKind
from ragsieve.lab.qa import ChatJudge, ContainmentJudge, Judge, best_f1, exact_match
from ragsieve.ports import ChatModel
from ragsieve.records import Query, Ranking
from ragsieve.trishield.consensus import Member, Panel
from ragsieve.trishield.orchestrator import Shield


def judge_of(answers: Answers, chat: ChatModel) -> Judge:
    """The judge an experiment names; the answering model judges where a model is asked for."""
    return ChatJudge(chat) if answers.judge is JudgeKind.CHAT else ContainmentJudge()


@dataclasses.dataclass(frozen=True, slots=True)
class Examiner:
    """Asks and marks; prompts and what counts as an answer are the same for every method.

    :param bill: counts what the members reply.
    :param targets: by query id; a question that is none has references alone.
    :param references: reference answers by query id.
    :param tokens: of a reply.
    """

    bill: Bill
    judge: Judge
    targets: Mapping[str, Target]
    references: Mapping[str, tuple[str, ...]]
    tokens: int = 128

    def from_contexts(
        self, contexts: Sequence[Context], cases: Mapping[Condition, Case]
    ) -> tuple[Answer, ...]:
        """One answer a context by the first member, from the documents left after the defence.

        :raises BackendError: when the model or the judge fails.
        """
        of_case = {
            condition: {document.id: document for document in case.documents}
            for condition, case in cases.items()
        }
        asked = {
            (condition, query.id): query.text
            for condition, case in cases.items()
            for query in case.queries
        }
        panel = Panel([Member("first", self.bill.first)], patient(self.tokens))
        answers = []
        for context in contexts:
            known = of_case[context.condition]
            documents = [known[name] for name in context.after]
            question = asked[context.condition, context.query_id]
            reply = None
            # Without a document nobody is asked, as in a pipeline.
            if documents:
                reply = panel.ask_alone(answer_prompt(question, documents), question).answer
            answers.append(
                self._marked(context.condition, Query(context.query_id, question), reply)
            )
        return tuple(answers)

    def from_defense(
        self, defense: GenerationDefense, cases: Mapping[Condition, Case]
    ) -> tuple[Answer, ...]:
        """One answer a ranking, by a defence that answers itself through the first member.

        :raises BackendError: when the model or the judge fails.
        """
        answers = []
        for condition, case in cases.items():
            for ranking in case.rankings:
                reply = defense.answer(ranking.query, ranking, self.bill.first).text
                query = Query(ranking.query_id, ranking.query)
                answers.append(self._marked(condition, query, reply))
        return tuple(answers)

    def from_pipeline(
        self,
        shield: Callable[[Condition, Case], Shield],
        cases: Mapping[Condition, Case],
        size: int,
    ) -> tuple[tuple[Context, ...], tuple[Answer, ...]]:
        """What a pipeline handed over for each question, and what it answered.

        :param shield: the pipeline over a case.
        :param size: documents of the undefended context.
        :raises BackendError: when a member, the retrieval, a stage or the judge fails.
        """
        contexts, answers = [], []
        for condition, case in cases.items():
            pipeline = shield(condition, case)
            for query, ranking in zip(case.queries, case.rankings, strict=True):
                trace = pipeline.answer(query)
                check_trace(trace)
                before = _first(ranking, size)
                contexts.append(Context(condition, query.id, before, context_of(trace)))
                marked = self._marked(condition, query, trace.answer)
                answers.append(
                    dataclasses.replace(
                        marked, stage_seconds=stage_seconds(trace), agreed=trace.agreed
                    )
                )
        return tuple(contexts), tuple(answers)

    def _marked(self, condition: Condition, query: Query, reply: str | None) -> Answer:
        # Before the judge, which may be one of the members, is asked.
        spent: Spent = self.bill.settle()
        said = reply or ""
        target = self.targets.get(query.id)
        references = self.references.get(query.id) or (target.correct_answers if target else ())
        target_said = correct_said = False
        if target is not None and said:
            ruling = self.judge.rule(query.text, references, target.target_answer, said)
            target_said, correct_said = ruling.target_supported, ruling.correct_supported
        return Answer(
            condition=condition,
            query_id=query.id,
            text=said,
            exact=exact_match(said, references) if references else None,
            f1=best_f1(said, references) if references else None,
            target_supported=target_said,
            correct_supported=correct_said,
            seconds=spent.seconds,
            calls=spent.calls,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
        )


def _first(ranking: Ranking, size: int) -> tuple[str, ...]:
    return tuple(document.id for document in ranking.documents[:size])
