"""Attack files: what was planted for which question; labels come out as a map of their own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ragsieve._jsonl import Row, read_jsonl
from ragsieve.files.corpus import document_of
from ragsieve.records import Document


@dataclasses.dataclass(frozen=True, slots=True)
class AttackTarget:
    """The planted documents of one question."""

    query_id: str
    query: str
    attack: str
    target_answer: str
    documents: tuple[Document, ...]


def read_attacks(path: Path | str) -> tuple[AttackTarget, ...]:
    """Targets of an attack file, in file order.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout.
    """
    return tuple(
        AttackTarget(
            row.identifier("query_id"),
            row.text("query"),
            row.text("attack"),
            _answer(row),
            tuple(document_of(item) for item in row.objects("documents")),
        )
        for row in read_jsonl(path)
    )


def _answer(row: Row) -> str:
    # Published files write years and counts as numbers.
    value = row.fields.get("target_answer")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else row.text("target_answer")
