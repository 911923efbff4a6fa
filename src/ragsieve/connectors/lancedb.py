"""LanceDB: a folder of tables."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsieve._extras import require
from ragsieve.connectors.address import StoreAddress, truth_of
from ragsieve.connectors.contract import (
    FLAG,
    PAGE_ROWS,
    REASON,
    RESERVED,
    SCAN,
    SINCE,
    Bundle,
    Capabilities,
    Connector,
    Mark,
    Row,
    StoreFingerprint,
)
from ragsieve.connectors.exchange import (
    batched,
    check_deletable,
    check_restorable,
    make_bundle,
    mark_fields,
    mark_of,
    query_vector,
    telling,
    unique,
)
from ragsieve.connectors.hashing import ids_fingerprint
from ragsieve.connectors.lancedb_columns import Columns, in_list, rows_of, table_of
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

# Every update is a version of the table: few large ones.
_WRITE_IDS = 10_000
_READ_IDS = 1_000
_KEEP_ALL = datetime.timedelta(days=100 * 365)
_SERVED = f"{FLAG} IS NOT TRUE"
_OURS = {FLAG: "boolean", REASON: "string", SCAN: "string", SINCE: "string"}
_NOTES = (
    "The first row that is hidden adds four columns to the table; `prepare` adds them before.",
    "Every change is a version of the table, and small files are joined; no version is removed.",
    "Columns that are null are no part of a row's metadata.",
)


class LanceConnector:
    """One table of LanceDB.

    :param table: an open ``lancedb`` table.
    :param address: shown and kept in ledgers.
    :param id_column: of type string or integer.
    :param vector_column: None for the only column of vectors.
    :param distance: ``l2``, ``cosine`` or ``dot``; None for that of the index, else ``l2``.
    :param tags: whether the version before a scan hides its first row gets the tag
        ``ragsieve-SCAN``. A tagged version is kept, and makes the table's own clean-up of old
        versions fail until the tag is removed; hence not unless asked for.
    :param compact: whether changes end with joining small files.
    :raises StoreError: when a column is missing or of another type.
    """

    def __init__(
        self,
        table: Any,
        *,
        address: str | None = None,
        id_column: str = "id",
        text_column: str = "text",
        vector_column: str | None = None,
        distance: str | None = None,
        tags: bool = False,
        compact: bool = True,
    ) -> None:
        self.table = table
        self._address = address or f"lancedb://client/{table.name}"
        self._distance = distance
        self._tags = tags
        self._compact = compact
        with self._telling("reading its columns"):
            self._columns = Columns.of(
                table.schema, id_column, text_column, vector_column, self._address
            )

    @property
    def address(self) -> str:
        """The store and its table."""
        return self._address

    def capabilities(self) -> Capabilities:
        """What this table can do."""
        return Capabilities(notes=_NOTES)

    def fingerprint(self) -> StoreFingerprint:
        """What it holds now."""
        batches = self._read([self._columns.id], "reading ids")
        return ids_fingerprint(str(name) for batch in batches for name in batch[0].to_pylist())

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """Every row once, as the table was when reading began, at most ``size`` at a time."""
        names = self._own_columns()
        for batch in self._read(names, "reading rows", rows=min(size, PAGE_ROWS)):
            # What the reader gives is a wish: a batch may be larger.
            for start in range(0, batch.num_rows, size):
                yield rows_of(batch.slice(start, size), self._columns)

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """The rows of these ids, in the order asked; both where an id stands twice."""
        found: dict[str, list[Row]] = {}
        asked = unique(ids)
        for batch in batched(self._columns.possible(asked), _READ_IDS):
            where = in_list(self._columns, batch)
            for part in self._read(self._own_columns(), "reading rows", where=where):
                for row in rows_of(part, self._columns):
                    found.setdefault(row.id, []).append(row)
        return tuple(row for name in asked for row in found.get(name, ()))

    def prepare(self) -> None:
        """Add our columns, which the filter names, if the table has none yet."""
        with self._telling("adding columns"):
            self.table.checkout_latest()
            if self._prepared():
                return
            try:
                self.table.add_columns(
                    {name: f"cast(NULL as {kind})" for name, kind in _OURS.items()}
                )
            except Exception:
                # Another writer may have been quicker.
                self.table.checkout_latest()
                if not self._prepared():
                    raise

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """Hide rows; the ids newly hidden."""
        fields = mark_fields(reason, scan_id, since)
        names = self._those(ids, hidden=False)
        if not names:
            return ()
        if self._tags:
            self._tag(scan_id)
        self.prepare()
        self._update(names, fields, where=_SERVED)
        return tuple(names)

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Serve rows again; the ids that were hidden."""
        names = self._those(ids, hidden=True)
        if names:
            self._update(names, dict.fromkeys(_OURS), where=f"{FLAG} IS TRUE")
        return tuple(names)

    def marks(self) -> tuple[Mark, ...]:
        """The rows that are hidden now, by id."""
        return tuple(sorted(self._marks(None).values(), key=lambda mark: mark.id))

    def export(self, ids: Sequence[str]) -> Bundle:
        """The rows with vector, text, metadata, mark and hash."""
        return make_bundle(self.address, self.fetch(ids), self._marks(ids))

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """Remove the rows of a bundle; the ids removed."""
        present = self.fetch([item.row.id for item in bundle.rows])
        names = check_deletable(self.address, present, bundle)
        for batch in batched(names, _WRITE_IDS):
            with self._telling("deleting"):
                self.table.delete(in_list(self._columns, batch))
        return names

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """Bring rows of a bundle back; the ids that were missing."""
        present = self.fetch([item.row.id for item in bundle.rows])
        missing = check_restorable(self.address, present, bundle)
        if not missing:
            return ()
        if any(item.mark is not None for item in missing):
            self.prepare()
        # Null vectors only where the bundle has none.
        bare = any(item.row.vector is None for item in missing)
        with self._telling("restoring"):
            self.table.add(
                table_of(missing, self._columns, self.table.schema),
                on_bad_vectors="null" if bare else "error",
            )
        self._optimize()
        return tuple(item.row.id for item in missing)

    def retrieval_filter(self) -> Any:
        """For ``.where(..., prefilter=True)``, joined to another by AND; see `prepare`."""
        return _SERVED

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """The nearest served rows, best first, with LanceDB's distance."""
        query = query_vector(vector, depth)
        with self._telling("searching"):
            self.table.checkout_latest()
            metric = self._distance or self._index_distance() or "l2"
            found = self._search(query, depth, metric, exact=False)
            if found.num_rows < depth and self._index_distance() is not None:
                # An index looks into some of its parts only; all rows are few enough to wait for.
                found = self._search(query, depth, metric, exact=True)
        rows = rows_of(found, self._columns)
        scores = found.column("_distance").to_pylist()
        unrepeated = {row.id: (row, float(score)) for row, score in zip(rows, scores, strict=True)}
        return tuple(unrepeated.values())

    def close(self) -> None:
        """Nothing is held open."""

    def _search(self, query: FloatArray, depth: int, metric: str, *, exact: bool) -> Any:
        request = self.table.search(query, vector_column_name=self._columns.vector)
        request = request.distance_type(metric).limit(depth)
        if exact:
            request = request.bypass_vector_index()
        if self._prepared():
            request = request.where(_SERVED, prefilter=True)
        return request.select([*self._own_columns(), "_distance"]).to_arrow()

    def _index_distance(self) -> str | None:
        for index in self.table.list_indices():
            if list(index.columns) == [self._columns.vector]:
                stats = self.table.index_stats(index.name)
                return None if stats is None else stats.distance_type
        return None

    def _read(
        self, names: list[str], doing: str, *, where: str | None = None, rows: int = PAGE_ROWS
    ) -> Iterator[Any]:
        """Batches of these columns of the newest version."""
        with self._telling(doing):
            self.table.checkout_latest()
            request = self.table.search().select(names)
            if where is not None:
                request = request.where(where)
            batches = iter(request.to_batches(rows))
        while True:
            with self._telling(doing):
                batch = next(batches, None)
            if batch is None:
                return
            if batch.num_rows:
                yield batch

    def _those(self, ids: Sequence[str], *, hidden: bool) -> list[str]:
        """Of these ids the ones that exist and are hidden, or not."""
        asked = self._columns.possible(unique(ids))
        marked = self._marks(asked)
        if hidden:
            return [name for name in asked if name in marked]
        known: set[str] = set()
        for batch in batched(asked, _READ_IDS):
            where = in_list(self._columns, batch)
            for part in self._read([self._columns.id], "reading ids", where=where):
                known.update(str(name) for name in part[0].to_pylist())
        return [name for name in asked if name in known and name not in marked]

    def _marks(self, ids: Sequence[str] | None) -> dict[str, Mark]:
        """Marks of these ids, or all of them."""
        with self._telling("reading its columns"):
            self.table.checkout_latest()
            if not self._prepared():
                return {}
        wanted = None if ids is None else set(ids)
        found = {}
        names = [self._columns.id, *_OURS]
        for batch in self._read(names, "reading marks", where=f"{FLAG} IS TRUE"):
            for fields in batch.to_pylist():
                name = str(fields[self._columns.id])
                mark = mark_of(name, fields)
                if mark is not None and (wanted is None or name in wanted):
                    found[name] = mark
        return found

    def _update(self, names: Sequence[str], fields: Mapping[str, Any], *, where: str) -> None:
        for batch in batched(names, _WRITE_IDS):
            with self._telling("writing columns"):
                self.table.update(
                    where=f"({in_list(self._columns, batch)}) AND {where}", values=dict(fields)
                )
        self._optimize()

    def _optimize(self) -> None:
        if self._compact:
            # Housekeeping: the change is made, and another writer may be in the way of this.
            with contextlib.suppress(RuntimeError, OSError, ValueError):
                self.table.optimize(cleanup_older_than=_KEEP_ALL)

    def _tag(self, scan_id: str) -> None:
        name = "ragsieve-" + re.sub(r"[^A-Za-z0-9_-]", "-", scan_id)
        with self._telling("tagging a version"):
            if name not in self.table.tags.list():
                self.table.tags.create(name, self.table.version)

    def _prepared(self) -> bool:
        return set(_OURS) <= set(self.table.schema.names)

    def _own_columns(self) -> list[str]:
        return [name for name in self.table.schema.names if name not in RESERVED]

    def _telling(self, doing: str) -> Any:
        return telling(self._address, doing)


def open_store(address: StoreAddress) -> Connector:
    """Open a table; neither folder nor table is made.

    :raises MissingExtraError: without ``lancedb``.
    :raises StoreError: when there is no such folder or table, or a column is missing.
    """
    lancedb = require("lancedb", extra="lancedb")
    if not Path(address.path or "").is_dir():
        raise StoreError(f"{address.public}: no folder there; check the path")
    with telling(address.public, "opening"):
        database = lancedb.connect(address.path)
        known = list(database.list_tables().tables)
        if address.name not in known:
            raise StoreError(
                f"{address.public}: no such table; it has {', '.join(sorted(known)) or 'none'}"
            )
        return LanceConnector(
            database.open_table(address.name),
            address=address.public,
            id_column=address.option("id") or "id",
            text_column=address.fields.text or "text",
            vector_column=address.option("vector"),
            distance=address.option("distance"),
            tags=truth_of(address, "tags"),
        )
