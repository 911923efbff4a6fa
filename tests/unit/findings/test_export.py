from __future__ import annotations

import json

import pytest

from ragsieve.findings.export import Format, export
from unit.findings.strategies import incident


@pytest.mark.parametrize("kind", Format)
def test_the_same_findings_give_the_same_text(kind):
    found = [incident(id=f"{number:032x}", campaign="c") for number in range(3)]
    once, twice = ("".join(export(iter(found), kind)) for _ in range(2))
    assert once == twice
    assert once.endswith("\n")


@pytest.mark.parametrize(
    ("kind", "text"), [(Format.JSONL, ""), (Format.OCSF, ""), (Format.HTML, None)]
)
def test_no_findings_are_no_error(kind, text):
    written = "".join(export([], kind))
    assert written == text if text is not None else "There are no findings" in written


def test_a_log_without_findings_still_says_which_tool_looked(sarif_schema):
    log = json.loads("".join(export([], Format.SARIF)))
    assert sarif_schema.is_valid(log)
    (run,) = log["runs"]
    assert run["results"] == []
    assert run["tool"]["driver"]["name"] == "ragsieve"


def test_lines_are_written_as_they_come():
    def endless():
        while True:
            yield incident()

    pieces = export(endless(), Format.JSONL)
    assert json.loads(next(pieces))["id"] == incident().id


def test_formats_are_called_as_on_the_command_line():
    assert [str(one) for one in Format] == ["jsonl", "sarif", "ocsf", "html"]
