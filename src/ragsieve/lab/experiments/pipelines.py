"""Pipelines that answer, made of the stages of ``ragsieve ask``, one ring at a time or all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from ragsieve.chat.answers import abstains, normalized
from ragsieve.chat.prompts import quoted
from ragsieve.defense.pipeline import Stage
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import BackendError
from ragsieve.features.rows import RowFeatures
from ragsieve.lab.experiments.materials import Case
from ragsieve.lab.experiments.spec import Experiment, PipelineName
from ragsieve.ports import ChatModel, Retriever
from ragsieve.records import ChatMessage, Query, Ranking
from ragsieve.trishield.consensus import Member, Panel
from ragsieve.trishield.ingest_guard import IngestGuard, IngestGuardConfig, IngestGuardStage
from ragsieve.trishield.orchestrator import Shield
from ragsieve.trishield.policy import ConsensusConfig, Gate, ShieldConfig
from ragsieve.trishield.retrieval_scorer import RetrievalScorer, RetrievalScorerConfig
from ragsieve.trishield.trace import AnswerTrace

LARGER = 2
"""How many times the context ``larger-k`` hands over."""
_ROUND_SECONDS = 86_400.0  # a slow machine must not change an answer
_REWRITE_TOKENS = 48
_FEWEST_WORDS, _MOST_TIMES = 3, 3


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The configurations of one pipeline: the defaults of each ring, no declared origins.

    Ring 3 alone asks the whole panel always, because without the other rings nothing is left
    uncertain for its gate to see.
    """

    name: PipelineName
    shield: ShieldConfig
    consensus: ConsensusConfig
    guard: IngestGuardConfig = IngestGuardConfig()
    scorer: RetrievalScorerConfig = RetrievalScorerConfig()

    def fingerprint(self) -> str:
        """Hash of the name and the constants."""
        return fingerprint(
            str(self.name), self.shield, self.consensus, self.guard, self.scorer, *_REWRITE
        )


def plan_of(name: PipelineName, experiment: Experiment) -> Plan:
    """The pipeline as an experiment runs it."""
    size = experiment.context * (LARGER if name is PipelineName.LARGER_K else 1)
    tokens = 1 if experiment.answers is None else experiment.answers.answer_tokens
    gate = Gate.NEVER
    if 3 in name.rings:  # noqa: PLR2004 -- the third ring
        gate = Gate.ALWAYS if name is PipelineName.RING_3 else Gate.GATED
    shield = ShieldConfig(context_size=size, depth=experiment.depth)
    return Plan(name, shield, patient(tokens, gate))


def patient(tokens: int, gate: Gate = Gate.NEVER) -> ConsensusConfig:
    """The defaults of ring 3 with replies of so many tokens, waited for however long they take."""
    return ConsensusConfig(gate=gate, max_tokens=tokens, timeout_seconds=_ROUND_SECONDS)


def stages_of(plan: Plan, case: Case, sieving: Sequence[Stage]) -> list[Stage]:
    """The stages in the order of ``ragsieve ask``: quarantine, ring 1, sieve, ring 2.

    :param sieving: quarantine and sieve of this index; none where the pipeline does not sieve.
    """
    found = list(sieving[:1])
    if 1 in plan.name.rings:
        guard = IngestGuard(plan.guard).fit(case.rows)
        found.append(IngestGuardStage(guard, RowFeatures(case.documents, case.rows)))
    found += sieving[1:]
    if 2 in plan.name.rings:  # noqa: PLR2004 -- the second ring
        found.append(RetrievalScorer(plan.scorer))
    return found


def shield_of(
    plan: Plan, retriever: Retriever, stages: Sequence[Stage], members: Mapping[str, ChatModel]
) -> Shield:
    """The pipeline over one index.

    :param members: by name; the first answers alone, all of them are ring 3's panel.
    """
    panel = [Member(name, chat) for name, chat in members.items()]
    if plan.consensus.gate == Gate.NEVER:
        panel = panel[:1]
    return Shield(retriever, stages, Panel(panel, plan.consensus), plan.shield)


def context_of(trace: AnswerTrace) -> tuple[str, ...]:
    """Ids of the documents somebody was last asked about; empty when nobody was."""
    asked = [attempt for attempt in trace.attempts if attempt.ballot is not None]
    return tuple(one.document.id for one in asked[-1].context) if asked else ()


def stage_seconds(trace: AnswerTrace) -> float:
    """What the stages took, over both retrievals where there were two."""
    return sum(run.seconds for attempt in trace.attempts for run in attempt.stages)


def check_trace(trace: AnswerTrace) -> None:
    """Refuse a trace in which something broke: that is no result of the pipeline.

    :raises BackendError: when the retrieval or a stage failed.
    """
    broken = [one for one in trace.fallbacks if one.where in {"retrieval", "stage"}]
    if broken:
        raise BackendError(broken[0].problem)


class RewrittenRetriever:
    """A :class:`ragsieve.ports.Retriever` that asks the index in other words.

    A rewrite that is no question of about the same length, or the same again, is not used: the
    question itself is retrieved for then.

    :param chat: rewrites.
    :param search: ranks the index for a question, to a depth.
    """

    def __init__(self, chat: ChatModel, search: Callable[[Query, int], Ranking]) -> None:
        self._chat = chat
        self._search = search
        self.asked = 0
        self.unusable = 0

    def retrieve(
        self, query: Query, *, depth: int, without: frozenset[str] = frozenset()
    ) -> Ranking:
        """The best documents for the rewritten question, under the question's own id.

        :raises BackendError: when there is no reply.
        """
        messages = [_REWRITE_SYSTEM, ChatMessage("user", _REQUEST.format(quoted(query.text)))]
        reply = self._chat.reply(messages, max_tokens=_REWRITE_TOKENS).content
        rewrite = rewritten(query.text, reply)
        self.asked += 1
        self.unusable += rewrite is None
        found = self._search(Query(query.id, rewrite or query.text), depth + len(without))
        left = [entry for entry in found.entries if entry.document.id not in without]
        return found.renumbered(left[:depth])


def rewritten(question: str, reply: str) -> str | None:
    """The reply's first line, when it can stand for the question."""
    lines = [line.strip().strip("\"'") for line in reply.splitlines()]
    line = next((one for one in lines if one), "")
    words = normalized(line).split()
    asked = normalized(question).split()
    fits = _FEWEST_WORDS <= len(words) <= _MOST_TIMES * len(asked)
    return line if fits and words != asked and not abstains(line) else None


_REWRITE_SYSTEM = ChatMessage(
    "system", "You rewrite questions in other words and keep their meaning."
)
_REQUEST = (
    "Ask this in other words. Reply with one question and nothing else.\n\n{}\n\nIn other words:"
)
_REWRITE = (_REWRITE_SYSTEM.content, _REQUEST, str(_REWRITE_TOKENS))
