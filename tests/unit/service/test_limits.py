"""Bodies and heads that are too large or too slow, on a real socket too."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest

from ragsieve.service.app import create_app
from ragsieve.service.serving import TimedHeads, make_server
from ragsieve.settings import ServiceSettings
from unit.service.making import asked, collection, parts, served

SMALL = ServiceSettings(max_body_bytes=2_048, body_seconds=0.3)


def test_an_announced_and_an_unannounced_body_are_bounded():
    with served(parts(collection(), settings=SMALL)) as client:
        assert client.post("/v1/filter", content=b"x" * 2_049).status_code == 413
        chunks = (b"x" * 512 for _ in range(1_000))
        answer = client.post("/v1/filter", content=chunks)
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        fits = asked(count=40)
        assert len(json.dumps(fits)) < 2_048
        assert client.post("/v1/filter", json=fits).status_code == 200


@pytest.mark.parametrize("length", ["-1", "9" * 50, "1e3", "x"])
def test_a_false_length_does_no_harm(length):
    with served(parts(collection(), settings=SMALL)) as client:
        answer = client.post("/v1/filter", content=b"{}", headers={"Content-Length": length})
    assert 400 <= answer.status_code < 500


@contextlib.contextmanager
def listening(**more):
    settings = ServiceSettings(port=0, **more)
    server = make_server(create_app(parts(collection(), settings=settings)), settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.time() + 10
        while not server.started and time.time() < deadline:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(15)
    assert not thread.is_alive()


def connect(port):
    return contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=5))


def read_all(found):
    parts_ = []
    while True:
        with contextlib.suppress(ConnectionResetError):
            part = found.recv(65_536)
            if part:
                parts_.append(part)
                continue
        return b"".join(parts_)


HEAD = b"POST /v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_slow_bodies_slow_heads_and_large_ones():
    with listening(
        max_body_bytes=2_048, body_seconds=0.3, header_seconds=1, keep_alive_seconds=5
    ) as port:
        with connect(port) as slow:
            slow.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
            begun = time.perf_counter()
            answer = read_all(slow)
            assert answer.startswith(b"HTTP/1.1 408")
            assert b"connection: close" in answer.lower()
            assert time.perf_counter() - begun < 6
        with connect(port) as trickling:
            begun = time.perf_counter()
            with contextlib.suppress(ConnectionError):
                while time.perf_counter() - begun < 8:
                    trickling.sendall(b"G")
                    time.sleep(0.1)
            assert time.perf_counter() - begun < 6
        with connect(port) as silent:
            begun = time.perf_counter()
            assert read_all(silent) == b""
            assert time.perf_counter() - begun < 6
        with connect(port) as large:
            large.sendall(HEAD + b"Content-Length: 99999999\r\n\r\n")
            assert read_all(large).startswith(b"HTTP/1.1 413")
        with connect(port) as chunked:
            chunked.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            # No more than it takes: what comes after the answer would reset the connection.
            for _ in range(3):
                chunked.sendall(b"400\r\n" + b"x" * 1_024 + b"\r\n")
            assert b"413" in read_all(chunked)
        with connect(port) as head:
            head.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(20):
                    head.sendall(b"X: " + b"x" * 10_000 + b"\r\n")
                    time.sleep(0.01)
            assert b" 200 " not in read_all(head)[:20]
        # And it still serves, several requests on one connection.
        good = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(good):
            for _ in range(3):
                headers = {"Content-Type": "application/json"}
                good.request("POST", "/v1/filter", json.dumps(asked()), headers)
                answer = good.getresponse()
                assert answer.status == 200
                assert len(json.loads(answer.read())["kept"]) == 5
                time.sleep(0.4)


def test_paths_never_leave_the_routes():
    with listening() as port:
        for path in (
            b"/../../etc/passwd",
            b"/v1/..%2f..%2fetc/passwd",
            b"/%2e%2e/%2e%2e/etc/passwd",
            b"/v1/collections/../../../etc/passwd",
            b"//etc/passwd",
            b"/v1/filter%00.json",
            b"/desk/../../etc/passwd",
            b"/static/../../../etc/passwd",
        ):
            with connect(port) as found:
                found.sendall(
                    b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                answer = read_all(found)
            assert answer.startswith(b"HTTP/1.1 404"), path
            assert b"root:" not in answer


def test_connections_are_bounded():
    with listening(connections=3) as port, contextlib.ExitStack() as held:
        for _ in range(3):
            held.enter_context(connect(port))
        time.sleep(0.1)
        with connect(port) as late:
            late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert late.recv(1_000).startswith(b"HTTP/1.1 503")


def test_whoever_takes_no_answer_loses_the_connection(monkeypatch):
    monkeypatch.setattr(TimedHeads, "taking_seconds", 0.3)
    count = 200
    question = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with listening(keep_alive_seconds=1) as port:
        with contextlib.closing(socket.socket()) as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            idle.settimeout(20)
            idle.connect(("127.0.0.1", port))
            idle.sendall(question * count)
            time.sleep(3)
            # What the system had taken over by then is all there is.
            assert 0 < read_all(idle).count(b"HTTP/1.1 200") < count
        with connect(port) as busy:
            busy.sendall(question * count)
            assert read_all(busy).count(b"HTTP/1.1 200") == count
