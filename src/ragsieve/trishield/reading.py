"""A trace in words, a line for every decision."""

from __future__ import annotations

from ragsieve.display import visible
from ragsieve.outcomes import Step
from ragsieve.records import Verdict
from ragsieve.trishield.authorisation import Authorisation
from ragsieve.trishield.ballots import Ballot, MemberReply
from ragsieve.trishield.trace import AnswerTrace, Attempt, DocumentTrace, Status

MEANING = (
    "A score is evidence of promotion or of inconsistency, never a verdict on truth; "
    "what agrees can be wrong together."
)
_NAME, _TEXT = 80, 240


def explain_trace(trace: AnswerTrace) -> list[str]:
    """The answer, then what led to it, one line each, indented by two spaces a level.

    Foreign text stands in quotes, on one line, with nothing invisible in it: it can neither
    begin a line of its own nor leave its quotes.
    """
    lines = [f"Question: {quote(trace.query.text)}", _ending(trace)]
    lines += [f"  withheld answer: {quote(trace.withheld)}"] if trace.withheld is not None else []
    if trace.authorisation is not None:
        lines += _authorisation(trace.authorisation)
    for place, one in enumerate(trace.context, start=1):
        lines.append(f"  source {place}: {_document(one)}")
    for attempt in trace.attempts:
        lines += _attempt(attempt)
        if attempt.number == 1 and trace.gate is not None:
            state = "the whole panel is asked" if trace.gate.opened else "one member answers alone"
            why = "; ".join(visible(reason) for reason in trace.gate.reasons) or "nothing uncertain"
            lines.append(f"  gate {trace.gate.mode}: {state} ({why})")
        if attempt.ballot is not None:
            lines += _ballot(attempt.ballot)
        lines += [_step(step, named=True) for step in attempt.dropped]
    for back in trace.fallbacks:
        mode = f" [fail-{back.mode}]" if back.mode is not None else ""
        lines.append(
            f"Fallback{mode} at {back.where}: {visible(back.problem)}: {visible(back.consequence)}"
        )
    for spent in trace.tokens:
        counted = f"{_known(spent.prompt)} tokens in, {_known(spent.completion)} out"
        lines.append(f"{quote(spent.member)}: {spent.calls} calls, {counted}")
    lines.append(f"{trace.seconds:.2f} seconds in all.")
    lines.append(MEANING)
    return lines


def quote(text: str | None, limit: int = _TEXT) -> str:
    """Foreign text in straight quotes that it cannot close."""
    return '"' + visible(text or "", limit=limit).replace('"', "'") + '"'


def _ending(trace: AnswerTrace) -> str:
    if trace.status is not Status.ANSWERED:
        return f"No answer ({trace.status}): {visible(trace.reason)}"
    agreed = {True: "agreed", False: "NOT agreed", None: "not put to the panel"}[trace.agreed]
    return f"Answer ({agreed}): {quote(trace.answer)}: {visible(trace.reason)}"


def _authorisation(found: Authorisation) -> list[str]:
    return [f"  check {one.name}: {one.state}, {visible(one.reason)}" for one in found.checks]


def _attempt(attempt: Attempt) -> list[str]:
    asked = f"{len(attempt.documents)} of {attempt.depth} documents"
    left_out = f", {len(attempt.without)} left out" if attempt.without else ""
    lines = [
        f"Attempt {attempt.number}: retrieved {asked}{left_out} in "
        f"{attempt.retrieval_seconds:.3f} seconds"
    ]
    for run in attempt.stages:
        failed = f", failed: {visible(run.failure)}" if run.failure is not None else ""
        lines.append(
            f"  stage {run.stage}: {run.entered} documents in, {run.left} out, "
            f"{run.seconds:.3f} seconds{failed}"
        )
    lines += [f"  {step.stage}: {visible(step.reason)}" for step in attempt.notes]
    for one in attempt.documents:
        # A document far down that nothing was done to needs no line.
        if one.place is not None or one.removal is not None:
            lines.append(f"  rank {one.rank}: {_document(one)}: {_fate(one)}")
            lines += [_step(step, named=False) for step in one.steps]
            lines += [] if one.verdict is None else [_verdict(one.verdict)]
    if attempt.refusal is not None:
        lines.append(f"  nobody was asked: {visible(attempt.refusal)}")
    return lines


def _document(one: DocumentTrace) -> str:
    document = one.document
    title = f" {quote(document.title, _NAME)}" if document.title else ""
    source = document.provenance.source
    declared = f", declares source {quote(source, _NAME)}" if source else ""
    return f"{quote(document.id, _NAME)}{title}{declared}"


def _fate(one: DocumentTrace) -> str:
    if one.place is not None:
        return f"in the context, place {one.place}"
    step = one.removal
    return "not in the context" if step is None else f"taken out by {step.stage}"


def _step(step: Step, *, named: bool) -> str:
    name = f" {quote(step.document_id, _NAME)}" if named else ""
    numbers = ", ".join(
        f"{key} {_value(value)}" for key, value in step.components if value is not None
    )
    missing = [key for key, value in step.components if value is None]
    told = f" [{numbers}]" if numbers else ""
    unknown = f" [not measured: {', '.join(missing)}]" if missing else ""
    return f"    {step.stage} {step.action}{name}: {visible(step.reason)}{told}{unknown}"


def _verdict(verdict: Verdict) -> str:
    found = "; ".join(
        f"{one.name} {one.value:.3f}"
        if one.value is not None
        else f"{one.name} unavailable ({visible(one.reason or 'no reason given')})"
        for one in verdict.evidences
    )
    return f"    judged {verdict.decision}, score {verdict.score:.3f} of {verdict.threshold:g}: {found}"


def _ballot(ballot: Ballot) -> list[str]:
    lines = [f"  {_reply(one)}" for one in ballot.replies]
    for group in ballot.groups:
        members = ", ".join(quote(name, _NAME) for name in group.members)
        lines.append(f"  votes for {quote(group.answer)}: {members}, weight {group.weight:g}")
    if ballot.agreement is not None:
        state = "accepted" if ballot.accepted else "not accepted"
        tied = ", the largest groups are equal" if ballot.tied else ""
        lines.append(
            f"  agreement {ballot.agreement:.3f} of weight {ballot.asked_weight:g}, "
            f"{ballot.threshold:.3f} needed: {state}{tied}"
        )
    return lines


def _reply(one: MemberReply) -> str:
    said = f" {quote(one.content)}" if one.content is not None else ""
    why = f" ({visible(one.reason)})" if one.reason is not None else ""
    return (
        f"{quote(one.member, _NAME)} {one.standing}{why}{said}, weight {one.weight:g}, "
        f"{one.seconds:.2f} seconds"
    )


def _value(value: float | str | None) -> str:
    return f"{value:.3f}" if isinstance(value, float) else visible(str(value))


def _known(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
