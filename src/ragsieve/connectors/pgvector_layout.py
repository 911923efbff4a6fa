"""What a PostgreSQL table with vectors looks like, read from the server's catalogue."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

from ragsieve.errors import ConfigError, StoreError

SINCE_COLUMN = "ragsieve_quarantined_at"
REASON_COLUMN = "ragsieve_reason"
SCAN_COLUMN = "ragsieve_scan"
OUR_COLUMNS = {SINCE_COLUMN: "timestamptz", REASON_COLUMN: "text", SCAN_COLUMN: "text"}

VECTOR_TYPES = ("vector", "halfvec", "sparsevec", "bit")
LOSSY_TYPES = ("halfvec", "bit")
ID_TYPES = ("text", "varchar", "int2", "int4", "int8", "uuid")
TEXT_TYPES = ("text", "varchar")
JSON_TYPES = ("jsonb", "json")

# Where nothing is declared: the names that pgvector's own examples, LangChain and LlamaIndex use.
TEXT_NAMES = ("text", "content", "document", "chunk", "body", "page_content")
METADATA_NAMES = ("metadata", "cmetadata", "metadata_", "langchain_metadata", "meta")

# Distance of an operator class, the one preferred first, and its operator.
_OPERATORS = {
    "cosine": "<=>",
    "l2": "<->",
    "ip": "<#>",
    "l1": "<+>",
    "hamming": "<~>",
    "jaccard": "<%>",
}


@dataclasses.dataclass(frozen=True, slots=True)
class TableOptions:
    """Which table, and which of its columns is what; None is found out.

    :param table: name, or schema and name with a dot between them.
    :param schema: needed only where a name has a dot in it.
    :param id: unique, not null; of type text, varchar, smallint, integer, bigint or uuid.
    :param text: of type text or varchar.
    :param vector: of type vector, halfvec, sparsevec or bit.
    :param metadata: of type jsonb or json; its keys become those of the row's metadata, to
        which every other column is added under its name.
    :param distance: cosine, l2, ip, l1, hamming or jaccard; that of an index, or cosine, when None.
    """

    table: str
    schema: str | None = None
    id: str | None = None
    text: str | None = None
    vector: str | None = None
    metadata: str | None = None
    distance: str | None = None

    @property
    def qualified(self) -> tuple[str | None, str]:
        """Schema and name."""
        if self.schema is None and "." in self.table:
            schema, _, name = self.table.partition(".")
            return schema, name
        return self.schema, self.table


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column.

    :param kind: name of its type, without length or dimension.
    :param declared: its type as it is written in SQL.
    """

    name: str
    kind: str
    declared: str


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A table, and what of it is read as what.

    :param others: columns that become metadata; generated ones are left out, for they return
        by themselves.
    :param metadata: None where the table has no such column.
    :param flagged: whether it has our columns.
    :param operator: of the distance that its index serves, or of the cosine.
    :param distance: its name.
    :param numbered: whether the server numbers rows itself, which a row brought back overrides.
    :param cascades: tables whose rows change when a row is deleted here.
    :param iterates: whether a search of an index goes on until enough rows passed its filter.
    """

    schema: str
    table: str
    id: Column
    text: Column
    vector: Column
    metadata: Column | None
    others: tuple[Column, ...]
    flagged: bool
    operator: str
    distance: str
    numbered: bool
    cascades: tuple[str, ...]
    iterates: bool


_TABLE = """
SELECT c.oid, n.nspname, c.relkind FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(table)s AND CASE WHEN %(schema)s::text IS NULL
    THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = %(schema)s::text END
"""
_COLUMNS = """
SELECT a.attname, t.typname, pg_catalog.format_type(a.atttypid, a.atttypmod),
    a.attgenerated <> '', a.attidentity <> ''
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# Alone in a unique index without a condition, and never null.
_UNIQUE = """
SELECT a.attname, i.indisprimary FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = %(oid)s AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
    AND i.indpred IS NULL AND a.attnotnull
ORDER BY i.indisprimary DESC, a.attnum
"""
_CLASSES = """
SELECT a.attname, o.opcname FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[0]
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = %(oid)s AND i.indisvalid
"""
_CASCADES = """
SELECT conrelid::pg_catalog.regclass::text FROM pg_catalog.pg_constraint
WHERE confrelid = %(oid)s AND contype = 'f' AND confdeltype IN ('c', 'n', 'd') ORDER BY 1
"""
_VERSION = "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector'"
_FIRST_ITERATING = (0, 8)


