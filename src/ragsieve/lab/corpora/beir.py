"""Folders as the BEIR collection has them: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/*.tsv``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ragsieve._jsonl import Row, read_jsonl
from ragsieve.errors import InputError, RecordError
from ragsieve.lab.corpora._rows import answers_of
from ragsieve.lab.corpora.records import Dataset, Loaded
from ragsieve.records import Document, Query

_COLUMNS = ("query-id", "corpus-id", "score")
_PREFERRED = "test"


def read_beir(folder: Path | str, *, split: str | None = None) -> Loaded:
    """Documents, and the questions that ``qrels/<split>.tsv`` finds relevant documents for.

    :param split: when None, ``test`` where there is one, else the only file.
    :raises InputError: when a file is missing, cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout, repeats an id, or names a document
        or a question that is not there.
    """
    root = Path(folder)
    documents = {row.identifier("_id"): _document(row) for row in _unique(root / "corpus.jsonl")}
    asked = {row.identifier("_id"): row for row in _unique(root / "queries.jsonl")}
    relevant = _judgements(_split_file(root, split), documents, asked)
    rows = {name: row for name, row in asked.items() if name in relevant}
    dataset = Dataset(
        name=root.resolve().name,
        documents=tuple(documents.values()),
        queries=tuple(Query(name, row.text("text")) for name, row in rows.items()),
        targets=(),
        answers={name: _answers(row) for name, row in rows.items()},
        relevant=relevant,
    )
    return Loaded(dataset, {})


def _unique(path: Path) -> Iterator[Row]:
    seen: set[str] = set()
    for row in read_jsonl(path):
        name = row.identifier("_id")
        if name in seen:
            raise row.error("_id", f"{name!r} stands twice; ids are unique")
        seen.add(name)
        yield row


def _document(row: Row) -> Document:
    return Document(row.identifier("_id"), row.text("text"), row.text("title", default=""))


def _answers(row: Row) -> tuple[str, ...]:
    """Only some of the collections keep answers, in the metadata of a question."""
    metadata = row.fields.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("answer") is None:
        return ()
    return answers_of(Row(row.path, row.line, metadata), "answer")


def _split_file(root: Path, split: str | None) -> Path:
    found = sorted((root / "qrels").glob("*.tsv"))
    names = [path.stem for path in found]
    if split is None and len(found) == 1:
        return found[0]
    wanted = split or _PREFERRED
    if wanted not in names:
        there = ", ".join(names) or "none"
        raise InputError(f"{root / 'qrels'}: expected {wanted}.tsv, found {there}; name a split")
    return found[names.index(wanted)]


def _judgements(
    path: Path, documents: Collection[str], queries: Collection[str]
) -> Mapping[str, frozenset[str]]:
    relevant: defaultdict[str, set[str]] = defaultdict(set)
    for line, (query, document, score) in _table(path):
        for column, name, known in (
            (_COLUMNS[0], query, queries),
            (_COLUMNS[1], document, documents),
        ):
            if name not in known:
                raise RecordError(path, line, column, f"no record has the id {name!r}")
        try:
            judged = float(score)
        except ValueError:
            raise RecordError(
                path, line, _COLUMNS[2], f"expected a number, found {score!r}"
            ) from None
        if judged > 0:
            relevant[query].add(document)
    if not relevant:
        raise InputError(f"{path}: judges no document relevant; expected at least one")
    return {query: frozenset(names) for query, names in relevant.items()}


def _table(path: Path) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """Lines of three tab-separated columns; a heading is passed over."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    for number, raw in enumerate(lines, start=1):
        try:
            cells = raw.decode("utf-8-sig").rstrip("\r").split("\t")
        except UnicodeDecodeError as error:
            raise RecordError(path, number, None, "expected UTF-8; convert the file") from error
        if cells == [""] or (number == 1 and tuple(cells) == _COLUMNS):
            continue
        if len(cells) != len(_COLUMNS):
            raise RecordError(
                path, number, None, f"expected {len(_COLUMNS)} columns, found {len(cells)}"
            )
        yield number, (cells[0], cells[1], cells[2])
