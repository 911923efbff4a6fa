"""What a detector would have decided without one of its evidences, from saved predictions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator

from ragsieve.detectors.paper_corpus import INTEGRITY, TOPOLOGY, PaperCorpusConfig
from ragsieve.detectors.paper_query import (
    ANSWER_ANCHOR,
    QUERY_ALIGNMENT,
    SCRIPT_INTEGRITY,
    SURPRISAL,
)
from ragsieve.detectors.rules import decide, level_of
from ragsieve.errors import InputError
from ragsieve.files.predictions import Prediction
from ragsieve.records import Evidence, Level


class Variant(enum.StrEnum):
    """The published ablations."""

    WITHOUT_ANSWER_ANCHOR = "without-answer-anchor"
    WITHOUT_SCRIPT_INTEGRITY = "without-script-integrity"
    WITHOUT_SURPRISAL = "without-surprisal"
    WITHOUT_QUERY_ALIGNMENT = "without-query-alignment"
    CORPUS_LOCAL_ONLY = "corpus-local-only"
    SCRIPT_INTEGRITY_ONLY = "script-integrity-only"


_DROPPED = {
    Variant.WITHOUT_ANSWER_ANCHOR: ANSWER_ANCHOR,
    Variant.WITHOUT_SCRIPT_INTEGRITY: SCRIPT_INTEGRITY,
    Variant.WITHOUT_SURPRISAL: SURPRISAL,
    Variant.WITHOUT_QUERY_ALIGNMENT: QUERY_ALIGNMENT,
}


def ablate(predictions: Iterable[Prediction], variant: Variant) -> Iterator[Prediction]:
    """Predictions as the variant would have made them, same threshold.

    RSQ without one branch is the sum of the others. RSG corpus-local only gives topology
    the whole alert budget; script only keeps the integrity predicate.

    :raises InputError: when the predictions are not of the detector the variant is about.
    """
    for row in predictions:
        if row.profile != "paper":
            raise InputError(f"ablations are defined for profile paper, found {row.profile!r}")
        on_query = variant in _DROPPED
        if on_query != (row.query_id is not None):
            needed = "filter" if on_query else "scan"
            raise InputError(f"variant {variant} needs predictions of `ragsieve {needed}`")
        evidences = _without(row, _DROPPED[variant]) if on_query else _alone(row, variant)
        values = [one.value for one in evidences if one.value is not None]
        score = float(sum(values))
        complete = len(values) == len(evidences)
        decision = decide(score, row.threshold, complete=complete)
        yield dataclasses.replace(
            row,
            profile=f"{row.profile}:{variant}",
            evidences=evidences,
            score=score,
            decision=decision,
            # The published detector knows one flag.
            level=level_of(decision, lambda _evidences, _score: Level.QUARANTINE, evidences, score),
            # What a deployment did belongs to the decision that was made, not to this one.
            removed=None,
        )


def _without(row: Prediction, name: str) -> tuple[Evidence, ...]:
    return tuple(one for one in row.evidences if one.name != name)


def _alone(row: Prediction, variant: Variant) -> tuple[Evidence, ...]:
    name = INTEGRITY if variant is Variant.SCRIPT_INTEGRITY_ONLY else TOPOLOGY
    found = row.evidence(name)
    if found is None:
        raise InputError(f"document {row.document_id!r} has no evidence {name!r}")
    if variant is Variant.SCRIPT_INTEGRITY_ONLY or not found.measured:
        return (found,)
    tail = row.numbers.get("upper_tail_probability")
    if tail is None or not tail > 0:
        raise InputError(f"document {row.document_id!r} has no upper_tail_probability")
    budget = PaperCorpusConfig().alert_budget
    return (Evidence(TOPOLOGY, min(1.0, 0.5 * budget / tail)),)
