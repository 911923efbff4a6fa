"""A GGUF file to be served: what it is called, how its model is spoken to, what it is exactly."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import mmap
import re
from pathlib import Path

from ragsieve.errors import ModelFilesError

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] | trim }}"
    "{% if not loop.last %}\n\n{% endif %}{% endfor %}"
)
"""Messages one after the other, for a model that continues texts and was never taught turns."""

_MAGIC = b"GGUF"
_TEMPLATE_KEY = b"tokenizer.chat_template"


@dataclasses.dataclass(frozen=True, slots=True)
class LocalModel:
    """A GGUF file and what the file may not say.

    :param name: what clients call the model.
    :param family: models of one family err together; empty when nobody says.
    :param turns: False for a base model: messages reach it as one text (:data:`PLAIN_TEMPLATE`),
        and its reply ends with the line.
    :param chat_template: Jinja; the file's own when None, which then has to be there.
    """

    name: str
    file: Path
    family: str = ""
    turns: bool = True
    chat_template: str | None = None

    @property
    def template(self) -> str | None:
        """The template to hand to the server; None for the file's own."""
        return self.chat_template if self.turns else PLAIN_TEMPLATE

    @property
    def stop(self) -> list[str]:
        """What ends a reply unless a request says otherwise."""
        return [] if self.turns else ["\n"]


def check_file(model: LocalModel) -> None:
    """Look whether the file can be what it is said to be, without loading it.

    :raises ModelFilesError: when it is absent, no GGUF, or holds no template and none was given.
    """
    file = model.file
    try:
        with file.open("rb") as handle:
            start = handle.read(len(_MAGIC))
    except OSError as error:
        raise ModelFilesError(
            f"{file}: expected a GGUF file, and it cannot be read ({error.strerror}); "
            "`ragsieve models pull local-panel` fetches two"
        ) from error
    if start != _MAGIC:
        raise ModelFilesError(
            f"{file}: expected a GGUF file, which begins with {_MAGIC!r}, found {start!r}; "
            "llama.cpp reads no other kind"
        )
    if model.template is None and not has_template(file):
        raise ModelFilesError(
            f"{file}: holds no chat template, and none was given; llama.cpp would assume ChatML. "
            "Give the model's own, or say that it is a base model (--chat-template FILE or plain)"
        )


def revision(model: LocalModel) -> str:
    """What decides the replies: file, template and llama.cpp."""
    with model.file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    template = hashlib.sha256(json.dumps([model.template, model.stop]).encode()).hexdigest()
    version = importlib.metadata.version("xllamacpp")
    return f"gguf {digest[:16]}, template {template[:8]}, xllamacpp {version}"


def model_name(file: Path) -> str:
    """A name for a file without one: its own, in letters, digits, ``-`` and ``_``."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", file.stem).strip("-") or "model"


def has_template(file: Path) -> bool:
    """Whether a GGUF file says how its model's turns are written."""
    # The key stands as it is among the metadata; reading those properly takes seconds.
    with (
        file.open("rb") as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as bytes_,
    ):
        return bytes_.find(_TEMPLATE_KEY) >= 0
