"""A chat server on loopback that says what a test tells it to, over real sockets."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclasses.dataclass(frozen=True)
class Say:
    """One scripted response; ``content`` becomes a well-formed completion."""

    content: object = None
    status: int = 200
    body: bytes | None = None
    headers: dict = dataclasses.field(default_factory=dict)
    kind: str = "application/json"
    finish: str = "stop"
    wait: float = 0.0
    drip: int = 0
    usage: object = dataclasses.field(
        default_factory=lambda: {"prompt_tokens": 7, "completion_tokens": 2}
    )

    def bytes(self):
        if self.body is not None:
            return self.body
        choice = {"message": {"content": self.content}, "finish_reason": self.finish}
        return json.dumps({"choices": [choice], "usage": self.usage}).encode()


def refusal(status, message="no", **headers):
    body = json.dumps({"error": {"message": message}}).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Say(status=status, body=body, headers=names)


class Server:
    """Serves ``script`` in order, its last entry for ever; a callable gets the request's fields."""

    def __init__(self, *script):
        self.script = list(script)
        self.requests = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.serve(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def serve(self, handler):
        length = int(handler.headers.get("content-length", 0))
        fields = json.loads(handler.rfile.read(length) or b"{}")
        with self._lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.requests.append((handler.path, headers, fields))
            say = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        say = say(fields) if callable(say) else say
        time.sleep(say.wait)
        with self._lock:
            self._now -= 1
        # A client that gave up is no failure of the server's.
        with contextlib.suppress(OSError):
            handler.send_response(say.status)
            for name, value in {"content-type": say.kind, **say.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            for _ in range(say.drip):
                handler.wfile.write(b" ")
                time.sleep(0.1)
            handler.wfile.write(say.bytes())

    def __enter__(self):
        self._thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self._thread.join()
        self.http.server_close()
