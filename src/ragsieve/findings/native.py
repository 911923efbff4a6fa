"""Findings as JSON lines, every field of them, and back again without a loss."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row, kind_of, read_jsonl, to_json
from ragsieve.cases import Incident
from ragsieve.findings.plain import check_finite
from ragsieve.records import Detail

FORMAT = "ragsieve-finding"
VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


def write_findings(incidents: Iterable[Incident]) -> Iterator[str]:
    r"""One line a finding, each ended by ``\n``.

    :raises InputError: for a number that is not finite.
    """
    return (finding_line(one) + "\n" for one in incidents)


def finding_line(incident: Incident) -> str:
    """A finding as one line of strict JSON.

    Everything a finding holds is in it, except the typed facts behind its evidences
    (`Evidence.detail`), which belong to the rule that measured. A lone surrogate is written
    as its escape, so the line is valid UTF-8 whatever the corpus holds.

    :raises InputError: for a number that is not finite.
    """
    check_finite([incident])
    fields = {
        "format": FORMAT,
        "version": VERSION,
        **_plain(incident),
        "rollback_handle": incident.rollback_handle,
    }
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", to_json(fields))


def read_findings(path: Path | str) -> Iterator[Incident]:
    """Findings in file order; fields this version does not know are not read.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a line of another format or version, or one that breaks the layout;
        names file, line and field.
    """
    return (_finding_of(row) for row in read_jsonl(path))


def _finding_of(row: Row) -> Incident:
    if row.fields.get("format") != FORMAT:
        raise row.error("format", f"expected {FORMAT!r}; is this a file of findings?")
    version = row.fields.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise row.error(
            "version",
            f"expected {VERSION}, found {kind_of(version) if version is None else repr(version)}; "
            "read it with the ragsieve that wrote it, or export the findings again",
        )
    incident: Incident = _record(Incident, row.fields, row, "")
    return incident


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: _plain(getattr(value, one.name))
            for one in dataclasses.fields(value)
            if not _is_detail(type(value), one.name)
        }
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _is_detail(kind: type, field: str) -> bool:
    return Detail in _choices(_hints(kind)[field])


def _choices(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in {types.UnionType, typing.Union}
    return typing.get_args(hint) if union else (hint,)


def _record(kind: type, value: Any, row: Row, place: str) -> Any:
    if not isinstance(value, dict):
        raise row.error(place or None, f"expected an object, found {kind_of(value)}")
    fields = {}
    for one in dataclasses.fields(kind):
        name = f"{place}.{one.name}" if place else one.name
        if _is_detail(kind, one.name):
            continue
        if one.name in value:
            fields[one.name] = _decoded(_hints(kind)[one.name], value[one.name], row, name)
        elif one.default is dataclasses.MISSING:
            raise row.error(name, "expected a value, found nothing; add the field")
    return kind(**fields)


def _decoded(hint: Any, value: Any, row: Row, place: str) -> Any:
    choices = _choices(hint)
    if value is None and types.NoneType in choices:
        return None
    kinds = [one for one in choices if one is not types.NoneType]
    if set(kinds) == {float, int}:
        return _number(value, row, place)
    (kind,) = kinds
    if typing.get_origin(kind) is tuple:
        return _tuple(typing.get_args(kind), value, row, place)
    if kind in _SCALARS:
        return _SCALARS[kind](value, row, place)
    if issubclass(kind, enum.Enum):
        return _member(kind, value, row, place)
    return _record(kind, value, row, place)


def _tuple(kinds: tuple[Any, ...], value: Any, row: Row, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise row.error(place, f"expected a list, found {kind_of(value)}")
    if len(kinds) == 2 and kinds[1] is Ellipsis:  # noqa: PLR2004 -- tuple[kind, ...]
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        raise row.error(place, f"expected {len(kinds)} values, found {len(value)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_decoded(kind, one, row, f"{place}[{number}]") for number, (kind, one) in pairs)


def _member(kind: type[enum.Enum], value: Any, row: Row, place: str) -> enum.Enum:
    for one in kind:
        if isinstance(value, str) and one.value == value:
            return one
    names = ", ".join(str(one.value) for one in kind)
    found = repr(value) if isinstance(value, str) else kind_of(value)
    raise row.error(place, f"expected one of {names}, found {found}")


def _text(value: Any, row: Row, place: str) -> str:
    if not isinstance(value, str):
        raise row.error(place, f"expected a string, found {kind_of(value)}")
    return value


def _flag(value: Any, row: Row, place: str) -> bool:
    if not isinstance(value, bool):
        raise row.error(place, f"expected true or false, found {kind_of(value)}")
    return value


def _whole(value: Any, row: Row, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise row.error(place, f"expected a whole number, found {kind_of(value)}")
    return value


def _number(value: Any, row: Row, place: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise row.error(place, f"expected a number, found {kind_of(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise row.error(place, "expected a finite number, found one beyond double precision")
    return value


def _real(value: Any, row: Row, place: str) -> float:
    try:
        return float(_number(value, row, place))
    except OverflowError as error:
        raise row.error(
            place, "expected a finite number, found one beyond double precision"
        ) from error


def _moment(value: Any, row: Row, place: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(_text(value, row, place))
    except ValueError as error:
        raise row.error(
            place, f"expected a time in ISO 8601 such as 2026-01-31T12:00:00+00:00, found {value!r}"
        ) from error


_SCALARS: dict[Any, Any] = {
    str: _text,
    bool: _flag,
    int: _whole,
    float: _real,
    datetime.datetime: _moment,
}
