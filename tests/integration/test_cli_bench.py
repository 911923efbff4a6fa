"""The command that measures on one's own corpus: its figures, and that it compares decisions."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from builders import clustered, documents, write_jsonl
from ragsieve import assembly
from ragsieve.bench.questions import stand_in, stand_in_rankings
from ragsieve.cli.main import run
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.live.index import LiveIndex
from ragsieve.records import Decision, Document
from ragsieve.testing import FakeCausalScorer, FakeTextEmbedder, FakeTokenEncoder

FILES = ("--documents", "c.jsonl", "--embeddings", "c.npy")
QUICK = ("--repeats", "2", "--rankings", "3", "--causal-model", "none", "--token-model", "none")


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, rows = clustered(np.random.default_rng(5), 60, dimension=32)
    found = [{"id": f"d{row}", "text": f"{text} {row}"} for row, text in enumerate(texts)]
    write_jsonl(Path("c.jsonl"), found)
    np.save("c.npy", rows)
    return found


def bench(capsys, *more):
    code = run(["bench", *FILES, *QUICK, *more, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


def numbers(found):
    for value in found.values() if isinstance(found, dict) else found:
        if isinstance(value, dict | list):
            yield from numbers(value)
        elif isinstance(value, int | float):
            yield value


def test_every_table_of_both_profiles_with_stand_ins(capsys):
    code, found = bench(capsys)
    assert (code, found["decisions_equal"]) == (0, True)
    assert (found["documents"], found["dimension"], found["repeats"]) == (60, 32, 2)
    asked = {"source": "stand-ins", "rankings": 3, "depth": 40, "encode_ms_p50": None}
    assert found["questions"] == asked
    for table in ("query", "scan", "live"):
        assert set(found[table]) == {"default", "paper"}
        assert all(one["decisions_equal"] is True for one in found[table].values())
    for one in found["query"].values():
        assert (one["rankings"], one["candidates"]) == (3, 15)
        ratio = one["full_ms_p50"] / one["decision_ms_p50"]
        assert one["decision_mode_speedup"] == pytest.approx(ratio)
        assert 0 < one["full_ms_p50"] <= one["full_ms_p95"]
    assert found["query"]["default"]["unavailable"] == []
    for one in found["live"].values():
        assert one["batch"] == 1
        share = one["add_seconds"] / one["full_scan_seconds"]
        assert one["live_add_share"] == pytest.approx(share)
        assert one["full_scan_seconds"] == found["scan"][one["profile"]]["total_seconds"]
    # So few documents are searched exactly.
    near = found["approximate"]
    assert (near["method"], near["neighbors"], near["recall"]) == ("exact", 16, 1.0)
    assert (near["recall_all_rows"], near["changed_decisions"]) == (1.0, 0)
    assert near["recall_low"] < near["recall"] <= near["recall_high"]
    assert all(math.isfinite(one) and one >= 0 for one in numbers(found))
    notes = "\n".join(found["notes"])
    assert "stand in for questions" in notes
    assert "paper, measured without surprisal: no causal language model" in notes
    assert "noisy" in notes
    assert "benchmarks" in notes


def test_without_faiss_it_says_so(capsys, monkeypatch):
    found_spec = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "faiss" else found_spec(name)
    )
    code, found = bench(capsys)
    assert (code, found["approximate"]) == (0, None)
    assert any("faiss is not installed" in note for note in found["notes"])


def test_queries_are_encoded_and_models_asked_once(capsys, monkeypatch):
    scorer, encoder = FakeCausalScorer(), FakeTokenEncoder()
    monkeypatch.setattr(assembly, "_hub_scorer", lambda _: scorer)
    monkeypatch.setattr(assembly, "_hub_encoder", lambda _: encoder)
    monkeypatch.setattr(assembly, "text_embedder", lambda _: FakeTextEmbedder())
    asked = [{"id": f"q{n}", "text": f"who built bridge {n}"} for n in range(5)]
    write_jsonl(Path("queries.jsonl"), asked)
    code, found = bench(capsys, "--queries", "queries.jsonl", "--causal-model", "auto")
    assert (code, found["decisions_equal"]) == (0, True)
    assert (found["questions"]["source"], found["questions"]["rankings"]) == ("queries", 3)
    assert found["questions"]["encode_ms_p50"] > 0
    assert found["query"]["paper"]["unavailable"] == []
    texts = [text for call in scorer.calls for text in call]
    assert len(texts) == len(set(texts)) > 0


def test_contexts_are_judged_as_they_are(capsys, corpus):
    ranked = [row | {"rank": rank} for rank, row in enumerate(corpus[:25], 1)]
    asked = {"query_id": "q", "query": "who built the bridge", "documents": ranked}
    write_jsonl(Path("contexts.jsonl"), [asked])
    code, found = bench(capsys, "--contexts", "contexts.jsonl")
    assert code == 0
    expected = {"source": "contexts", "rankings": 1, "depth": 25, "encode_ms_p50": None}
    assert found["questions"] == expected
    code, error = bench(capsys, "--contexts", "contexts.jsonl", "--queries", "q.jsonl")
    assert code == 2
    assert "choose one" in error


def swapped(decision):
    return Decision.CLEAR if decision is Decision.FLAGGED else Decision.FLAGGED


def broken_ruling(monkeypatch):
    decide = QueryDetector.decide

    def broken(self, ranking):
        first, *others = decide(self, ranking)
        return dataclasses.replace(first, decision=swapped(first.decision)), *others

    monkeypatch.setattr(QueryDetector, "decide", broken)


def broken_live_scan(monkeypatch):
    scan = LiveIndex.scan

    def broken(self):
        found = scan(self)
        *others, last = found.decisions
        return dataclasses.replace(found, decisions=(*others, swapped(last)))

    monkeypatch.setattr(LiveIndex, "scan", broken)


def broken_features(monkeypatch):
    judge = PaperCorpusRule.judge
    calls = []

    def broken(self, features, graph):
        calls.append(None)
        if len(calls) % 2:
            return judge(self, features, graph)
        features.integrity[:] = ~features.integrity
        return judge(self, features, graph)

    monkeypatch.setattr(PaperCorpusRule, "judge", broken)


@pytest.mark.parametrize(
    ("break_it", "table", "profiles"),
    [
        (broken_ruling, "query", {"default", "paper"}),
        (broken_live_scan, "live", {"default", "paper"}),
        (broken_features, "scan", {"paper"}),
    ],
)
def test_a_quicker_way_that_decides_otherwise_fails_the_command(
    break_it, table, profiles, capsys, monkeypatch
):
    break_it(monkeypatch)
    code, found = bench(capsys)
    assert (code, found["decisions_equal"]) == (1, False)
    assert {name for name, one in found[table].items() if not one["decisions_equal"]} == profiles
    assert run(["bench", *FILES, *QUICK]) == 1
    assert "DECISIONS DIFFER" in capsys.readouterr().out


def test_the_tables_are_shown(capsys):
    assert run(["bench", *FILES, *QUICK]) == 0
    shown = capsys.readouterr()
    for title in ("Query filter", "Scan, seconds", "Live index", "Approximate graph"):
        assert title in shown.out
    assert "Every decision is equal." in shown.out
    assert "noisy" in shown.err


def test_a_corpus_of_one_document_has_no_live_table(capsys):
    write_jsonl(Path("c.jsonl"), [{"id": "d", "text": "alone"}])
    np.save("c.npy", np.ones((1, 4)))
    code, found = bench(capsys)
    assert (code, found["live"]) == (0, {})
    assert any("single document" in note for note in found["notes"])


def test_stand_ins_are_titles_or_first_sentences():
    assert stand_in(Document("d", "Text here.", "A title ")) == "A title"
    assert stand_in(Document("d", " It costs 3.5 pounds. Then more.")) == "It costs 3.5 pounds."
    assert stand_in(Document("d", "谁建了桥？是他。")) == "谁建了桥？"
    assert stand_in(Document("d", "no mark")) == "no mark"
    assert stand_in(Document("d", " \n ")) == ""
    assert len(stand_in(Document("d", "x" * 10_000))) == 200


def test_no_stand_in_finds_the_document_it_was_copied_from():
    own = documents(["One here.", "", "Two there.", "Three."])
    rows = np.eye(4)
    found = stand_in_rankings(own, rows, count=10, depth=2)
    assert [one.query for one in found] == ["One here.", "Two there.", "Three."]
    for one, source in zip(found, (own[0], own[2], own[3]), strict=True):
        assert [entry.rank for entry in one.entries] == [1, 2]
        assert source not in one.documents
    assert len(stand_in_rankings(own, rows, count=2, depth=9)) == 2
