"""A frozen copy of a collection: what a scan reads, so that nothing moves under it."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ragsieve._atomic import write_text
from ragsieve._jsonl import read_jsonl, to_json, write_jsonl
from ragsieve.connectors.address import Fields
from ragsieve.connectors.contract import PAGE_ROWS, Connector, Row, StoreFingerprint
from ragsieve.connectors.hashing import ids_fingerprint
from ragsieve.connectors.rowchecks import HIDDEN, REPEATED, Excluded, examine
from ragsieve.connectors.values import decoded, encoded
from ragsieve.display import visible
from ragsieve.errors import InputError, OutputError, StoreError
from ragsieve.records import Document

CORPUS = "corpus.jsonl"
EMBEDDINGS = "embeddings.npy"
EXCLUDED = "excluded.jsonl"
MANIFEST = "snapshot.json"
_FORMAT = "ragsieve-snapshot/1"
_READINGS = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A collection as it was read, in a folder.

    ``corpus.jsonl`` and ``embeddings.npy`` (float32, one row a document) are files that every
    command takes; ``excluded.jsonl`` names the rows that are in neither.

    :param address: of the store, without secrets.
    :param fingerprint: of all rows of the store, the excluded ones too.
    :param documents: how many were kept.
    :param dimension: of their vectors; 0 without documents.
    :param lossy: whether the store's vectors are not those that were put in.
    :param embedding_version: model and settings behind the vectors; None when nobody said.
    :param partial: whether the collection changed while it was read: rows may be missing.
    :param excluded: the rows left out, in the order they were read.
    :param remarks: what was odd about rows that were kept, with how many.
    :param taken: when reading ended, in UTC.
    """

    folder: Path
    address: str
    fingerprint: StoreFingerprint
    documents: int
    dimension: int
    lossy: bool
    embedding_version: str | None
    partial: bool
    excluded: tuple[Excluded, ...]
    remarks: tuple[tuple[str, int], ...]
    taken: datetime.datetime

    @property
    def corpus_path(self) -> Path:
        """The documents."""
        return self.folder / CORPUS

    @property
    def embeddings_path(self) -> Path:
        """Their vectors, in the same order."""
        return self.folder / EMBEDDINGS

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Why rows were left out, with how many."""
        return tuple(sorted(collections.Counter(e.reason for e in self.excluded).items()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a scan of this snapshot has to know, a sentence each."""
        notes = [
            f"{count} rows were left out and not judged: {why}." for why, count in self.reasons
        ]
        notes += [f"{count} rows were kept: {what}." for what, count in self.remarks]
        if self.partial:
            notes.append("The collection changed while it was read: this is a part of it.")
        if self.lossy:
            notes.append("The store changes vectors: similarities are approximate.")
        return tuple(notes)

    def embeddings(self) -> npt.NDArray[np.float32]:
        """The vectors, shape (documents, dimension), memory-mapped, read only."""
        # numpy maps no file without bytes.
        if not self.documents:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.lib.format.open_memmap(self.embeddings_path, mode="r")


def take_snapshot(
    connector: Connector,
    folder: Path | str,
    *,
    fields: Fields = Fields(),
    embedding_version: str | None = None,
    skip_hidden: bool = False,
    allow_moving: bool = False,
    page_rows: int = PAGE_ROWS,
) -> Snapshot:
    """Copy a collection into a new folder, one page in memory at a time.

    Its ids are compared before, while and after reading. When they differ it is read once
    more, and then refused. A text that is rewritten under its id meanwhile is not noticed.

    :param folder: must not exist; it appears when the copy is complete.
    :param fields: where title and provenance stand in the metadata.
    :param skip_hidden: leave rows out that are hidden now.
    :param allow_moving: take what was read although the collection changed, and say so.
    :raises StoreError: when the collection cannot be read or keeps changing.
    :raises OutputError: when the folder exists or cannot be written.
    """
    target = Path(folder)
    if target.exists():
        raise OutputError(f"{target}: exists already; choose a new folder")
    with _beside(target) as work:
        for reading in range(1, _READINGS + 1):
            before = connector.fingerprint()
            hidden = {mark.id for mark in connector.marks()} if skip_hidden else set()
            copy = _read(connector, work, fields, frozenset(hidden), page_rows)
            moved = not before == copy.fingerprint == connector.fingerprint()
            if not moved or (allow_moving and reading == _READINGS):
                break
        else:
            raise StoreError(
                f"{connector.address}: rows came or went while it was read, twice. Scan when "
                "nothing writes to it, or scan a copy; with --allow-moving the snapshot is taken "
                "all the same and says that it is a part"
            )
        snapshot = dataclasses.replace(
            copy,
            folder=target,
            embedding_version=embedding_version,
            partial=moved,
            taken=datetime.datetime.now(datetime.UTC),
        )
        write_text(work / MANIFEST, json.dumps(_manifest(snapshot), indent=2) + "\n")
        try:
            work.rename(target)
        except OSError as error:
            raise OutputError(f"{target}: cannot be made ({error.strerror})") from error
    return snapshot


