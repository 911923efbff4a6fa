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


def test_local_models_are_served_for_the_run_and_stopped_after_it(place, capsys, monkeypatch):
    from ragsieve.chat.endpoint import ChatEndpoint
    from ragsieve.chat.local_model import LocalModel
    from unit.lab.experiments.fakes import FakeChat

    folder, _ = place
    events = []

    class Server:
        def __init__(self, model):
            self.model = model
            self.endpoint = ChatEndpoint(base_url="http://127.0.0.1:1/v1", model=model.name)

    class Panel:
        def __init__(self, models):
            self.servers = [Server(model) for model in models]

        def __enter__(self):
            events.append(("start", tuple(one.model.name for one in self.servers)))

        def __exit__(self, *_):
            events.append(("stop",))

    class Opened(FakeChat):
        def __init__(self, endpoint):
            super().__init__()
            self.identity = endpoint.model
            opened.append(self)

        def close(self):
            events.append(("close", self.identity))

    opened = []
    monkeypatch.setattr("ragsieve.chat.local_server.LocalPanel", Panel)
    monkeypatch.setattr("ragsieve.assembly.chat_model", Opened)
    monkeypatch.setattr(
        "ragsieve.cli.llm.local_model", lambda name, _: LocalModel(name, folder / name)
    )
    text = FILE.replace('"detection"', '"end-to-end"').replace(
        'comparators = ["longest", "crowded"]', 'pipelines = ["none", "ring-3"]'
    )
    (folder / "trial.toml").write_text(f'{text}[answers]\nlocal = ["big", "small"]\n', "utf-8")

    def parts(**given):
        found = FakeParts()
        kept = {}

        def members(answers):
            # As the real parts: made once, when somebody is first asked.
            if answers not in kept:
                kept[answers] = given["chat"](answers)
            return kept[answers]

        found.members = members
        return found

    monkeypatch.setattr("ragsieve.lab.experiments.parts.LabParts", parts)
    command = ["lab", "run", str(folder / "trial.toml"), "--output", str(folder / "out")]
    assert run(command) == 0
    assert "ASR (judge: string containment, no model)" in capsys.readouterr().out
    assert events == [
        ("start", ("big", "small")), ("close", "small"), ("close", "big"), ("stop",)
    ]  # fmt: skip
    journal = folder / "out" / "cache" / "chat" / "replies.jsonl"
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    # By member; the rings' first prompts are the undefended ones.
    assert {line["identity"] for line in lines} == {"big", "small"}
    assert len(lines) == sum(one.calls for one in opened)
    events.clear()
    assert run(command) == 0
    assert events == []


def test_members_of_the_settings_answer_by_name(place, capsys, monkeypatch):
    folder, _ = place
    config = folder / "settings.toml"
    config.write_text(
        '[chat.members.one]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n', "utf-8"
    )
    asked = {}

    def parts(**given):
        found = FakeParts()
        found.members = lambda answers: asked.update(given["chat"](answers)) or asked
        return found

    monkeypatch.setattr("ragsieve.lab.experiments.parts.LabParts", parts)
    text = FILE.replace('"detection"', '"end-to-end"').replace(
        'comparators = ["longest", "crowded"]', 'pipelines = ["none"]'
    )
    (folder / "trial.toml").write_text(f'{text}[answers]\nmembers = ["two"]\n', "utf-8")
    command = ["lab", "run", str(folder / "trial.toml"), "--output", str(folder / "out")]
    assert run([*command, "--config", str(config)]) == 3
    assert "expected one of one, found 'two'" in capsys.readouterr().out
