"""One call from question to answer: retrieve, run the stages, ask the panel, keep the trace."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Sequence

from ragsieve.chat.prompts import answer_prompt
from ragsieve.defense.pipeline import Stage
from ragsieve.outcomes import Action, Step
from ragsieve.ports import Retriever
from ragsieve.records import Query
from ragsieve.trishield.authorisation import AnswerPolicy, Authorisation, authorise
from ragsieve.trishield.ballots import Ballot
from ragsieve.trishield.consensus import Panel
from ragsieve.trishield.gate import decide_gate
from ragsieve.trishield.passage import Passage
from ragsieve.trishield.policy import Disagreement, Mode, ShieldConfig
from ragsieve.trishield.retrieval_scorer import TRUST
from ragsieve.trishield.trace import (
    AnswerTrace,
    Attempt,
    DocumentTrace,
    Fallback,
    GateDecision,
    Status,
)

CONSENSUS = "consensus"


class Shield:
    """A defended question-answering pipeline; keeps nothing between calls.

    :param stages: run in order on every retrieval; any of the sieve's quarantine, ring 1, the
        sieve and ring 2, or none.
    :param panel: who answers; its configuration holds the gate and the retry.
    :param answer_policy: what is checked after the answer; None checks nothing.
    :param clock: seconds, for measuring.
    """

    def __init__(
        self,
        retriever: Retriever,
        stages: Sequence[Stage],
        panel: Panel,
        config: ShieldConfig | None = None,
        *,
        answer_policy: AnswerPolicy | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._config = config or ShieldConfig()
        self._passage = Passage(retriever, stages, self._config, clock)
        self._panel = panel
        self._answer_policy = answer_policy
        self._clock = clock

    def answer(self, query: Query, *, now: datetime.datetime | None = None) -> AnswerTrace:
        """Answer one question; what fails on the way is in the trace, not raised.

        :param now: for the answer policy's check of validity.
        :raises RankingError: when a stage's own policy says raise.
        """
        return _Answering(self, query, now).run()


class _Answering:
    """One question on its way through the shield."""

    def __init__(self, shield: Shield, query: Query, now: datetime.datetime | None) -> None:
        self._shield = shield
        self._query = query
        self._now = now
        self._panel = shield._panel
        self._clock = shield._clock
        self._start = self._clock()
        self._attempts: list[Attempt] = []
        self._fallbacks: list[Fallback] = []
        self._gate: GateDecision | None = None

    def run(self) -> AnswerTrace:
        first = self._retrieve(frozenset())
        if first.refusal is not None:
            return self._end(Status.ABSTAINED, first.refusal)
        self._gate = decide_gate(first, self._panel.config)
        ballot = self._ask(first, panel=self._gate.opened)
        if not self._gate.opened:
            return self._alone(ballot)
        if ballot.accepted:
            return self._decided(ballot)
        if self._panel.config.retry:
            ballot = self._retry(ballot)
        return self._decided(ballot)

    def _retrieve(self, without: frozenset[str]) -> Attempt:
        number = len(self._attempts) + 1
        attempt, fallbacks = self._shield._passage.run(self._query, number, without)
        self._attempts.append(attempt)
        self._fallbacks += fallbacks
        return attempt

    def _ask(self, attempt: Attempt, *, panel: bool) -> Ballot:
        documents = [one.document for one in attempt.context]
        messages = answer_prompt(self._query.text, documents)
        start = self._clock()
        ask = self._panel.ask if panel else self._panel.ask_alone
        ballot = ask(messages, self._query.text)
        self._attempts[attempt.number - 1] = dataclasses.replace(
            attempt, ballot=ballot, asking_seconds=self._clock() - start
        )
        return ballot

    def _retry(self, ballot: Ballot) -> Ballot:
        if ballot.broken:
            self._fell_back("retry", "every member failed", "not asked again")
            return ballot
        first = self._attempts[0]
        dropped = _lowest_third(first)
        self._attempts[0] = dataclasses.replace(first, dropped=dropped)
        without = _taken_out(first) | {step.document_id or "" for step in dropped}
        second = self._retrieve(without)
        if second.refusal is not None:
            self._fell_back("retry", second.refusal, "the replies to the first context stand")
            return ballot
        known = {one.document.id for one in first.documents}
        if not any(one.document.id not in known for one in second.documents):
            self._fell_back(
                "retry", "the index holds no other document", "asked with what was left"
            )
        return self._ask(second, panel=True)

    def _alone(self, ballot: Ballot) -> AnswerTrace:
        *failed, last = ballot.replies
        for one in failed:
            self._fell_back(
                "member", f"{one.member}: {one.reason}", "the next member was asked", Mode.OPEN
            )
        if ballot.answer is None:
            if last.standing.broken:
                mode = Mode(self._panel.config.on_member_failure)
                self._fell_back("member", f"{last.member}: {last.reason}", "no answer", mode)
            return self._end(Status.ABSTAINED, f"{last.member} gave no answer: {last.reason}")
        return self._given(ballot.answer, None, f"{last.member} answered alone")

    def _decided(self, ballot: Ballot) -> AnswerTrace:
        if ballot.answer is None:
            return self._end(Status.ABSTAINED, "no member gave an answer that counts", agreed=False)
        shares = f"{ballot.agreement:.3f} of the weight, {ballot.threshold:.3f} needed"
        if ballot.accepted:
            return self._given(ballot.answer, True, f"the panel agrees: {shares}")
        reason = f"the panel does not agree: {shares}"
        if ballot.tied:
            reason += "; the largest groups are equal, the panel's order decides"
        if self._panel.config.on_disagreement == Disagreement.ABSTAIN:
            return self._end(Status.ABSTAINED, reason, agreed=False, withheld=ballot.answer)
        self._fell_back("consensus", reason, "the majority's answer is given as not agreed")
        return self._given(ballot.answer, False, reason)

    def _given(self, answer: str, agreed: bool | None, reason: str) -> AnswerTrace:
        policy = self._shield._answer_policy
        if policy is None:
            return self._end(Status.ANSWERED, reason, agreed=agreed, answer=answer)
        context = [one.document for one in self._answered_from().context]
        checked = authorise(answer, self._query.text, context, policy, now=self._now)
        if checked.hand_over:
            reason = f"a person should decide: {'; '.join(checked.reasons)}"
            return self._end(Status.HAND_OVER, reason, agreed=agreed, withheld=answer,
                             checked=checked)  # fmt: skip
        return self._end(Status.ANSWERED, reason, agreed=agreed, answer=answer, checked=checked)

    def _answered_from(self) -> Attempt:
        return [one for one in self._attempts if one.ballot is not None][-1]

    def _fell_back(
        self, where: str, problem: str, consequence: str, mode: Mode | None = None
    ) -> None:
        self._fallbacks.append(Fallback(where, problem, consequence, mode))

    def _end(
        self,
        status: Status,
        reason: str,
        *,
        agreed: bool | None = None,
        answer: str | None = None,
        withheld: str | None = None,
        checked: Authorisation | None = None,
    ) -> AnswerTrace:
        spoken = answer is not None or withheld is not None
        return AnswerTrace(
            query=self._query,
            status=status,
            answer=answer,
            withheld=withheld,
            agreed=agreed,
            reason=reason,
            answered_from=self._answered_from().number if spoken else None,
            attempts=tuple(self._attempts),
            gate=self._gate,
            fallbacks=tuple(self._fallbacks),
            authorisation=checked,
            seconds=self._clock() - self._start,
            shield=self._shield._config,
            consensus=self._panel.config,
        )


def _taken_out(attempt: Attempt) -> frozenset[str]:
    kept = {one.document.id for one in attempt.context}
    removed = {one.document.id for one in attempt.documents if one.removal is not None}
    return frozenset(removed - kept)


def _lowest_third(attempt: Attempt) -> tuple[Step, ...]:
    """The least trusted third of a context, at least one; trust that is unknown counts least."""
    context = attempt.context
    trusts = {one.place: one.measured(TRUST) for one in context}

    def order(one: DocumentTrace) -> tuple[bool, float, int]:
        trust = trusts[one.place]
        return (trust is not None, trust or 0.0, -(one.place or 0))

    chosen = sorted(context, key=order)[: max(1, len(context) // 3)]
    return tuple(
        Step(
            CONSENSUS, Action.REMOVED,
            "dropped for the retry: " + (
                f"among the least trusted third, trust {trust:.3f}"
                if (trust := trusts[one.place]) is not None
                else "its trust was not measured"
            ),
            one.document.id, one.place, ((TRUST, trust),),
        )
        for one in chosen
    )  # fmt: skip
