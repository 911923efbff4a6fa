"""Thresholds go into a policy without touching what the operator wrote."""

from __future__ import annotations

import dataclasses

import pytest

from ragsieve.calibration.policy_file import in_force, with_thresholds
from ragsieve.calibration.slices import Scored, Slice, portions
from ragsieve.cases import Measure, Place, Standing
from ragsieve.errors import InputError
from ragsieve.policy.file import SliceThreshold, read_policy
from ragsieve.policy.rules import Subject
from ragsieve.records import Decision, Evidence, Level, Verdict

RULES = """# Ours since 2024; ask Ada before touching it.
version = 1          # the only one

[[rules]]
name = "wiki"        # the wiki is open to all
measure = "quarantine"
reason = "anyone can write there"
score_at_least = 0.1

# Whole-corpus default, agreed with legal.
[[thresholds]]
threshold = 2.0      # do not lower
profile = "default"
kind = "filter"

[otherwise]
measure = "review"
reason = "somebody looks"
"""


def threshold(value, **more):
    return SliceThreshold(**({"threshold": value, "profile": "default", "kind": "filter"} | more))


def written(tmp_path, text, *thresholds):
    before = tmp_path / "before.toml"
    before.write_text(text, "utf-8")
    after = tmp_path / "after.toml"
    after.write_text(with_thresholds(text, read_policy(before).declared, thresholds), "utf-8")
    return read_policy(after), after.read_text("utf-8")


def subject(score, store="docs", tenant=None, kind="filter"):
    verdict = Verdict(
        document_id="d",
        score=score,
        threshold=1.0,
        decision=Decision.FLAGGED if score >= 1 else Decision.CLEAR,
        level=Level.REVIEW,
        evidences=(Evidence("alien_run", score),),
        profile="default",
        fingerprint="f",
    )
    return Subject(verdict, Place(store, "d", tenant), Standing(), kind)


def test_comments_and_rules_stay_and_decisions_use_the_thresholds(tmp_path):
    new = threshold(
        0.75, dataset="docs", tenant="t1", alarm_rate=0.01, low=0.001, high=0.03, benign=900
    )
    policy, text = written(tmp_path, RULES, new)
    for line in RULES.splitlines():
        assert line in text
    assert policy.declared.rules == read_policy(tmp_path / "before.toml").declared.rules
    assert policy.declared.thresholds == (new, threshold(2.0))
    assert policy.decide(subject(0.8, tenant="t1")).measure is Measure.QUARANTINE
    assert policy.decide(subject(0.74, tenant="t1")).measure is Measure.RECORD
    assert policy.decide(subject(0.8, tenant="t2")).measure is Measure.RECORD
    assert policy.decide(subject(2.1, tenant="t2")).rule == "wiki"
    # Another kind of run keeps its profile's threshold.
    assert policy.decide(subject(1.1, kind="scan")).rule == "wiki"


def test_a_threshold_for_the_same_slice_is_replaced_where_it_stands(tmp_path):
    policy, text = written(tmp_path, RULES, threshold(3.5, alarm_rate=0.02))
    assert policy.declared.thresholds == (threshold(3.5, alarm_rate=0.02),)
    assert "threshold = 3.5      # do not lower" in text
    again, _ = written(tmp_path, text, threshold(4.5))
    assert again.declared.thresholds == (threshold(4.5),)


def test_a_broader_slice_comes_behind_the_narrower_ones(tmp_path):
    text = RULES.replace("threshold = 2.0 ", 'tenant = "t1"\nthreshold = 2.0 ')
    policy, _ = written(tmp_path, text, threshold(0.5))
    assert [one.tenant for one in policy.declared.thresholds] == ["t1", None]


@pytest.mark.parametrize(
    "text",
    [
        "version = 1",
        "version = 1\r\n# ours\r\n",
        'thresholds = [{threshold = 2.0, profile = "default", kind = "filter"}]\nversion = 1\n',
        'version = 1\n[[thresholds]]\nthreshold = 2\nprofile = "default"\nkind = "filter"\n'
        '[[tiers]]\nstore = "a"\nrisk_tier = "high"\n'
        '[[thresholds]]\nthreshold = 3.0\nprofile = "default"\nkind = "scan"\n',
    ],
)
def test_every_way_to_write_a_policy_takes_thresholds(tmp_path, text):
    new = threshold(0.123456, dataset='we"ird\\name\n# x', tenant="ünï\u202ecode")
    policy, _ = written(tmp_path, text, new)
    assert policy.declared.thresholds[0] == new
    before = read_policy(tmp_path / "before.toml").declared
    assert dataclasses.replace(policy.declared, thresholds=()) == dataclasses.replace(
        before, thresholds=()
    )
    assert policy.declared.thresholds[1:] == before.thresholds


def test_nothing_set_changes_nothing(tmp_path):
    assert written(tmp_path, RULES)[1] == RULES


def test_what_is_in_force_is_the_first_threshold_that_covers_a_slice(tmp_path):
    policy, _ = written(tmp_path, RULES, threshold(0.75, dataset="docs/*"))
    known = policy.declared
    assert in_force(known, Slice("default", "filter", "docs/a"), 1.0) == 0.75
    assert in_force(known, Slice("default", "filter", "other"), 1.0) == 2.0
    assert in_force(known, Slice("default", "scan", "docs/a"), 1.0) == 1.0
    # One slice among others does not decide for all of them.
    assert in_force(known, Slice("default", "filter"), 1.0) == 2.0


def scored(document, score=0.5, **more):
    fields = {
        "slice": Slice("default", "filter", "docs"),
        "document_id": document,
        "query": "q1",
        "score": score,
        "threshold": 1.0,
        "fingerprint": "f",
    }
    return Scored(**(fields | more))


def test_slices_stay_apart():
    other = Slice("default", "filter", "docs", tenant="t1")
    found = portions([scored("a"), scored("b", 2.0, slice=other), scored("a", query="q2")])
    assert [one.slice for one in found] == [Slice("default", "filter", "docs"), other]
    assert [len(one.sample) for one in found] == [2, 1]
    assert found[1].reaching(1.0) == ("b",)
    assert found[0].reaching(1.0) == ()


def test_scores_with_other_evidence_missing_are_left_out_and_counted():
    lost = {"missing": ("neighbor_gap",)}
    (found,) = portions([scored("a", **lost), scored("b", **lost), scored("c")])
    assert found.missing == ("neighbor_gap",)
    assert (found.document_ids, found.left_out) == (("a", "b"), 1)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (scored("b", fingerprint="g"), "two configurations"),
        (scored("b", threshold=2.0), "two configurations"),
        (scored("a"), "judged twice for query 'q1'"),
        (scored("b", float("nan")), "nan"),
        (scored("b", float("inf")), "inf"),
    ],
)
def test_scores_that_cannot_stand_together_are_refused(second, said):
    with pytest.raises(InputError, match=said):
        portions([scored("a"), second])
