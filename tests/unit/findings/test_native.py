from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.cases import Incident
from ragsieve.errors import InputError, RecordError
from ragsieve.evidence.alien import RunTailDetail
from ragsieve.findings.export import Format, export
from ragsieve.findings.native import finding_line, read_findings
from ragsieve.records import Evidence
from unit.findings.strategies import incident, incidents


def stored(tmp_path_factory, found):
    path = tmp_path_factory.mktemp("native") / "findings.jsonl"
    path.write_bytes("".join(export(found, Format.JSONL)).encode("utf-8"))
    return path


@settings(max_examples=40, deadline=None)
@given(found=st.lists(incidents, min_size=1, max_size=4))
def test_what_is_written_is_what_is_read(found, tmp_path_factory):
    path = stored(tmp_path_factory, found)
    back = list(read_findings(path))
    assert back == found
    # Equal is not enough: 1 == 1.0 and enums equal their strings.
    assert [repr(one) for one in back] == [repr(one) for one in found]
    assert path.read_bytes().count(b"\n") == len(found)


def test_every_field_of_a_finding_stands_in_its_line():
    line = json.loads(finding_line(incident()))
    assert line["format"] == "ragsieve-finding"
    assert line["version"] == 1
    assert {one.name for one in dataclasses.fields(Incident)} < set(line)
    assert line["rollback_handle"] == line["scan_id"]
    gap, *_, provenance = line["verdict"]["evidences"]
    assert gap["components"] == [["gap", 0.4]]
    assert provenance["value"] is None
    assert provenance["reason"] == "no metadata"


def test_the_typed_facts_behind_an_evidence_stay_behind(tmp_path_factory):
    detail = RunTailDetail(9.0, 1.0, 7.0)
    told = incident(evidences=(Evidence("alien_run", 1.2, detail=detail),))
    (back,) = read_findings(stored(tmp_path_factory, [told]))
    assert back == incident(evidences=(Evidence("alien_run", 1.2),))


def test_halves_of_a_character_that_meet_become_the_character(tmp_path_factory):
    (back,) = read_findings(stored(tmp_path_factory, [incident(title="\ud83d\ude00 \ud83d")]))
    assert back.title == "\U0001f600 \ud83d"


def test_fields_of_later_versions_of_a_line_are_not_read(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(json.loads(finding_line(incident())) | {"mood": "calm"}), "utf-8")
    assert list(read_findings(path)) == [incident()]


@pytest.mark.parametrize(
    ("place", "value", "field", "said"),
    [
        (("version",), 2, "version", "expected 1, found 2"),
        (("version",), True, "version", "expected 1, found True"),
        (("version",), None, "version", "found nothing"),
        (("format",), "other", "format", "file of findings"),
        (("scan_id",), 3, "scan_id", "expected a string"),
        (("decided_at",), "yesterday", "decided_at", "ISO 8601"),
        (("truth",), "maybe", "truth", "expected one of unverified"),
        (("opinion",), 4, "opinion", "expected one of confirmed"),
        (("place",), [], "place", "expected an object"),
        (("verdict", "score"), "1", "verdict.score", "expected a number"),
        (("verdict", "score"), None, "verdict.score", "expected a number"),
        (("verdict", "score"), 10**400, "verdict.score", "beyond double precision"),
        (("verdict", "rank"), 1.5, "verdict.rank", "whole number"),
        (("verdict", "rank"), True, "verdict.rank", "whole number"),
        (("verdict", "evidences"), {}, "verdict.evidences", "expected a list"),
        (
            ("verdict", "evidences", 0, "optional"),
            "no",
            "verdict.evidences[0].optional",
            "true or false",
        ),
        (
            ("verdict", "evidences", 1, "value"),
            True,
            "verdict.evidences[1].value",
            "expected a number",
        ),
        (
            ("verdict", "evidences", 0, "components"),
            [["gap"]],
            "verdict.evidences[0].components[0]",
            "expected 2 values",
        ),
    ],
)
def test_an_error_names_file_line_and_field(tmp_path, place, value, field, said):
    fields = json.loads(finding_line(incident()))
    inner = fields
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path = tmp_path / "f.jsonl"
    path.write_text(finding_line(incident()) + "\n" + json.dumps(fields) + "\n", "utf-8")
    with pytest.raises(RecordError, match=said) as caught:
        list(read_findings(path))
    assert (caught.value.line, caught.value.field) == (2, field)
    assert f"{path}:2: field '{field}'" in str(caught.value)


@pytest.mark.parametrize("field", ["id", "verdict", "decision"])
def test_a_missing_field_is_named(tmp_path, field):
    fields = json.loads(finding_line(incident()))
    del fields[field]
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(fields), "utf-8")
    with pytest.raises(RecordError, match=f"field '{field}': expected a value, found nothing"):
        list(read_findings(path))


def test_a_number_beyond_double_precision_is_refused(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text(finding_line(incident()).replace("1.25", "1e999"), "utf-8")
    with pytest.raises(RecordError, match=r"verdict\.score.*beyond double precision"):
        list(read_findings(path))


@pytest.mark.parametrize("kind", Format)
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"score": float("inf")}, "score"),
        ({"evidences": (Evidence("alien_run", float("nan")),)}, "alien_run"),
        (
            {"evidences": (Evidence("alien_run", 1.0, components=(("x", float("inf")),)),)},
            "alien_run x",
        ),
    ],
)
def test_what_json_has_no_word_for_is_refused_in_every_format(kind, changed, named):
    with pytest.raises(InputError, match=rf"0001: {named}: expected a finite number"):
        list(export([incident(**changed)], kind))
