"""Embeddings in immutable files: which rows stand where, and whether they are still the same."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import platform
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragsieve.cluster.executors import Executor, SerialExecutor
from ragsieve.cluster.parquet import embedding_rows, embedding_shape
from ragsieve.errors import ConfigError, EmbeddingError

SUFFIXES = (".npy", ".parquet")
FINGERPRINTS = ("contents", "ends")
_END_BYTES = 1 << 16

# What numpy raises over damaged headers.
_UNREADABLE = (
    OSError, ValueError, EOFError, TypeError, OverflowError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip

Fingerprint = Literal["contents", "ends"]


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """One file of embedding rows.

    :param path: absolute, the same on every machine.
    :param first: the corpus row of the file's first row.
    :param rows: at least 1.
    :param file_bytes: of the whole file.
    :param ends: hash of the file's first and last 64 KiB, checked whenever rows are read.
    :param fingerprint: what tells the file from another version of it.
    """

    path: str
    first: int
    rows: int
    dimension: int
    file_bytes: int
    ends: str
    fingerprint: str

    def read(self, start: int, stop: int) -> npt.NDArray[np.floating]:
        """Rows ``start`` to ``stop`` of the file, contiguous, as they were stored.

        :raises EmbeddingError: when the file is not the one that was surveyed, or damaged.
        """
        path = Path(self.path)
        try:
            same = (path.stat().st_size, _ends(path)) == (self.file_bytes, self.ends)
        except OSError as error:
            raise EmbeddingError(
                f"{path}: cannot be read on {_machine()} ({error.strerror}); "
                "keep shards on storage that every worker sees under this path"
            ) from error
        if not same:
            raise EmbeddingError(
                f"{path}: on {_machine()} this is not the file the plan was made from; shards "
                "must not change, and every worker has to see the same ones"
            )
        if path.suffix == ".parquet":
            rows = embedding_rows(path, start, stop)
        else:
            rows = np.ascontiguousarray(_opened(path)[start:stop])
        if rows.shape != (stop - start, self.dimension):
            raise EmbeddingError(
                f"{path}: expected rows of {self.dimension} numbers, found {rows.shape}; "
                "embed all documents with one encoder"
            )
        return rows


def find_shards(path: Path | str) -> tuple[Path, ...]:
    """The files of an embedding, in row order: one file, or a folder's files by name.

    :raises EmbeddingError: when there is none, or a folder mixes layouts.
    """
    source = Path(path).resolve()
    if source.is_file() and source.suffix in SUFFIXES:
        return (source,)
    if not source.is_dir():
        raise EmbeddingError(
            f"{path}: expected a .npy or .parquet file, or a folder of either, found neither"
        )
    found = sorted(
        (
            one
            for one in source.iterdir()
            if one.suffix in SUFFIXES and not one.name.startswith(".")
        ),
        key=lambda one: one.name,
    )
    kinds = {one.suffix for one in found}
    if len(kinds) != 1:
        problem = "both" if kinds else "neither"
        raise EmbeddingError(
            f"{path}: expected a folder of .npy or of .parquet shards, found {problem}"
        )
    return tuple(found)


def survey(
    path: Path | str,
    *,
    fingerprint: Fingerprint = "contents",
    executor: Executor | None = None,
) -> tuple[Shard, ...]:
    """Look at every shard: shape and fingerprint. Files without a row are left out.

    :param fingerprint: ``contents`` hashes whole files; ``ends`` size, time of change and the
        first and last 64 KiB, which misses a change inside a file whose time was reset.
    :param executor: where whole files are hashed; in this process when None.
    :raises EmbeddingError: when a file is unreadable, or shards differ in dimension.
    :raises ConfigError: for another fingerprint.
    """
    if fingerprint not in FINGERPRINTS:
        raise ConfigError(
            f"fingerprint: expected {' or '.join(FINGERPRINTS)}, found {fingerprint!r}"
        )
    paths = [str(one) for one in find_shards(path)]
    looked = dict((executor or SerialExecutor()).run(functools.partial(_look, fingerprint), paths))
    shards: list[Shard] = []
    first = 0
    for number in range(len(paths)):
        one = looked[number]
        if not one.rows:
            continue
        if shards and one.dimension != shards[0].dimension:
            raise EmbeddingError(
                f"{one.path}: has rows of {one.dimension} numbers, {shards[0].path} of "
                f"{shards[0].dimension}; embed all documents with one encoder"
            )
        shards.append(dataclasses.replace(one, first=first))
        first += one.rows
    if not shards:
        raise EmbeddingError(f"{path}: expected at least one embedding row, found none")
    return tuple(shards)


def embeddings_digest(shards: Sequence[Shard]) -> str:
    """SHA-256 over what the rows are, wherever the files stand and however they are called."""
    digest = hashlib.sha256()
    for one in shards:
        digest.update(f"{one.rows} {one.dimension} {one.fingerprint}\n".encode())
    return digest.hexdigest()


def _look(fingerprint: str, name: str) -> Shard:
    path = Path(name)
    rows, dimension = embedding_shape(path) if path.suffix == ".parquet" else _shape(path)
    try:
        facts, ends = path.stat(), _ends(path)
        if fingerprint == "contents":
            with path.open("rb") as handle:
                mark = hashlib.file_digest(handle, "sha256").hexdigest()
        else:
            mark = f"{facts.st_size}-{facts.st_mtime_ns}-{ends}"
    except OSError as error:
        raise EmbeddingError(f"{path}: cannot be read ({error.strerror})") from error
    return Shard(name, 0, rows, dimension, facts.st_size, ends, mark)


def _ends(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        digest.update(handle.read(_END_BYTES))
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, size - _END_BYTES))
        digest.update(handle.read(_END_BYTES))
    return digest.hexdigest()


def _shape(path: Path) -> tuple[int, int]:
    rows = _opened(path)
    if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.floating):  # noqa: PLR2004 -- a matrix
        raise EmbeddingError(
            f"{path}: expected floats of shape (rows, dimension), found {rows.dtype} of {rows.shape}"
        )
    return rows.shape[0], rows.shape[1]


def _opened(path: Path) -> npt.NDArray[Any]:
    try:
        # Reads the plain array format alone: neither archives nor pickled objects.
        return np.lib.format.open_memmap(path, mode="r")
    except _UNREADABLE as error:
        raise EmbeddingError(f"{path}: expected a .npy file of floats ({error})") from error


def _machine() -> str:
    return platform.node()
