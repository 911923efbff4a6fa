"""The paper profile reproduces the golden figures (1e-6; 1e-5 for the corpus scan)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.evidence.alignment import LEVEL, alignment_jump, alignment_trace
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.surprisal import surprisal_evidence, surprisal_profile
from ragsieve.evidence.tails import excess_evidence, simes, upper_tail
from ragsieve.lab.metrics import auroc, detected_at
from ragsieve.records import Decision, Document, RankedDocument, Ranking

VECTORS = Path(__file__).parent / "vectors"


def cases(name):
    loaded = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))["cases"]
    assert loaded
    return loaded


def close(value, tolerance=1e-6):
    return pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize("case", cases("upper_tail"))
def test_upper_tail(case):
    assert upper_tail(case["value"], case["reference"]) == close(case["probability"])


@pytest.mark.parametrize("case", cases("simes"))
def test_simes(case):
    assert simes(case["p"]) == close(case["simes"])


@pytest.mark.parametrize("case", cases("alignment_tail"))
def test_alignment_tail(case):
    assert excess_evidence(case["p"], LEVEL) == close(case["E_alignment"])


@pytest.mark.parametrize("case", cases("scripts"), ids=lambda case: ascii(case["text"]))
def test_scripts(case):
    profile = script_profile(case["text"])
    assert profile.minority_share == close(case["v"])
    assert sorted(name for name, _ in profile.counts) == case["scripts"]
    assert float(profile.violates_integrity) == case["I"]


@pytest.mark.parametrize("case", cases("surprisal"))
def test_surprisal(case):
    losses = np.array(case["losses"], dtype=float)
    for window, expected in case["profile"].items():
        seen = surprisal_profile(losses, int(window))
        assert seen.burst_nats == close(expected["burst"])
        assert seen.change_nats == close(expected["change"])
    assert surprisal_evidence(losses).evidence == close(case["E_surprisal"])


@pytest.mark.parametrize("case", cases("alignment"))
def test_alignment(case):
    states = np.array(case["document_tokens"], dtype=float)
    trace = alignment_trace(states, np.array(case["query_tokens"], dtype=float))
    assert trace.tolist() == close(case["trace"])
    assert alignment_jump(trace) == close(case["jump"])


@pytest.mark.parametrize("case", cases("rsq_text_evidence"))
def test_rsq_text_evidence(case):
    entries = tuple(
        RankedDocument(Document(str(rank), text), rank)
        for rank, text in enumerate(case["texts"], start=1)
    )
    verdicts = QueryDetector("paper").score(Ranking("q", case["query"], entries))
    for index, verdict in enumerate(verdicts):
        anchor, script, surprisal, alignment = verdict.evidences
        assert anchor.probability == close(case["p_anchor"][index])
        assert anchor.value == close(case["E_anchor"][index])
        assert script.probability == close(case["p_script"][index])
        assert script.value == close(case["E_script"][index])
        assert not surprisal.measured
        assert not alignment.measured


@pytest.mark.parametrize("case", cases("rsg"), ids=lambda case: str(len(case["texts"])))
def test_rsg(case):
    documents = [Document(str(row), text) for row, text in enumerate(case["texts"])]
    scan = CorpusDetector("paper").scan(documents, np.array(case["embeddings"]))
    topology = scan.column("topology_score")
    columns = dict(topology.components)
    assert columns["eligible_neighbors"].tolist() == case["eligible"]
    assert columns["density_contrast"].tolist() == close(case["density"], 1e-5)
    assert columns["upper_tail_probability"].tolist() == close(case["upper_tail"], 1e-5)
    assert scan.column("script_integrity").values.tolist() == case["integrity"]
    assert scan.scores.tolist() == close(case["score"], 1e-5)
    assert [decision is Decision.FLAGGED for decision in scan.decisions] == case["flagged"]


@pytest.mark.parametrize("case", cases("metrics"))
def test_metrics(case):
    poison, clean = np.array(case["poison"]), np.array(case["clean"])
    assert auroc(poison, clean) == close(case["auroc"])
    assert detected_at(poison, clean, 0.05) == close(case["detected_at_5pct"])
