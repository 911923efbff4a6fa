"""Rows of a PostgreSQL table as records, and records as statements; every name is quoted."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.connectors.contract import Mark, Row
from ragsieve.connectors.pgvector_layout import (
    JSON_TYPES,
    REASON_COLUMN,
    SCAN_COLUMN,
    SINCE_COLUMN,
    TEXT_TYPES,
    Column,
    Layout,
)
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

_NUMBERS = ("bool", "int2", "int4", "int8", "float4", "float8")
_INTEGER_BITS = {"int2": 15, "int4": 31, "int8": 63}
_INTEGER = re.compile(r"-?[1-9][0-9]*|0")


def names(*parts: str) -> Any:
    """A quoted name, in a statement that is executed with parameters, be it an empty list."""
    sql = require("psycopg.sql", extra="pgvector")
    # A percent sign would open a parameter.
    return sql.SQL(sql.Identifier(*parts).as_string(None).replace("%", "%%"))


def statement(template: str, **parts: Any) -> Any:
    """SQL with quoted names in it."""
    return require("psycopg.sql", extra="pgvector").SQL(template).format(**parts)


def native(text: str) -> Any:
    """A type or an operator, as the server's catalogue or this package writes it."""
    return require("psycopg.sql", extra="pgvector").SQL(text.replace("%", "%%"))


def columns_of(layout: Layout) -> Any:
    """What is selected for :func:`row_of` and :func:`mark_of`."""
    sql = require("psycopg.sql", extra="pgvector")
    parts = [
        statement("{c}::text", c=names(layout.id.name)),
        statement("{c}::text", c=names(layout.text.name)),
        statement(
            "{c}::text" if layout.vector.kind == "bit" else "{c}", c=names(layout.vector.name)
        ),
    ]
    for column in (*([layout.metadata] if layout.metadata else []), *layout.others):
        plain = column.kind in (*_NUMBERS, *TEXT_TYPES, *JSON_TYPES)
        parts.append(statement("{c}" if plain else "{c}::text", c=names(column.name)))
    ours = (SINCE_COLUMN, REASON_COLUMN, SCAN_COLUMN)
    parts += [names(name) for name in ours] if layout.flagged else [sql.SQL("NULL")] * 3
    return sql.SQL(", ").join(parts)


def row_of(layout: Layout, values: Sequence[Any]) -> Row:
    """One selected row.

    The keys of the metadata column stand beside the other columns; where they would collide,
    the whole of it stands under the name of its column, so that all of it can be written back.
    """
    identifier, text, vector, *rest = values
    own = {layout.metadata.name: rest.pop(0)} if layout.metadata else {}
    beside = {
        column.name: _readable(value) for column, value in zip(layout.others, rest, strict=False)
    }
    if text is None:
        beside[layout.text.name] = None
    for name, value in own.items():
        taken = {column.name for column in layout.others} | {name, layout.text.name}
        if isinstance(value, Mapping) and not taken & value.keys():
            own = dict(value)
    return Row(identifier, text or "", _floats(vector), {**own, **beside})


def mark_of(values: Sequence[Any]) -> Mark | None:
    """The mark of a selected row."""
    since, reason, scan = values[-3:]
    return None if since is None else Mark(values[0], reason or "", scan or "", since)


def insertion(layout: Layout, row: Row, mark: Mark | None, address: str) -> tuple[Any, list[Any]]:
    """A statement that brings a row back, and its parameters.

    :raises StoreError: when the table cannot hold it.
    """
    metadata = dict(row.metadata)
    text = metadata.pop(layout.text.name, row.text)
    written: list[tuple[Column, Any]] = [
        (layout.id, row.id),
        (layout.text, text),
        (layout.vector, None if row.vector is None else vector_text(layout, row.vector)),
    ]
    written += [(c, metadata.pop(c.name)) for c in layout.others if c.name in metadata]
    if layout.metadata:
        own = metadata.pop(layout.metadata.name) if layout.metadata.name in metadata else metadata
        metadata = {} if own is metadata else metadata
        written.append((layout.metadata, own))
    if metadata:
        raise StoreError(
            f"{address}: row {row.id!r} has {', '.join(map(repr, sorted(metadata)))}, for which "
            "the table has no column; add them, or restore into the table it came from"
        )
    sql = require("psycopg.sql", extra="pgvector")
    places = [
        (names(column.name), statement("%s::text::{t}", t=native(column.declared)))
        for column, _ in written
    ]
    parameters: list[Any] = [_writable(column, value) for column, value in written]
    if mark is not None:
        ours = (SINCE_COLUMN, REASON_COLUMN, SCAN_COLUMN)
        places += [(names(name), sql.SQL("%s")) for name in ours]
        parameters += [mark.since, storable(mark.reason), storable(mark.scan_id)]
    if any(isinstance(value, str) and "\0" in value for value in parameters):
        raise StoreError(
            f"{address}: row {row.id!r} holds NUL, which PostgreSQL cannot keep; restore it "
            "without that character, as another row"
        )
    insert = statement(
        "INSERT INTO {table} ({columns}) {numbered} VALUES ({values})",
        table=names(layout.schema, layout.table),
        columns=sql.SQL(", ").join(place for place, _ in places),
        numbered=sql.SQL("OVERRIDING SYSTEM VALUE" if layout.numbered else ""),
        values=sql.SQL(", ").join(value for _, value in places),
    )
    return insert, parameters


def possible_ids(layout: Layout, ids: Iterable[str]) -> list[str]:
    """Those that the id column could hold, written exactly as it gives them back, each once."""
    kind = layout.id.kind
    fits = _is_uuid if kind == "uuid" else _is_text
    if kind in _INTEGER_BITS:
        bound = 2 ** _INTEGER_BITS[kind]
        return [
            name
            for name in dict.fromkeys(ids)
            if len(name) <= len(str(-bound))
            and _INTEGER.fullmatch(name)
            and -bound <= int(name) < bound
        ]
    return [name for name in dict.fromkeys(ids) if fits(name)]


def storable(text: str) -> str:
    """Words of ours without what PostgreSQL refuses: NUL as its picture, surrogates escaped."""
    return text.replace("\0", "\u2400").encode("utf-8", "backslashreplace").decode("utf-8")


def vector_text(layout: Layout, vector: FloatArray) -> str:
    """A vector as the server reads it."""
    numbers = [float(number) for number in np.asarray(vector).ravel()]
    if layout.vector.kind == "bit":
        return "".join("1" if number > 0 else "0" for number in numbers)
    if layout.vector.kind == "sparsevec":
        inner = ",".join(f"{at}:{number!r}" for at, number in enumerate(numbers, 1) if number)
        return f"{{{inner}}}/{len(numbers)}"
    return f"[{','.join(map(repr, numbers))}]"


def _floats(value: Any) -> FloatArray | None:
    if value is None:
        return None
    if isinstance(value, str):
        return np.array([digit == "1" for digit in value], dtype=np.float32)
    plain = value.to_numpy() if hasattr(value, "to_numpy") else value
    return np.asarray(plain, dtype=np.float32)


def _readable(value: Any) -> Any:
    # JSON has no such numbers; the server reads the words back.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _writable(column: Column, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and column.kind not in JSON_TYPES):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _is_text(name: str) -> bool:
    return "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)
