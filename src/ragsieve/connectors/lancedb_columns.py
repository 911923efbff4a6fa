"""Which column of a Lance table is what, and rows to and from Arrow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.connectors.contract import RESERVED, BundledRow, Row
from ragsieve.connectors.exchange import mark_fields
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

_LARGEST_INTEGER = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that a row is made of; all others are its metadata.

    :param numbers: whether ids are whole numbers.
    """

    id: str
    text: str
    vector: str
    numbers: bool

    @classmethod
    def of(cls, schema: Any, name: str, text: str, vector: str | None, address: str) -> Columns:
        """Find the columns of an Arrow schema.

        :raises StoreError: when one is missing or of another type.
        """
        types = require("pyarrow", extra="lancedb").types
        known = ", ".join(schema.names)
        for option, column in (("id", name), ("text", text), ("vector", vector)):
            if column is not None and (column not in schema.names or "`" in column):
                raise StoreError(
                    f"{address}: no column {column!r}; it has {known}. Name one by the "
                    f"parameter {option!r}"
                )
        kind = schema.field(name).type
        numbers = types.is_integer(kind)
        if not numbers and not types.is_string(kind) and not types.is_large_string(kind):
            raise StoreError(f"{address}: column {name!r}: expected strings or whole numbers")
        vectors = [field.name for field in schema if _is_vector(field.type, types)]
        if vector is None and len(vectors) != 1:
            raise StoreError(
                f"{address}: expected a parameter 'vector' that names one of its columns of "
                f"vectors: {', '.join(vectors) or 'it has none'}"
            )
        chosen = vectors[0] if vector is None else vector
        if chosen not in vectors:
            raise StoreError(f"{address}: column {chosen!r}: expected vectors of floats")
        return cls(name, text, chosen, numbers)

    def possible(self, ids: Sequence[str]) -> list[str]:
        """The ids that this table could hold."""
        return [name for name in ids if _is_number(name)] if self.numbers else list(ids)


def in_list(columns: Columns, ids: Sequence[str]) -> str:
    """The condition that a row has one of these ids, as SQL."""
    if columns.numbers:
        literals = ", ".join(str(int(name)) for name in ids)
    else:
        quoted = (name.replace("'", "''") for name in ids)
        literals = ", ".join(f"'{name}'" for name in quoted)
    return f"`{columns.id}` IN ({literals})"


def rows_of(batch: Any, columns: Columns) -> tuple[Row, ...]:
    """The rows of an Arrow batch or table."""
    names = [
        name
        for name in batch.schema.names
        if name not in RESERVED | {columns.id, columns.text, columns.vector, "_distance"}
    ]
    vectors = _vectors(batch.column(columns.vector))
    fields = batch.select(names).to_pylist() if names else [{}] * batch.num_rows
    return tuple(
        Row(
            str(name),
            "" if text is None else str(text),
            vector,
            {key: value for key, value in own.items() if value is not None},
        )
        for name, text, vector, own in zip(
            batch.column(columns.id).to_pylist(),
            batch.column(columns.text).to_pylist(),
            vectors,
            fields,
            strict=True,
        )
    )


def table_of(items: Sequence[BundledRow], columns: Columns, schema: Any) -> Any:
    """Rows of a bundle as an Arrow table of ``schema``.

    :raises StoreError: when the table lost a column that a row has.
    """
    arrow = require("pyarrow", extra="lancedb")
    lines = []
    for item in items:
        row = item.row
        lost = sorted(set(row.metadata) - set(schema.names))
        if lost:
            raise StoreError(
                f"the table has no column {lost[0]!r} any more, which the bundle's rows have; "
                "add it and restore again"
            )
        line = dict(row.metadata)
        line[columns.id] = int(row.id) if columns.numbers else row.id
        line[columns.text] = row.text
        line[columns.vector] = None if row.vector is None else row.vector.tolist()
        if item.mark is not None:
            line |= mark_fields(item.mark.reason, item.mark.scan_id, item.mark.since)
        lines.append(line)
    return arrow.Table.from_pylist(lines, schema=schema)


def _vectors(column: Any) -> Sequence[FloatArray | None]:
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    kind = column.type
    dtype = kind.value_type.to_pandas_dtype()
    size = getattr(kind, "list_size", None)
    if size is not None and column.null_count == 0:
        flat = column.flatten()
        if flat.null_count == 0:
            return list(np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, size))
    return [None if item is None else np.asarray(item, dtype=dtype) for item in column.to_pylist()]


def _is_vector(kind: Any, types: Any) -> bool:
    listed = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    return bool(listed and types.is_floating(kind.value_type))


def _is_number(name: str) -> bool:
    try:
        number = int(name)
    except ValueError:
        return False
    return str(number) == name and abs(number) <= _LARGEST_INTEGER
