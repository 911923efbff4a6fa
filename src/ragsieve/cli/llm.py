"""Commands about local chat models: serve GGUF files on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.errors import BackendError, InputError
from ragsieve.settings import load_settings

if TYPE_CHECKING:
    from ragsieve.chat.endpoint import ChatEndpoint
    from ragsieve.chat.local_model import LocalModel
    from ragsieve.chat.local_server import LocalPanel, LocalServer

_LOOK_SECONDS = 0.5
_PLAIN = "plain"

app = typer.Typer(no_args_is_help=True, help="Chat models on this machine, without a network.")


@app.callback()
def _group() -> None:
    # With a callback a group of one command keeps the command's name.
    pass


@app.command()
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|FILE]...",
            help="Pulled models (smollm2-135m-instruct-gguf, gemma-3-270m-gguf) or GGUF files; "
            "both pulled models when none is given.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="An address of this machine alone.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Of the first model, the others follow; 0 takes free ones.")
    ] = 0,
    threads: Annotated[
        int, typer.Option(help="For each model; more than are idle make it slower.")
    ] = 1,
    context_tokens: Annotated[int, typer.Option(help="Prompt and reply together.")] = 4096,
    chat_template: Annotated[
        str | None,
        typer.Option(
            help="For FILEs: a Jinja file, or `plain` for a base model, which knows no turns."
        ),
    ] = None,
    models_dir: options.ModelsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve models by the OpenAI protocol until Ctrl-C or SIGTERM."""
    from ragsieve.chat.local_server import LocalPanel, ServerOptions

    console = Console(as_json=as_json)
    how = ServerOptions(host=host, port=port, threads=threads, context_tokens=context_tokens)
    folder = load_settings(models_dir=models_dir).models_dir
    names = models or _all_names()
    chosen = [local_model(name, folder, chat_template=chat_template) for name in names]
    panel = LocalPanel(chosen, how)
    # Before the first process starts: a signal while models load must not leave any behind.
    with _told_to_stop() as stopped, contextlib.ExitStack() as cleanup:
        cleanup.callback(panel.stop)
        panel.start()
        _show(console, panel)
        while not stopped.wait(_LOOK_SECONDS):
            _check_running(panel)
    console.note("stopped")


def _show(console: Console, panel: LocalPanel) -> None:
    snippet = [line for server in panel.servers for line in _member(server)]
    lines = [
        f"{server.model.name}: {server.base_url} ({server.context_tokens} tokens of context, "
        f"{server.options.threads} thread(s))"
        for server in panel.servers
    ]
    fields = {
        "servers": [
            {
                "name": server.model.name,
                "base_url": server.base_url,
                "file": str(server.model.file),
                "context_tokens": server.context_tokens,
                "threads": server.options.threads,
                "process_id": server.process_id,
            }
            for server in panel.servers
        ],
        "config": "\n".join(snippet),
    }
    console.result(fields, [*lines, "", "# For --config FILE while this runs:", *snippet])
    # Whoever reads a pipe waits for these lines, and this process goes on.
    sys.stdout.flush()
    console.note("serving until Ctrl-C")


def _member(server: LocalServer) -> Iterator[str]:
    """The member's table for a settings file."""
    endpoint = server.endpoint
    yield f"[chat.members.{endpoint.name}]"
    for field in ("base_url", "model", "family", "concurrency", "timeout_seconds", "revision"):
        # Numbers and plain strings read the same in TOML as in JSON.
        yield f"{field} = {json.dumps(getattr(endpoint, field))}"
    yield ""


def _check_running(panel: LocalPanel) -> None:
    for server in panel.servers:
        if not server.running:
            raise BackendError(
                f"{server.model.name}: its server ended by itself ({server.why_it_ended()}); "
                "start it again"
            )


@contextlib.contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set instead of ending this process."""
    told = threading.Event()
    earlier = {
        number: signal.signal(number, lambda *_: told.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield told
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def served_members(
    names: Sequence[str], models_dir: Path, running: contextlib.ExitStack
) -> dict[str, ChatEndpoint]:
    """Chat members by name, served by this machine until ``running`` is closed.

    :raises InputError: for a name that is neither a pulled model nor a file.
    :raises BackendError: when one cannot be served.
    """
    from ragsieve.chat.local_server import LocalPanel

    panel = LocalPanel([local_model(name, models_dir) for name in dict.fromkeys(names)])
    running.enter_context(panel)
    return {server.model.name: server.endpoint for server in panel.servers}


def local_model(name: str, models_dir: Path, *, chat_template: str | None = None) -> LocalModel:
    """What is served under a pulled model's name, or for a GGUF file.

    :param chat_template: for a file: of a Jinja file, or ``plain``; the file's own when None.
    :raises InputError: when there is neither such a name nor such a file.
    :raises ModelFilesError: when the model is not pulled.
    """
    from ragsieve.backends.embedded import embedded_model
    from ragsieve.backends.installed import model_path
    from ragsieve.chat.local_model import LocalModel, model_name

    if name in _all_names() and (served := embedded_model(name).served) is not None:
        file = model_path(models_dir, name) / served.file
        return LocalModel(name, file, served.family, turns=served.turns)
    file = Path(name)
    if not file.exists():
        raise InputError(
            f"{name}: expected a GGUF file or one of {', '.join(_all_names())}; "
            "found neither a file nor such a name"
        )
    given = LocalModel(model_name(file), file, turns=chat_template != _PLAIN)
    if chat_template in {None, _PLAIN}:
        return given
    return dataclasses.replace(given, chat_template=_template(str(chat_template)))


def _template(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: expected a chat template in Jinja, or the word `plain`; "
            f"it cannot be read ({error})"
        ) from error


def _all_names() -> Sequence[str]:
    from ragsieve.backends.embedded import LOCAL_PANEL

    return [model.name for model in LOCAL_PANEL]
