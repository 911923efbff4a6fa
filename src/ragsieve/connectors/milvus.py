"""Milvus Lite, a collection in a local file, and Milvus servers by the same client."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    own_metadata,
    paged,
    query_vector,
    telling,
    unique,
)
from ragsieve.connectors.hashing import ids_fingerprint
from ragsieve.connectors.milvus_local import leave, opened_client
from ragsieve.connectors.milvus_schema import Schema, read_schema
from ragsieve.connectors.nearest import DISTANCES, exact_nearest
from ragsieve.display import visible
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

SERVED = f"not exists {FLAG}"
"""The filter. ``flag != true`` and ``not (flag == true)`` match no row that lacks the flag."""

_HIDDEN = f"exists {FLAG}"
_PORT = 19530
_TIMEOUT_SECONDS = 60
_MOST_ROWS = 16_384  # of one search, one query or one page of an iterator
_LOADED = "Loaded"
_STRONG = "Strong"
_NOTE_PATH = "A file is for one process at a time: stop the application while it is changed."
_NOTE_STATIC = (
    "The collection has no dynamic fields, so its rows cannot be hidden: copy it into one made "
    "with enable_dynamic_field=True."
)
_NOTE_AUTO = (
    "The server makes the ids of this collection, and would make new ones for changed rows: "
    "rows can be neither hidden nor deleted."
)
_NOTES = (
    "Vectors with NaN are accepted: a snapshot leaves such rows out and says how many.",
    "Deleting and restoring many rows is done in parts, each whole or not at all.",
)


def open_store(address: StoreAddress) -> MilvusStore:
    """Open a collection; neither file nor collection is made.

    :raises MissingExtraError: without pymilvus and milvus-lite.
    :raises StoreError: when there is no such file, server or collection.
    """
    pymilvus = require("pymilvus", extra="milvus")
    place: dict[str, Any] = {"timeout": _TIMEOUT_SECONDS}
    if address.path is not None:
        require("milvus_lite", extra="milvus")
        # The client would make one.
        if not Path(address.path).exists():
            raise StoreError(f"{address.public}: no such file; check the path")
        place["uri"] = address.path
    else:
        scheme = "https" if truth_of(address, "https") else "http"
        host = f"[{address.host}]" if ":" in (address.host or "") else address.host
        place["uri"] = f"{scheme}://{host}:{address.port or _PORT}"
        place["token"] = ":".join(part for part in (address.user, address.secret) if part)
    if address.option("database"):
        place["db_name"] = address.option("database")
    with telling(address.public, "opening; another process may have it open"):
        client = opened_client(pymilvus.MilvusClient, place, address.path)

    def let_go() -> None:
        client.close()
        if address.path is not None:
            leave(address.path)

    try:
        return MilvusStore(
            client,
            address.name,
            address=address.public,
            declared={
                "id": address.option("id"),
                "vector": address.option("vector"),
                "text": address.fields.text,
            },
            local=address.path is not None,
            on_close=let_go,
        )
    except BaseException:
        let_go()
        raise


class MilvusStore:
    """One collection; see `connectors.contract.Connector`.

    :param client: an open ``pymilvus.MilvusClient``; left open by `close`.
    :param collection: its name.
    :param address: shown and kept in ledgers.
    :param declared: names of the fields ``id``, ``vector`` and ``text`` that are not to be guessed.
    :param local: whether it is a file of Milvus Lite.
    :param on_close: what `close` does beside giving back memory.
    :raises StoreError: when there is no such collection, or one without ids, texts or vectors.
    """

    def __init__(
        self,
        client: Any,
        collection: str,
        *,
        address: str | None = None,
        declared: Mapping[str, str | None] | None = None,
        local: bool = True,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.client, self.collection = client, collection
        self._address = address or f"milvus://client/{collection}"
        self._local, self._on_close, self._closed = local, on_close, False
        with self._telling("opening"):
            if not client.has_collection(collection):
                known = ", ".join(sorted(client.list_collections())) or "none"
                raise StoreError(f"{self._address}: no such collection; it has {known}")
            self.schema: Schema = read_schema(
                client, collection, self._address, declared=declared or {}
            )
            # One that was opened again, or let go of, answers nothing until it is loaded.
            self._loaded = self._load()

    @property
    def address(self) -> str:
        """See the contract."""
        return self._address

    def capabilities(self) -> Capabilities:
        """See the contract."""
        notes = [note for note, holds in self._obstacles() if holds]
        return Capabilities(
            hides_in_search=not notes,
            deletes=not (self.schema.auto and not self._local),
            several_processes=not self._local,
            notes=(*((_NOTE_PATH,) if self._local else ()), *notes, *_NOTES),
        )

    def fingerprint(self) -> StoreFingerprint:
        """See the contract."""
        with self._telling("reading all ids"):
            return ids_fingerprint(
                str(fields[self.schema.id]) for fields in self._all([self.schema.id])
            )

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """See the contract."""
        with self._telling("reading all rows"):
            yield from paged((self._row(fields) for fields in self._all(["*"])), size)

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """See the contract."""
        return tuple(row for row, _ in self._marked(ids))

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """See the contract.

        :raises StoreError: also when the collection can take no mark.
        """
        fields = mark_fields(storable(reason), storable(scan_id), since)
        return self._write(ids, fields, hidden=False)

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See the contract."""
        # A field with null counts as one that does not exist.
        return self._write(ids, dict.fromkeys(sorted(RESERVED)), hidden=True)

    def marks(self) -> tuple[Mark, ...]:
        """See the contract."""
        if not self.schema.dynamic:
            return ()
        wanted = [self.schema.id, FLAG, REASON, SCAN, SINCE]
        with self._telling("reading marks"):
            found = [
                mark_of(str(fields[self.schema.id]), fields)
                for fields in self._all(wanted, chosen=_HIDDEN)
            ]
        return tuple(sorted((mark for mark in found if mark), key=lambda mark: mark.id))

    def export(self, ids: Sequence[str]) -> Bundle:
        """See the contract."""
        found = self._marked(ids)
        marks = {mark.id: mark for _, mark in found if mark}
        return make_bundle(self._address, [row for row, _ in found], marks)

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """See the contract."""
        self._check_changes(marks=False)
        present = self.fetch([item.row.id for item in bundle.rows])
        ids = check_deletable(self._address, present, bundle)
        for part in batched(ids, PAGE_ROWS):
            with self._telling("deleting rows"):
                self.client.delete(self.collection, filter=self.schema.named(part))
        return ids

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """See the contract."""
        self._check_changes(marks=any(item.mark for item in bundle.rows))
        wanted = [item.row.id for item in bundle.rows]
        missing = check_restorable(self._address, self.fetch(wanted), bundle)
        rows = [self._fields(item.row, item.mark) for item in missing]
        for part in batched(rows, PAGE_ROWS):
            # An id that is there would be overwritten, or stand twice: see above.
            with self._telling("bringing rows back"):
                self.client.insert(self.collection, list(part))
        return tuple(item.row.id for item in missing)

    def prepare(self) -> None:
        """Nothing to add here; see the contract."""

    def retrieval_filter(self) -> str:
        """For ``client.search(filter=...)``; joined to another by ``and``."""
        return SERVED if self.schema.dynamic else ""

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """See the contract; every row is looked at where the index gives too few."""
        query = query_vector(vector, depth)
        with self._telling("searching"):
            answer = self.client.search(
                self.collection,
                data=[query.tolist()],
                anns_field=self.schema.vector,
                limit=min(depth, _MOST_ROWS),
                filter=self.retrieval_filter(),
                output_fields=["*"],
                consistency_level=_STRONG,
            )
            found = tuple(
                (self._row(hit["entity"]), float(hit["distance"]))
                for hit in answer[0]
                # A row with NaN is at no distance, and may stand anywhere in the order.
                if math.isfinite(hit["distance"])
            )
            if len(found) < depth and len(found) < self._served():
                found = self._everywhere(query, depth) or found
        return found

    def close(self) -> None:
        """See the contract."""
        if self._closed:
            return
        self._closed = True
        with self._telling("closing"):
            if self._loaded and not self._local:
                # It was at rest before, and takes no memory of the server after.
                self.client.release_collection(self.collection)
            if self._on_close is not None:
                self._on_close()

    def _load(self) -> bool:
        state = self.client.get_load_state(self.collection)["state"]
        if getattr(state, "name", str(state)) == _LOADED:
            return False
        self.client.load_collection(self.collection)
        return True

    def _all(self, wanted: Sequence[str], *, chosen: str = "") -> Iterator[Mapping[str, Any]]:
        iterator = self.client.query_iterator(
            self.collection,
            batch_size=PAGE_ROWS,
            filter=chosen,
            output_fields=list(wanted),
            consistency_level=_STRONG,
        )
        try:
            while part := iterator.next():
                yield from part
        finally:
            iterator.close()

    def _marked(self, ids: Sequence[str]) -> list[tuple[Row, Mark | None]]:
        """The rows that exist, in the order asked."""
        wanted = self.schema.possible(unique(ids))
        found: dict[str, tuple[Row, Mark | None]] = {}
        for part in batched(wanted, PAGE_ROWS):
            with self._telling("reading rows"):
                for fields in self.client.query(
                    self.collection,
                    filter=self.schema.named(part),
                    output_fields=["*"],
                    consistency_level=_STRONG,
                ):
                    row = self._row(fields)
                    found[row.id] = row, mark_of(row.id, fields)
        return [found[name] for name in wanted if name in found]

    def _write(
        self, ids: Sequence[str], fields: Mapping[str, Any], *, hidden: bool
    ) -> tuple[str, ...]:
        """Write our fields to those of the rows that are, or are not, hidden; their ids."""
        names = [row.id for row, mark in self._marked(ids) if (mark is not None) is hidden]
        if names:
            self._check_changes(marks=True)
        for part in batched(names, PAGE_ROWS):
            with self._telling("writing marks"):
                self.client.upsert(
                    self.collection,
                    [{self.schema.id: self.schema.key(name), **fields} for name in part],
                    partial_update=True,
                )
        return tuple(names)

    def _row(self, fields: Mapping[str, Any]) -> Row:
        schema = self.schema
        own = own_metadata(fields)
        name, text, vector = own.pop(schema.id), own.pop(schema.text, None), own.pop(schema.vector)
        return Row(
            str(name),
            "" if text is None else str(text),
            None if vector is None else np.asarray(vector, dtype=np.float32),
            {key: value for key, value in own.items() if key not in schema.computed},
        )

    def _fields(self, row: Row, mark: Mark | None) -> dict[str, Any]:
        schema = self.schema
        if row.vector is None or not schema.possible([row.id]):
            raise StoreError(
                f"{self._address}: {visible(row.id)!r} has no vector, or is no id of this "
                "collection; restore into the collection it came from"
            )
        marked = mark_fields(mark.reason, mark.scan_id, mark.since) if mark else {}
        return {
            **row.metadata,
            **marked,
            schema.id: schema.key(row.id),
            schema.text: row.text,
            schema.vector: np.asarray(row.vector, dtype=np.float32).tolist(),
        }

    def _obstacles(self) -> tuple[tuple[str, bool], ...]:
        return (
            (_NOTE_STATIC, not self.schema.dynamic),
            (_NOTE_AUTO, self.schema.auto and not self._local),
        )

    def _check_changes(self, *, marks: bool) -> None:
        for note, holds in self._obstacles():
            if holds and (marks or note != _NOTE_STATIC):
                raise StoreError(f"{self._address}: {note}")

    def _served(self) -> int:
        chosen = self.retrieval_filter()
        answer = self.client.query(
            self.collection,
            filter=chosen,
            output_fields=["count(*)"],
            consistency_level=_STRONG,
        )
        return int(answer[0]["count(*)"])

    def _everywhere(self, query: FloatArray, depth: int) -> tuple[tuple[Row, float], ...]:
        name = (self.schema.metric or "").lower()
        if name not in DISTANCES:
            return ()
        rows = (self._row(fields) for fields in self._all(["*"], chosen=self.retrieval_filter()))
        exact = exact_nearest(paged(rows, PAGE_ROWS), query, depth=depth, distance=DISTANCES[name])
        # The server gives cosine and product as similarities.
        return tuple((row, value if name == "l2" else 1.0 - value) for row, value in exact)

    def _telling(self, doing: str) -> contextlib.AbstractContextManager[None]:
        return telling(self._address, doing)


def storable(text: str) -> str:
    """Words of ours without lone surrogates, which the protocol cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
