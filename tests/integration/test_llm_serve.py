"""The local panel with the real weights: real servers on loopback, asked through `openai`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragsieve.backends.embedded import GEMMA_3_270M_GGUF, LOCAL_PANEL, SMOLLM2_135M_INSTRUCT_GGUF
from ragsieve.backends.installed import model_path
from ragsieve.chat.local_model import LocalModel
from ragsieve.chat.local_server import LocalPanel, LocalServer, ServerOptions
from ragsieve.chat.prompts import answer_prompt
from ragsieve.errors import BackendError
from ragsieve.records import Document
from ragsieve.settings import load_settings

pytestmark = pytest.mark.models

TEXTS = (
    "The Harlow Bridge crosses the river Tamsin. It was opened in 1934 by the mayor of Keld.",
    "Keld is a market town with 8,000 inhabitants.",
    "The river Tamsin rises in the Orrin hills.",
)
QUESTION = "In which year was the Harlow Bridge opened?"


@pytest.fixture(scope="module", autouse=True)
def llama_cpp():
    """Skips where the prebuilt library cannot run: another processor, an older C library."""
    tried = subprocess.run(
        [sys.executable, "-c", "import xllamacpp"], check=False, capture_output=True, text=True
    )
    if tried.returncode != 0:
        if "No module named" in tried.stderr:
            pytest.fail("xllamacpp is not installed; run `make test`, or install extra local-llm")
        last = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
        pytest.skip(f"the wheel of xllamacpp cannot run on this machine: {last}")


@pytest.fixture(scope="module")
def model(models_dir):
    def model(entry):
        served = entry.served
        file = model_path(models_dir, entry.name) / served.file
        return LocalModel(entry.name, file, served.family, turns=served.turns)

    return model


def ask(base_url, model, question=QUESTION):
    import openai

    documents = [Document(str(place), text) for place, text in enumerate(TEXTS)]
    messages = [
        {"role": one.role, "content": one.content} for one in answer_prompt(question, documents)
    ]
    # No key is asked for; the client wants one all the same.
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=300) as client:
        return client.chat.completions.create(
            model=model, messages=messages, temperature=0, max_tokens=24
        )


def port_of(base_url):
    return int(base_url.removesuffix("/v1").rpartition(":")[2])


def is_open(base_url):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(base_url))) == 0


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize("entry", LOCAL_PANEL, ids=lambda entry: entry.name)
def test_a_served_model_answers_twice_the_same_and_goes(model, entry):
    with LocalServer(model(entry)) as server:
        first = ask(server.base_url, entry.name)
        ask(server.base_url, entry.name, "Who opened it?")
        again = ask(server.base_url, entry.name)
        base_url, pid = server.base_url, server.process_id
        assert server.context_tokens == 4096
    reply = first.choices[0].message.content
    # Both read the year out of the documents, with a template that fits the model.
    assert "1934" in reply
    assert "\n" not in reply
    assert first.model == entry.name
    assert first.usage.prompt_tokens > 100
    assert 1 <= first.usage.completion_tokens <= 24
    assert again.choices[0].message.content == reply
    assert again.usage.prompt_tokens == first.usage.prompt_tokens
    assert not is_open(base_url)
    assert wait_until(lambda: gone(pid))


def test_a_panel_of_two_families(model):
    with LocalPanel([model(entry) for entry in LOCAL_PANEL]) as panel:
        replies = {
            name: ask(url, name).choices[0].message.content for name, url in panel.base_urls.items()
        }
        assert [member.family for member in panel.endpoints] == ["smollm2", "gemma-3"]
    assert list(replies) == [entry.name for entry in LOCAL_PANEL]
    assert len(set(replies.values())) == 2


def test_a_port_that_is_taken_is_an_error(model):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        server = LocalServer(model(SMOLLM2_135M_INSTRUCT_GGUF), ServerOptions(port=port))
        with pytest.raises(BackendError, match="couldn't bind"):
            server.start()
        assert not server.running


def test_a_cut_off_file_is_an_error(model, tmp_path):
    whole = model(SMOLLM2_135M_INSTRUCT_GGUF).file
    cut = tmp_path / "cut.gguf"
    with whole.open("rb") as source:
        cut.write_bytes(source.read(20_000_000))
    with pytest.raises(BackendError, match="corrupted or incomplete"):
        LocalServer(LocalModel("cut", cut)).start()


def test_without_its_template_the_base_model_is_not_served(model):
    file = model(GEMMA_3_270M_GGUF).file
    with pytest.raises(BackendError, match="holds no chat template"):
        LocalServer(LocalModel("gemma", file)).start()


def serve(*arguments):
    command = [sys.executable, "-m", "ragsieve", "llm", "serve", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_told_to_stop(models_dir, tmp_path, number):
    name = SMOLLM2_135M_INSTRUCT_GGUF.name
    with serve(name, "--json", "--models-dir", str(models_dir)) as program:
        told = json.loads(program.stdout.readline())
        (server,) = told["servers"]
        assert ask(server["base_url"], name).choices[0].message.content
        # The snippet is what settings take.
        (tmp_path / "c.toml").write_text(told["config"])
        member = load_settings(tmp_path / "c.toml").chat.members[name]
        assert (member.base_url, member.model) == (server["base_url"], name)
        assert member.loopback
        program.send_signal(number)
        assert program.wait(20) == 0
        assert "Traceback" not in program.stderr.read()
    assert not is_open(server["base_url"])
    assert gone(server["process_id"])


def test_killing_the_command_ends_its_server(models_dir):
    name = SMOLLM2_135M_INSTRUCT_GGUF.name
    with serve(name, "--json", "--models-dir", str(models_dir)) as program:
        (server,) = json.loads(program.stdout.readline())["servers"]
        program.kill()
    assert wait_until(lambda: gone(server["process_id"]) and not is_open(server["base_url"]))


def test_a_server_that_dies_ends_the_command_with_its_reason(models_dir):
    name = SMOLLM2_135M_INSTRUCT_GGUF.name
    with serve(name, "--json", "--models-dir", str(models_dir)) as program:
        (server,) = json.loads(program.stdout.readline())["servers"]
        os.kill(server["process_id"], signal.SIGSEGV)
        assert program.wait(20) == 2
        assert f"{name}: its server ended by itself" in program.stderr.read()


def test_the_command_refuses_what_cannot_be_served(tmp_path, capsys, models_dir):
    from ragsieve.cli.main import run

    (tmp_path / "bad.gguf").write_text("not a model")
    (tmp_path / "bare.gguf").write_bytes(b"GGUF")
    there = ["--models-dir", str(models_dir)]
    for arguments, words in (
        ([str(tmp_path / "bad.gguf")], "bad.gguf: expected a GGUF file"),
        ([str(tmp_path / "bare.gguf")], "holds no chat template"),
        ([str(tmp_path / "bare.gguf"), "--chat-template", "no.jinja"], "no.jinja: expected a chat"),
        ([str(tmp_path / "bare.gguf"), "--chat-template", "plain"], "llama.cpp cannot serve it"),
        (["unheard-of"], "expected a GGUF file or one of smollm2-135m-instruct-gguf"),
        (["--host", "0.0.0.0"], "an address of this machine alone"),  # noqa: S104
        (["--models-dir", str(tmp_path)], "ragsieve models pull smollm2-135m-instruct-gguf"),
    ):
        assert (
            run(
                [
                    "llm",
                    "serve",
                    *(arguments if "--models-dir" in arguments else [*arguments, *there]),
                ]
            )
            == 2
        )
        captured = capsys.readouterr()
        assert words in captured.err
        assert captured.out == ""
