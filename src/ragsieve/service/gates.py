"""The two things new documents are judged against: a scan's state, and a live index."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.gate import IngestGate
from ragsieve.errors import InputError
from ragsieve.features.knowledge import Snapshot
from ragsieve.files.segments import SegmentFolder
from ragsieve.live.index import LiveIndex, Rule
from ragsieve.live.store import LiveStore
from ragsieve.records import Document, FloatArray, NeighborGraph, Scan


class StateGate:
    """Judges by the statistics of a scan, which stay as they are."""

    against: Literal["state"] = "state"

    def __init__(self, gate: IngestGate, snapshot: Snapshot) -> None:
        self._gate, self._snapshot = gate, snapshot

    @property
    def encoder(self) -> str:
        """Of the state's vectors."""
        return self._snapshot.encoder

    def judge(self, documents: Sequence[Document], rows: FloatArray) -> Scan:
        """The scan of the new documents alone.

        :raises InputError: for an id that the state holds already, or repeated.
        :raises EmbeddingError: for rows that do not fit.
        """
        return self._gate.judge(self._snapshot, documents, rows)


class LiveGate:
    """Judges as the live index would once it took the documents in, and takes none in.

    They enter a copy in memory, are judged and leave it. Statistics are those in force: they
    are not estimated anew for documents that may never come. The newest version on disk is
    read when there is one; texts of the index are not kept, so that it names no encoder.
    """

    against: Literal["live"] = "live"
    encoder = ""

    def __init__(self, path: Path, rule: Rule) -> None:
        self._store, self._folder = LiveStore(path, rule), SegmentFolder(path)
        self._version: int | None = None
        self._index: LiveIndex | None = None
        self._newest()

    def __len__(self) -> int:
        return len(self._newest())

    def judge(self, documents: Sequence[Document], rows: FloatArray) -> Scan:
        """The scan of the new documents alone.

        :raises InputError: for an id that the index holds already, or repeated.
        :raises EmbeddingError: for rows that do not fit.
        """
        index = self._newest()
        changed = index.changed
        index.add(documents, rows)
        try:
            found = index.scan()
        finally:
            index.remove([one.id for one in documents])
            index.changed = changed
        return _last(found, len(documents))

    def _newest(self) -> LiveIndex:
        newest = self._folder.newest()
        number = None if newest is None else newest.number
        if self._index is None or number != self._version:
            self._index = self._store.open(number)
            self._index.drift_share = math.inf
            self._version = number
        return self._index


def rows_of(
    documents: Sequence[Document], given: Sequence[Sequence[float] | None], dimension: int | None
) -> npt.NDArray[np.float64]:
    """Vectors as rows.

    :param dimension: that all must have; that of the first when None.
    :raises InputError: for one that is missing or of another length.
    """
    wanted = dimension
    for place, row in enumerate(given):
        if row is None:
            raise InputError(f"documents[{place}].embedding: expected a vector, found nothing")
        wanted = wanted or len(row)
        if len(row) != wanted:
            raise InputError(
                f"documents[{place}].embedding: expected {wanted} numbers, found {len(row)}"
            )
    return np.array(given, dtype=np.float64).reshape(len(documents), -1)


def _last(scan: Scan, count: int) -> Scan:
    """The last documents of a scan, as the scan of a batch gives them."""
    first = len(scan) - count
    graph = NeighborGraph(scan.graph.indices[first:], scan.graph.similarities[first:])
    columns = tuple(
        dataclasses.replace(
            column,
            values=column.values[first:],
            probabilities=None if column.probabilities is None else column.probabilities[first:],
            components=tuple((name, values[first:]) for name, values in column.components),
        )
        for column in scan.evidences
    )
    return dataclasses.replace(
        scan,
        document_ids=scan.document_ids[first:],
        evidences=columns,
        scores=scan.scores[first:],
        decisions=scan.decisions[first:],
        levels=scan.levels[first:],
        graph=graph,
        truncated_characters=scan.truncated_characters[first:],
        knowledge=None,
        earlier_ids=scan.document_ids[:first],
    )
