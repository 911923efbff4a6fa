"""Qdrant: a server, a folder on this machine, or a client in memory."""

from __future__ import annotations

import datetime
import uuid
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
    BundledRow,
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
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

_PORT = 6333
# A request with vectors of a thousand numbers is then a few megabytes: huge ones time out.
_REQUEST_ROWS = 256
_REQUEST_IDS = 10_000
_TIMEOUT_SECONDS = 60
_LARGEST_ID = 2**64 - 1
_EXACT_TYPES = {"float32", "float16"}
_NOTE_PATH = "A folder is for one process at a time: stop the application while it is changed."
_NOTE_COSINE = "Vectors of a collection with cosine distance are read at unit length."
_NOTE_VECTORS = "Points with several vectors can be hidden but not deleted."


class QdrantConnector:
    """One collection of Qdrant. Ids are whole numbers or UUIDs there and strings here.

    :param client: an open ``qdrant_client.QdrantClient``; left open by `close` unless ``owned``.
    :param address: shown and kept in ledgers.
    :param text_key: payload field of the text.
    :param vector_name: which vector, where points have named ones; None for the only one.
    :param server: whether the client talks to a server, which others may use at the same time;
        None asks the client.
    :raises StoreError: when there is no such collection or vector.
    """

    def __init__(
        self,
        client: Any,
        collection: str,
        *,
        address: str | None = None,
        text_key: str = "text",
        vector_name: str | None = None,
        server: bool | None = None,
        owned: bool = False,
    ) -> None:
        self.client = client
        self.collection = collection
        self._models = require("qdrant_client", extra="qdrant").models
        self._address = address or f"qdrant://client/{collection}"
        self._text_key = text_key
        self._owned = owned
        options = client.init_options
        local = options.get("path") is not None or options.get("location") == ":memory:"
        self._server = not local if server is None else server
        with self._telling("reading its configuration"):
            if not client.collection_exists(collection):
                known = sorted(found.name for found in client.get_collections().collections)
                raise StoreError(
                    f"{self._address}: no such collection; it has {', '.join(known) or 'none'}"
                )
            params = client.get_collection(collection).config.params
        self._using, chosen = self._choose(params.vectors, vector_name)
        named = params.vectors if isinstance(params.vectors, dict) else {"": params.vectors}
        self._deletes = len(named) == 1 and not params.sparse_vectors
        self._unit = chosen.distance == self._models.Distance.COSINE
        kind = chosen.datatype
        self._lossy = kind is not None and kind.value not in _EXACT_TYPES

    @property
    def address(self) -> str:
        """The store and its collection."""
        return self._address

    def capabilities(self) -> Capabilities:
        """What this collection can do."""
        notes = {_NOTE_PATH: not self._server, _NOTE_COSINE: self._unit}
        notes[_NOTE_VECTORS] = not self._deletes
        return Capabilities(
            lossy_vectors=self._lossy,
            deletes=self._deletes,
            several_processes=self._server,
            notes=tuple(note for note, holds in notes.items() if holds),
        )

    def fingerprint(self) -> StoreFingerprint:
        """What it holds now."""
        points = self._scroll(limit=_REQUEST_IDS, with_payload=False, with_vectors=False)
        return ids_fingerprint(unique(str(point.id) for point in points))

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """Every row once, in the order of ids, at most ``size`` at a time."""
        points = self._scroll(
            limit=min(size, _REQUEST_ROWS), with_payload=True, with_vectors=self._wanted()
        )
        return paged((self._row(point) for point in points), min(size, PAGE_ROWS))

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """The rows of these ids, in the order asked."""
        return tuple(row for row, _ in self._get(ids))

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """Hide rows; the ids newly hidden."""
        fields = mark_fields(reason, scan_id, since)
        done: list[str] = []
        for names in self._those(ids, hidden=False):
            with self._telling("writing payloads"):
                self.client.set_payload(
                    self.collection, fields, points=_point_ids(names), wait=True
                )
            done += names
        return tuple(done)

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Serve rows again; the ids that were hidden."""
        done: list[str] = []
        for names in self._those(ids, hidden=True):
            with self._telling("removing payload fields"):
                self.client.delete_payload(
                    self.collection, sorted(RESERVED), points=_point_ids(names), wait=True
                )
            done += names
        return tuple(done)

    def marks(self) -> tuple[Mark, ...]:
        """The rows that are hidden now, by id."""
        points = self._scroll(
            limit=_REQUEST_IDS,
            scroll_filter=self._models.Filter(must=[self._flagged()]),
            with_payload=sorted(RESERVED),
            with_vectors=False,
        )
        found = (mark_of(str(point.id), point.payload or {}) for point in points)
        return tuple(sorted((mark for mark in found if mark), key=lambda mark: mark.id))

    def export(self, ids: Sequence[str]) -> Bundle:
        """The rows with vector, text, metadata, mark and hash."""
        rows = self._get(ids)
        marks = {row.id: mark for row, mark in rows if mark is not None}
        return make_bundle(self.address, [row for row, _ in rows], marks)

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """Remove the rows of a bundle; the ids removed."""
        if not self._deletes:
            raise StoreError(
                f"{self.address}: its points have several vectors, and a bundle keeps one, so it "
                "could not bring them back; hide them instead"
            )
        names = check_deletable(
            self.address, self.fetch([item.row.id for item in bundle.rows]), bundle
        )
        for batch in batched(names, PAGE_ROWS):
            with self._telling("deleting"):
                self.client.delete(self.collection, _point_ids(batch), wait=True)
        return names

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """Bring rows of a bundle back; the ids that were missing."""
        present = self.fetch([item.row.id for item in bundle.rows])
        missing = check_restorable(self.address, present, bundle)
        for batch in batched(missing, _REQUEST_ROWS):
            points = [self._point(item) for item in batch]
            with self._telling("restoring"):
                self.client.upsert(self.collection, points, wait=True)
        return tuple(item.row.id for item in missing)

    def prepare(self) -> None:
        """Nothing to add here; see the contract."""

    def retrieval_filter(self) -> Any:
        """For ``query_filter=`` and ``Filter(must=[...])``: a ``Filter`` with ``must_not``."""
        return self._models.Filter(must_not=[self._flagged()])

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """The nearest served rows, best first, with Qdrant's score."""
        query = query_vector(vector, depth).tolist()
        found = self._search(query, depth)
        if self._server and len(found) < depth:
            # A filtered HNSW index may stop early; the exact search does not.
            found = self._search(query, depth, search_params=self._models.SearchParams(exact=True))
        return tuple((self._row(point), float(point.score)) for point in found)

    def close(self) -> None:
        """Let go of the folder or connection, if it was opened here."""
        if self._owned:
            self._owned = False
            with self._telling("closing"):
                self.client.close()

    def _search(self, query: list[float], depth: int, **options: Any) -> list[Any]:
        with self._telling("searching"):
            answer = self.client.query_points(
                self.collection,
                query=query,
                using=self._using or None,
                query_filter=self.retrieval_filter(),
                limit=depth,
                with_payload=True,
                with_vectors=self._wanted(),
                **options,
            )
        return list(answer.points)

    def _scroll(self, **request: Any) -> Iterator[Any]:
        offset = None
        while True:
            with self._telling("reading points"):
                points, offset = self.client.scroll(self.collection, offset=offset, **request)
            yield from points
            if offset is None:
                return

    def _get(self, ids: Sequence[str]) -> list[tuple[Row, Mark | None]]:
        """The rows that exist, in the order asked."""
        rows: list[tuple[Row, Mark | None]] = []
        known = {name: _point_id(name) for name in unique(ids)}
        asked = [name for name, point in known.items() if point is not None]
        for batch in batched(asked, _REQUEST_ROWS):
            with self._telling("reading points"):
                points = self.client.retrieve(
                    self.collection,
                    _point_ids(batch),
                    with_payload=True,
                    with_vectors=self._wanted(),
                )
            found = {str(point.id): point for point in points}
            rows += [
                (self._row(point), mark_of(name, point.payload or {}))
                for name in batch
                if (point := found.get(name)) is not None
            ]
        return rows

    def _those(self, ids: Sequence[str], *, hidden: bool) -> Iterator[list[str]]:
        """Of these ids the ones that are hidden, or not, in batches."""
        for batch in batched(unique(ids), PAGE_ROWS):
            names = [row.id for row, mark in self._get(batch) if (mark is not None) is hidden]
            if names:
                yield names

    def _row(self, point: Any) -> Row:
        own = own_metadata(point.payload)
        text = ""
        # Anything else under that name stays metadata, so that it comes back as it was.
        if isinstance(own.get(self._text_key), str):
            text = own.pop(self._text_key)
        vector = point.vector
        if isinstance(vector, Mapping):
            vector = vector.get(self._using)
        return Row(str(point.id), text, self._array(vector), own)

    def _array(self, vector: Any) -> FloatArray | None:
        if vector is None:
            return None
        array = np.asarray(vector, dtype=np.float64)
        length = float(np.linalg.norm(array))
        if self._unit and np.isfinite(length) and length > 0:
            # A server does so on writing. A folder gives the first length back once it is opened
            # again, and one row must not be two.
            array = array / length
        return array.astype(np.float32)

    def _point(self, item: BundledRow) -> Any:
        row = item.row
        payload = dict(row.metadata)
        if self._text_key not in payload:
            payload[self._text_key] = row.text
        if item.mark is not None:
            payload |= mark_fields(item.mark.reason, item.mark.scan_id, item.mark.since)
        vector: Any = None if row.vector is None else row.vector.tolist()
        if self._using or vector is None:
            vector = {} if vector is None else {self._using: vector}
        return self._models.PointStruct(id=_point_id(row.id), vector=vector, payload=payload)

    def _wanted(self) -> Any:
        return [self._using] if self._using else True

    def _flagged(self) -> Any:
        return self._models.FieldCondition(key=FLAG, match=self._models.MatchValue(value=True))

    def _choose(self, vectors: Any, name: str | None) -> tuple[str, Any]:
        """Name and parameters of the vector that is read; "" is the name of an unnamed one."""
        named = vectors if isinstance(vectors, Mapping) else {"": vectors} if vectors else {}
        if name is None and len(named) == 1:
            name = next(iter(named))
        if name is None or name not in named:
            known = ", ".join(sorted(key for key in named if key)) or "none with a name"
            raise StoreError(
                f"{self._address}: expected a parameter 'vector' that names one of its vectors: "
                f"{known}"
            )
        if named[name].multivector_config is not None:
            raise StoreError(
                f"{self._address}: the vector {name!r} is many vectors a point; a scan needs one"
            )
        return name, named[name]

    def _telling(self, doing: str) -> Any:
        return telling(self._address, doing)


