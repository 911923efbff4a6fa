"""`scan --graph`, `scan --approximate`, `filter --mode decision`, `--features`: the same findings."""

from __future__ import annotations

import json

import numpy as np
import pytest

from builders import clustered, write_jsonl
from ragsieve.cli.main import run


def rows_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, rows = clustered(np.random.default_rng(9), 260)
    documents = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    write_jsonl(tmp_path / "corpus.jsonl", documents)
    np.save("rows.npy", rows)
    entries = [row | {"rank": rank} for rank, row in enumerate(documents[:40], 1)]
    asked = [{"query_id": "q", "query": "who built the bridge", "documents": entries}]
    write_jsonl(tmp_path / "contexts.jsonl", asked)
    return tmp_path


def scan(*more):
    files = ["--documents", "corpus.jsonl", "--embeddings", "rows.npy"]
    return run(["scan", *files, *more])


def test_a_graph_computed_before_gives_the_same_scan(place, capsys):
    assert run(["graph", "--embeddings", "rows.npy", "--output", "g.npz", "--neighbors", "24"]) == 0
    assert scan("--output", "one.jsonl") in {0, 1}
    assert scan("--output", "two.jsonl", "--graph", "g.npz") in {0, 1}
    assert rows_of(place / "one.jsonl") == rows_of(place / "two.jsonl")
    np.save("rows.npy", np.load("rows.npy")[::-1])
    assert scan("--output", "three.jsonl", "--graph", "g.npz") == 2
    assert "other embeddings" in capsys.readouterr().err


def test_an_approximate_scan_prints_its_recall(place, capsys):
    assert scan("--output", "one.jsonl", "--approximate") in {0, 1}
    assert "recall" in capsys.readouterr().err
    assert scan("--output", "one.jsonl", "--approximate", "--graph", "g.npz") == 2
    assert scan("--output", "one.jsonl", "--state", "kept") in {0, 1}
    assert scan("--output", "one.jsonl", "--against", "kept", "--approximate") == 2


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_decisions_alone_are_those_of_the_full_filter(place, profile, capsys):
    line = ["filter", "--input", "contexts.jsonl", "--profile", profile, "--causal-model", "none"]
    line += ["--token-model", "none"]
    if profile == "default":
        line += ["--documents", "corpus.jsonl", "--embeddings", "rows.npy"]
    full = run([*line, "--output", "full.jsonl", "--contexts-output", "kept.jsonl"])
    assert run([*line, "--output", "d.jsonl", "--contexts-output", "k.jsonl", "--mode", "decision",
                "--features", "store.sqlite"]) == full  # fmt: skip
    whole, decided = rows_of(place / "full.jsonl"), rows_of(place / "d.jsonl")
    same = ("query_id", "document_id", "rank", "decision", "level", "removed", "fingerprint")
    assert [[one[key] for key in same] for one in whole] == [
        [one[key] for key in same] for one in decided
    ]
    for one, two in zip(whole, decided, strict=True):
        at_most = two["score_at_most"]
        assert two["score_at_least"] <= one["score"] + 1e-9
        assert at_most is None or one["score"] <= at_most + 1e-9
        assert "score" not in two
    ids = [[d["id"] for d in row["documents"]] for row in rows_of(place / "kept.jsonl")]
    assert ids == [[d["id"] for d in row["documents"]] for row in rows_of(place / "k.jsonl")]
