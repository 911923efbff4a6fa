from __future__ import annotations

import copy
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsieve.cases import Opinion, Place, Remediation, Truth
from ragsieve.display import visible
from ragsieve.findings.export import Format, export
from ragsieve.findings.plain import TEXT_CHARACTERS
from ragsieve.findings.sarif import RESULTS_PER_RUN, sarif_document
from ragsieve.findings.taxonomy import taxonomy
from ragsieve.records import Decision, Evidence
from unit.findings.strategies import HOSTILE, UNSHRUNK, incident, incidents


def written(found):
    return json.loads("".join(export(found, Format.SARIF)).encode("utf-8"))


def only(found):
    (run,) = written([found])["runs"]
    (result,) = run["results"]
    return result


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=UNSHRUNK
)
@given(found=st.lists(incidents, max_size=2))
def test_whatever_is_found_the_log_fits_the_published_schema(found, sarif_schema):
    log = written(found)
    assert [str(one.message) for one in sarif_schema.iter_errors(log)] == []
    (run,) = log["runs"]
    assert len(run["results"]) == len(found)
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "warning"
        for taxon in result["taxa"]:
            listed = run["taxonomies"][taxon["toolComponent"]["index"]]
            assert listed["name"] == taxon["toolComponent"]["name"]
            assert listed["taxa"][taxon["index"]]["id"] == taxon["id"]
    assert all(text == visible(text) for text in strings(log))


@pytest.mark.parametrize(
    "breaking",
    [
        lambda log: log["runs"][0]["results"][0].update(level="grave"),
        lambda log: log["runs"][0]["results"][0].update(kind="maybe"),
        lambda log: log["runs"][0]["results"][0].pop("message"),
        lambda log: log["runs"][0]["results"][0].update(score=1.0),
        lambda log: log["runs"][0]["results"][0].update(rank=101),
        lambda log: log["runs"][0]["tool"].pop("driver"),
        lambda log: log.update(version="2.0"),
    ],
)
def test_the_schema_refuses_a_broken_log(breaking, sarif_schema):
    log = written([incident()])
    assert sarif_schema.is_valid(log)
    broken = copy.deepcopy(log)
    breaking(broken)
    assert not sarif_schema.is_valid(broken)


def test_a_finding_is_one_result_under_its_strongest_evidence():
    result = only(incident())
    assert result["ruleId"] == "RSG-GAP"
    assert (result["kind"], result["level"]) == ("review", "warning")
    properties = result["properties"]
    assert properties["rules"] == ["RSG-GAP", "RSG-SCRIPT-MIXING"]
    assert (properties["score"], properties["threshold"]) == (1.25, 1.0)
    assert [one["name"] for one in properties["evidences"]] == [
        "neighbor_gap",
        "script_mixing",
        "hidden_text",
        "provenance",
    ]
    gap, _, zero, provenance = properties["evidences"]
    assert gap["components"] == [{"name": "gap", "value": 0.4}]
    assert zero["value"] == 0.0
    assert provenance["value"] is None
    assert (provenance["status"], provenance["reason"]) == ("unavailable", "no metadata")
    assert {one["id"] for one in result["taxa"]} == {
        *("AML.T0070", "AML.T0066", "AML.T0068", "LLM08:2025", "LLM04:2025")
    }


def test_no_score_is_an_error_or_a_word_on_truth():
    log = written([incident(score=1e9), incident(decision=Decision.UNDECIDED, score=0.0)])
    (run,) = log["runs"]
    assert "error" not in {one["level"] for one in run["results"]}
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["defaultConfiguration"]["level"] == "warning"
        assert "evidence that a document is promoted" in rule["help"]["text"]
        assert "never a verdict on whether it is true" in rule["help"]["text"]
    assert all("never a verdict" in one["message"]["text"] for one in run["results"])


def test_what_became_of_it_goes_along():
    properties = only(
        incident(
            truth=Truth.FALSE, remediation=Remediation.QUARANTINED, campaign="c7", reviewer="ann"
        )
    )["properties"]
    assert (properties["truth"], properties["remediation"]) == ("false", "quarantined")
    assert (properties["rollback_handle"], properties["campaign"]) == ("scan-1", "c7")
    assert properties["decision"]["policy_sha256"] == "cd" * 32
    assert properties["decided_at"] == "2026-03-01T12:30:00+00:00"
    assert "opinion" not in properties


def test_a_benign_opinion_suppresses_and_the_others_say_they_do_not():
    found = [
        incident(id=f"{number:032x}", opinion=opinion, reviewer="ann")
        for number, opinion in enumerate([None, *Opinion])
    ]
    (run,) = written(found)["runs"]
    told = {one["properties"].get("opinion"): one["suppressions"] for one in run["results"]}
    ((only_one,),) = [told.pop("benign")]
    assert (only_one["kind"], only_one["status"]) == ("external", "accepted")
    assert "ann" in only_one["justification"]
    assert list(told.values()) == [[]] * 4