def open_store(address: StoreAddress) -> Connector:
    """Open a collection; neither folder nor collection is made. A secret is the API key.

    :raises MissingExtraError: without ``qdrant-client``.
    :raises StoreError: when the folder is none of Qdrant's or in use, the server cannot be
        reached, or there is no such collection.
    """
    module = require("qdrant_client", extra="qdrant")
    with telling(address.public, "opening"):
        client = _client(module, address)
        try:
            return QdrantConnector(
                client,
                address.name,
                address=address.public,
                text_key=address.fields.text or "text",
                vector_name=address.option("vector"),
                server=address.path is None,
                owned=True,
            )
        except BaseException:
            client.close()
            raise


def _client(module: Any, address: StoreAddress) -> Any:
    if address.path is not None:
        if not (Path(address.path) / "meta.json").is_file():
            raise StoreError(f"{address.public}: no Qdrant folder there; check the path")
        return module.QdrantClient(path=address.path)
    return module.QdrantClient(
        host=address.host,
        port=address.port or _PORT,
        https=truth_of(address, "https"),
        api_key=address.secret,
        timeout=_TIMEOUT_SECONDS,
        check_compatibility=False,
    )


def _point_id(name: str) -> int | str | None:
    """The id as Qdrant has it; None for a string that is no id there."""
    if name.isascii() and name.isdigit() and str(int(name)) == name and int(name) <= _LARGEST_ID:
        return int(name)
    try:
        uuid.UUID(name)
    except ValueError:
        return None
    return name


def _point_ids(names: Sequence[str]) -> list[int | str]:
    return [point for name in names if (point := _point_id(name)) is not None]
