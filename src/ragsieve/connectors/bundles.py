"""Bundles: rows that were taken out, in one file, with what is needed to bring them back."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row as Line
from ragsieve._jsonl import read_jsonl, write_jsonl
from ragsieve.connectors.contract import Bundle, BundledRow, Mark, Row
from ragsieve.connectors.hashing import row_sha256
from ragsieve.connectors.values import array_packed, array_unpacked, decoded, encoded
from ragsieve.errors import InputError

_FORMAT = "ragsieve-bundle/1"


def write_bundle(path: Path | str, bundle: Bundle) -> None:
    """Write a bundle as JSON lines, completely or not at all: a head, then one row a line.

    Vectors are kept bit by bit, with their type.

    :raises OutputError: when it cannot be written; an earlier file is then untouched.
    :raises StoreError: when metadata holds a value of a type that cannot be written.
    """
    write_jsonl(path, _lines(bundle))


def read_bundle(path: Path | str) -> Bundle:
    """The bundle in a file.

    :raises InputError: when it cannot be read, is no bundle, or is cut short.
    :raises RecordError: when a row is not what its hash says.
    """
    lines = read_jsonl(path)
    head = next(lines)
    if head.fields.get("format") != _FORMAT:
        raise head.error("format", f"expected {_FORMAT!r}; this is no bundle of this version")
    store, made, count = head.text("store"), _moment(head, "made"), head.integer("rows")
    rows = tuple(_bundled(line) for line in lines)
    if len(rows) != count:
        raise InputError(f"{path}: expected {count} rows, found {len(rows)}; the file was cut")
    return Bundle(store, rows, made)


def _lines(bundle: Bundle) -> Iterator[dict[str, Any]]:
    yield {
        "format": _FORMAT,
        "store": bundle.store,
        "made": bundle.made.isoformat(),
        "rows": len(bundle.rows),
    }
    for item in bundle.rows:
        row, mark = item.row, item.mark
        yield {
            "id": encoded(row.id),
            "text": encoded(row.text),
            "vector": None if row.vector is None else array_packed(row.vector),
            "metadata": encoded(dict(row.metadata)),
            "sha256": item.sha256,
            "mark": None
            if mark is None
            else {
                "reason": encoded(mark.reason),
                "scan": encoded(mark.scan_id),
                "since": mark.since.isoformat(),
            },
        }


def _bundled(line: Line) -> BundledRow:
    try:
        name, text = (str(decoded(line.fields[field])) for field in ("id", "text"))
        packed = line.fields["vector"]
        vector = None if packed is None else array_unpacked(packed)
        row = Row(name, text, vector, decoded(line.fields["metadata"]))
        mark = _mark(line, name)
        same = row_sha256(row) == line.fields["sha256"]
    except (KeyError, ValueError, TypeError) as error:
        raise line.error(None, f"expected a row of a bundle ({error}); take an intact copy") from (
            error
        )
    if not same:
        raise line.error("sha256", "the row is not what was exported; take an intact copy")
    return BundledRow(row, line.fields["sha256"], mark)


def _mark(line: Line, name: str) -> Mark | None:
    fields = line.fields["mark"]
    if fields is None:
        return None
    since = datetime.datetime.fromisoformat(fields["since"])
    return Mark(name, str(decoded(fields["reason"])), str(decoded(fields["scan"])), since)


def _moment(line: Line, field: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(line.text(field))
    except ValueError as error:
        raise line.error(field, f"expected a time in ISO 8601 ({error})") from error
