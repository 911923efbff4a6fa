"""Findings as OCSF Detection Findings (class 2004), one event a line, for a SIEM."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from ragsieve._jsonl import to_json
from ragsieve.cases import Incident, Measure, Opinion, Remediation, RiskTier
from ragsieve.findings.plain import (
    MEANING,
    case_fields,
    check_finite,
    evidence_fields,
    heard,
    rules_of,
    safe,
    summary,
    tool_version,
    utc,
    without_nothing,
)
from ragsieve.findings.taxonomy import Rule, Taxonomy, taxonomy
from ragsieve.records import Decision, Level

VERSION = "1.8.0"
CLASS_UID = 2004
_CREATE, _UPDATE, _CLOSE = (1, "Create"), (2, "Update"), (3, "Close")
_NEW, _PROGRESS = (1, "New"), (2, "In Progress")
_SUPPRESSED, _RESOLVED = (3, "Suppressed"), (4, "Resolved")
_SEVERITIES = ("Unknown", "Informational", "Low", "Medium", "High")
_SEVERITY = {
    Measure.RECORD: {RiskTier.LOW: 1, RiskTier.NORMAL: 1, RiskTier.HIGH: 2},
    Measure.REVIEW: {RiskTier.LOW: 2, RiskTier.NORMAL: 2, RiskTier.HIGH: 3},
    Measure.QUARANTINE: {RiskTier.LOW: 3, RiskTier.NORMAL: 3, RiskTier.HIGH: 4},
}
_RISKS = ("Info", "Low", "Medium", "High")
_VERDICTS = {
    Opinion.CONFIRMED: (2, "True Positive"),
    Opinion.BENIGN: (5, "Benign"),
    Opinion.NEEDS_INFO: (7, "Insufficient Data"),
    Opinion.DUPLICATE: (10, "Duplicate"),
}
_RELATED = 100
_HIGHEST_RISK = 1_000_000


def ocsf_events(incidents: Sequence[Incident]) -> Iterator[dict[str, Any]]:
    """One Detection Finding for each finding, in the given order.

    The findings of a campaign name each other as related events, the first hundred of them.
    What OCSF has no attribute for, among it what was checked about the truth of a document,
    stands in ``unmapped``.

    :raises InputError: for a number that is not finite.
    """
    check_finite(incidents)
    campaigns: dict[str, list[Incident]] = collections.defaultdict(list)
    for one in incidents:
        if one.campaign is not None:
            campaigns[one.campaign].append(one)
    known = taxonomy()
    return (
        safe(_event(one, campaigns[one.campaign] if one.campaign is not None else [], known))
        for one in incidents
    )


def write_ocsf(incidents: Sequence[Incident]) -> Iterator[str]:
    r"""One event a line, each ended by ``\n``.

    :raises InputError: for a number that is not finite.
    """
    return (to_json(event) + "\n" for event in ocsf_events(incidents))


def _event(incident: Incident, campaign: Sequence[Incident], known: Taxonomy) -> dict[str, Any]:
    activity, status = _state(incident)
    severity = _SEVERITY[incident.decision.measure][incident.standing.risk_tier]
    confidence = _confidence(incident)
    return without_nothing(
        {
            "class_uid": CLASS_UID,
            "class_name": "Detection Finding",
            "category_uid": 2,
            "category_name": "Findings",
            "activity_id": activity[0],
            "activity_name": activity[1],
            "type_uid": CLASS_UID * 100 + activity[0],
            "type_name": f"Detection Finding: {activity[1]}",
            "status_id": status[0],
            "status": status[1],
            "severity_id": severity,
            "severity": _SEVERITIES[severity],
            "confidence_id": confidence[0],
            "confidence": confidence[1],
            "risk_level_id": severity - 1,
            "risk_level": _RISKS[severity - 1],
            **_risk(incident),
            "is_alert": incident.verdict.flagged and activity is not _CLOSE,
            "time": _milliseconds(incident),
            "message": f"{summary(incident, known)} {MEANING}",
            "comment": None if incident.opinion is None else f"Reviewed as {incident.opinion}.",
            "metadata": _metadata(incident),
            "finding_info": _finding_info(incident, campaign, known),
            "evidences": _evidences(incident, known),
            "anomaly_analyses": [_analysis(incident)],
            "resources": [_resource(incident)],
            "unmapped": without_nothing(
                case_fields(incident)
                | {
                    "profile": incident.verdict.profile,
                    "profile_fingerprint": incident.verdict.fingerprint,
                    "decision_of_detector": incident.verdict.decision,
                    "level_of_detector": incident.verdict.level,
                }
            ),
        }
    )


def _state(incident: Incident) -> tuple[tuple[int, str], tuple[int, str]]:
    """Activity and status: closed by an opinion, or by an opinion and what was done."""
    if incident.opinion in {Opinion.BENIGN, Opinion.DUPLICATE}:
        return _CLOSE, _SUPPRESSED
    done = incident.remediation in {Remediation.QUARANTINED, Remediation.DELETED}
    if incident.opinion is Opinion.CONFIRMED and done:
        return _CLOSE, _RESOLVED
    if incident.opinion is not None or incident.remediation is not Remediation.NONE:
        return _UPDATE, _PROGRESS
    return _CREATE, _NEW


def _confidence(incident: Incident) -> tuple[int, str]:
    """Never high: scores are compared with a threshold, they are no probabilities."""
    strong = incident.verdict.complete and incident.verdict.level is Level.QUARANTINE
    return (2, "Medium") if strong else (1, "Low")


def _risk(incident: Incident) -> dict[str, Any]:
    verdict = incident.verdict
    if verdict.threshold <= 0.0:
        return {}
    score = min(100.0 * verdict.score / verdict.threshold, float(_HIGHEST_RISK))
    return {
        "risk_score": round(score),
        "risk_details": "Score in percent of the threshold; "
        + ("all evidence measured." if verdict.complete else "a lower bound."),
    }


def _milliseconds(incident: Incident) -> int:
    return round(utc(incident.decided_at).timestamp() * 1000)


def _metadata(incident: Incident) -> dict[str, Any]:
    return without_nothing(
        {
            "version": VERSION,
            "product": {"name": "ragsieve", "vendor_name": "ragsieve", "version": tool_version()},
            "uid": incident.id,
            "correlation_uid": incident.scan_id,
            "tenant_uid": incident.place.tenant,
        }
    )


def _finding_info(
    incident: Incident, campaign: Sequence[Incident], known: Taxonomy
) -> dict[str, Any]:
    rules = rules_of(incident.verdict, known)
    others = [one for one in campaign if one.id != incident.id]
    related = [
        {"uid": one.id, "type_uid": CLASS_UID * 100 + 1, "title": "Finding of the same campaign"}
        for one in others[:_RELATED]
    ]
    risks = [one.id for one in known.risks(rules)]
    tags: list[dict[str, Any]] = [
        {"name": f"{known.owasp.name} {known.owasp.version}", "values": risks}
    ]
    if incident.campaign is not None:
        tags.append({"name": "campaign", "value": incident.campaign})
    return without_nothing(
        {
            "uid": incident.id,
            "title": rules[0].title,
            "desc": f"{rules[0].text} {MEANING}",
            "analytic": _analytic(rules[0], incident),
            "related_analytics": [_analytic(one, incident) for one in rules[1:]] or None,
            "attacks": [
                {"technique": {"uid": one.id, "name": one.name}, "version": known.atlas.version}
                for one in known.techniques(rules)
            ],
            "created_time": _milliseconds(incident),
            "first_seen_time": _milliseconds(incident),
            "related_events": related or None,
            "related_events_count": len(others) or None,
            "tags": tags,
            "types": ["Promotion into retrieval"],
        }
    )


def _analytic(rule: Rule, incident: Incident) -> dict[str, Any]:
    return {
        "uid": rule.id,
        "name": rule.title,
        "type_id": 3 if rule.statistical else 1,
        "type": "Statistical" if rule.statistical else "Rule",
        "algorithm": f"profile {incident.verdict.profile}",
        "version": incident.verdict.fingerprint,
    }


def _evidences(incident: Incident, known: Taxonomy) -> list[dict[str, Any]]:
    """The document, then what was measured about it, then the retrieval it was judged in."""
    database = without_nothing(
        {
            "uid": incident.place.store,
            "name": incident.place.store,
            "type_id": 7,
            "type": "Vector",
            "embedding_model": incident.embedding_version,
        }
    )
    verdict = _verdict(incident)
    shared = {"database": database, "verdict_id": verdict[0], "verdict": verdict[1]}
    document = {
        "title": incident.title,
        "excerpt": incident.excerpt,
        "content_sha256": incident.content_sha256,
        "truncated_characters": incident.verdict.truncated_characters,
        "remarks": [
            {"name": one.name, "words": one.words, "start": one.start, "stop": one.stop}
            for one in incident.verdict.annotations
        ],
    }
    found = [{"name": "document", "uid": incident.place.document_id, "data": document, **shared}]
    for one in incident.verdict.evidences:
        data = evidence_fields(one, known)
        found.append({"name": one.name, "uid": data["rule"], "data": data, **shared})
    if incident.context is not None:
        # The attribute `query` is one for DNS; a question to an index has none of its own.
        asked = {
            "query": incident.context.query,
            "rank": incident.verdict.rank,
            "ranking": [
                {"document_id": one.document_id, "rank": one.rank, "similarity": one.similarity}
                for one in incident.context.ranking
            ],
        }
        uid = incident.context.query_id
        found.append({"name": "retrieval", "uid": uid, "data": asked, **shared})
    return found


def _verdict(incident: Incident) -> tuple[int, str]:
    """Of the reviewer; without one a flag is suspicious, and no more than that."""
    if incident.opinion is not None:
        return _VERDICTS[incident.opinion]
    if incident.verdict.decision is Decision.UNDECIDED:
        return 7, "Insufficient Data"
    return (4, "Suspicious") if incident.verdict.flagged else (0, "Unknown")


def _analysis(incident: Incident) -> dict[str, Any]:
    verdict = incident.verdict
    seen = [("score", verdict.score), *((one.name, one.value) for one in heard(verdict))]
    return {
        "analysis_targets": [{"name": incident.place.document_id, "type": "document"}],
        "anomalies": [
            {
                "observation_parameter": name,
                "observation_type": "Statistical Analysis",
                "observations": [{"value": f"{value:g}"}],
            }
            for name, value in seen
        ],
        "baselines": [
            {
                "observation_parameter": "threshold",
                "observation_type": "Statistical Analysis",
                "observations": [{"value": f"{verdict.threshold:g}"}],
            }
        ],
    }


def _resource(incident: Incident) -> dict[str, Any]:
    return without_nothing(
        {
            "uid": incident.place.document_id,
            "name": incident.title or incident.place.document_id,
            "type": "document",
            "namespace": incident.place.store,
            "version": incident.standing.document_version,
            "criticality": str(incident.standing.risk_tier),
        }
    )
