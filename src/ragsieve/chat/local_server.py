"""Serve GGUF files on this machine: llama.cpp behind the OpenAI protocol, on loopback alone."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import importlib.util
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, Self

from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.local_model import LocalModel, check_file, revision
from ragsieve.display import visible
from ragsieve.errors import BackendError, ConfigError, MissingExtraError

_PROCESS = Path(__file__).with_name("llama_process.py")
_SEED = 1
_STOP_SECONDS = 5.0
_ASK_SECONDS = 10.0
_REPLY_SECONDS = 600.0
_SHOWN_REASONS = 3
_READ_BYTES = 65_536
_MOST_PORT = 65_535


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclasses.dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve.

    :param host: an address of loopback; no other is served.
    :param port: 0 for a free one; several models take the following ones.
    :param threads: one for each model. llama.cpp's threads wait for each other in busy loops: as
        many as there are processors, on a machine that also does something else, are many times
        slower than one.
    :param context_tokens: prompt and reply together; a model takes no more than it was trained for.
    :param start_seconds: how long loading may take.
    """

    host: str = "127.0.0.1"
    port: int = 0
    threads: int = 1
    context_tokens: int = 4096
    start_seconds: float = 120.0

    def __post_init__(self) -> None:
        if not _is_loopback(self.host):
            raise ConfigError(
                f"host: expected an address of this machine alone, such as 127.0.0.1, found "
                f"{visible(self.host)!r}; the server has no key and no encryption"
            )
        if not 0 <= self.port <= _MOST_PORT:
            raise ConfigError(f"port: expected 0 to {_MOST_PORT}, found {self.port}")
        for field, value in (("threads", self.threads), ("context_tokens", self.context_tokens)):
            if value < 1:
                raise ConfigError(f"{field}: expected at least 1, found {value}")
        if not self.start_seconds > 0:
            raise ConfigError(f"start_seconds: expected above 0, found {self.start_seconds}")


