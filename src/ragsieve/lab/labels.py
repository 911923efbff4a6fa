"""Labels, in a map of their own; the only door through which they enter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragsieve._jsonl import read_jsonl

Labels = Mapping[str, bool]
"""Document id to whether it is poison."""


def read_labels(path: Path | str) -> Labels:
    """Labels of a file of ``document_id`` and ``poison`` rows.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout or contradicts another.
    """
    labels: dict[str, bool] = {}
    for row in read_jsonl(path):
        name = row.identifier("document_id", "id")
        value = row.fields.get("poison")
        if not isinstance(value, bool):
            raise row.error("poison", "expected true or false")
        if labels.setdefault(name, value) is not value:
            raise row.error("poison", f"{name!r} is labelled both ways; keep one row")
    return labels
