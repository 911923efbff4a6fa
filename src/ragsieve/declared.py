"""What an operator declares in a TOML file: strictly read, and patterns over names."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from pathlib import Path
from typing import TypeVar

from ragsieve.errors import ConfigError

LONGEST_NAME = 4_096
"""Characters of a name that patterns are tried on; no pattern matches a longer one."""

Declared = TypeVar("Declared")


def read_declared(path: Path | str, kind: type[Declared]) -> Declared:
    """The record that a TOML file declares.

    :param kind: a frozen dataclass that forbids unknown keys.
    :raises ConfigError: when the file cannot be read, holds an unknown key, or a value of the
        wrong type or out of range; the message names file and field.
    """
    return parse_declared(read_bytes(path), kind, path)


def read_bytes(path: Path | str) -> bytes:
    """What stands in a file.

    :raises ConfigError: when it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error


def parse_declared(raw: bytes, kind: type[Declared], source: Path | str) -> Declared:
    """The record that the bytes of a TOML file declare; see `read_declared`.

    :param source: named in errors.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        values = tomllib.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{source}: expected TOML: {error}") from error
    try:
        # By way of JSON, whose strict reading takes lists for tuples but true for no number.
        return TypeAdapter(kind).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False):
            field = ".".join(str(part) for part in problem["loc"])
            unknown = problem["type"] in {"unexpected_keyword_argument", "extra_forbidden"}
            said = "unknown key; remove it" if unknown else problem["msg"]
            problems.append(f"field {field!r}: {said}" if field else said)
        raise ConfigError(f"{source}: {'; '.join(problems)}") from error


def matches(pattern: str, name: str | None) -> bool:
    """Whether a whole name fits a pattern, whatever the case; a missing name fits none.

    ``*`` stands for characters other than a slash, ``**`` for any, ``?`` for one other than a
    slash. A star that crossed slashes would let ``https://*.gov/*`` match
    ``https://elsewhere.example/a.gov/b``.
    """
    if name is None or len(name) > LONGEST_NAME:
        return False
    return _compiled(pattern.casefold()).fullmatch(name.casefold()) is not None


@functools.lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.findall(r"\*\*|\*|\?|[^*?]+", pattern, re.DOTALL)
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts), re.DOTALL)
