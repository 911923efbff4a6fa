"""Parquet shards: a column of embeddings, and texts with what they declare."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.errors import EmbeddingError, InputError
from ragsieve.records import Document, Provenance

EMBEDDING = "embedding"
_DECLARED = ("source", "author", "tenant", "version", "created")
_TEXTS = ("id", "text", "title", *_DECLARED)


def embedding_shape(path: Path) -> tuple[int, int]:
    """Rows and dimension of a shard, from its metadata and its first row.

    :raises EmbeddingError: when it is damaged or has no column ``embedding`` of lists of floats.
    """
    with _opened(path, EmbeddingError) as file:
        rows = int(file.metadata.num_rows)
        _check_column(path, file)
        if not rows:
            return 0, 0
        first = next(file.iter_batches(batch_size=1, columns=[EMBEDDING]))
        return rows, _matrix(path, first.column(0), 0).shape[1]


def embedding_rows(path: Path, start: int, stop: int) -> npt.NDArray[np.floating]:
    """Rows ``start`` to ``stop`` of column ``embedding``; reads the row groups they lie in.

    :returns: shape (stop - start, dimension).
    :raises EmbeddingError: when the file is damaged, or a row is missing or of another length.
    """
    with _opened(path, EmbeddingError) as file:
        _check_column(path, file)
        sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = [at for at, end in enumerate(ends) if end > start and end - sizes[at] < stop]
        if not groups:
            raise EmbeddingError(f"{path}: expected rows {start} to {stop}, found {sum(sizes)}")
        before = int(ends[groups[0]]) - sizes[groups[0]]
        column = file.read_row_groups(groups, columns=[EMBEDDING]).column(0)
        return _matrix(path, column.slice(start - before, stop - start).combine_chunks(), start)


def read_documents(path: Path) -> list[Document]:
    """The texts of a shard, in row order.

    Columns ``id`` and ``text``; optional ``title``, ``source``, ``author``, ``tenant``,
    ``version`` and ``created``; all strings.

    :raises InputError: when the file is damaged, or a column is missing or of another kind.
    """
    with _opened(path, InputError) as file:
        names = [name for name in _TEXTS if name in file.schema_arrow.names]
        for name in ("id", "text"):
            if name not in names:
                raise InputError(f"{path}: column {name!r}: expected strings, found no such column")
        table = file.read(columns=names)
        columns = {name: table.column(name).to_pylist() for name in names}
    for name, values in columns.items():
        needed = name in {"id", "text"}
        for row, value in enumerate(values):
            if not isinstance(value, str) and (needed or value is not None):
                raise InputError(f"{path}: column {name!r}, row {row} (from 0): expected a string")
    rows = len(columns["id"])
    nothing = [None] * rows
    declared = zip(*(columns.get(name, nothing) for name in _DECLARED), strict=True)
    return [
        Document(name, text, title or "", Provenance(*origin))
        for name, text, title, origin in zip(
            columns["id"], columns["text"], columns.get("title", nothing), declared, strict=True
        )
    ]


@contextlib.contextmanager
def _opened(path: Path, kind: type[InputError]) -> Iterator[Any]:
    arrow = require("pyarrow", extra="ray")
    parquet = require("pyarrow.parquet", extra="ray")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except InputError:
        raise
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise kind(f"{path}: expected a Parquet file ({error})") from error


def _check_column(path: Path, file: Any) -> None:
    types = require("pyarrow", extra="ray").types
    schema = file.schema_arrow
    found = schema.field(EMBEDDING).type if EMBEDDING in schema.names else None
    lists = types.is_list, types.is_large_list, types.is_fixed_size_list
    if (
        found is None
        or not any(check(found) for check in lists)
        or not types.is_floating(found.value_type)
    ):
        raise EmbeddingError(
            f"{path}: column {EMBEDDING!r}: expected lists of floats, found "
            f"{'no such column' if found is None else found}"
        )


def _matrix(path: Path, column: Any, first: int) -> npt.NDArray[np.floating]:
    """A column of lists as rows.

    :param first: number of its first row, for errors.
    """
    lengths = require("pyarrow.compute", extra="ray").list_value_length(column)
    sizes = lengths.fill_null(-1).to_numpy(zero_copy_only=False)
    width = int(sizes[0]) if sizes.size else 0
    odd = np.flatnonzero((sizes != width) | (sizes <= 0))
    values = column.flatten()
    if odd.size or values.null_count:
        row = first + (int(odd[0]) if odd.size else 0)
        raise EmbeddingError(
            f"{path}: column {EMBEDDING!r}, from row {row} (from 0): expected equally long lists "
            "without gaps; embed these rows again"
        )
    matrix: npt.NDArray[np.floating] = values.to_numpy(zero_copy_only=False).reshape(-1, width)
    return matrix
