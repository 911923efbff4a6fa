"""A store in memory that keeps the contract, and can be told to die at a moment."""

from __future__ import annotations

import dataclasses

import numpy as np

from ragsieve.connectors.contract import Capabilities, Mark, Row
from ragsieve.connectors.exchange import check_deletable, check_restorable, make_bundle
from ragsieve.connectors.hashing import ids_fingerprint
from ragsieve.errors import StoreError


class Died(BaseException):
    """Stands for a process that was killed: nothing catches it."""


class MemoryStore:
    """One collection.

    :param rows: in order.
    :param die: ``before`` or ``after`` the next change it raises `Died`; ``fail`` a `StoreError`.
    """

    def __init__(self, rows=(), address="memory:///docs", *, capabilities=None):
        self.rows = {row.id: row for row in rows}
        self.hidden = {}
        self.address = address
        self.die = None
        self.changes = 0
        self._capabilities = capabilities or Capabilities()

    def _changing(self, change):
        self.changes += 1
        die, self.die = self.die, None
        if die == "fail":
            raise StoreError(f"{self.address}: gone; start it and call again")
        if die == "before":
            raise Died
        done = change()
        if die == "after":
            raise Died
        return done

    def capabilities(self):
        return self._capabilities

    def fingerprint(self):
        return ids_fingerprint(self.rows)

    def pages(self, size=1000):
        rows = list(self.rows.values())
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def fetch(self, ids):
        return tuple(self.rows[name] for name in ids if name in self.rows)

    def quarantine(self, ids, *, reason, scan_id, since):
        def change():
            new = [name for name in ids if name in self.rows and name not in self.hidden]
            self.hidden |= {name: Mark(name, reason, scan_id, since) for name in new}
            return tuple(new)

        return self._changing(change)

    def release(self, ids):
        def change():
            known = [name for name in ids if self.hidden.pop(name, None) is not None]
            return tuple(known)

        return self._changing(change)

    def marks(self):
        return tuple(self.hidden[name] for name in sorted(self.hidden))

    def export(self, ids):
        return make_bundle(self.address, self.fetch(ids), self.hidden)

    def delete(self, bundle):
        def change():
            names = check_deletable(
                self.address, self.fetch([one.row.id for one in bundle.rows]), bundle
            )
            for name in names:
                del self.rows[name]
                self.hidden.pop(name, None)
            return names

        return self._changing(change)

    def restore(self, bundle):
        def change():
            present = self.fetch([one.row.id for one in bundle.rows])
            missing = check_restorable(self.address, present, bundle)
            for one in missing:
                self.rows[one.row.id] = one.row
                if one.mark is not None:
                    self.hidden[one.row.id] = one.mark
            return tuple(one.row.id for one in missing)

        return self._changing(change)

    def prepare(self):
        pass

    def retrieval_filter(self):
        return lambda name: name not in self.hidden

    def search(self, vector, *, depth):
        served = [row for row in self.rows.values() if row.id not in self.hidden]
        ranked = sorted(served, key=lambda row: -float(np.dot(row.vector, vector)))
        return tuple((row, float(np.dot(row.vector, vector))) for row in ranked[:depth])

    def close(self):
        pass


def rows_of(texts, vectors=None, metadata=None):
    """Rows named d0, d1, …, each with a vector."""
    rng = np.random.default_rng(3)
    found = rng.normal(size=(len(texts), 8)).astype("f4") if vectors is None else vectors
    return [
        Row(f"d{place}", text, np.asarray(vector), dict(metadata or {}))
        for place, (text, vector) in enumerate(zip(texts, found, strict=True))
    ]


def replaced(row, **changes):
    return dataclasses.replace(row, **changes)
