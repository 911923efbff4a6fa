"""What every vector store must be able to do for a scan, a quarantine and its undoing."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ragsieve.records import FloatArray

PAGE_ROWS = 1_000
"""Rows a page holds unless told otherwise; below every store's limit on one request."""

FLAG = "ragsieve_quarantined"
"""Metadata key, column or payload field that hides a row; absent on a row that is served."""

REASON = "ragsieve_reason"
SCAN = "ragsieve_scan"
SINCE = "ragsieve_since"
RESERVED = frozenset({FLAG, REASON, SCAN, SINCE})
"""Metadata that is ours: never part of a row's own metadata, its hash or its export."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One row as its store holds it.

    :param text: "" where the store has none.
    :param vector: shape (d,), as stored, not normalised; None where the store has none.
    :param metadata: the row's own, ours removed; hostile like the text.
    """

    id: str
    text: str
    vector: FloatArray | None
    metadata: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """A row that is hidden, and by whom.

    :param since: when it was hidden, in UTC.
    """

    id: str
    reason: str
    scan_id: str
    since: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class StoreFingerprint:
    """What a collection held when it was read; two readings are equal when no id came or went.

    :param count: rows, hidden ones included.
    :param ids_sha256: of all ids in sorted order, hexadecimal.
    """

    count: int
    ids_sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can and cannot do.

    :param lossy_vectors: vectors come back changed; the edge at cosine 0.85 is then refused.
    :param hides_in_search: its own search can be told to leave hidden rows out.
    :param deletes: rows can be removed and brought back.
    :param several_processes: others may have it open at the same time.
    :param notes: what a user should know, one sentence each.
    """

    lossy_vectors: bool = False
    hides_in_search: bool = True
    deletes: bool = True
    several_processes: bool = True
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class BundledRow:
    """A row with what is needed to bring it back unchanged.

    :param sha256: of id, text, vector and metadata, hexadecimal; see `connectors.bundles`.
    """

    row: Row
    sha256: str
    mark: Mark | None


@dataclasses.dataclass(frozen=True, slots=True)
class Bundle:
    """Rows taken out of a store: the only thing with which they may be deleted.

    :param store: address of the store, without secrets.
    """

    store: str
    rows: tuple[BundledRow, ...]
    made: datetime.datetime


class Connector(Protocol):
    """One collection of one store.

    A store without unique ids may hold one twice: `pages` and `fetch` give both rows,
    `quarantine` and `release` treat them as one, `export` and `delete` refuse them.

    Every module of a store has ``open_store(address: StoreAddress) -> Connector``, which never
    creates a collection and changes nothing. What a bundle holds is compared by
    `connectors.hashing.same_row`: vectors may move by a last bit.

    Ids that do not exist are ignored by `quarantine`, `release` and `fetch`, which say what
    they found by what they return. Every change is idempotent. A failing store raises
    `StoreError`, with its address and what was being done.
    """

    @property
    def address(self) -> str:
        """The store and its collection, without secrets; what the ledger keeps."""
        ...

    def capabilities(self) -> Capabilities:
        """What this collection can do."""
        ...

    def fingerprint(self) -> StoreFingerprint:
        """What it holds now, by `connectors.hashing.ids_fingerprint`; hiding a row leaves it equal."""
        ...

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """Every row once, hidden ones included, at most ``size`` at a time.

        :raises StoreError: when it cannot be read.
        """
        ...

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """The rows of these ids, in the order asked; those that exist."""
        ...

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """Hide rows from retrieval; the ids newly hidden.

        A row that is already hidden keeps its first mark and is not returned.
        """
        ...

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Serve hidden rows again; the ids that were hidden."""
        ...

    def marks(self) -> tuple[Mark, ...]:
        """The rows that are hidden now, by id."""
        ...

    def export(self, ids: Sequence[str]) -> Bundle:
        """The rows with vector, text, metadata, mark and hash."""
        ...

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """Remove the rows of a bundle; the ids removed.

        :raises StoreError: when a row is no longer what the bundle holds; none is removed then.
        """
        ...

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """Bring rows of a bundle back, hidden where they were hidden; the ids that were missing.

        :raises StoreError: when a row of this id but another content is there; nothing is
            changed then.
        """
        ...

    def prepare(self) -> None:
        """Add what hiding needs, such as columns, before anything is hidden; harmless twice.

        A filter that is written into another program is valid from then on.

        :raises StoreError: when it cannot be added.
        """
        ...

    def retrieval_filter(self) -> Any:
        """What the store's own search takes to leave hidden rows out, in its native form."""
        ...

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """The nearest served rows by the store's own search, best first, each id once.

        The number beside a row is the store's own distance or similarity: only the order
        means the same everywhere. Fewer than ``depth`` only where the collection has no more served rows.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections; calling it twice is harmless."""
        ...
