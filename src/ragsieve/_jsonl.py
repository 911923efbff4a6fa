"""The only reader and writer of JSON lines. A line ends at a newline byte and nowhere else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragsieve._atomic import replacing
from ragsieve.errors import InputError, RecordError

_BOM = b"\xef\xbb\xbf"


class Row:
    """One JSON object of a file, with checked access to its fields.

    :param path: the file, for errors.
    :param line: the line number from 1, for errors.
    """

    __slots__ = ("fields", "line", "path")

    def __init__(self, path: Path, line: int, fields: dict[str, Any]) -> None:
        self.path = path
        self.line = line
        self.fields = fields

    def error(self, field: str | None, problem: str) -> RecordError:
        """An error that names this row."""
        return RecordError(self.path, self.line, field, problem)

    def text(self, field: str, *, default: str | None = None) -> str:
        """A string without lone surrogates, which no encoder or tokenizer accepts.

        :param default: used when the field is absent or null; without one it is required.
        :raises RecordError: when it is missing, not a string, or not valid Unicode.
        """
        value = self.fields.get(field)
        if value is None:
            if default is not None:
                return default
            raise self.error(field, "expected a string, found nothing; add the field")
        if not isinstance(value, str):
            raise self.error(field, f"expected a string, found {kind_of(value)}")
        return self._valid(field, value)

    def _valid(self, field: str, value: str) -> str:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(value[error.start])
            raise self.error(
                field,
                f"expected valid Unicode, found the lone surrogate U+{code:04X} at character "
                f"{error.start}; re-encode or drop this record",
            ) from error
        return value

    def identifier(self, *names: str) -> str:
        """The record's id, under the first of ``names`` that is present.

        :raises RecordError: when it is missing, empty, not a string, or the names disagree.
        """
        present = [name for name in names if self.fields.get(name) is not None]
        if not present:
            raise self.error(names[0], "expected a non-empty string id, found nothing")
        values = {self.text(name) for name in present}
        if len(values) > 1:
            raise self.error(present[0], f"{' and '.join(present)} disagree; keep one of them")
        value = values.pop()
        if not value:
            raise self.error(present[0], "expected a non-empty string id, found ''")
        return value

    def integer(self, field: str) -> int:
        """A whole number.

        :raises RecordError: when it is missing or anything else.
        """
        value = self.fields.get(field)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(field, f"expected a whole number, found {kind_of(value)}")
        return value

    def number(self, field: str) -> float | None:
        """A finite number, or None when the field is absent or null.

        :raises RecordError: when it is anything else.
        """
        value = self.fields.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(field, f"expected a number, found {kind_of(value)}")
        if not abs(value) <= sys.float_info.max:
            raise self.error(field, "expected a finite number, found one beyond double precision")
        return float(value)

    def objects(self, field: str) -> list[Row]:
        """A list of objects, each as a row of the same line.

        :raises RecordError: when it is missing or anything else.
        """
        value = self.fields.get(field)
        if not isinstance(value, list):
            raise self.error(field, f"expected a list of objects, found {kind_of(value)}")
        rows = []
        for position, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(
                    f"{field}[{position}]", f"expected an object, found {kind_of(item)}"
                )
            rows.append(Row(self.path, self.line, item))
        return rows

    def strings(self, field: str) -> tuple[str, ...]:
        """A list of strings; empty when the field is absent or null.

        :raises RecordError: when it is anything else.
        """
        value = self.fields.get(field)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(field, "expected a list of strings")
        return tuple(self._valid(field, item) for item in value)


def read_jsonl(path: Path | str) -> Iterator[Row]:
    r"""Yield the objects of a UTF-8 JSON-lines file; blank lines are passed over.

    Only ``\n`` ends a line: U+2028, U+2029 and U+0085 are ordinary characters of a
    text. A byte order mark before the first line is skipped.

    :raises InputError: when the file cannot be read or holds no record.
    :raises RecordError: when a line is not UTF-8 or not one JSON object.
    """
    source = Path(path)
    empty = True
    try:
        with source.open("rb") as handle:
            for number, raw in enumerate(handle, start=1):
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if not line.strip():
                    continue
                empty = False
                yield Row(source, number, _parse(source, number, line))
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from error
    if empty:
        raise InputError(f"{source}: the file is empty; expected one JSON object a line")


def write_jsonl(path: Path | str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write one JSON object a line, atomically; return how many.

    :raises OutputError: when it cannot be written; the previous file is then untouched.
    """
    count = 0
    with replacing(path) as handle:
        for row in rows:
            handle.write(to_json(row).encode("utf-8") + b"\n")
            count += 1
    return count


def to_json(value: Mapping[str, Any]) -> str:
    """One line of strict JSON: non-finite numbers are refused, not written as NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def kind_of(value: object) -> str:
    """How JSON calls a value, for error messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    if value is None:
        return "nothing"
    return names.get(type(value), f"the number {value!r}")


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise RecordError(
            path,
            number,
            None,
            f"expected UTF-8, found byte 0x{line[error.start]:02x} "
            f"at byte {error.start} of the line; convert the file",
        ) from error
    except (ValueError, RecursionError) as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise RecordError(path, number, None, f"expected one JSON object: {problem}") from error
    if not isinstance(value, dict):
        raise RecordError(path, number, None, f"expected a JSON object, found {kind_of(value)}")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON; write null or a finite number")