class LocalServer:
    """One model behind ``base_url`` while started; a context manager.

    Greedy replies (temperature 0) to the same request are the same. Requests are taken one at a
    time. The server runs in a process of its own: a crash of llama.cpp ends that one alone, and
    it ends with this process, killed or not.
    """

    def __init__(self, model: LocalModel, options: ServerOptions = ServerOptions()) -> None:
        self.model = model
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._address = ""
        self._context_tokens = 0
        self._revision = ""

    def start(self) -> Self:
        """Load the model and serve; returns once it answers.

        :raises MissingExtraError: when llama.cpp is not installed.
        :raises ModelFilesError: when the file is absent, no GGUF, or knows no turns.
        :raises BackendError: when it cannot be loaded or served; says llama.cpp's reason.
        """
        if self._process is not None:
            raise BackendError(f"{self.model.name}: is served already at {self.base_url}")
        if importlib.util.find_spec("xllamacpp") is None:
            # Found and not imported: whatever native code does, it does in the other process.
            raise MissingExtraError(
                "xllamacpp is needed here and is not installed: pip install 'ragsieve[local-llm]'"
            )
        check_file(self.model)
        self._revision = revision(self.model)
        try:
            self._address = self._launch()
            self._context_tokens = self._reported_context()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server's process, and with it its threads and its port; nothing when stopped."""
        process, self._process = self._process, None
        log, self._log = self._log, None
        if process is not None:
            # Its input closes, which tells it to end.
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.communicate(timeout=_STOP_SECONDS)
            if process.poll() is None:
                process.kill()
                process.communicate()
        if log is not None:
            log.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int | None:
        """Of the server's process; None when it is not started."""
        return None if self._process is None else self._process.pid

    @property
    def base_url(self) -> str:
        """Where the OpenAI protocol is spoken: ``http://127.0.0.1:PORT/v1``.

        :raises BackendError: when the server is not started.
        """
        if self._process is None:
            raise BackendError(f"{self.model.name}: is not served; start the server first")
        return f"{self._address}/v1"

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and reply together, as the server reports them; 0 before it started."""
        return self._context_tokens

    @property
    def endpoint(self) -> ChatEndpoint:
        """The running server as a chat member.

        :raises BackendError: when the server is not started.
        """
        return ChatEndpoint(
            base_url=self.base_url,
            model=self.model.name,
            name=self.model.name,
            family=self.model.family,
            timeout_seconds=_REPLY_SECONDS,
            concurrency=1,
            revision=self._revision,
        )

    def why_it_ended(self) -> str:
        """What the server's process last complained about, on one line; for one that crashed."""
        code = None if self._process is None else self._process.poll()
        told = self._complaints()
        return told or ("it said nothing" if code is None else f"exit code {code}, no message")

    def _launch(self) -> str:
        order = {
            "parent": os.getpid(),
            "file": str(self.model.file.absolute()),
            "model": self.model.name,
            "host": self.options.host,
            "port": self.options.port,
            "origin": f"http://{_in_address(self.options.host)}",
            "threads": self.options.threads,
            "context_tokens": self.options.context_tokens,
            "seed": _SEED,
            "chat_template": self.model.template,
            "stop": self.model.stop,
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by stop
        process = self._process = subprocess.Popen(  # noqa: S603 -- this interpreter, this package
            # By its file, which needs nothing else of this package, and without folders on the
            # path that hold files of other names.
            [sys.executable, "-P", str(_PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C reaches whoever started the server, and that one stops it.
            start_new_session=True,
        )
        limit = threading.Timer(self.options.start_seconds, process.kill)
        limit.start()
        try:
            if process.stdin is None or process.stdout is None:
                raise BackendError(f"{self.model.name}: no pipe to the server's process")
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
            line = process.stdout.readline()
        finally:
            late = limit.finished.is_set()
            limit.cancel()
        return self._address_in(line, late=late)

    def _address_in(self, line: bytes, *, late: bool) -> str:
        try:
            answer: dict[str, str] = json.loads(line)
        except ValueError:
            answer = {}
        if "address" in answer:
            return answer["address"]
        if self._process is not None:
            # It ends now, and llama.cpp writes its log late.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        seconds = f"{self.options.start_seconds:g} seconds"
        reason = f"it took more than {seconds}" if late else self._complaints()
        told = reason or answer.get("error") or self.why_it_ended()
        raise BackendError(
            f"{self.model.file}: llama.cpp cannot serve it ({visible(told)}); check the file, "
            f"that {self.options.context_tokens} context tokens fit into memory, and the port"
        )

    def _complaints(self) -> str:
        """The first errors in the log, without clock and repetition, or its last line."""
        if self._log is None:
            return ""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - _READ_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        errors = [line.partition(" E ")[2].strip() for line in lines if " E " in line]
        kept = list(dict.fromkeys(errors))[:_SHOWN_REASONS]
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return visible("; ".join(kept) or last)

    def _reported_context(self) -> int:
        # http.client asks no proxy, whatever the environment says.
        host, _, port = self._address.removeprefix("http://").rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_ASK_SECONDS)
        try:
            connection.request("GET", "/v1/models")
            known: Any = json.loads(connection.getresponse().read())
            return int(known["data"][0]["meta"]["n_ctx"])
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            raise BackendError(
                f"{self.model.name}: the server at {self._address} does not say what it serves "
                f"({error}); {self.why_it_ended()}"
            ) from error
        finally:
            connection.close()


class LocalPanel:
    """Several models served at once, each by a server of its own; a context manager.

    :raises ConfigError: when two models have one name.
    """

    def __init__(
        self, models: Sequence[LocalModel], options: ServerOptions = ServerOptions()
    ) -> None:
        names = [model.name for model in models]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"models: expected one of each name, found {min(twice)!r} twice")
        self.servers = tuple(
            LocalServer(
                model,
                dataclasses.replace(options, port=options.port + place if options.port else 0),
            )
            for place, model in enumerate(models)
        )

    def start(self) -> Self:
        """Start every server, or none when one fails.

        :raises BackendError: as :meth:`LocalServer.start`.
        """
        try:
            for server in self.servers:
                server.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every server."""
        for server in self.servers:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def base_urls(self) -> Mapping[str, str]:
        """Name to ``base_url``, in the order given."""
        return MappingProxyType({one.model.name: one.base_url for one in self.servers})

    @property
    def endpoints(self) -> tuple[ChatEndpoint, ...]:
        """The running servers as chat members."""
        return tuple(one.endpoint for one in self.servers)
