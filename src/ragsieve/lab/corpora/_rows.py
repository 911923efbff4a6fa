"""Rows of published files: JSON arrays and objects beside JSON lines, answers in any spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row, kind_of, read_jsonl
from ragsieve.errors import InputError, RecordError

_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = "id"


def read_rows(path: Path | str) -> Iterator[Row]:
    """The objects of a file, each with the line it begins in.

    A ``.jsonl`` file holds one a line; any other is one JSON array of objects, or one object
    of objects, whose keys are then their ``id``.

    :raises InputError: when the file cannot be read or holds no record.
    :raises RecordError: when it is not such JSON, or a key and an ``id`` disagree.
    """
    source = Path(path)
    if source.suffix == ".jsonl":
        yield from read_jsonl(source)
        return
    for line, key, value in _Entries(source, _text_of(source)).read():
        if not isinstance(value, dict):
            raise RecordError(source, line, key, f"expected an object, found {kind_of(value)}")
        if key is not None and value.setdefault(_KEY, key) != key:
            raise RecordError(
                source, line, _KEY, f"stands under the key {key!r}, found {value[_KEY]!r}"
            )
        yield Row(source, line, value)


def read_object(path: Path | str) -> Row:
    """A file that is one JSON object.

    :raises InputError: when it cannot be read.
    :raises RecordError: when it is anything else.
    """
    source = Path(path)
    try:
        value = json.loads(_text_of(source), parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise RecordError(source, error.lineno, None, f"expected JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(source, 1, None, f"expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordError(source, 1, None, f"expected an object, found {kind_of(value)}")
    return Row(source, 1, value)


def answers_of(row: Row, *fields: str) -> tuple[str, ...]:
    """The answers under the first of ``fields`` that is present: one, or a list of them.

    :raises RecordError: when none is present, or one is neither a string nor a number.
    """
    for field in fields:
        value = row.fields.get(field)
        if value is not None:
            items = value if isinstance(value, list) else [value]
            return tuple(_spelled(row, field, item) for item in items)
    raise row.error(fields[0], "expected an answer or a list of answers, found nothing")


def answer_of(row: Row, *fields: str) -> str:
    """The one answer under the first of ``fields`` that is present.

    :raises RecordError: when there is none, or more than one.
    """
    found = answers_of(row, *fields)
    if len(found) != 1:
        raise row.error(fields[0], f"expected one answer, found {len(found)}")
    return found[0]


def texts_of(row: Row, field: str) -> tuple[str, ...]:
    """A list of at least one text.

    :raises RecordError: when it is missing, empty or anything else.
    """
    texts = row.strings(field)
    if not texts:
        raise row.error(field, "expected a list of texts, found none")
    return texts


def _spelled(row: Row, field: str, value: object) -> str:
    # Published files write years and counts as numbers.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return Row(row.path, row.line, {field: value}).text(field)


class _Entries:
    """The members of a JSON array or object, with the line each begins in."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._place = 0
        self._line = 1
        self._counted = 0
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)

    def read(self) -> Iterator[tuple[int, str | None, object]]:
        opening = self._next()
        if opening not in {"[", "{"}:
            raise self._error("expected a JSON array or object of records")
        closing = "]" if opening == "[" else "}"
        self._place += 1
        if self._next() == closing:
            raise InputError(f"{self._path}: holds no record; expected at least one")
        while True:
            self._skip()
            line, key = self._here(), self._key() if opening == "{" else None
            yield line, key, self._value()
            found = self._next()
            if found not in {",", closing}:
                raise self._error(f"expected ',' or {closing!r}")
            self._place += 1
            if found == closing:
                break
        if self._next():
            raise self._error("expected the end of the file")

    def _key(self) -> str:
        key = self._value()
        if not isinstance(key, str) or self._next() != ":":
            raise self._error("expected a key and ':'")
        self._place += 1
        return key

    def _value(self) -> Any:
        self._skip()
        try:
            value, self._place = self._decoder.raw_decode(self._text, self._place)
        except json.JSONDecodeError as error:
            raise RecordError(
                self._path, error.lineno, None, f"expected JSON: {error.msg}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._error(f"expected JSON: {error}") from error
        return value

    def _next(self) -> str:
        self._skip()
        return self._text[self._place : self._place + 1]

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._place)
        self._place = found.end() if found else self._place

    def _here(self) -> int:
        # Counted onwards from the last place: files hold megabytes in a thousand records.
        self._line += self._text.count("\n", self._counted, self._place)
        self._counted = self._place
        return self._line

    def _error(self, problem: str) -> RecordError:
        return RecordError(self._path, self._here(), None, problem)


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RecordError(
            path, line, None, f"expected UTF-8, found byte 0x{raw[error.start]:02x}; convert it"
        ) from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON; write null or a finite number")
