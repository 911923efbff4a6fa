"""Question files with reference answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragsieve._jsonl import read_jsonl
from ragsieve.lab.corpora._rows import answers_of
from ragsieve.records import Query


def read_questions(
    path: Path | str,
) -> tuple[tuple[Query, ...], Mapping[str, tuple[str, ...]]]:
    """Questions in file order, and their reference answers by id; none where a row has none.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout or repeats an id.
    """
    queries: dict[str, Query] = {}
    answers: dict[str, tuple[str, ...]] = {}
    for row in read_jsonl(path):
        name = row.identifier("id", "query_id")
        if name in queries:
            raise row.error("id", f"{name!r} stands twice; ids are unique")
        queries[name] = Query(name, row.text("text"))
        absent = row.fields.get("answers") is None
        answers[name] = () if absent else answers_of(row, "answers")
    return tuple(queries.values()), answers
