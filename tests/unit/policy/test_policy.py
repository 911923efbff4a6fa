"""What a declared policy makes of a finding."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.cases import Measure, Place, RiskTier, Standing
from ragsieve.errors import ConfigError
from ragsieve.policy.file import read_policy
from ragsieve.policy.rules import Subject
from ragsieve.records import Decision, Evidence, Level, Provenance, Verdict

PLACE = Place("chroma:///data?collection=docs", "d1")


def verdict(score=1.2, level=Level.REVIEW, evidences=None, threshold=1.0):
    return Verdict(
        document_id="d1",
        score=score,
        threshold=threshold,
        decision=Decision.FLAGGED if score >= threshold else Decision.CLEAR,
        level=level,
        evidences=evidences
        or (Evidence("alien_run", 1.2), Evidence.unavailable("surprisal", "no model")),
        profile="default",
        fingerprint="f",
    )


def subject(standing=Standing(), place=PLACE, kind="scan", known=frozenset(), **more):
    return Subject(verdict(**more), place, standing, kind, known)


def policy_of(tmp_path, text):
    path = tmp_path / "policy.toml"
    path.write_text("version = 1\n" + text, "utf-8")
    return read_policy(path)


def rule(condition, measure="quarantine"):
    return f'[[rules]]\nname = "r"\nmeasure = "{measure}"\nreason = "because"\n{condition}\n'


def test_the_built_in_policy_follows_the_level():
    policy = read_policy(None)
    assert policy.decide(subject(level=Level.QUARANTINE)).measure is Measure.QUARANTINE
    assert policy.decide(subject(level=Level.REVIEW)).measure is Measure.REVIEW
    assert policy.decide(subject(score=0.9)).measure is Measure.RECORD


def test_the_hash_is_of_the_file_and_stands_in_the_decision(tmp_path):
    policy = policy_of(tmp_path, rule('level = "review"'))
    expected = hashlib.sha256((tmp_path / "policy.toml").read_bytes()).hexdigest()
    assert policy.decide(subject()).policy_sha256 == expected == policy.sha256
    changed = policy_of(tmp_path, rule('level = "review"') + "# a remark\n")
    assert changed.sha256 != expected


HELD = Standing(
    provenance=Provenance(source="https://wiki.example/a/b", author="Mallory"),
    acl="public",
    source_trust=0.2,
    document_version="7",
    risk_tier=RiskTier.HIGH,
)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ('evidence = ["alien_run"]', subject()),
        ('evidence = ["alien_run"]\nevidence_at_least = 1.2', subject()),
        ("score_at_least = 1.2", subject()),
        ("complete = false", subject()),
        ('source = "https://wiki.example/**"', subject(HELD)),
        ('author = "mallory"', subject(HELD)),
        ('acl = "public"', subject(HELD)),
        ('document_version = "7"', subject(HELD)),
        ("new_version = true", subject(HELD, known=frozenset({"6"}))),
        ("new_version = false", subject(HELD, known=frozenset({"7"}))),
        ("trust_at_most = 0.2", subject(HELD)),
        ("trust_at_least = 0.1", subject(HELD)),
        ('risk_tier = ["high"]', subject(HELD)),
        ('kind = ["filter"]', subject(kind="filter")),
        ('store = "chroma:**"', subject()),
        ('tenant = "a"', subject(place=Place("s", "d", "a"))),
        ('tenant = "b"', subject(Standing(Provenance(tenant="b")))),
    ],
)
def test_each_condition_can_decide(tmp_path, condition, found):
    assert policy_of(tmp_path, rule(condition)).decide(found).rule == "r"


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ('evidence = ["surprisal"]\nevidence_at_least = 0.0', subject()),
        ('evidence = ["alien_run"]\nevidence_at_least = 1.21', subject()),
        ("score_at_least = 1.3", subject()),
        ("complete = true", subject()),
        ('source = "https://wiki.example/*"', subject(HELD)),
        ('source = "**"', subject()),
        ("new_version = true", subject()),
        ("new_version = true", subject(HELD, known=frozenset({"7"}))),
        ("trust_at_most = 1.0", subject()),
        ("trust_at_least = 0.0", subject()),
        ("trust_at_most = 0.1", subject(HELD)),
        ('risk_tier = ["low"]', subject(HELD)),
        ('kind = ["guard", "filter"]', subject()),
        ('acl = "public"\nscore_at_least = 9', subject(HELD)),
    ],
)
def test_what_is_unknown_or_otherwise_fails_a_condition(tmp_path, condition, found):
    decision = policy_of(tmp_path, rule(condition)).decide(found)
    assert (decision.rule, decision.measure) == ("otherwise", Measure.REVIEW)


def test_the_first_rule_that_fits_decides(tmp_path):
    text = rule("score_at_least = 1", "record") + rule("score_at_least = 1").replace('"r"', '"s"')
    assert policy_of(tmp_path, text).decide(subject()).measure is Measure.RECORD


def test_a_slice_has_its_own_threshold(tmp_path):
    text = (
        rule("score_at_least = 0.1")
        + '[[thresholds]]\nprofile = "default"\nkind = "scan"\ndataset = "chroma:**"\n'
        + 'retriever = "m1"\nthreshold = 0.8\n'
        + '[[thresholds]]\nprofile = "default"\nkind = "scan"\ntenant = "a"\nthreshold = 1.5\n'
    )
    policy = policy_of(tmp_path, text)
    weak = subject(score=0.9)
    assert policy.decide(weak, retriever="m1").measure is Measure.QUARANTINE
    assert policy.decide(weak, retriever="m2").measure is Measure.RECORD
    other = subject(score=1.2, place=Place("qdrant://h/c", "d", "a"))
    assert policy.decide(other).rule == "threshold"
    assert "1.5" in policy.decide(other).reason
    assert policy.threshold(subject(kind="filter"), retriever="m1") == 1.0


def test_tiers_are_looked_up_by_place(tmp_path):
    text = '[[tiers]]\nstore = "chroma:**"\nrisk_tier = "high"\n'
    policy = policy_of(tmp_path, text)
    assert policy.risk_tier(PLACE) is RiskTier.HIGH
    assert policy.risk_tier(Place("qdrant://h/c", "d")) is RiskTier.NORMAL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rule("sorce = 'x'"), "unknown key"),
        (rule(""), "no condition"),
        (rule("trust_at_most = 1.5"), r"\[0, 1\]"),
        (rule("score_at_least = nan"), "finite"),
        (rule("evidence = ['x']\nevidence_at_least = inf"), "finite"),
        (rule("score_at_least = 1") * 2, "one name"),
        (rule("score_at_least = 1", "destroy"), "measure"),
        ("[[tiers]]\nrisk_tier = 'high'\n", "pattern for store or tenant"),
        ("[[thresholds]]\nprofile='default'\nkind='scan'\nthreshold = 0.0\n", "above 0"),
        ("extra = 1\n", "unknown key"),
    ],
)
def test_a_wrong_policy_is_refused_whole(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        policy_of(tmp_path, text)


def test_a_missing_version_or_file_is_said(tmp_path):
    (tmp_path / "p.toml").write_text("keep_questions = true\n")
    with pytest.raises(ConfigError, match="version"):
        read_policy(tmp_path / "p.toml")
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_policy(tmp_path / "none.toml")


@given(st.floats(0, 5), st.sampled_from(Level), st.floats(0.1, 3))
def test_nothing_below_its_threshold_is_ever_acted_upon(score, level, threshold):
    found = subject(score=score, level=level, threshold=threshold)
    decision = read_policy(None).decide(found)
    assert (decision.measure is Measure.RECORD) == (score < threshold)
    again = dataclasses.replace(found, known_versions=frozenset({"1"}))
    assert read_policy(None).decide(again) == decision
