"""Negatives, bystanders, macro means and ablations on predictions small enough to count."""

from __future__ import annotations

import numpy as np
import pytest

from builders import write_jsonl
from ragsieve.errors import InputError, RecordError
from ragsieve.files.contexts import Carried
from ragsieve.files.predictions import Prediction, prediction_fields, read_predictions
from ragsieve.lab.ablation import Variant, ablate
from ragsieve.lab.datasets import read_attacks
from ragsieve.lab.evaluation import evaluate
from ragsieve.lab.labels import read_labels
from ragsieve.lab.metrics import auroc, detected_at
from ragsieve.records import Decision, Evidence, Level


def prediction(name, score, condition=None, *, query="q", removed=None):
    decision = Decision.FLAGGED if score >= 1 else Decision.CLEAR
    evidences = (Evidence("answer_anchor", score / 2, 0.5), Evidence("surprisal", score / 2))
    return Prediction(
        name, score, 1.0, decision, Level.REVIEW, "paper", "f", evidences, query_id=query, rank=1,
        removed=removed, carried=Carried("d", "e", condition),
    )  # fmt: skip


def test_unpoisoned_rankings_are_the_negatives_and_bystanders_stand_apart():
    rows = [
        *(prediction(f"c{i}", i / 10, "clean") for i in range(10)),
        prediction("p1", 1.5, "attack"),
        prediction("p2", 0.05, "attack"),
        prediction("b1", 2.0, "attack"),
    ]
    report = evaluate(rows, {"p1": True, "p2": True})
    (cell,) = report.cells
    assert (cell.poison, cell.clean, cell.bystanders) == (2, 10, 1)
    assert cell.auroc == pytest.approx((10 + 1) / 20)
    assert cell.detected_at_5pct == 0.5
    assert cell.removed == 0.5
    assert cell.clean_removed == 0.0
    assert cell.bystanders_removed == 1.0
    assert report.macro_auroc == cell.auroc


def test_without_labels_nothing_is_invented():
    report = evaluate([prediction("a", 2.0), prediction("b", 0.0)], None)
    (cell,) = report.cells
    assert cell.auroc is cell.detected_at_5pct is cell.removed is None
    assert cell.clean_removed == 0.5
    assert report.macro_auroc is None
    assert not report.labelled
    with pytest.raises(InputError, match="at least one prediction"):
        evaluate([], None)


def test_what_a_policy_removed_counts_and_not_the_flag_alone():
    (cell,) = evaluate([prediction("a", 0.1, removed=True)], None).cells
    assert cell.clean_removed == 1.0


def test_labels_may_not_contradict_each_other(tmp_path):
    rows = [{"document_id": "a", "poison": True}, {"document_id": "a", "poison": False}]
    with pytest.raises(RecordError, match="both ways"):
        read_labels(write_jsonl(tmp_path / "l.jsonl", rows))
    with pytest.raises(RecordError, match="expected true or false"):
        read_labels(write_jsonl(tmp_path / "l.jsonl", [{"document_id": "a", "poison": 1}]))


def test_predictions_survive_a_file(tmp_path):
    rows = [prediction("a", 1.2, "clean", removed=True)]
    path = write_jsonl(tmp_path / "p.jsonl", [prediction_fields(row) for row in rows])
    (read,) = read_predictions(path)
    assert prediction_fields(read) == prediction_fields(rows[0])


def test_ablation_recomputes_the_decision():
    (row,) = ablate([prediction("a", 1.2, removed=True)], Variant.WITHOUT_SURPRISAL)
    assert row.score == pytest.approx(0.6)
    assert row.decision is Decision.CLEAR
    assert row.removed is None
    assert row.profile == "paper:without-surprisal"


def test_attack_files_may_state_numbers(tmp_path):
    row = {
        "query_id": "q",
        "query": "?",
        "attack": "a",
        "target_answer": 1975,
        "documents": [{"id": "p", "text": "x"}],
    }
    (target,) = read_attacks(write_jsonl(tmp_path / "a.jsonl", [row]))
    assert target.target_answer == "1975"
    assert target.documents[0].id == "p"


@pytest.mark.parametrize("bad", [([], [1.0]), ([1.0], []), ([np.nan], [1.0])])
def test_metrics_refuse_what_they_cannot_measure(bad):
    for metric in (auroc, detected_at):
        with pytest.raises(ValueError, match=r"score"):
            metric(np.array(bad[0]), np.array(bad[1]))
