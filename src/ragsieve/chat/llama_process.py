"""One llama.cpp server in a process of its own, which ends with the process that started it.

Run as a program, this file reads one line of JSON from standard input, answers one line of JSON on
standard output (``address``, or ``error``), and serves until its input closes: whoever started it
closed it, or is gone. A process of its own, because llama.cpp keeps state for the whole process,
so that two servers in one disturb each other, and because a native crash should take nothing else
with it. The standard library and llama.cpp are all it imports.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2
_LOOK_SECONDS = 1.0
_LOG_ERRORS_ONLY = 1


def main() -> None:
    """Serve what the line on standard input describes; see the module."""
    with open(_INPUT, "rb", buffering=0, closefd=False) as orders:
        order = json.loads(orders.readline())
        # What native code prints must not mix with the answer.
        answers = os.dup(_OUTPUT)
        os.dup2(_ERRORS, _OUTPUT)
        _end_with(int(order["parent"]))
        try:
            server = _serve(order)
        except Exception as error:  # noqa: BLE001 -- told to whoever started this process
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})
            return
        _answer(answers, {"address": server.listening_address})
        while orders.read(1):
            pass
        del server  # waits until the port is free


def _serve(order: Mapping[str, Any]) -> Any:
    llama = importlib.import_module("xllamacpp")
    wanted = llama.CommonParams()
    wanted.model.path = order["file"]
    wanted.model_alias = {order["model"]}
    wanted.hostnames = [order["host"]]
    wanted.port = order["port"]
    wanted.n_ctx = order["context_tokens"]
    for processors in (wanted.cpuparams, wanted.cpuparams_batch):
        processors.n_threads = order["threads"]
    # One request at a time, each from an empty cache and with a fixed seed: batches of another
    # size add up in another order, and the same question would get another answer.
    wanted.n_parallel = 1
    wanted.cache_prompt = False
    wanted.cache_ram_mib = 0
    wanted.sampling.seed = order["seed"]
    wanted.fit_params = False
    wanted.chat_template = order["chat_template"] or ""
    wanted.antiprompt = order["stop"]
    wanted.verbosity = _LOG_ERRORS_ONLY
    # Prompts are nobody else's business, a page in a browser included.
    wanted.ui = False
    wanted.endpoint_slots = False
    wanted.cors_origins = order["origin"]
    wanted.cors_origins_explicit = True
    return llama.Server(wanted)


def _answer(descriptor: int, fields: Mapping[str, str]) -> None:
    os.write(descriptor, json.dumps(fields).encode() + b"\n")
    os.close(descriptor)


def _end_with(parent: int) -> None:
    """End this process soon after ``parent`` did, even while a child of its holds our input open."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(0)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
