"""`ragsieve graph` as a user types it, and as a user kills it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ragsieve.cli.main import run
from ragsieve.evidence.knn import cosine_knn
from ragsieve.files.graph import read_graph, read_manifest


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = np.random.default_rng(0).normal(size=(300, 12)).astype(np.float32)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(np.split(made, [100, 250])):
        np.save(tmp_path / "shards" / f"{number}.npy", part)
    return made


def call(capsys, *arguments):
    code = run(["graph", "--embeddings", "shards", "--output", "g.npz", *arguments, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


def assert_graph(rows, k=16):
    found, expected = read_graph("g.npz", rows=len(rows)), cosine_knn(rows, k)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.similarities, expected.similarities)


def test_it_writes_the_graph_and_says_what_it_did(rows, capsys):
    code, found = call(capsys, "--block-rows", "120", "--checkpoint", "kept")
    assert code == 0
    assert found.pop("seconds") >= 0
    assert found.pop("embeddings") == read_manifest("g.npz").embeddings
    assert found == {
        "rows": 300,
        "neighbors": 16,
        "shards": 3,
        "blocks": 3,
        "blocks_computed": 3,
        "blocks_reused": 0,
        "damaged_checkpoints": [],
    }
    assert_graph(rows)
    _, again = call(capsys, "--block-rows", "120", "--checkpoint", "kept")
    assert (again["blocks_computed"], again["blocks_reused"]) == (0, 3)


def test_processes_give_the_same(rows, capsys):
    code, _ = call(capsys, "--executor", "processes", "--workers", "2", "--block-rows", "200")
    assert code == 0
    assert_graph(rows)


def test_damage_is_reported(rows, capsys):
    arguments = ["--block-rows", "150", "--checkpoint", "kept", "--neighbors", "4"]
    call(capsys, *arguments)
    first, _ = sorted(Path("kept").rglob("*.block"))
    first.write_bytes(b"rubbish")
    run(["graph", "--embeddings", "shards", "--output", "g.npz", *arguments])
    captured = capsys.readouterr()
    assert (
        "1 damaged checkpoints were computed again: 000000000000-000000000150.block" in captured.err
    )
    assert "300 rows, 4 neighbours each: 1 blocks computed, 1 reused" in captured.out
    assert_graph(rows, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--executor", "ray"], "--ray-address"),
        (["--ray-address", "local"], "--ray-address"),
        (["--workers", "2"], "--workers"),
        (["--output", "shards"], "directory"),
        (["--neighbors", "0"], "--neighbors"),
    ],
)
def test_what_does_not_go_together_is_refused(rows, capsys, arguments, message):
    code, problem = call(capsys, *arguments)
    assert code == 2
    assert message in problem


def test_a_killed_run_goes_on_where_it_was(rows, tmp_path, capsys):
    arguments = ["--block-rows", "1", "--checkpoint", "kept"]
    command = [sys.executable, "-m", "ragsieve", "graph", "--embeddings", "shards"]
    with subprocess.Popen([*command, "--output", "g.npz", *arguments]) as process:
        deadline = time.monotonic() + 200
        while not list(tmp_path.glob("kept/*/*.block")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "g.npz").exists()
    _, found = call(capsys, *arguments)
    assert found["blocks"] == 300
    assert 1 <= found["blocks_reused"] < 300
    assert found["damaged_checkpoints"] == []
    assert_graph(rows)
