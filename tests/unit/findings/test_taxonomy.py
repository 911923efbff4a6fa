from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ragsieve.detectors
from ragsieve.findings.plain import heard, leading, rules_of
from ragsieve.findings.taxonomy import taxonomy
from ragsieve.records import Evidence
from unit.findings.strategies import HOSTILE, incident


def names_of_the_detectors():
    """Every evidence name a rule of the detectors defines, from their source."""
    found = set()
    for path in Path(ragsieve.detectors.__file__).parent.glob("*.py"):
        if not re.match(r"(default|paper)_", path.name):
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
                and node.targets[0].id.isupper()
            ):
                found.add(node.value.value)
    # A component and a remark: numbers and words beside a score.
    return found - {"peak_surprisal_share", "uncorroborated"}


def test_every_evidence_of_both_profiles_has_a_rule_of_its_own():
    known = taxonomy()
    names = names_of_the_detectors()
    assert {"neighbor_gap", "topology_score", "query_alignment", "query_copy"} < names
    assert names == {name for name, _ in known.evidences}
    ids = [rule.id for _, rule in known.evidences]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"(RSG|RSQ|ING)-[A-Z-]+", one) for one in ids)


def test_every_finding_is_filed_under_the_primary_entries():
    known = taxonomy()
    rules = [known.rule(name) for name in (*(n for n, _ in known.evidences), None, "new one")]
    for rule in rules:
        assert rule.techniques[0] == "AML.T0070"
        assert rule.risks[:2] == ("LLM08:2025", "LLM04:2025")
    assert (known.atlas.version, known.owasp.version) == ("5.6.0", "2025")


def test_every_id_a_rule_names_is_listed():
    known = taxonomy()
    listed = {one.id for one in (*known.atlas.entries, *known.owasp.entries)}
    for _, rule in known.evidences:
        assert {*rule.techniques, *rule.risks} <= listed
        assert {one.id for one in known.techniques([rule])} == set(rule.techniques)
        assert {one.id for one in known.risks([rule])} == set(rule.risks)


def test_writing_that_hides_is_obfuscation_and_training_data_is_nobodys():
    known = taxonomy()
    for name in ("hidden_text", "script_mixing", "script_integrity", "script_share"):
        assert "AML.T0068" in known.rule(name).techniques
    assert "AML.T0068" not in known.rule("neighbor_gap").techniques
    assert "AML.T0020" not in {one.id for one in known.atlas.entries}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_unknown_evidence_has_an_id_other_tools_can_bear(name):
    rule = taxonomy().rule(name)
    assert re.fullmatch(r"EXT-[A-Z0-9][A-Z0-9-]*", rule.id)
    assert len(rule.id) <= 64
    assert rule.title.isprintable()


def test_an_unknown_evidence_never_takes_the_id_of_a_known_one():
    known = taxonomy()
    assert known.rule("gap").id not in {rule.id for _, rule in known.evidences}


def test_the_strongest_evidence_leads_and_faint_ones_name_no_rule():
    faint = Evidence("script_mixing", 0.49)
    half = Evidence("hidden_text", 0.5)
    verdict = incident(evidences=(faint, half, Evidence("alien_run", 1.0))).verdict
    assert leading(verdict).name == "alien_run"
    assert [one.name for one in heard(verdict)] == ["alien_run", "hidden_text"]
    assert [one.id for one in rules_of(verdict, taxonomy())] == ["RSG-ALIEN-RUN", "ING-INVISIBLE"]


def test_a_single_faint_evidence_still_leads():
    verdict = incident(evidences=(Evidence("script_mixing", 0.1),)).verdict
    assert [one.id for one in rules_of(verdict, taxonomy())] == ["RSG-SCRIPT-MIXING"]


def test_a_finding_without_evidence_says_so():
    verdict = incident(
        evidences=(Evidence("alien_run", 0.0), Evidence("surprisal", None, reason="no model"))
    ).verdict
    assert leading(verdict) is None
    assert [one.id for one in rules_of(verdict, taxonomy())] == ["RSG-INCOMPLETE"]
