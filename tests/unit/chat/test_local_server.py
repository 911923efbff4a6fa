"""The server's process, with a stand-in for llama.cpp: what starts, fails, crashes and ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

import pytest

from ragsieve.chat.local_model import PLAIN_TEMPLATE, LocalModel, model_name, revision
from ragsieve.chat.local_server import LocalPanel, LocalServer, ServerOptions
from ragsieve.errors import BackendError, ConfigError, MissingExtraError, ModelFilesError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and forks of POSIX")

# What a model file of this stand-in says decides how it behaves.
FAKE = """
import ctypes, http.server, json, os, threading, time
from types import SimpleNamespace

class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(
            model=SimpleNamespace(), sampling=SimpleNamespace(),
            cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

class Server:
    def __init__(self, wanted):
        words = open(wanted.model.path, "rb").read().decode()
        os.write(1, b"native chatter on standard output\\n")
        if "broken" in words:
            os.write(2, b"0.00.001.100 W srv: something else\\n")
            for _ in range(2):
                os.write(2, b"0.00.001.200 E loader: tensor \\x1b[31mis short\\n")
            raise RuntimeError("Failed to init server, please check the input params.")
        if "aborts" in words:
            os.write(2, b"GGML_ASSERT(n > 0) failed\\n")
            os.abort()
        if "endless" in words:
            time.sleep(60)
        given = {k: v for k, v in vars(wanted).items() if isinstance(v, (str, int, list))}
        given["threads"] = [wanted.cpuparams.n_threads, wanted.cpuparams_batch.n_threads]
        meta = {"n_ctx": min(wanted.n_ctx, 1000), "given": given}
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/crash":
                    os.write(2, b"0.10.000.000 E ggml: out of memory\\n")
                    ctypes.string_at(0)
                body = b"{}" if "mute" in words else json.dumps({"data": [{"meta": meta}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *_):
                pass
        self.http = http.server.ThreadingHTTPServer((wanted.hostnames[0], wanted.port), Handler)
        self.listening_address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
    def __del__(self):
        if hasattr(self, "http"):
            self.http.server_close()
"""
TEMPLATE = b"tokenizer.chat_template"


@pytest.fixture(autouse=True)
def fake(tmp_path, monkeypatch):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "xllamacpp.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setattr("ragsieve.chat.local_model.importlib.metadata.version", lambda _name: "1")
    real = "ragsieve.chat.local_server.importlib.util.find_spec"
    monkeypatch.setattr(real, lambda name: name)
    return tmp_path / "path" / "xllamacpp.py"


@pytest.fixture
def model(tmp_path):
    def model(words="", name="small", **fields):
        file = tmp_path / f"{name}.gguf"
        file.write_bytes(b"GGUF" + TEMPLATE + words.encode())
        return LocalModel(name, file, **fields)

    return model


def ask(server, path="/v1/models"):
    with urllib.request.urlopen(server.base_url.removesuffix("/v1") + path) as reply:  # noqa: S310
        return reply.read().decode()


def is_open(url):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.removesuffix("/v1").rpartition(":")[2]))) == 0


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody waits for has ended too.
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_server_lives_as_long_as_its_block(model):
    server = LocalServer(model(family="tiny"), ServerOptions(threads=2, context_tokens=4096))
    with pytest.raises(BackendError, match="is not served"):
        _ = server.base_url
    with server:
        url, pid = server.base_url, server.process_id
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/v1")
        assert server.running
        assert is_open(url)
        # As the server says, which took less than was wanted.
        assert server.context_tokens == 1000
        with pytest.raises(BackendError, match="is served already"):
            server.start()
        member = server.endpoint
        assert (member.base_url, member.model, member.family) == (url, "small", "tiny")
        assert member.concurrency == 1
        assert member.loopback
        assert member.revision == revision(server.model)
    assert not server.running
    assert not is_open(url)
    assert not alive(pid)
    server.stop()
    with server:
        assert server.running


def test_what_llama_cpp_is_told(model):
    with LocalServer(model(turns=False), ServerOptions(threads=3, context_tokens=77)) as server:
        told = ask(server)
    for wanted in (
        '"n_ctx": 77',
        '"threads": [3, 3]',
        '"n_parallel": 1',
        '"cache_prompt": false',
        '"antiprompt": ["\\n"]',
        '"endpoint_slots": false',
        '"cors_origins": "http://127.0.0.1"',
    ):
        assert wanted in told
    assert "{% for message in messages %}" in told


def test_a_panel_serves_each_model_and_stops_all(model):
    models = [model(name="one", family="a"), model(name="two", family="b")]
    with LocalPanel(models) as panel:
        urls = dict(panel.base_urls)
        assert list(urls) == ["one", "two"]
        assert all(is_open(url) for url in urls.values())
        assert [member.family for member in panel.endpoints] == ["a", "b"]
    assert not any(is_open(url) for url in urls.values())
    with pytest.raises(ConfigError, match="found 'one' twice"):
        LocalPanel([models[0], models[0]])
    ports = [one.options.port for one in LocalPanel(models, ServerOptions(port=9000)).servers]
    assert ports == [9000, 9001]


def test_a_panel_with_a_broken_member_leaves_nothing_running(model):
    panel = LocalPanel([model(name="one"), model("broken", name="two")])
    with pytest.raises(BackendError, match=r"two\.gguf"):
        panel.start()
    assert not any(server.running for server in panel.servers)


def test_a_failure_says_the_servers_reason_once_and_safely(model):
    with pytest.raises(BackendError) as caught:
        LocalServer(model("broken")).start()
    message = str(caught.value)
    assert message.count("loader: tensor <U+001B>[31mis short") == 1
    assert "something else" not in message
    assert "small.gguf" in message


def test_a_crash_while_loading_is_an_error_and_no_crash_here(model):
    server = LocalServer(model("aborts"))
    with pytest.raises(BackendError, match=r"GGML_ASSERT\(n > 0\) failed"):
        server.start()
    assert not server.running


def test_loading_that_takes_too_long_is_ended(model):
    server = LocalServer(model("endless"), ServerOptions(start_seconds=2.0))
    with pytest.raises(BackendError, match="took more than 2 seconds"):
        server.start()
    assert server.process_id is None


def test_a_server_that_says_nothing_about_itself(model):
    server = LocalServer(model("mute"))
    with pytest.raises(BackendError, match="does not say what it serves"):
        server.start()
    assert not server.running


def test_a_library_that_cannot_be_loaded(model, fake):
    fake.write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    with pytest.raises(BackendError, match=r"ImportError: libgomp\.so\.1"):
        LocalServer(model()).start()


def test_a_crash_while_serving_is_seen_and_explained(model):
    with LocalServer(model()) as server:
        with pytest.raises(OSError, match=r"."):
            ask(server, "/crash")
        assert wait_until(lambda: not server.running)
        assert "out of memory" in server.why_it_ended()
        url = server.base_url
    assert not is_open(url)


def test_without_the_extra(model, monkeypatch):
    monkeypatch.setattr("ragsieve.chat.local_server.importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragsieve\[local-llm\]'"):
        LocalServer(model()).start()


@pytest.mark.parametrize("content", [None, b"", b"GG", b"PK\x03\x04"])
def test_a_file_that_is_no_gguf(tmp_path, content):
    file = tmp_path / "x.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelFilesError, match=r"x\.gguf: expected a GGUF file"):
        LocalServer(LocalModel("x", file)).start()


def test_a_file_without_a_template_needs_one(model):
    bare = model(name="bare")
    bare.file.write_bytes(b"GGUF")
    with pytest.raises(ModelFilesError, match="holds no chat template"):
        LocalServer(bare).start()
    plain = LocalModel("bare", bare.file, turns=False)
    given = LocalModel("bare", bare.file, chat_template="{{ messages }}")
    assert (plain.template, plain.stop) == (PLAIN_TEMPLATE, ["\n"])
    assert (given.template, given.stop) == ("{{ messages }}", [])
    assert len({revision(bare), revision(plain), revision(given)}) == 3
    with LocalServer(plain) as server:
        assert server.running


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "", "127.0.0.1 "])  # noqa: S104
def test_only_loopback_is_served(host):
    with pytest.raises(ConfigError, match="host: expected an address of this machine alone"):
        ServerOptions(host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_has_several_addresses(host):
    assert ServerOptions(host=host).host == host


@pytest.mark.parametrize(
    "fields",
    [{"port": -1}, {"port": 70_000}, {"threads": 0}, {"context_tokens": 0}, {"start_seconds": 0.0}],
)
def test_impossible_options(fields):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        ServerOptions(**fields)


def test_names_of_files_are_plain():
    assert model_name(Path("/x/SmolLM2 135M.Q4_1.gguf")) == "SmolLM2-135M-Q4_1"
    assert model_name(Path("/x/].\n[a.gguf")) == "a"
    assert model_name(Path("/x/....gguf")) == "model"


OWNER = """
import os, sys, time
from pathlib import Path
import importlib.metadata, importlib.util
importlib.metadata.version = lambda name: "1"
importlib.util.find_spec = lambda name: name
from ragsieve.chat.local_server import LocalModel, LocalServer
server = LocalServer(LocalModel("small", Path(sys.argv[1]))).start()
if sys.argv[2] == "fork" and os.fork() == 0:
    # A child of the owner holds the pipe to the server open and outlives it for a while.
    os.close(1)
    time.sleep(8)
    os._exit(0)
os.write(1, f"{server.base_url} {server.process_id}\\n".encode())
time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["alone", "fork"])
def test_no_server_outlives_a_killed_owner(model, kind):
    command = [sys.executable, "-c", textwrap.dedent(OWNER), str(model().file), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        url, pid = owner.stdout.readline().split()
        try:
            assert is_open(url)
            os.kill(owner.pid, signal.SIGKILL)
            assert wait_until(lambda: not alive(int(pid)) and not is_open(url), 5)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
