"""Corpus and query files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row, read_jsonl, to_json
from ragsieve.records import Document, Provenance, Query


def read_corpus(path: Path | str) -> tuple[Document, ...]:
    """Documents of a corpus file, in file order.

    A row holds ``id`` (or ``document_id``), ``text``, optional ``title`` and ``metadata``
    {source, author, tenant, version, created}. Other fields are not read.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout or repeats an id.
    """
    documents = []
    first_line: dict[str, int] = {}
    for row in read_jsonl(path):
        document = document_of(row)
        if document.id in first_line:
            earlier = first_line[document.id]
            raise row.error(
                "id", f"{document.id!r} already stands in line {earlier}; ids are unique"
            )
        first_line[document.id] = row.line
        documents.append(document)
    return tuple(documents)


def read_queries(path: Path | str) -> tuple[Query, ...]:
    """Queries of a query file, in file order; only ``id`` and ``text`` are read.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout or repeats an id.
    """
    queries = []
    seen: set[str] = set()
    for row in read_jsonl(path):
        name = row.identifier("id", "query_id")
        if name in seen:
            raise row.error("id", f"{name!r} stands twice; ids are unique")
        seen.add(name)
        queries.append(Query(name, row.text("text")))
    return tuple(queries)


def document_of(row: Row) -> Document:
    """The document in a row of a corpus or of a context.

    :raises RecordError: when a field breaks the layout.
    """
    return Document(
        id=row.identifier("id", "document_id"),
        text=row.text("text"),
        title=row.text("title", default=""),
        provenance=_provenance(row),
    )


def metadata_of(row: Row) -> Mapping[str, Any]:
    """The opaque metadata object of a row; empty when there is none.

    :raises RecordError: when it is not an object.
    """
    value = row.fields.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise row.error("metadata", "expected an object")
    try:
        to_json(value).encode("utf-8")
    except ValueError as error:
        # What cannot be written again is refused now, not after the work.
        raise row.error(
            "metadata", f"expected valid Unicode and finite numbers ({error})"
        ) from error
    return value


def corpus_hash(documents: Sequence[Document]) -> str:
    """SHA-256 over ids and contents in order; changes whenever an embedding could."""
    digest = hashlib.sha256()
    for document in documents:
        for part in (document.id, document.content):
            raw = part.encode("utf-8")
            digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


def _provenance(row: Row) -> Provenance:
    declared = metadata_of(row)

    def field(name: str) -> str | None:
        value = declared.get(name)
        return None if value is None else str(value)

    return Provenance(
        field("source"), field("author"), field("tenant"), field("version"), field("created")
    )