def read_layout(connection: Any, options: TableOptions, address: str) -> Layout:
    """Read the catalogue.

    :param connection: of psycopg.
    :raises StoreError: when the table, or a column it must have, is not there.
    """
    schema, name = options.qualified
    found = connection.execute(_TABLE, {"schema": schema, "table": name}).fetchall()
    if len(found) != 1:
        raise StoreError(f"{address}: no table {options.table!r}; expected one that exists")
    oid, schema, kind = found[0]
    if kind not in {"r", "p", b"r", b"p"}:
        raise StoreError(
            f"{address}: {options.table!r} is no table; rows of a view cannot be hidden, name the "
            "table below it"
        )
    with_oid = {"oid": oid}
    rows = connection.execute(_COLUMNS, with_oid).fetchall()
    columns = [Column(*row[:3]) for row in rows if row[0] not in OUR_COLUMNS and not row[3]]
    unique = [row[0] for row in connection.execute(_UNIQUE, with_oid)]
    classes = connection.execute(_CLASSES, with_oid).fetchall()
    cascades = tuple(row[0] for row in connection.execute(_CASCADES, with_oid))
    version = connection.execute(_VERSION).fetchone()
    choose = _Choice(address, columns)
    id_column = choose("id", options.id, ID_TYPES, lambda c: c.name == next(iter(unique), None))
    if id_column.name not in unique:
        raise StoreError(
            f"{address}: column {id_column.name!r} is not unique and not null, so its values name "
            "no row; name another with the option id, or add a unique index"
        )
    vector = choose("vector", options.vector, VECTOR_TYPES, lambda _: True)
    named = next((name for name in TEXT_NAMES for c in columns if c.name == name), None)
    text = choose("text", options.text, TEXT_TYPES, lambda c: c.name == named)
    metadata = choose.maybe(options.metadata, JSON_TYPES, METADATA_NAMES)
    used = {id_column.name, vector.name, text.name, metadata and metadata.name}
    distance = options.distance or _distance(
        vector, [row[1] for row in classes if row[0] == vector.name]
    )
    if distance not in _OPERATORS:
        raise ConfigError(
            f"{address}: parameter 'distance': expected one of {', '.join(_OPERATORS)}, "
            f"found {distance!r}"
        )
    return Layout(
        schema=schema,
        table=name,
        id=id_column,
        text=text,
        vector=vector,
        metadata=metadata,
        others=tuple(column for column in columns if column.name not in used),
        flagged=set(OUR_COLUMNS) <= {row[0] for row in rows},
        operator=_OPERATORS[distance],
        distance=distance,
        numbered=any(row[4] for row in rows),
        cascades=cascades,
        iterates=_version(version[0] if version else "0") >= _FIRST_ITERATING,
    )


class _Choice:
    """Which column serves a purpose: the one declared, or the only one that can."""

    def __init__(self, address: str, columns: Sequence[Column]) -> None:
        self._address, self._columns = address, columns

    def __call__(
        self,
        purpose: str,
        declared: str | None,
        kinds: Sequence[str],
        fits: Callable[[Column], bool],
    ) -> Column:
        if declared is not None:
            return self._declared(declared, kinds)
        found = [column for column in self._columns if column.kind in kinds and fits(column)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{column.name} {column.declared}" for column in self._columns)
        raise StoreError(
            f"{self._address}: {'several columns' if found else 'no column'} could be the "
            f"{purpose}; name it with the option {purpose}. The table has {names}"
        )

    def maybe(
        self, declared: str | None, kinds: Sequence[str], names: Sequence[str]
    ) -> Column | None:
        if declared is not None:
            return self._declared(declared, kinds)
        found = [c for c in self._columns if c.kind in kinds and c.name in names]
        return found[0] if found else None

    def _declared(self, name: str, kinds: Sequence[str]) -> Column:
        for column in self._columns:
            if column.name == name and column.kind in kinds:
                return column
        raise StoreError(
            f"{self._address}: expected a column {name!r} of type {' or '.join(kinds)}; "
            "name another"
        )


def _distance(vector: Column, classes: Sequence[str]) -> str:
    found = [name for name in _OPERATORS if any(f"_{name}_ops" in known for known in classes)]
    return found[0] if found else "hamming" if vector.kind == "bit" else "cosine"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
