"""From settings to a service: what is read, what is refused, and the commands."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from builders import write_jsonl
from ragsieve.cli.main import run
from ragsieve.errors import ConfigError, InputError
from ragsieve.files.state import write_state
from ragsieve.service.app import create_app
from ragsieve.service.keys import KeyFile, Role
from ragsieve.service.loading import load_parts
from ragsieve.settings import load_settings
from unit.service.making import asked, corpus, served, snapshot_of

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- it is refused


@pytest.fixture
def files(tmp_path):
    documents, rows = corpus()
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": d.id, "text": d.text} for d in documents])
    np.save(tmp_path / "corpus.npy", rows)
    write_state(tmp_path / "state", snapshot_of()[1])
    assert run(
        ["scan", "--documents", str(tmp_path / "corpus.jsonl"), "--embeddings",
         str(tmp_path / "corpus.npy"), "--output", str(tmp_path / "scan.jsonl")]
    ) in {0, 1}  # fmt: skip
    return tmp_path


def settings_of(folder, **more):
    one = {"corpus": folder / "corpus.jsonl", "state": folder / "state"}
    service = {"keys": folder / "keys.json", "collections": {"default": one}} | more
    return load_settings(service=service)


def test_what_the_settings_name_is_served(files):
    one = {
        "corpus": files / "corpus.jsonl",
        "state": files / "state",
        "predictions": files / "scan.jsonl",
        "tenant": "acme",
    }
    made = load_parts(settings_of(files, collections={"a": one, "b": {"embed": False}}))
    rows = [json.loads(line) for line in (files / "scan.jsonl").read_text().splitlines()]
    taken = {row["document_id"] for row in rows if row["flagged"] and row["level"] == "quarantine"}
    flagged = {row["document_id"] for row in rows if row["flagged"]}
    with served(made) as client:
        listed = client.get("/v1/collections").json()["collections"]
        found = client.post("/v1/filter", json=asked(collection="a")).json()
    assert [(row["name"], row["documents"], row["gate"]) for row in listed] == [
        ("a", 60, "state"),
        ("b", 0, None),
    ]
    assert listed[0]["state_age_seconds"] < 600
    assert set(found["withheld"]) == taken & {f"d{place}" for place in range(40)}
    (held, _) = list(made.holdings)
    assert held.suspects == flagged
    assert held.tenant == "acme"


def test_profile_paper_is_served_without_models(files):
    one = {"corpus": files / "corpus.jsonl"}
    settings = load_settings(
        profile="paper",
        models={"causal": "none", "encoder": "none"},
        service={"keys": files / "k.json", "collections": {"default": one}},
    )
    with served(load_parts(settings)) as client:
        found = client.post("/v1/filter", json=asked(mode="decision")).json()
    assert found["profile"] == "paper"
    assert found["partial"] is True


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"host": EVERYWHERE}, ConfigError, "no active key"),
        ({"collections": {"a": {"corpus": "absent.jsonl"}}}, InputError, "absent.jsonl"),
        ({"collections": {"a": {"state": "absent"}}}, InputError, "absent"),
        ({"collections": {"a": {"live": "absent"}}}, InputError, "absent"),
        ({"policy": "absent.toml"}, ConfigError, "absent.toml"),
    ],
)
def test_what_cannot_be_served_is_refused_at_the_start(files, more, error, words):
    with pytest.raises(error, match=words):
        load_parts(settings_of(files, **more))


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ({"surprise": 1}, "unknown key"),
        ({"collections": {"a": {"surprise": 1}}}, "unknown key"),
        ({"collections": {"../a": {"embed": False}}}, "expected names"),
        ({"collections": {"a" * 65: {"embed": False}}}, "expected names"),
        ({"collections": {"a\n": {"embed": False}}}, "expected names"),
        ({"on_failure": "maybe"}, "on_failure"),
        ({"threads": 0}, "threads"),
        ({"port": 70_000}, "port"),
        ({"request_seconds": 0}, "request_seconds"),
        ({"max_documents": 5_000}, "max_documents"),
    ],
)
def test_strange_settings_are_errors(service, words):
    with pytest.raises(ConfigError, match=words):
        load_settings(service=service)


def test_an_app_can_be_started_again(files):
    app = create_app(load_parts(settings_of(files)))
    from fastapi.testclient import TestClient

    for _ in range(2):
        with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 1)) as client:
            assert client.post("/v1/filter", json=asked()).status_code == 200
            assert client.get("/readyz").status_code == 200


def test_the_key_commands(tmp_path, capsys):
    keys = ["--keys", str(tmp_path / "keys.json")]
    assert run(["keys", "list", *keys]) == 0
    assert "No keys" in capsys.readouterr().out
    assert run(["keys", "add", "web", "--tenant", "acme", "--json", *keys]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["key"].startswith("ragsieve_")
    assert (made["role"], made["tenant"]) == ("service", "acme")
    assert run(["keys", "add", "web", *keys]) == 2
    assert run(["keys", "list", *keys]) == 0
    listed = capsys.readouterr().out
    assert made["id"] in listed
    assert made["key"] not in listed
    assert run(["keys", "revoke", made["id"], *keys]) == 0
    assert run(["keys", "revoke", "nope", *keys]) == 2
    assert run(["keys", "add", "x", "--expires-days", "0", *keys]) == 2


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(port, method, path, token=None, body=None):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with contextlib.closing(link):
        link.request(method, path, body and json.dumps(body), headers)
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())


def test_the_command_serves_until_it_is_told_to_stop_and_logs_no_key(files):
    keys, port = files / "keys.json", free_port()
    token, _ = KeyFile(keys).add("a", Role.SERVICE)
    command = [sys.executable, "-m", "ragsieve", "serve", "--port", str(port), "--keys", keys]
    command += ["--corpus", files / "corpus.jsonl", "--state", files / "state"]
    with (files / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stderr=log, stdout=log, env=os.environ | {"HOME": str(files)}
        )
    try:
        deadline, ready = time.time() + 60, False
        while not ready and time.time() < deadline:
            with contextlib.suppress(ConnectionError):
                ready = ask(port, "GET", "/readyz")[1]["ready"]
            time.sleep(0.1)
        body = asked(mode="decision")
        status, found = ask(port, "POST", f"/v1/filter?key={token}", token, body)
        assert status == 200
        assert len(found["candidates"]) == 5
        assert ask(port, "GET", f"/v1/collections?{token}", token[:-1])[0] == 401
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait(20)
    text = (files / "log").read_text()
    assert code == 0
    assert "/v1/filter 200" in text
    assert token.removeprefix("ragsieve_")[:20] not in text


def test_a_port_that_is_taken_ends_the_command(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", "--port", port, "--keys", str(tmp_path / "k.json")]) == 2


def test_the_command_refuses_to_be_reached_without_keys(tmp_path, capsys):
    code = run(["serve", "--host", EVERYWHERE, "--keys", str(tmp_path / "k.json")])
    assert code == 2
    assert "no active key" in capsys.readouterr().err
