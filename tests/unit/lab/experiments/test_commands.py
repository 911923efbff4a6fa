"""`ragsieve lab`: what it prints and how it ends."""

from __future__ import annotations

import json

import pytest

from ragsieve.cli.main import run
from unit.lab.experiments.fakes import FakeParts

FILE = """claim = "c"
kind = "detection"
dataset = "world"
depth = 40
comparators = ["longest", "crowded"]
[[attacks]]
name = "echo"
file = "echo"
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = {}

    def parts(**given):
        made.update(given)
        return FakeParts(breaking=made.get("breaking"))

    monkeypatch.setattr("ragsieve.lab.experiments.parts.LabParts", parts)
    (tmp_path / "trial.toml").write_text(FILE, "utf-8")
    return tmp_path, made


def test_run_prints_tables_then_reuses_them(place, capsys):
    folder, made = place
    command = ["lab", "run", str(folder / "trial.toml"), "--output", str(folder / "out")]
    assert run(command) == 0
    assert "AUROC" in capsys.readouterr().out
    assert made["cache"] == folder / "out" / "cache"
    assert run([*command, "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["run"]["reused"], fields["summary"]["name"]) == (2, "trial")


def test_failed_cells_end_partial(place, capsys):
    folder, made = place
    made["breaking"] = "crowded"
    assert run(["lab", "run", str(folder / "trial.toml"), "--output", str(folder / "out")]) == 3
    assert "it broke" in capsys.readouterr().out


def test_a_wrong_file_is_bad_input(place, capsys):
    folder, _ = place
    (folder / "trial.toml").write_text(FILE + "size = 3\n", "utf-8")
    assert run(["lab", "run", str(folder / "trial.toml"), "--output", str(folder / "out")]) == 2
    assert "unknown key 'attacks[0].size'" in capsys.readouterr().err


def test_report_needs_results(place, capsys):
    folder, _ = place
    assert run(["lab", "report", "--output", str(folder / "out")]) == 2
    assert "no results" in capsys.readouterr().err
    run(["lab", "run", str(folder / "trial.toml"), "--output", str(folder / "out")])
    assert run(["lab", "report", "--output", str(folder / "out"), "--json"]) == 0
    assert (folder / "out" / "report.html").exists()
    assert (folder / "out" / "report.md").exists()


def test_prepare_ends_partial_without_a_model(tmp_path, capsys):
    from unit.lab.experiments.test_parts import bench

    source = bench(tmp_path)
    command = ["lab", "prepare", str(source), "--output", str(tmp_path / "out")]
    command += ["--retriever", "embedded", "--models-dir", str(tmp_path / "none"), "--json"]
    assert run(command) == 3
    captured = capsys.readouterr()
    cells = json.loads(captured.out.strip().splitlines()[-1])["cells"]
    assert (cells[0]["folder"], cells[0]["dataset"]) == (None, "small")
