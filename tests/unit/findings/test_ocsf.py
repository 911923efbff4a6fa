from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsieve.cases import (
    Measure,
    Opinion,
    Place,
    PolicyDecision,
    QueryContext,
    Remediation,
    RiskTier,
    Seen,
    Standing,
    Truth,
)
from ragsieve.display import visible
from ragsieve.findings.export import Format, export
from ragsieve.records import Decision, Evidence, Level
from unit.findings.strategies import UNSHRUNK, incident, incidents
from unit.findings.test_sarif import strings


def written(found):
    text = "".join(export(found, Format.OCSF)).encode("utf-8")
    return [json.loads(line) for line in text.split(b"\n") if line]


def only(found):
    (event,) = written([found])
    return event


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=UNSHRUNK
)
@given(found=st.lists(incidents, max_size=2))
def test_whatever_is_found_the_events_fit_the_published_schema(found, ocsf_schema):
    events = written(found)
    assert len(events) == len(found)
    for event in events:
        assert [str(one.message) for one in ocsf_schema.iter_errors(event)] == []
        assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
        assert event["severity_id"] <= 4
        assert all(text == visible(text) for text in strings(event))


@pytest.mark.parametrize(
    "breaking",
    [
        lambda event: event.pop("finding_info"),
        lambda event: event["finding_info"].pop("uid"),
        lambda event: event.update(severity_id=7),
        lambda event: event.update(status_id=12),
        lambda event: event.update(score=1.0),
        lambda event: event.update(risk_score=1.5),
        lambda event: event["evidences"][0].update(verdict_id=55),
        lambda event: event["evidences"][0]["database"].update(type_id=77),
        lambda event: event["evidences"][0].update(query={"text": "who"}),
        lambda event: event["anomaly_analyses"][0].pop("anomalies"),
        lambda event: event["metadata"].pop("version"),
        lambda event: event["finding_info"]["analytic"].pop("type_id"),
    ],
)
def test_the_schema_refuses_a_broken_event(breaking, ocsf_schema):
    event = only(incident())
    assert ocsf_schema.is_valid(event)
    broken = copy.deepcopy(event)
    breaking(broken)
    assert not ocsf_schema.is_valid(broken)


def test_a_new_finding():
    event = only(incident(embedding_version="minilm-v2", campaign="c1"))
    assert event["metadata"]["version"] == "1.8.0"
    assert (event["class_uid"], event["activity_id"], event["status_id"]) == (2004, 1, 1)
    assert event["is_alert"] is True
    assert event["time"] == 1_772_368_200_000
    assert (event["risk_score"], event["confidence"]) == (125, "Low")
    info = event["finding_info"]
    assert info["uid"] == "0" * 31 + "1"
    assert (info["analytic"]["uid"], info["analytic"]["type_id"]) == ("RSG-GAP", 3)
    assert [(one["uid"], one["type_id"]) for one in info["related_analytics"]] == [
        ("RSG-SCRIPT-MIXING", 1)
    ]
    assert [(one["technique"]["uid"], one["version"]) for one in info["attacks"]] == [
        ("AML.T0070", "5.6.0"),
        ("AML.T0066", "5.6.0"),
        ("AML.T0068", "5.6.0"),
    ]
    assert info["tags"] == [
        {
            "name": "OWASP Top 10 for LLM Applications 2025",
            "values": ["LLM08:2025", "LLM04:2025"],
        },
        {"name": "campaign", "value": "c1"},
    ]
    document, gap, *_, provenance = event["evidences"]
    assert document["database"] == {
        "uid": "qdrant://host/docs",
        "name": "qdrant://host/docs",
        "type_id": 7,
        "type": "Vector",
        "embedding_model": "minilm-v2",
    }
    assert document["uid"] == "d1"
    assert gap["data"]["value"] == 1.1
    assert (provenance["data"]["value"], provenance["data"]["status"]) == (None, "unavailable")
    (resource,) = event["resources"]
    assert (resource["uid"], resource["namespace"]) == ("d1", "qdrant://host/docs")
    assert "never a verdict" in event["message"]
    assert "never a verdict" in info["desc"]


def test_the_evidence_that_could_not_be_measured_is_no_anomaly():
    (analysis,) = only(incident())["anomaly_analyses"]
    seen = {
        one["observation_parameter"]: one["observations"][0]["value"]
        for one in analysis["anomalies"]
    }
    assert seen == {"score": "1.25", "neighbor_gap": "1.1", "script_mixing": "0.5"}
    (baseline,) = analysis["baselines"]
    assert baseline["observations"] == [{"value": "1"}]


