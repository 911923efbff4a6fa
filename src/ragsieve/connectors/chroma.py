"""Chroma: a folder on this machine, or a server."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.connectors.address import StoreAddress, truth_of
from ragsieve.connectors.contract import (
    FLAG,
    PAGE_ROWS,
    RESERVED,
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
    own_metadata,
    paged,
    query_vector,
    telling,
    unique,
)
from ragsieve.connectors.hashing import ids_fingerprint
from ragsieve.connectors.nearest import DISTANCES, exact_nearest
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

_PORT = 8000
_EVERYTHING = ["documents", "metadatas", "embeddings"]
_NOTES_PATH = "A folder is for one process at a time: stop the application while it is changed."
_NOTES = (
    "Rows without a document come back from a deletion with an empty one.",
    "Pages are read by id, because its offsets move when rows are written.",
)


class ChromaConnector:
    """One collection of Chroma.

    :param client: an open ``chromadb`` client; left open by `close` unless ``owned``.
    :param collection: its collection.
    :param address: shown and kept in ledgers.
    :param text_key: metadata key of the text; None for the row's document.
    :param several_processes: whether others may write at the same time: a server, not a folder.
    """

    def __init__(
        self,
        client: Any,
        collection: Any,
        *,
        address: str | None = None,
        text_key: str | None = None,
        several_processes: bool = False,
        owned: bool = False,
    ) -> None:
        self.client = client
        self.collection = collection
        self._address = address or f"chroma://client/{collection.name}"
        self._text_key = text_key
        self._several_processes = several_processes
        self._owned = owned
        with self._telling("asking for its limits"):
            # Above it a write fails, or loses embeddings.
            self._batch = max(1, min(PAGE_ROWS, int(client.get_max_batch_size())))

    @property
    def address(self) -> str:
        """The store and its collection."""
        return self._address

    def capabilities(self) -> Capabilities:
        """What this collection can do."""
        notes = _NOTES if self._several_processes else (_NOTES_PATH, *_NOTES)
        return Capabilities(several_processes=self._several_processes, notes=notes)

    def fingerprint(self) -> StoreFingerprint:
        """What it holds now."""
        return ids_fingerprint(self._all_ids())

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """Every row once, at most ``size`` at a time; one that was deleted meanwhile is missing."""
        for batch in paged(self._all_ids(), min(size, self._batch)):
            page = tuple(row for row, _ in self._get(batch))
            if page:
                yield page

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """The rows of these ids, in the order asked."""
        return tuple(
            row for batch in batched(unique(ids), self._batch) for row, _ in self._get(batch)
        )

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """Hide rows; the ids newly hidden."""
        fields = mark_fields(reason, scan_id, since)
        return self._write(ids, fields, hidden=False)

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Serve rows again; the ids that were hidden."""
        # None takes a key away; the row's own keys are merged and stay.
        return self._write(ids, dict.fromkeys(sorted(RESERVED)), hidden=True)

    def marks(self) -> tuple[Mark, ...]:
        """The rows that are hidden now, by id."""
        found: list[Mark] = []
        for names, metadatas in self._scroll(where={FLAG: True}, include=["metadatas"]):
            marks = (mark_of(name, own) for name, own in zip(names, metadatas, strict=True))
            found += [mark for mark in marks if mark is not None]
        return tuple(sorted({mark.id: mark for mark in found}.values(), key=lambda mark: mark.id))

    def export(self, ids: Sequence[str]) -> Bundle:
        """The rows with vector, text, metadata, mark and hash."""
        rows, marks = self._marked(ids)
        return make_bundle(self.address, rows, marks)

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """Remove the rows of a bundle; the ids removed."""
        rows, _ = self._marked([item.row.id for item in bundle.rows])
        names = check_deletable(self.address, rows, bundle)
        for batch in batched(names, self._batch):
            with self._telling("deleting"):
                self.collection.delete(ids=list(batch))
        return names

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """Bring rows of a bundle back; the ids that were missing."""
        rows, _ = self._marked([item.row.id for item in bundle.rows])
        missing = check_restorable(self.address, rows, bundle)
        for batch in batched(missing, self._batch):
            fields = [self._fields(item.row, item.mark) for item in batch]
            texts = [item.row.text for item in batch]
            with self._telling("restoring"):
                self.collection.add(
                    ids=[item.row.id for item in batch],
                    embeddings=[item.row.vector for item in batch],
                    metadatas=[own or None for own in fields],
                    documents=texts if self._text_key is None else None,
                )
        return tuple(item.row.id for item in missing)

    def prepare(self) -> None:
        """Nothing to add here; see the contract."""

    def retrieval_filter(self) -> Any:
        """For ``collection.query(where=...)``; joined to another by ``{"$and": [...]}``."""
        return {FLAG: {"$ne": True}}

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """The nearest served rows, best first, with Chroma's distance."""
        query = query_vector(vector, depth)
        with self._telling("searching"):
            found = self.collection.query(
                query_embeddings=[query],
                n_results=depth,
                where=self.retrieval_filter(),
                include=[*_EVERYTHING, "distances"],
            )
        first = {name: found[name][0] for name in ("ids", *_EVERYTHING)}
        rows = {
            row.id: (row, float(value))
            for (row, _), value in zip(self._rows(first), found["distances"][0], strict=True)
        }
        if len(rows) < depth and len(rows) < self._served():
            # A filtered HNSW index stops early: then every row is looked at.
            return exact_nearest(
                self._served_pages(), query, depth=depth, distance=DISTANCES[self._space()]
            )
        return tuple(rows.values())

    def close(self) -> None:
        """Let go of the folder, if it was opened here."""
        if self._owned:
            self._owned = False
            with self._telling("closing"):
                self.client.close()

    def _write(
        self, ids: Sequence[str], fields: Mapping[str, Any], *, hidden: bool
    ) -> tuple[str, ...]:
        """Write our fields to those of the rows that are, or are not, hidden; their ids."""
        done: list[str] = []
        for batch in batched(unique(ids), self._batch):
            names = [row.id for row, mark in self._get(batch) if (mark is not None) is hidden]
            if names:
                with self._telling("writing metadata"):
                    self.collection.update(ids=names, metadatas=[dict(fields) for _ in names])
                done += names
        return tuple(done)

    def _marked(self, ids: Sequence[str]) -> tuple[list[Row], dict[str, Mark]]:
        rows, marks = [], {}
        for batch in batched(unique(ids), self._batch):
            for row, mark in self._get(batch):
                rows.append(row)
                if mark is not None:
                    marks[row.id] = mark
        return rows, marks

    def _get(self, ids: Sequence[str]) -> list[tuple[Row, Mark | None]]:
        """The rows that exist, in the order asked."""
        with self._telling("reading rows"):
            found = self.collection.get(ids=list(ids), include=_EVERYTHING)
        rows = {row.id: (row, mark) for row, mark in self._rows(found)}
        return [rows[name] for name in ids if name in rows]

    def _rows(self, found: Mapping[str, Any]) -> Iterator[tuple[Row, Mark | None]]:
        vectors = found["embeddings"]
        for number, name in enumerate(found["ids"]):
            fields = found["metadatas"][number] or {}
            own = own_metadata(fields)
            text = found["documents"][number]
            if self._text_key is not None:
                text = own.pop(self._text_key, "")
            vector = None if vectors is None else vectors[number]
            row = Row(
                name,
                "" if text is None else str(text),
                None if vector is None else np.asarray(vector, dtype=np.float32),
                own,
            )
            yield row, mark_of(name, fields)

    def _fields(self, row: Row, mark: Mark | None) -> dict[str, Any]:
        fields = dict(row.metadata)
        if self._text_key is not None:
            fields[self._text_key] = row.text
        if mark is not None:
            fields.update(mark_fields(mark.reason, mark.scan_id, mark.since))
        return fields

    def _all_ids(self) -> list[str]:
        return unique(name for names, _ in self._scroll(include=[]) for name in names)

    def _scroll(self, **request: Any) -> Iterator[tuple[list[str], list[Any]]]:
        offset = 0
        while True:
            with self._telling("reading ids"):
                page = self.collection.get(limit=self._batch, offset=offset, **request)
            names = page["ids"]
            if not names:
                return
            yield names, page["metadatas"] or [None] * len(names)
            offset += len(names)

    def _served(self) -> int:
        with self._telling("counting"):
            total = int(self.collection.count())
        return total - len(self.marks())

    def _served_pages(self) -> Iterator[Sequence[Row]]:
        for batch in batched(self._all_ids(), self._batch):
            yield [row for row, mark in self._get(batch) if mark is None]

    def _space(self) -> str:
        known = self.collection.configuration_json
        own = known.get("hnsw") or known.get("spann") or {}
        return str(own.get("space") or "l2")

    def _telling(self, doing: str) -> Any:
        return telling(self._address, doing)


