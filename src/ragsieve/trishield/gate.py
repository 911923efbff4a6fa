"""Ring 3's gate: did the rings before leave anything uncertain?"""

from __future__ import annotations

from ragsieve.records import Decision
from ragsieve.trishield.policy import ConsensusConfig, Gate
from ragsieve.trishield.retrieval_scorer import MAJORITY, TRUST
from ragsieve.trishield.trace import Attempt, GateDecision

_HALF = 0.5
_SHOWN = 3


def decide_gate(attempt: Attempt, config: ConsensusConfig) -> GateDecision:
    """Whether the whole panel is asked about this context.

    Uncertain is: a document was taken out that would have stood in the context; trust in the
    context's documents differs widely; one of them comes near the sieve's threshold or could not
    be judged; more than half of what was retrieved is the same text; something is partial.
    """
    reasons = (*_taken_out(attempt), *_spread(attempt, config), *_near(attempt, config),
               *_copies(attempt))  # fmt: skip
    if not reasons and attempt.partial:
        reasons = ("something could not be judged or supplied",)
    opened = config.gate == Gate.ALWAYS or (config.gate == Gate.GATED and bool(reasons))
    return GateDecision(Gate(config.gate), opened, reasons)


def _taken_out(attempt: Attempt) -> tuple[str, ...]:
    deepest = max((one.rank for one in attempt.context), default=0)
    found = [
        f"{step.stage} took out rank {one.rank}"
        for one in attempt.documents
        if one.rank < deepest and (step := one.removal) is not None
    ]
    more = len(found) - _SHOWN
    return (*found[:_SHOWN], f"and {more} more") if more > 0 else tuple(found)


def _spread(attempt: Attempt, config: ConsensusConfig) -> tuple[str, ...]:
    known = [trust for one in attempt.context if (trust := one.measured(TRUST)) is not None]
    spread = max(known) - min(known) if known else 0.0
    if spread <= config.spread_above:
        return ()
    return (f"trust in the context differs by {spread:.3f}, more than {config.spread_above:g}",)


def _near(attempt: Attempt, config: ConsensusConfig) -> tuple[str, ...]:
    found = []
    for one in attempt.context:
        verdict = one.verdict
        if verdict is None:
            continue
        if verdict.decision is Decision.UNDECIDED:
            found.append(f"place {one.place} could not be judged completely")
        elif verdict.score >= config.near_share * verdict.threshold:
            found.append(
                f"place {one.place} scores {verdict.score:.3f}, the threshold is "
                f"{verdict.threshold:g}"
            )
    return tuple(found)


def _copies(attempt: Attempt) -> tuple[str, ...]:
    return tuple(
        step.reason
        for step in attempt.notes
        if float(dict(step.components).get(MAJORITY) or 0.0) > _HALF
    )
