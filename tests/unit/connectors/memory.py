"""A store in memory, with every fault that a real one may have."""

from __future__ import annotations

import numpy as np

from ragsieve.connectors.contract import Capabilities, Mark, Row
from ragsieve.connectors.hashing import ids_fingerprint


class MemoryStore:
    address = "memory://docs"

    def __init__(self, rows, *, lossy=False, marks=(), moves=()):
        self.rows = list(rows)
        self.lossy = lossy
        self.marked = tuple(marks)
        self.moves = list(moves)
        self.sizes = []

    def capabilities(self):
        return Capabilities(lossy_vectors=self.lossy)

    def fingerprint(self):
        return ids_fingerprint(row.id for row in self.rows)

    def marks(self):
        return self.marked

    def pages(self, size):
        self.sizes.append(size)
        rows = list(self.rows)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
        # Somebody else writes while it is read.
        if self.moves:
            self.moves.pop(0)(self)


def row(name, text="some text", vector=(1.0, 2.0), **metadata):
    return Row(name, text, None if vector is None else np.asarray(vector, np.float32), metadata)


__all__ = ["Mark", "MemoryStore", "row"]