def open_store(address: StoreAddress) -> Connector:
    """Open a collection; neither folder nor collection is made.

    A token of the address is sent as ``Authorization: Bearer``.

    :raises MissingExtraError: without ``chromadb``.
    :raises StoreError: when the folder holds no database, or there is no such collection.
    """
    chromadb = require("chromadb", extra="chroma")
    with telling(address.public, "opening"):
        client = _client(chromadb, address)
        try:
            # Without an embedding function: rows are read and written with their vectors.
            collection = client.get_collection(address.name, embedding_function=None)
        except chromadb.errors.NotFoundError as error:
            known = sorted(found.name for found in client.list_collections())
            client.close()
            raise StoreError(
                f"{address.public}: no such collection; it has {', '.join(known) or 'none'}"
            ) from error
        return ChromaConnector(
            client,
            collection,
            address=address.public,
            text_key=address.fields.text,
            several_processes=address.path is None,
            owned=True,
        )


def _client(chromadb: Any, address: StoreAddress) -> Any:
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    place = {
        name: value
        for name, value in (
            ("tenant", address.option("account")),
            ("database", address.option("database")),
        )
        if value is not None
    }
    if address.path is not None:
        if not (Path(address.path) / "chroma.sqlite3").is_file():
            raise StoreError(f"{address.public}: no Chroma database there; check the path")
        try:
            return chromadb.PersistentClient(address.path, settings=settings, **place)
        except ValueError:
            # A client of this process has it open already, with the usual settings.
            return chromadb.PersistentClient(address.path, **place)
    headers = {"Authorization": f"Bearer {address.secret}"} if address.secret else {}
    return chromadb.HttpClient(
        host=address.host,
        port=address.port or _PORT,
        ssl=truth_of(address, "ssl"),
        headers=headers,
        settings=settings,
        **place,
    )