@pytest.mark.parametrize(
    ("store", "uri"),
    [
        ("corpus.jsonl", "corpus.jsonl"),
        ("sub dir/a#b?c:d.jsonl", "sub%20dir/a%23b%3Fc%3Ad.jsonl"),
        ("/abs/corpus.jsonl", "file:///abs/corpus.jsonl"),
        ("file:///abs/a%20b.jsonl", "file:///abs/a%20b.jsonl"),
        ("data\\corpus.jsonl", "data/corpus.jsonl"),
        ("//evil.example/x", "file:////evil.example/x"),
        ("\ud800.jsonl", "%ED%A0%80.jsonl"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("qdrant://host/docs", None),
        ("chroma:///data?collection=docs", None),
        ("file://", None),
        ("", None),
    ],
)
def test_a_file_is_an_artifact_and_a_store_is_not(store, uri):
    (location,) = only(incident(place=Place(store, "d 1")))["locations"]
    physical = location.get("physicalLocation")
    assert (physical and physical["artifactLocation"]["uri"]) == uri
    (logical,) = location["logicalLocations"]
    assert logical["name"] == "d 1"
    assert logical["fullyQualifiedName"] == f"{visible(store)}/d 1"


@settings(max_examples=40, deadline=None)
@given(found=incidents)
def test_an_address_holds_only_characters_of_addresses(found):
    (location,) = only(found)["locations"]
    uri = location.get("physicalLocation", {}).get("artifactLocation", {}).get("uri", "")
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-Fa-f]{2}|^file://|%)*", uri)


def test_fingerprints_follow_the_content_and_tell_copies_apart():
    place = Place("corpus.jsonl", "d1")
    first = incident(id="1", place=place)
    twin = incident(id="2", place=Place("corpus.jsonl", "d2"))
    other = incident(id="3", place=place, content_sha256="ef" * 32)
    (run,) = written([first, twin, other])["runs"]
    prints = [one["partialFingerprints"] for one in run["results"]]
    assert [one["contentSha256/v1"] for one in prints] == ["ab" * 32, "ab" * 32, "ef" * 32]
    assert [one["primaryLocationLineHash"] for one in prints] == [
        "ab" * 8 + ":1",
        "ab" * 8 + ":2",
        "ef" * 8 + ":1",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_document_cannot_write_links_or_placeholders_into_a_message(text):
    message = only(incident(place=Place("s://h/c", text)))["message"]["text"]
    assert not re.search(r"(?<!\\)\[[^\]]*\]\(", message)
    assert not re.search(r"(?<!\{)\{\d", message)


def test_an_unknown_evidence_cannot_either():
    name = "[click](http://evil.example) {0}"
    log = written([incident(evidences=(Evidence(name, 2.0),))])
    (rule,) = log["runs"][0]["tool"]["driver"]["rules"]
    message = log["runs"][0]["results"][0]["message"]["text"]
    for text in (rule["shortDescription"]["text"], message):
        assert "[click](" not in text.replace("\\[", "").replace("\\]", "")
        assert "{0}" not in text.replace("{{0}}", "")


def test_the_strongest_come_first_and_half_the_scale_is_the_threshold():
    found = [incident(id=f"{n:032x}", score=score) for n, score in enumerate([0.5, 4.0, 1.0])]
    (run,) = written(found)["runs"]
    assert [one["rank"] for one in run["results"]] == [80.0, 50.0, 33.333]


def test_more_than_a_code_host_takes_is_shared_out_over_runs(sarif_schema):
    assert RESULTS_PER_RUN == 25_000
    found = [incident(id=f"{number:032x}", score=float(number)) for number in range(7)]
    log = json.loads(json.dumps(sarif_document(found, results_per_run=3)))
    assert sarif_schema.is_valid(log)
    assert [len(run["results"]) for run in log["runs"]] == [3, 3, 1]
    names = [run["automationDetails"]["id"] for run in log["runs"]]
    assert len(set(names)) == 3
    scores = [one["properties"]["score"] for run in log["runs"] for one in run["results"]]
    assert scores == sorted(scores, reverse=True)


def test_rules_keep_within_what_a_code_host_shows():
    known = taxonomy()
    found = [
        incident(id=f"{n:032x}", evidences=(Evidence(name, 1.0),))
        for n, name in enumerate([*(name for name, _ in known.evidences), "x" * 5_000])
    ]
    (run,) = written(found)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(rules) == len(found)
    for rule in rules:
        assert len(rule["id"]) <= 255
        assert len(rule["name"]) <= 255
        assert len(rule["shortDescription"]["text"]) <= 1_024
        assert len(rule["fullDescription"]["text"]) <= 1_024
        assert len(rule["properties"]["tags"]) <= 10


def test_long_text_is_cut_and_marked():
    excerpt = only(incident(excerpt="x" * 100_000))["properties"]["excerpt"]
    assert len(excerpt) == TEXT_CHARACTERS + 1
    assert excerpt.endswith("…")
