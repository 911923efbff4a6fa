"""PostgreSQL tables with a column of pgvector: three columns of ours hide a row."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ragsieve._extras import require
from ragsieve.connectors.address import StoreAddress
from ragsieve.connectors.contract import (
    PAGE_ROWS,
    Bundle,
    Capabilities,
    Mark,
    Row,
    StoreFingerprint,
)
from ragsieve.connectors.exchange import (
    batched,
    check_deletable,
    check_restorable,
    make_bundle,
    moment,
    paged,
    query_vector,
    unique,
)
from ragsieve.connectors.hashing import ids_fingerprint
from ragsieve.connectors.pgvector_layout import (
    LOSSY_TYPES,
    OUR_COLUMNS,
    SINCE_COLUMN,
    Layout,
    TableOptions,
    read_layout,
)
from ragsieve.connectors.pgvector_rows import (
    insertion,
    mark_of,
    names,
    native,
    possible_ids,
    row_of,
    storable,
    vector_text,
)
from ragsieve.connectors.pgvector_session import CONNECT_SECONDS, Session
from ragsieve.connectors.pgvector_statements import (
    ADD,
    ALL,
    DELETE,
    HIDE,
    IDS,
    LOCK,
    LOCKED_ROWS,
    MARKS,
    NEAREST,
    NEAREST_SERVED,
    ROWS,
    SERVE,
    id_array,
    ours,
    selecting,
)
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

LOCK_SECONDS = 10
"""How long adding our columns may wait for others that use the table."""

_INDEX_DEPTH = 1_000  # pgvector's bound on hnsw.ef_search
_OUR_NAMES = ", ".join(OUR_COLUMNS)


def open_store(address: StoreAddress) -> PgVectorStore:
    """Connect to the table at an address.

    :raises MissingExtraError: without psycopg and pgvector.
    :raises StoreError: when there is no such server or table.
    """
    psycopg = require("psycopg", extra="pgvector")
    parts = {
        "host": address.option("host") or address.host,
        "port": address.port,
        "dbname": address.database,
        "user": address.user,
        "password": address.secret,
        "sslmode": address.option("sslmode"),
    }
    given = {name: value for name, value in parts.items() if value is not None}

    def connect() -> Any:
        return psycopg.connect(
            **given, connect_timeout=CONNECT_SECONDS, application_name="ragsieve"
        )

    options = TableOptions(
        address.name,
        schema=address.option("schema"),
        id=address.option("id"),
        text=address.fields.text,
        vector=address.option("vector"),
        metadata=address.option("metadata"),
        distance=address.option("distance"),
    )
    return PgVectorStore(connect, options, address=address.public, secrets=(address.secret or "",))


class PgVectorStore:
    """One table; see `connectors.contract.Connector`.

    :param connect: gives a new connection of psycopg, again after one was lost.
    :param address: without secrets.
    :param secrets: words that no error may show.
    :raises StoreError: when there is no such server or table.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        options: TableOptions,
        *,
        address: str,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._address, self._options = address, options
        self._session = Session(connect, address=address, secrets=secrets)
        self.connect = connect
        try:
            self.layout()
        except BaseException:
            self.close()
            raise

    def layout(self) -> Layout:
        """What the table looks like."""
        return self._session.run("reading the catalogue", self._layout)

    @property
    def address(self) -> str:
        """See the contract."""
        return self._address

    def capabilities(self) -> Capabilities:
        """See the contract; rows on which rows of other tables hang are not deleted."""
        layout = self.layout()
        kind = layout.vector.kind
        notes = []
        if kind in LOSSY_TYPES:
            notes.append(f"Vectors of type {kind} are not the embeddings they were made of.")
        if layout.cascades:
            notes.append(
                f"Deleting a row would change rows of {', '.join(layout.cascades)}, which no "
                "bundle holds; rows are hidden only."
            )
        if not layout.flagged:
            notes.append(f"The first quarantine adds the columns {_OUR_NAMES}.")
        return Capabilities(
            lossy_vectors=kind in LOSSY_TYPES, deletes=not layout.cascades, notes=tuple(notes)
        )

    def prepare(self) -> None:
        """Add the columns by which rows are hidden; the first quarantine does it too.

        :raises StoreError: when they cannot be added, or others hold the table for longer than
            `LOCK_SECONDS`.
        """
        layout = self.layout()
        if layout.flagged:
            return

        def add(connection: Any) -> None:
            # Waiting for a lock on the whole table makes everybody else wait too.
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            for name, kind in OUR_COLUMNS.items():
                connection.execute(ours(layout, ADD, column=names(name), type=native(kind)), [])

        self._session.run(f"adding the columns {_OUR_NAMES}", add)

    def fingerprint(self) -> StoreFingerprint:
        """See the contract."""

        def declare(connection: Any, cursor: Any) -> None:
            layout = self._layout(connection)
            cursor.execute(ours(layout, IDS), [])

        with self._session.reading("reading all ids", "ragsieve_ids", declare) as cursor:
            cursor.itersize = PAGE_ROWS
            return ids_fingerprint(name for (name,) in cursor)

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """See the contract; all pages show one moment, whatever is written meanwhile."""
        if size < 1:
            raise ValueError(f"page size: expected at least 1, found {size}")
        layouts: list[Layout] = []

        def declare(connection: Any, cursor: Any) -> None:
            layouts.append(self._layout(connection))
            cursor.execute(selecting(layouts[0], ALL), [], binary=True)

        with self._session.reading("reading all rows", "ragsieve_rows", declare) as cursor:
            cursor.itersize = min(size, PAGE_ROWS)
            rows = (row_of(layouts[0], values) for values in cursor)
            yield from paged(rows, size)

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """See the contract."""

        def read(connection: Any) -> tuple[Row, ...]:
            return tuple(row for row, _ in self._selected(connection, ids))

        return self._session.run("reading rows", read)

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """See the contract."""
        when = moment(since)
        if not self.fetch(ids):
            return ()
        self.prepare()
        marks = (when, storable(reason), storable(scan_id))
        return self._session.run(
            "hiding rows", lambda connection: self._update(connection, HIDE, marks, ids)
        )

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See the contract."""

        def serve(connection: Any) -> tuple[str, ...]:
            if not self._layout(connection).flagged:
                return ()
            return self._update(connection, SERVE, (), ids)

        return self._session.run("serving rows again", serve)

    def marks(self) -> tuple[Mark, ...]:
        """See the contract."""

        def read(connection: Any) -> tuple[Mark, ...]:
            layout = self._layout(connection)
            if not layout.flagged:
                return ()
            query = ours(layout, MARKS)
            found = (mark_of(values) for values in connection.execute(query, []))
            return tuple(sorted((m for m in found if m), key=lambda mark: mark.id))

        return self._session.run("reading marks", read)

    def export(self, ids: Sequence[str]) -> Bundle:
        """See the contract."""
        found = self._session.run(
            "reading rows", lambda connection: self._selected(connection, ids)
        )
        marks = {mark.id: mark for _, mark in found if mark}
        return make_bundle(self._address, [row for row, _ in found], marks)

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """See the contract.

        :raises StoreError: also when rows of other tables would change with them.
        """
        wanted = [item.row.id for item in bundle.rows]

        def remove(connection: Any) -> tuple[str, ...]:
            layout = self._layout(connection)
            if layout.cascades:
                raise StoreError(
                    f"{self._address}: deleting would change rows of "
                    f"{', '.join(layout.cascades)}, which the bundle could not bring back; "
                    "leave the rows hidden"
                )
            present = [row for row, _ in self._selected(connection, wanted, lock=True)]
            ids = check_deletable(self._address, present, bundle)
            query = ours(layout, DELETE)
            for part in batched(ids, PAGE_ROWS):
                connection.execute(query, [id_array(layout, part)])
            return ids

        return self._session.run("deleting rows", remove)

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """See the contract."""
        wanted = [item.row.id for item in bundle.rows]
        if any(item.mark for item in bundle.rows):
            self.prepare()

        def bring_back(connection: Any) -> tuple[str, ...]:
            layout = self._layout(connection)
            unfit = sorted(set(wanted) - set(possible_ids(layout, wanted)))
            if unfit:
                raise StoreError(
                    f"{self._address}: {unfit[0]!r} cannot be an id of type "
                    f"{layout.id.declared}; restore into the table it came from"
                )
            present = [row for row, _ in self._selected(connection, wanted, lock=True)]
            missing = check_restorable(self._address, present, bundle)
            for item in missing:
                query, values = insertion(layout, item.row, item.mark, self._address)
                connection.execute(query, values)
            return tuple(item.row.id for item in missing)

        return self._session.run("bringing rows back", bring_back)

    def retrieval_filter(self) -> str:
        """A condition of SQL, for WHERE.

        While nothing was ever hidden the columns are absent and it is TRUE: call `prepare`
        first where it is to be written down.
        """
        layout = self.layout()
        return f'"{SINCE_COLUMN}" IS NULL' if layout.flagged else "TRUE"

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """See the contract; rows without a vector, or without a distance to it, are not found."""
        query = query_vector(vector, depth)

        def find(connection: Any) -> tuple[tuple[Row, float], ...]:
            layout = self._layout(connection)
            _widen(connection, layout, depth)
            found = self._nearest(connection, layout, query, depth)
            if len(found) < depth:
                # An index may end before enough rows passed the filter; the table does not.
                connection.execute("SET LOCAL enable_indexscan = off")
                found = self._nearest(connection, layout, query, depth)
            return found

        return self._session.run("searching", find)

    def close(self) -> None:
        """See the contract."""
        self._session.close()

    def _layout(self, connection: Any) -> Layout:
        # Not kept: others may add our columns, or an index, at any time.
        return read_layout(connection, self._options, self._address)

    def _selected(
        self, connection: Any, ids: Iterable[str], *, lock: bool = False
    ) -> list[tuple[Row, Mark | None]]:
        layout = self._layout(connection)
        wanted = possible_ids(layout, unique(ids))
        query = selecting(layout, LOCKED_ROWS if lock else ROWS)
        found = {}
        for part in batched(sorted(wanted), PAGE_ROWS):
            for values in connection.execute(query, [id_array(layout, part)], binary=True):
                row = row_of(layout, values)
                found[row.id] = row, mark_of(values)
        return [found[name] for name in wanted if name in found]

    def _update(
        self, connection: Any, template: str, values: Sequence[Any], ids: Sequence[str]
    ) -> tuple[str, ...]:
        layout = self._layout(connection)
        wanted = possible_ids(layout, unique(ids))
        lock = ours(layout, LOCK)
        update = ours(layout, template)
        changed: set[str] = set()
        for part in batched(sorted(wanted), PAGE_ROWS):
            array = id_array(layout, part)
            connection.execute(lock, [array])
            changed.update(name for (name,) in connection.execute(update, [*values, array]))
        return tuple(name for name in wanted if name in changed)

    def _nearest(
        self, connection: Any, layout: Layout, query: FloatArray, depth: int
    ) -> tuple[tuple[Row, float], ...]:
        select = selecting(
            layout,
            NEAREST_SERVED if layout.flagged else NEAREST,
            operator=native(layout.operator),
            kind=native(layout.vector.declared),
        )
        values = [vector_text(layout, query), depth]
        rows = [
            (row_of(layout, found[:-1]), float(found[-1]))
            for found in connection.execute(select, values, binary=True)
            # A vector of length zero is at no distance by the cosine, and is sorted last.
            if math.isfinite(found[-1])
        ]
        # An index that goes on searching may give what it found later out of order.
        return tuple(sorted(rows, key=lambda pair: pair[1]))


def _widen(connection: Any, layout: Layout, depth: int) -> None:
    connection.execute(
        "SELECT set_config('hnsw.ef_search', greatest(%s::int, "
        "nullif(current_setting('hnsw.ef_search', true), '')::int)::text, true)",
        [min(max(depth, 40), _INDEX_DEPTH)],
    )
    if layout.iterates:
        connection.execute("SET LOCAL hnsw.iterative_scan = 'strict_order'")
        connection.execute("SET LOCAL ivfflat.iterative_scan = 'relaxed_order'")
