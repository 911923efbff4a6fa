"""What all stores do alike: lists of ids, marks, bundles made and checked, failures told."""

from __future__ import annotations

import collections
import contextlib
import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ragsieve.connectors.contract import (
    FLAG,
    REASON,
    RESERVED,
    SCAN,
    SINCE,
    Bundle,
    BundledRow,
    Mark,
    Row,
)
from ragsieve.connectors.hashing import VECTOR_TOLERANCE, row_sha256, same_row
from ragsieve.display import visible
from ragsieve.errors import EmbeddingError, RagsieveError, StoreError
from ragsieve.records import FloatArray

T = TypeVar("T")
_UNKNOWN_SINCE = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_CAUSE_CHARACTERS = 300
_NAMED_IDS = 3


@contextlib.contextmanager
def telling(address: str, doing: str) -> Iterator[None]:
    """Turn whatever a store raises into a `StoreError` that names it and what was being done.

    :raises StoreError: with the cause chained; errors of this package pass through.
    """
    try:
        yield
    except RagsieveError:
        raise
    except Exception as error:
        cause = visible(f"{type(error).__name__}: {error}", limit=_CAUSE_CHARACTERS)
        raise StoreError(f"{address}: {doing} failed ({cause})") from error


def unique(ids: Iterable[str]) -> list[str]:
    """The ids in their order, each once."""
    return list(dict.fromkeys(ids))


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Slices of at most ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))


def paged(rows: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    """Rows gathered into pages of ``size``; the last may be shorter."""
    if size < 1:
        raise ValueError(f"page size: expected at least 1, found {size}")
    source = iter(rows)
    while page := tuple(itertools.islice(source, size)):
        yield page


def query_vector(vector: FloatArray, depth: int) -> FloatArray:
    """The query as finite float32, checked: a NaN query gives an order that means nothing.

    :raises EmbeddingError: when it is not one finite, non-zero vector.
    :raises ValueError: when ``depth`` is below 1.
    """
    if depth < 1:
        raise ValueError(f"depth: expected at least 1, found {depth}")
    query = np.asarray(vector, dtype=np.float32)
    if query.ndim != 1 or not np.isfinite(query).all() or not query.any():
        raise EmbeddingError("query vector: expected one finite vector that is not zero")
    return query


def mark_fields(reason: str, scan_id: str, since: datetime.datetime) -> dict[str, Any]:
    """What a hidden row carries, as metadata.

    :raises ValueError: when ``since`` has no time zone.
    """
    return {FLAG: True, REASON: reason, SCAN: scan_id, SINCE: moment(since).isoformat()}


def mark_of(name: str, fields: Mapping[str, Any]) -> Mark | None:
    """The mark in a row's metadata; None for a row that is served."""
    if fields.get(FLAG) is not True:
        return None
    try:
        since = datetime.datetime.fromisoformat(str(fields.get(SINCE)))
    except ValueError:
        # Somebody else wrote it; the row is hidden all the same.
        since = _UNKNOWN_SINCE
    since = since if since.tzinfo else since.replace(tzinfo=datetime.UTC)
    return Mark(name, str(fields.get(REASON) or ""), str(fields.get(SCAN) or ""), since)


def own_metadata(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """A row's metadata without what is ours."""
    return {key: value for key, value in (fields or {}).items() if key not in RESERVED}


def moment(since: datetime.datetime) -> datetime.datetime:
    """A time in UTC.

    :raises ValueError: when it has no time zone.
    """
    if since.tzinfo is None:
        raise ValueError("since: expected a time with its zone")
    return since.astimezone(datetime.UTC)


def make_bundle(address: str, rows: Sequence[Row], marks: Mapping[str, Mark]) -> Bundle:
    """Rows with their hashes and marks, at this moment.

    :raises StoreError: when an id stands twice, or metadata cannot be written.
    """
    repeated = [
        name for name, times in collections.Counter(r.id for r in rows).items() if times > 1
    ]
    if repeated:
        raise StoreError(
            f"{address}: {_named(repeated)} stands more than once; such rows can be hidden but "
            "neither exported nor deleted, because one id could not bring them back"
        )
    items = tuple(BundledRow(row, row_sha256(row), marks.get(row.id)) for row in rows)
    return Bundle(address, items, datetime.datetime.now(datetime.UTC))


def check_deletable(
    address: str,
    present: Sequence[Row],
    bundle: Bundle,
    *,
    tolerance: float = VECTOR_TOLERANCE,
) -> tuple[str, ...]:
    """The ids of the bundle that are present, every one of them unchanged.

    :param present: what the store holds now under the bundle's ids.
    :raises StoreError: when one is no longer what the bundle holds.
    """
    check_intact(bundle)
    kept = {item.row.id: item.row for item in bundle.rows}
    names = [row.id for row in present]
    changed = [row.id for row in present if not same_row(row, kept[row.id], tolerance=tolerance)]
    if _repeats(names) or changed:
        raise StoreError(
            f"{address}: {_named(changed or names)} changed since the bundle was made, so it "
            "could not bring them back; export again, look, and delete with the new bundle"
        )
    return tuple(names)


def check_restorable(
    address: str,
    present: Sequence[Row],
    bundle: Bundle,
    *,
    tolerance: float = VECTOR_TOLERANCE,
) -> tuple[BundledRow, ...]:
    """The rows of the bundle that are missing.

    :param present: what the store holds now under the bundle's ids.
    :raises StoreError: when another content stands under an id of the bundle.
    """
    check_intact(bundle)
    kept = {item.row.id: item.row for item in bundle.rows}
    other = [row.id for row in present if not same_row(row, kept[row.id], tolerance=tolerance)]
    if other:
        raise StoreError(
            f"{address}: {_named(other)} came back with another content, which restoring would "
            "overwrite; nothing was changed. Remove or rename what is there, then restore"
        )
    there = {row.id for row in present}
    return tuple(item for item in bundle.rows if item.row.id not in there)


def check_intact(bundle: Bundle) -> None:
    """Whether every row is what its hash says, and every id stands once.

    :raises StoreError: when not.
    """
    damaged = [item.row.id for item in bundle.rows if row_sha256(item.row) != item.sha256]
    if damaged or _repeats([item.row.id for item in bundle.rows]):
        raise StoreError(
            f"bundle of {bundle.store}: {_named(damaged or ['an id that stands twice'])} is not "
            "what was exported; take an intact copy"
        )


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _named(ids: Sequence[str]) -> str:
    shown = ", ".join(repr(visible(name, limit=80)) for name in ids[:_NAMED_IDS])
    more = len(ids) - _NAMED_IDS
    return shown + (f" and {more} more" if more > 0 else "")