@pytest.mark.parametrize(
    ("opinion", "remediation", "activity", "status", "verdict"),
    [
        (None, Remediation.NONE, 1, 1, 4),
        (None, Remediation.QUARANTINED, 2, 2, 4),
        (None, Remediation.RELEASED, 2, 2, 4),
        (Opinion.CONFIRMED, Remediation.NONE, 2, 2, 2),
        (Opinion.CONFIRMED, Remediation.QUARANTINING, 2, 2, 2),
        (Opinion.CONFIRMED, Remediation.QUARANTINED, 3, 4, 2),
        (Opinion.CONFIRMED, Remediation.DELETED, 3, 4, 2),
        (Opinion.BENIGN, Remediation.RELEASED, 3, 3, 5),
        (Opinion.DUPLICATE, Remediation.NONE, 3, 3, 10),
        (Opinion.NEEDS_INFO, Remediation.NONE, 2, 2, 7),
    ],
)
def test_review_and_remedy_move_the_finding_on(opinion, remediation, activity, status, verdict):
    event = only(incident(opinion=opinion, remediation=remediation))
    assert (event["activity_id"], event["status_id"]) == (activity, status)
    assert {one["verdict_id"] for one in event["evidences"]} == {verdict}
    assert event["is_alert"] is (activity != 3)


@pytest.mark.parametrize("truth", Truth)
def test_truth_is_tracked_apart_and_decides_nothing(truth):
    event, plain = only(incident(truth=truth)), only(incident())
    assert event["unmapped"].pop("truth") == truth
    assert plain["unmapped"].pop("truth") == "unverified"
    assert event == plain


def test_what_became_of_it_goes_along():
    unmapped = only(incident(remediation=Remediation.QUARANTINED, reviewer="ann"))["unmapped"]
    assert (unmapped["remediation"], unmapped["reviewer"]) == ("quarantined", "ann")
    assert unmapped["rollback_handle"] == "scan-1"
    assert unmapped["decision"]["policy_sha256"] == "cd" * 32


def test_an_undecided_finding_alerts_nobody():
    event = only(incident(decision=Decision.UNDECIDED, score=0.2))
    assert event["is_alert"] is False
    assert event["evidences"][0]["verdict_id"] == 7


def test_severity_grows_with_the_measure_and_the_risk_tier_and_is_never_critical():
    told = {
        (measure, tier): only(
            incident(
                decision=PolicyDecision(measure, "r", "why", "cd" * 32),
                standing=Standing(risk_tier=tier),
                score=1e12,
            )
        )["severity_id"]
        for measure in Measure
        for tier in RiskTier
    }
    for tier in RiskTier:
        column = [told[measure, tier] for measure in Measure]
        assert column == sorted(column)
    for measure in Measure:
        row = [told[measure, tier] for tier in RiskTier]
        assert row == sorted(row)
    assert max(told.values()) == 4


def test_confidence_is_never_high():
    complete = {"evidences": (Evidence("neighbor_gap", 50.0),), "level": Level.QUARANTINE}
    assert only(incident(score=50.0, **complete))["confidence_id"] == 2
    missing = (Evidence("neighbor_gap", 50.0), Evidence("alien_run", None, reason="no text"))
    lower = only(incident(score=50.0, evidences=missing, level=Level.QUARANTINE))
    assert lower["confidence_id"] == 1
    assert "at least 50.000" in lower["message"]
    assert "lower bound" in lower["risk_details"]


def test_a_threshold_of_zero_gives_no_risk_score():
    assert "risk_score" not in only(incident(threshold=0.0))


def test_findings_of_a_campaign_name_each_other():
    found = [incident(id=f"{n:032x}", campaign=name) for n, name in enumerate("aab")]
    alone = incident(id="f" * 32)
    first, second, other, last = (one["finding_info"] for one in written([*found, alone]))
    assert [one["uid"] for one in first["related_events"]] == [second["uid"]]
    assert [one["uid"] for one in second["related_events"]] == [first["uid"]]
    assert first["related_events_count"] == 1
    assert "related_events" not in other
    assert "related_events" not in last


def test_a_large_campaign_names_a_hundred_and_says_how_many(ocsf_schema):
    found = [incident(id=f"{n:032x}", campaign="big") for n in range(151)]
    event = written(found)[0]
    assert len(event["finding_info"]["related_events"]) == 100
    assert event["finding_info"]["related_events_count"] == 150
    assert ocsf_schema.is_valid(event)


def test_the_retrieval_it_was_judged_in_is_an_evidence_without_a_dns_query():
    context = QueryContext("q1", "who built it?", (Seen("d0", 1, 0.9), Seen("d1", 2)))
    event = only(incident(context=context, rank=2, place=Place("s://h/c", "d1", "acme")))
    asked = event["evidences"][-1]
    assert asked["data"] == {
        "query": "who built it?",
        "rank": 2,
        "ranking": [
            {"document_id": "d0", "rank": 1, "similarity": 0.9},
            {"document_id": "d1", "rank": 2, "similarity": None},
        ],
    }
    assert not any("query" in one for one in event["evidences"])
    assert event["metadata"]["tenant_uid"] == "acme"
