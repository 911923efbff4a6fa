"""The statements about one table; every name in them is quoted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ragsieve.connectors.pgvector_layout import REASON_COLUMN, SCAN_COLUMN, SINCE_COLUMN, Layout
from ragsieve.connectors.pgvector_rows import columns_of, names, statement

ADD = "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS {column} {type}"
IDS = "SELECT {id}::text FROM {t}"
ALL = "SELECT {c} FROM {t} ORDER BY {id}"
# Locks are taken in one order, so that two writers do not wait for each other.
LOCK = "SELECT FROM {t} WHERE {id} = ANY(%s) ORDER BY {id} FOR UPDATE"
ROWS = "SELECT {c} FROM {t} WHERE {id} = ANY(%s) ORDER BY {id}"
LOCKED_ROWS = "SELECT {c} FROM {t} WHERE {id} = ANY(%s) ORDER BY {id} FOR UPDATE"
HIDE = (
    "UPDATE {t} SET {since} = %s, {reason} = %s, {scan} = %s "
    "WHERE {id} = ANY(%s) AND {since} IS NULL RETURNING {id}::text"
)
SERVE = (
    "UPDATE {t} SET {since} = NULL, {reason} = NULL, {scan} = NULL "
    "WHERE {id} = ANY(%s) AND {since} IS NOT NULL RETURNING {id}::text"
)
MARKS = "SELECT {id}::text, {since}, {reason}, {scan} FROM {t} WHERE {since} IS NOT NULL"
DELETE = "DELETE FROM {t} WHERE {id} = ANY(%s)"
NEAREST = (
    "SELECT {c}, {v} {operator} %s::{kind} AS ragsieve_distance FROM {t} "
    "WHERE {v} IS NOT NULL ORDER BY ragsieve_distance LIMIT %s"
)
NEAREST_SERVED = NEAREST.replace(" ORDER", " AND {since} IS NULL ORDER")


def selecting(layout: Layout, template: str, **parts: Any) -> Any:
    """A statement that reads whole rows."""
    return ours(layout, template, **parts, c=columns_of(layout), v=names(layout.vector.name))


def ours(layout: Layout, template: str, **parts: Any) -> Any:
    """A statement about the table."""
    return statement(
        template,
        **parts,
        t=names(layout.schema, layout.table),
        id=names(layout.id.name),
        since=names(SINCE_COLUMN),
        reason=names(REASON_COLUMN),
        scan=names(SCAN_COLUMN),
    )


def id_array(layout: Layout, ids: Sequence[str]) -> list[Any]:
    """Ids as the id column has them; they are possible ones."""
    if layout.id.kind.startswith("int"):
        return [int(name) for name in ids]
    if layout.id.kind == "uuid":
        return [uuid.UUID(name) for name in ids]
    return list(ids)
