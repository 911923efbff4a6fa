"""Context files that carry labels: contexts without them, and the labels beside.

The runtime's reader never reads a field ``poison``; this one reads it for the lab.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row, read_jsonl
from ragsieve.files.contexts import ContextRow, read_contexts
from ragsieve.lab.labels import Labels
from ragsieve.records import Provenance

_FIELD = "poison"
_DECLARED = frozenset(field.name for field in dataclasses.fields(Provenance))


def read_labelled_contexts(path: Path | str) -> tuple[tuple[ContextRow, ...], Labels]:
    """Contexts, and what the file says about their documents, by id.

    Of the documents' metadata only declared provenance stays: published files repeat the
    label there.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout, or a document labelled both ways.
    """
    contexts = tuple(_without_labels(row) for row in read_contexts(path))
    return contexts, _labels(path)


def _without_labels(row: ContextRow) -> ContextRow:
    metadata = {name: _declared(values) for name, values in row.metadata.items()}
    return dataclasses.replace(row, metadata=metadata)


def _declared(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in metadata.items() if name in _DECLARED}


def _labels(path: Path | str) -> Labels:
    labels: dict[str, bool] = {}
    for row in read_jsonl(path):
        for place, item in enumerate(row.objects("documents")):
            value = _label(row, item, f"documents[{place}].{_FIELD}")
            name = item.identifier("id", "document_id")
            if value is not None and labels.setdefault(name, value) is not value:
                raise row.error(
                    f"documents[{place}].{_FIELD}", f"{name!r} is labelled both ways; keep one"
                )
    return labels


def _label(row: Row, item: Row, field: str) -> bool | None:
    value = item.fields.get(_FIELD)
    if value is not None and not isinstance(value, bool):
        raise row.error(field, "expected true or false")
    return value
