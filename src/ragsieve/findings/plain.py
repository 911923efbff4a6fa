"""What the formats share: a finding's evidence in order, and text that is safe to hand on."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import math
from collections.abc import Sequence
from typing import Any

from ragsieve.cases import Incident
from ragsieve.display import visible
from ragsieve.errors import InputError
from ragsieve.findings.taxonomy import Rule, Taxonomy
from ragsieve.records import Evidence, Verdict

MEANING = (
    "A score is evidence that a document is promoted into retrieval, never a verdict on whether "
    "it is true; a document without a finding can be false."
)
TEXT_CHARACTERS = 4_000
"""Longest string of a document of another format; the native one cuts nothing."""


def leading(verdict: Verdict) -> Evidence | None:
    """The measured evidence with the largest value above 0; None when there is none."""
    spoke = [one for one in verdict.evidences if one.value is not None and one.value > 0.0]
    return max(spoke, key=lambda one: one.value or 0.0, default=None)


def heard(verdict: Verdict) -> tuple[Evidence, ...]:
    """Evidences worth at least half the threshold, and the leading one; the strongest first."""
    first = leading(verdict)
    half = verdict.threshold / 2.0
    found = [
        one
        for one in verdict.evidences
        if one.value is not None and one.value > 0.0 and (one.value >= half or one is first)
    ]
    return tuple(sorted(found, key=lambda one: -(one.value or 0.0)))


def rules_of(verdict: Verdict, taxonomy: Taxonomy) -> tuple[Rule, ...]:
    """The rules of the evidences a finding rests on, the leading one first; never empty."""
    found = tuple(taxonomy.rule(one.name) for one in heard(verdict))
    return found or (taxonomy.nothing,)


def evidence_fields(evidence: Evidence, taxonomy: Taxonomy) -> dict[str, Any]:
    """One evidence as plain data; an unavailable one has a reason and no value."""
    fields: dict[str, Any] = {"name": evidence.name, "rule": taxonomy.rule(evidence.name).id}
    if not evidence.measured:
        return fields | {
            "status": "unavailable",
            "value": None,
            "reason": evidence.reason,
            "optional": evidence.optional,
        }
    return fields | {
        "status": "measured",
        "value": evidence.value,
        "probability": evidence.probability,
        "components": [{"name": name, "value": value} for name, value in evidence.components],
        "optional": evidence.optional,
    }


def case_fields(incident: Incident) -> dict[str, Any]:
    """What became of a finding, and what one needs to follow or undo it, as plain data."""
    return {
        "incident_id": incident.id,
        "scan_id": incident.scan_id,
        "rollback_handle": incident.rollback_handle,
        "campaign": incident.campaign,
        "truth": incident.truth,
        "remediation": incident.remediation,
        "opinion": incident.opinion,
        "reviewer": incident.reviewer,
        "decided_at": utc(incident.decided_at).isoformat(),
        "decision": {
            "measure": incident.decision.measure,
            "rule": incident.decision.rule,
            "reason": incident.decision.reason,
            "policy_sha256": incident.decision.policy_sha256,
        },
        "risk_tier": incident.standing.risk_tier,
        "acl": incident.standing.acl,
        "source_trust": incident.standing.source_trust,
        "document_version": incident.standing.document_version,
        "declared_source": incident.standing.provenance.source,
        "declared_author": incident.standing.provenance.author,
        "embedding_version": incident.embedding_version,
        "index_version": incident.index_version,
    }


def summary(incident: Incident, taxonomy: Taxonomy) -> str:
    """A finding in one sentence of our own words and numbers; nothing of the corpus is in it."""
    verdict = incident.verdict
    bound = "" if verdict.complete else "at least "
    rule = rules_of(verdict, taxonomy)[0]
    return (
        f"{rule.title}: score {bound}{verdict.score:.3f} against the threshold "
        f"{verdict.threshold:g}."
    )


def utc(moment: datetime.datetime) -> datetime.datetime:
    """A time in UTC; one without a zone is taken for UTC."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC)


def check_finite(incidents: Sequence[Incident]) -> None:
    """Refuse numbers that JSON has no word for.

    :raises InputError: names the finding and the field.
    """
    for incident in incidents:
        verdict = incident.verdict
        numbers: list[tuple[str, float | None]] = [
            ("score", verdict.score),
            ("threshold", verdict.threshold),
            ("source_trust", incident.standing.source_trust),
        ]
        for one in verdict.evidences:
            numbers += [(one.name, one.value), (f"{one.name} probability", one.probability)]
            numbers += [(f"{one.name} {name}", value) for name, value in one.components]
        if incident.context is not None:
            numbers += [(f"rank {one.rank}", one.similarity) for one in incident.context.ranking]
        for name, number in numbers:
            if isinstance(number, float) and not math.isfinite(number):
                raise InputError(
                    f"finding {visible(incident.id)}: {visible(name)}: expected a finite number, "
                    f"found {number}; leave out what was not measured"
                )


def shown(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """A string on one line, cut to ``limit`` characters, with nothing invisible in it."""
    # Most strings are plain; looking at every character of those would take most of the time.
    if len(text) <= limit and text.isascii() and text.isprintable():
        return str(text)
    return visible(text, limit=limit)


def safe(value: Any) -> Any:
    """Plain data with every string on one line, cut to size, and nothing invisible in it."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {safe(key): safe(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [safe(one) for one in value]
    return value


def without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that hold something; absent is how these formats write None."""
    return {key: value for key, value in fields.items() if value is not None}


@functools.cache
def tool_version() -> str:
    """Of the installed package."""
    return importlib.metadata.version("ragsieve")