def open_snapshot(folder: Path | str) -> Snapshot:
    """The snapshot in a folder.

    :raises InputError: when there is none, or its files do not fit each other.
    """
    home = Path(folder)
    path = home / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        _expect(manifest["format"] == _FORMAT, f"expected format {_FORMAT!r}")
        excluded: tuple[Excluded, ...] = ()
        if manifest["excluded"]:
            excluded = tuple(
                Excluded(str(decoded(line.fields["id"])), line.text("reason"))
                for line in read_jsonl(home / EXCLUDED)
            )
        snapshot = Snapshot(
            home,
            manifest["address"],
            StoreFingerprint(**manifest["fingerprint"]),
            manifest["documents"],
            manifest["dimension"],
            manifest["lossy"],
            manifest["embedding_version"],
            manifest["partial"],
            excluded,
            tuple((str(what), int(count)) for what, count in manifest["remarks"]),
            datetime.datetime.fromisoformat(manifest["taken"]),
        )
        shape = snapshot.embeddings().shape
        _expect(
            shape == (snapshot.documents, snapshot.dimension)
            and [list(pair) for pair in snapshot.reasons] == manifest["excluded"],
            "its files are not those it was written with",
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: expected a snapshot ({error}); take it again") from error
    return snapshot


def _expect(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _read(
    connector: Connector, work: Path, fields: Fields, hidden: frozenset[str], page_rows: int
) -> Snapshot:
    """One reading of all rows, with the dimension that most of them have."""
    dimension: int | None = None
    for _ in range(2):
        copier = _Copier(work, fields, hidden, dimension)
        copier.take(row for page in connector.pages(page_rows) for row in page)
        dimension = copier.usual_dimension
        if dimension == copier.dimension:
            break
        # The first vector was not like the rest: once more, with the dimension that most have.
    return Snapshot(
        folder=work,
        address=connector.address,
        fingerprint=ids_fingerprint(copier.ids),
        documents=copier.documents,
        dimension=copier.dimension or 0,
        lossy=connector.capabilities().lossy_vectors,
        embedding_version=None,
        partial=False,
        excluded=tuple(copier.excluded),
        remarks=tuple(sorted(copier.remarks.items())),
        taken=datetime.datetime.now(datetime.UTC),
    )


class _Copier:
    """Writes the files of a snapshot, row by row."""

    def __init__(
        self, work: Path, fields: Fields, hidden: frozenset[str], dimension: int | None
    ) -> None:
        self.work, self.fields, self.hidden = work, fields, hidden
        self.dimension = dimension
        self.documents = 0
        self.ids: list[str] = []
        self.excluded: list[Excluded] = []
        self.remarks: collections.Counter[str] = collections.Counter()
        self._dimensions: collections.Counter[int] = collections.Counter()
        self._seen: set[str] = set()

    @property
    def usual_dimension(self) -> int | None:
        """The dimension that most vectors have; of equals the one that came first."""
        found = self._dimensions.most_common(1)
        return found[0][0] if found else None

    def take(self, rows: Iterable[Row]) -> None:
        """Write documents and vectors side by side.

        :raises OutputError: when the disk is full, for example.
        """
        try:
            with (self.work / EMBEDDINGS).open("wb") as vectors:
                _write_header(vectors, 0, self.dimension or 0)
                room = vectors.tell()
                write_jsonl(self.work / CORPUS, self._documents(rows, vectors))
                vectors.seek(0)
                _write_header(vectors, self.documents, self.dimension or 0)
                _expect(vectors.tell() == room, "the head of the array file grew")
        except OutputError:
            raise
        except OSError as error:
            raise OutputError(f"{self.work}: cannot be written ({error.strerror})") from error
        write_jsonl(
            self.work / EXCLUDED,
            ({"id": encoded(item.id), "reason": item.reason} for item in self.excluded),
        )

    def _documents(self, rows: Iterable[Row], vectors: BinaryIO) -> Iterator[dict[str, Any]]:
        for row in rows:
            self.ids.append(row.id)
            if row.vector is not None and row.vector.ndim == 1 and row.vector.size:
                self._dimensions[row.vector.size] += 1
                if self.dimension is None:
                    self.dimension = row.vector.size
            kept = self._judged(row)
            if isinstance(kept, Excluded):
                self.excluded.append(kept)
                continue
            self.documents += 1
            self.remarks.update(kept.remarks)
            vectors.write(kept.vector.astype("<f4").tobytes())
            yield _line(kept.document)

    def _judged(self, row: Row) -> Any:
        if row.id in self._seen:
            return Excluded(row.id, REPEATED)
        self._seen.add(row.id)
        if row.id in self.hidden:
            return Excluded(row.id, HIDDEN)
        return examine(row, self.fields, self.dimension or 0)


def _line(document: Document) -> dict[str, Any]:
    declared = {
        name: value
        for name, value in dataclasses.asdict(document.provenance).items()
        if value is not None
    }
    line: dict[str, Any] = {"id": document.id, "text": document.text}
    if document.title:
        line["title"] = document.title
    if declared:
        line["metadata"] = declared
    return line


def _write_header(handle: BinaryIO, rows: int, dimension: int) -> None:
    """The head of a float32 array file; numpy leaves room for the number of rows to grow."""
    head = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(handle, head)


def _manifest(snapshot: Snapshot) -> dict[str, Any]:
    manifest = {
        "format": _FORMAT,
        "address": snapshot.address,
        "fingerprint": dataclasses.asdict(snapshot.fingerprint),
        "documents": snapshot.documents,
        "dimension": snapshot.dimension,
        "lossy": snapshot.lossy,
        "embedding_version": snapshot.embedding_version,
        "partial": snapshot.partial,
        "excluded": [list(pair) for pair in snapshot.reasons],
        "remarks": [list(pair) for pair in snapshot.remarks],
        "taken": snapshot.taken.isoformat(),
    }
    to_json(manifest)
    return manifest


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A folder beside ``target``, removed unless it was renamed."""
    try:
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    except OSError as error:
        raise OutputError(
            f"{visible(str(target))}: cannot be written ({error.strerror}); choose an existing, "
            "writable folder"
        ) from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
