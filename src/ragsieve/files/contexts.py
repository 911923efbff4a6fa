"""Context files: what each query retrieved, best first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row, read_jsonl
from ragsieve.errors import InputError
from ragsieve.files.corpus import document_of, metadata_of
from ragsieve.outcomes import Outcome
from ragsieve.records import RankedDocument, Ranking

_CARRIED = ("dataset", "encoder", "condition")


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """Opaque fields that go from a context to its predictions; no detector sees them."""

    dataset: str | None = None
    encoder: str | None = None
    condition: str | None = None

    def fields(self) -> dict[str, str]:
        """Those that are present."""
        values = ((name, getattr(self, name)) for name in _CARRIED)
        return {name: value for name, value in values if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class ContextRow:
    """One line of a context file.

    :param metadata: each document's metadata object, by id, carried through unread.
    :param quarantined_ids: documents an earlier quarantine took out of this ranking.
    """

    ranking: Ranking
    carried: Carried = Carried()
    metadata: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    quarantined_ids: tuple[str, ...] = ()


def read_contexts(path: Path | str) -> tuple[ContextRow, ...]:
    """Rankings of a context file, in file order; unknown fields are not read.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout, ranks out of order, or a query
        that repeats under the same dataset, encoder and condition.
    """
    rows = []
    seen: set[tuple[str, Carried]] = set()
    for row in read_jsonl(path):
        context = _context_of(row)
        key = (context.ranking.query_id, context.carried)
        if key in seen:
            raise row.error("query_id", f"{key[0]!r} stands twice under the same condition")
        seen.add(key)
        rows.append(context)
    return tuple(rows)


def find_context(rows: tuple[ContextRow, ...], query_id: str) -> ContextRow:
    """The first context of a query.

    :raises InputError: when there is none.
    """
    for row in rows:
        if row.ranking.query_id == query_id:
            return row
    raise InputError(f"no context has query_id {query_id!r}")


def context_fields(row: ContextRow) -> dict[str, Any]:
    """A context as one JSON object."""
    fields: dict[str, Any] = {"query_id": row.ranking.query_id, "query": row.ranking.query}
    fields |= row.carried.fields()
    fields["documents"] = [_entry_fields(entry, row.metadata) for entry in row.ranking.entries]
    if row.quarantined_ids:
        fields["quarantined_document_ids"] = list(row.quarantined_ids)
    return fields


def refilled_fields(row: ContextRow, outcome: Outcome) -> dict[str, Any]:
    """The context a generator should see, with what was removed from it and why."""
    kept = dataclasses.replace(row, ranking=outcome.ranking.renumbered(outcome.kept))
    fields = context_fields(kept)
    fields["removed_document_ids"] = list(outcome.removed_ids)
    fields["trace"] = [step.fields() for step in outcome.trace]
    return fields


def _entry_fields(
    entry: RankedDocument, metadata: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    document = entry.document
    fields: dict[str, Any] = {"id": document.id, "rank": entry.rank}
    if document.title:
        fields["title"] = document.title
    fields["text"] = document.text
    if entry.similarity is not None:
        fields["similarity"] = entry.similarity
    if metadata.get(document.id):
        fields["metadata"] = dict(metadata[document.id])
    return fields


def _context_of(row: Row) -> ContextRow:
    entries = []
    metadata = {}
    for place, item in enumerate(row.objects("documents"), start=1):
        rank = item.integer("rank")
        if rank != place:
            raise row.error(
                f"documents[{place - 1}].rank",
                f"expected {place}, found {rank}; ranks count from 1 in the order of the list",
            )
        document = document_of(item)
        entries.append(RankedDocument(document, rank, item.number("similarity")))
        metadata[document.id] = metadata_of(item)
    carried = Carried(**{name: _optional_text(row, name) for name in _CARRIED})
    ranking = Ranking(
        query_id=row.identifier("query_id"), query=row.text("query"), entries=tuple(entries)
    )
    return ContextRow(ranking, carried, metadata, row.strings("quarantined_document_ids"))


def _optional_text(row: Row, field: str) -> str | None:
    return None if row.fields.get(field) is None else row.text(field)
