"""`ragsieve answer` and the lab's answers, through the command line, against a real server."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders import write_jsonl
from ragsieve.cli.main import run
from ragsieve.testing import FakeTextEmbedder
from unit.chat.server import Say, Server, refusal

ROOT = Path(__file__).parents[2]
KEY = "sk-very-secret-0123456789"


def context(name, texts=("the mason built it", "the warden keeps it", "rain"), **more):
    documents = [
        {"id": f"{name}{row}", "rank": row, "text": text} for row, text in enumerate(texts, 1)
    ]
    return {"query_id": name, "query": f"{name} asks who", "documents": documents, **more}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "contexts.jsonl", [context(f"q{row}") for row in range(6)])
    return tmp_path


def command(url, *more):
    files = ["--contexts", "contexts.jsonl", "--output", "answers.jsonl", "--journal", "j.jsonl"]
    return ["answer", *files, "--base-url", url, "--model", "m", *more]


def answers(place):
    return [json.loads(line) for line in (place / "answers.jsonl").read_text("utf-8").splitlines()]


def asked_about(fields):
    return re.search(r"Question: (\w+)", fields["messages"][-1]["content"]).group(1)


def test_every_context_is_answered(place, capsys):
    write_jsonl(
        place / "contexts.jsonl",
        [context("q0", condition="poisoned"), context("q1"), context("q2", texts=())],
    )
    says = {"q0": "the mason", "q1": "Not in the documents."}
    with Server(lambda fields: Say(says[asked_about(fields)])) as server:
        assert run(command(server.url, "--context-size", "2", "--max-tokens", "24", "--json")) == 0
    first, second, third = answers(place)
    assert first == {
        "query_id": "q0", "condition": "poisoned", "answer": "the mason", "abstained": False,
        "document_ids": ["q01", "q02"], "model": f"m at {server.url}, temperature 0",
        "prompt_tokens": 7, "completion_tokens": 2,
    }  # fmt: skip
    assert (second["answer"], second["abstained"]) == ("Not in the documents.", True)
    assert (third["answer"], third["abstained"], third["document_ids"]) == (None, True, [])
    fields = json.loads(capsys.readouterr().out)
    assert (fields["answers"], fields["abstained"], fields["failed"]) == (3, 2, 0)
    assert (fields["usage"]["calls"], fields["usage"]["prompt_tokens"]) == (2, 14)
    assert server.requests[0][2]["max_tokens"] == 24


def test_failures_are_reported_and_asked_again_alone(place, capsys):
    def flaky(fields):
        return refusal(400, "\x1b[2Jno") if asked_about(fields) in {"q1", "q4"} else Say("x")

    with Server(flaky) as server:
        assert run(command(server.url)) == 3
        captured = capsys.readouterr().out
        assert "4 answers" in captured
        assert "2 failed" in captured
        assert "q1: chat model m" in captured
        assert "\x1b" not in captured
        assert [one["query_id"] for one in answers(place) if one["answer"] is None] == ["q1", "q4"]
        assert all(one["abstained"] is None for one in answers(place) if "reason" in one)
        server.requests.clear()
        server.script = [lambda _: Say("x")]
        assert run(command(server.url)) == 0
        assert sorted(asked_about(fields) for *_, fields in server.requests) == ["q1", "q4"]
        complete = (place / "answers.jsonl").read_bytes()
        server.requests.clear()
        assert run(command(server.url)) == 0
        # Nothing is asked, and nothing is different.
        assert server.requests == []
        assert (place / "answers.jsonl").read_bytes() == complete


def test_an_echo_is_a_failure_that_is_not_paid_twice(place):
    with Server(lambda fields: Say(fields["messages"][-1]["content"])) as server:
        assert run(command(server.url)) == 3
        assert {one["reason"] for one in answers(place)} == {
            "the model repeats the prompt instead of answering"
        }
        paid = len(server.requests)
        assert run(command(server.url)) == 3
        assert len(server.requests) == paid == 6


def test_a_killed_run_loses_no_paid_answer(place):
    write_jsonl(place / "contexts.jsonl", [context(f"q{row}") for row in range(60)])
    with Server(lambda fields: Say(asked_about(fields), wait=0.03)) as server:
        line = [sys.executable, "-m", "ragsieve", *command(server.url, "--concurrency", "2")]
        running = subprocess.Popen(line, cwd=place)
        while len(server.requests) < 8:
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
        assert running.wait() != 0
        assert not (place / "answers.jsonl").exists()
        journal = place / "j.jsonl"
        kept = [json.loads(line)["content"] for line in journal.read_bytes().splitlines()]
        assert len(kept) >= 4
        with journal.open("ab") as handle:
            handle.write(b'{"key": "torn')
        server.requests.clear()
        assert run(command(server.url)) == 0
        again = {asked_about(fields) for *_, fields in server.requests}
        assert not again & set(kept)
    assert [one["answer"] for one in answers(place)] == [f"q{row}" for row in range(60)]


def test_a_torn_line_is_named(place, capsys):
    (place / "j.jsonl").write_bytes(b'{"key": "torn')
    with Server(Say("x")) as server:
        assert run(command(server.url)) == 0
    assert "lines without a reply: 1" in capsys.readouterr().err


def test_keys_come_from_their_variable_and_are_not_printed(place, capsys, monkeypatch):
    monkeypatch.setenv("MEMBER_KEY", KEY)
    with Server(lambda fields: refusal(401, f"wrong key {KEY}")) as server:
        assert run(command(server.url, "--key-variable", "MEMBER_KEY")) == 3
    assert server.requests[0][1]["authorization"] == f"Bearer {KEY}"
    captured = capsys.readouterr()
    assert "HTTP 401: wrong key [key]" in captured.out
    files = b"".join(path.read_bytes() for path in place.iterdir() if path.is_file())
    assert KEY not in captured.out + captured.err
    assert KEY.encode() not in files
    assert run(command(server.url, "--key-variable", "ABSENT_KEY")) == 2
    assert "ABSENT_KEY holds no key" in capsys.readouterr().err
    assert run(command(server.url, "--key-variable", KEY)) == 2
    assert KEY not in capsys.readouterr().err


def test_bad_input_is_said_before_anything_is_asked(place, capsys):
    with Server(Say("x")) as server:
        lines = {
            "--model with it": command(server.url)[:-2],
            "is an input": [*command(server.url), "--journal", "contexts.jsonl"],
            "two results": [*command(server.url), "--journal", "answers.jsonl"],
            "does not exist": [*command(server.url), "--output", "none/answers.jsonl"],
            "chat.model": command(server.url)[:7],
            "base_url": command("nowhere"),
        }
        for words, line in lines.items():
            assert run(line) == 2, words
            assert words in capsys.readouterr().err
        assert server.requests == []


def test_the_commands_of_the_page_run(place):
    page = (ROOT / "docs" / "chat.md").read_text("utf-8")
    (settings,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (block,) = re.findall(r"```\n(ragsieve answer.*?)```", page, re.DOTALL)
    lines = block.strip().splitlines()
    assert len(lines) == 2
    with Server(Say("x")) as server:
        here = re.sub(r"https?://[a-z0-9.:]+/v1", server.url, settings)
        assert here.count(server.url) == 2
        (place / "chat.toml").write_text(
            here.replace('key_variable = "LARGE_PROVIDER_KEY"', ""), "utf-8"
        )
        for line in lines:
            local = line.replace("http://127.0.0.1:8080/v1", server.url)
            assert run(shlex.split(local)[1:]) == 0
    models = [fields["model"] for *_, fields in server.requests]
    assert models == ["smollm2-135m-instruct"] * 6 + ["large-1"] * 6


EXPERIMENT = """claim = "c"
kind = "end-to-end"
dataset = "bench"
depth = 20
[[attacks]]
name = "natural"
file = "natural"
[[detectors]]
detector = "none"
[answers]
model = "{model}"
{where}
judge = "chat"
answer_tokens = 24
"""
RULING = '{"target_supported": true, "correct_supported": false, "reason": "it says so"}'


@pytest.fixture
def bench(tmp_path, monkeypatch):
    from unit.lab.experiments.test_parts import bench as make

    monkeypatch.setattr(
        "ragsieve.lab.experiments.parts.assembly.text_embedder", lambda *_, **__: FakeTextEmbedder()
    )
    return make(tmp_path)


def laboratory(fields):
    """Answers questions; as a judge it first talks around its ruling, then repairs it."""
    messages = fields["messages"]
    if "Question:" in messages[-1]["content"]:
        return Say("the thief")
    return Say(RULING if len(messages) == 4 else f"Here you are: {RULING}")


@pytest.mark.parametrize("named", ["address", "member"])
def test_an_experiment_reaches_its_server_and_pays_once(bench, tmp_path, capsys, named):
    file, settings = tmp_path / "trial.toml", tmp_path / "chat.toml"
    with Server(laboratory) as server:
        if named == "address":
            file.write_text(EXPERIMENT.format(model="m", where=f'base_url = "{server.url}"'))
            settings.write_text("")
        else:
            file.write_text(EXPERIMENT.format(model="small", where=""))
            settings.write_text(f'[chat.members.small]\nbase_url = "{server.url}"\nmodel = "m"\n')
        line = ["lab", "run", str(file), "--bench", str(bench), "--config", str(settings), "--json"]
        cache = ["--cache", str(tmp_path / "cache")]
        assert run([*line, *cache, "--output", str(tmp_path / "one")]) == 0
        first = json.loads(capsys.readouterr().out)
        assert first["run"]["done"] == 1
        assert server.requests
        assert {fields["model"] for *_, fields in server.requests} == {"m"}
        kinds = [len(fields["messages"]) for *_, fields in server.requests]
        assert set(kinds) == {2, 4}
        assert (tmp_path / "cache" / "chat" / "replies.jsonl").exists()
        server.requests.clear()
        # Another folder for results: the cell runs again, the replies are there.
        assert run([*line, *cache, "--output", str(tmp_path / "two")]) == 0
        assert server.requests == []
    again = json.loads(capsys.readouterr().out)
    assert again["summary"]["metrics"] == first["summary"]["metrics"]


def test_an_experiment_without_its_member_says_what_is_missing(bench, tmp_path, capsys):
    file = tmp_path / "trial.toml"
    file.write_text(EXPERIMENT.format(model="default", where=""))
    line = ["lab", "run", str(file), "--bench", str(bench), "--output", str(tmp_path / "out")]
    assert run(line) == 3
    assert "chat.members: expected one of none, found 'default'" in capsys.readouterr().out
