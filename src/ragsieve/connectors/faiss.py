"""An index of FAISS with its texts in a JSON-lines file; marks stand in a third file beside them."""

from __future__ import annotations

import contextlib
import datetime
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsieve._extras import require
from ragsieve.connectors.address import StoreAddress
from ragsieve.connectors.contract import (
    PAGE_ROWS,
    Bundle,
    Capabilities,
    Mark,
    Row,
    StoreFingerprint,
)
from ragsieve.connectors.exchange import (
    batched,
    check_deletable,
    check_restorable,
    make_bundle,
    moment,
    query_vector,
    telling,
    unique,
)
from ragsieve.connectors.faiss_files import (
    Files,
    State,
    Writer,
    lines_writer,
    marks_writer,
    read_marks,
)
from ragsieve.connectors.faiss_index import adding, parameters, removing
from ragsieve.connectors.faiss_rows import (
    Collection,
    Line,
    Names,
    read_collection,
)
from ragsieve.connectors.faiss_search import distance_of, search_rows
from ragsieve.connectors.hashing import VECTOR_TOLERANCE, ids_fingerprint
from ragsieve.errors import ConfigError, InputError, OutputError, StoreError
from ragsieve.records import FloatArray

_READINGS = 5
_NOTES = (
    "The index and its texts are read into memory.",
    "A retriever takes a new filter, and after a deletion the new files, to honour a change.",
)


def open_store(address: StoreAddress) -> FaissStore:
    """Open the files at an address.

    :raises MissingExtraError: without faiss-cpu and filelock.
    :raises StoreError: when one is missing, or they do not belong together.
    """
    if address.path is None:
        raise ConfigError("faiss address: expected the path of an index")
    texts = Path(address.path).parent / address.name
    names = Names(id=address.option("id") or "id", text=address.fields.text or Names().text)
    store = FaissStore(address.path, texts, names=names, address=address.public)
    store.check_distance(address.option("distance"))
    return store


class FaissStore:
    """One index with its texts; see `connectors.contract.Connector`.

    :param address: shown and kept in ledgers; made of the paths when None.
    :raises StoreError: when a file is missing, or they do not belong together.
    """

    def __init__(
        self,
        index: Path | str,
        texts: Path | str,
        *,
        names: Names = Names(),
        address: str | None = None,
    ) -> None:
        require("filelock", extra="faiss")
        self._faiss = require("faiss", extra="faiss")
        # A link keeps pointing where it did; what it points at is replaced.
        self.files = Files(Path(index).resolve(), Path(texts).resolve())
        self.names = names
        self._address = address or f"faiss://{self.files.index}?texts={self.files.texts}"
        self._lock = threading.RLock()
        self._read: tuple[State, Collection] | None = None
        self._marked: tuple[State, dict[str, Mark]] | None = None
        with self._telling("opening"):
            self._now()

    @property
    def address(self) -> str:
        """See the contract."""
        return self._address

    @property
    def index(self) -> Any:
        """The index as it is now; read again after a change."""
        return self._now()[0].index

    def check_distance(self, name: str | None) -> None:
        """Whether the index has the distance that an address says it has.

        :raises ConfigError: when it has another.
        """
        found = distance_of(self.index)
        if name is not None and name != found:
            raise ConfigError(
                f"{self._address}: parameter 'distance': the index has {found or 'another one'}, "
                f"found {name!r}; leave it out"
            )

    def capabilities(self) -> Capabilities:
        """See the contract; a graph and a map over inverted lists do not delete."""
        with self._telling("reading"):
            found, _ = self._now()
        traits = found.traits
        notes = list(_NOTES)
        if not traits.readable:
            notes.append(f"{traits.kind} gives no vectors back: its rows cannot be judged.")
        elif not traits.exact:
            notes.append(f"{traits.kind} gives back other vectors than it was given.")
        if not traits.filtered:
            notes.append(f"A search of {traits.kind} cannot leave rows out: drop them after it.")
        if not found.removes:
            notes.append(f"{found.why_not_removed}.")
        unfit = found.unfit()
        if unfit:
            notes.append(f"{unfit} rows have no vector or one that is not finite.")
        return Capabilities(
            lossy_vectors=not traits.exact,
            hides_in_search=traits.filtered,
            deletes=found.removes,
            notes=tuple(notes),
        )

    def fingerprint(self) -> StoreFingerprint:
        """See the contract."""
        with self._telling("reading all ids"):
            return ids_fingerprint(self._now()[0].ids)

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """See the contract; all pages show one moment, whatever is written meanwhile."""
        if size < 1:
            raise ValueError(f"page size: expected at least 1, found {size}")
        with self._telling("reading all rows"):
            found, _ = self._now()
        for places in batched(range(len(found.ids)), size):
            with self._telling("reading all rows"):
                page = tuple(found.rows(places))
            yield page

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """See the contract."""
        with self._telling("reading rows"):
            found, _ = self._now()
            return tuple(found.rows(found.places_of(unique(ids))))

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """See the contract."""
        when = moment(since)
        with self._changing("hiding rows") as (found, marks):
            fresh = [name for name in unique(ids) if name in found.places and name not in marks]
            new = {name: Mark(name, reason, scan_id, when) for name in fresh}
            if new:
                self.files.replace({self.files.marks: marks_writer({**marks, **new})})
            return tuple(fresh)

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See the contract."""
        with self._changing("serving rows again") as (_, marks):
            gone = [name for name in unique(ids) if name in marks]
            if gone:
                left = {name: marks[name] for name in marks.keys() - set(gone)}
                self.files.replace({self.files.marks: marks_writer(left)})
            return tuple(gone)

    def marks(self) -> tuple[Mark, ...]:
        """See the contract."""
        with self._telling("reading marks"):
            _, marks = self._now()
            return tuple(marks[name] for name in sorted(marks))

    def export(self, ids: Sequence[str]) -> Bundle:
        """See the contract."""
        with self._telling("reading rows"):
            found, marks = self._now()
            return make_bundle(self._address, found.rows(found.places_of(unique(ids))), marks)

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """See the contract.

        :raises StoreError: also when the index cannot remove rows.
        """
        wanted = [item.row.id for item in bundle.rows]
        with self._changing("deleting rows", rows=True) as (found, marks):
            self._check_removes(found)
            places = found.places_of(unique(wanted))
            ids = check_deletable(
                self._address, found.rows(places), bundle, tolerance=_tolerance(found)
            )
            if ids:
                there = [place for place in places if found.in_index[place]]
                removed = removing(found.index, found.numbers[there])
                if removed != len(there):
                    raise StoreError(
                        f"{self._address}: {removed} of {len(there)} vectors could be removed; "
                        "nothing was changed, rebuild the index"
                    )
                gone = set(ids)
                rest = {name: mark for name, mark in marks.items() if name not in gone}
                self._write(found, found.lines_without(places), rest)
            return ids

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """See the contract."""
        wanted = [item.row.id for item in bundle.rows]
        with self._changing("bringing rows back", rows=True) as (found, marks):
            self._check_removes(found)
            present = found.rows(found.places_of(unique(wanted)))
            missing = check_restorable(self._address, present, bundle, tolerance=_tolerance(found))
            if missing:
                rows = [item.row for item in missing]
                vectors = found.vectors_to_add(rows)
                numbers = found.next_numbers(len(rows))
                adding(found.index, vectors, numbers)
                lines = found.lines_with(rows, numbers)
                back = {item.row.id: item.mark for item in missing if item.mark}
                self._write(found, lines, {**marks, **back})
            return tuple(item.row.id for item in missing)

    def prepare(self) -> None:
        """Nothing to add here; see the contract."""

    def retrieval_filter(self) -> Any:
        """Search parameters for ``index.search(..., params=...)``; not shared between threads.

        :raises StoreError: when the index takes none.
        """
        with self._telling("making a filter"):
            found, marks = self._now()
            if not found.traits.filtered:
                raise StoreError(
                    f"{self._address}: a search of {found.traits.kind} cannot leave rows out; ask "
                    "for more rows and drop the hidden ones, as `search` does"
                )
            return parameters(found.index, found.numbers_of(marks))

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """See the contract; every row is looked at where the index gives too few."""
        query = query_vector(vector, depth)
        with self._telling("searching"), self._lock:
            found, marks = self._now()
            return search_rows(found, marks, query, depth)

    def close(self) -> None:
        """See the contract."""
        self._read = self._marked = None

    def _write(self, found: Collection, lines: list[Line], marks: Mapping[str, Mark]) -> None:
        parts: dict[Path, Writer] = {
            self.files.index: lambda handle: self._faiss.write_index(
                found.index, self._faiss.PyCallbackIOWriter(handle.write)
            ),
            self.files.texts: lines_writer(lines),
            self.files.marks: marks_writer(marks),
        }
        self.files.replace(parts)

    def _check_removes(self, found: Collection) -> None:
        if not found.removes:
            raise StoreError(
                f"{self._address}: {found.why_not_removed}; leave the rows hidden, or build the "
                "index anew without them"
            )

    @contextlib.contextmanager
    def _changing(
        self, doing: str, *, rows: bool = False
    ) -> Iterator[tuple[Collection, dict[str, Mark]]]:
        """What the files hold, and the right to change them.

        :param rows: whether the index is to be changed: it is then one of its own, for others
            may be reading from the one in memory, and ids that vanish there end the process.
        """
        with self._telling(doing), self._lock, self.files.changing():
            if not rows:
                yield self._now()
                return
            self._read = None
            try:
                yield self._now()
            finally:
                self._read = None

    def _now(self) -> tuple[Collection, dict[str, Mark]]:
        """What the files hold, read again if they changed; never of two moments."""
        with self._lock:
            for _ in range(_READINGS):
                state = self.files.state()
                if self.files.unfinished():
                    with self.files.changing():
                        continue
                content, hiding = (*state[:2],), (*state[2:],)
                if self._read is None or self._read[0] != content:
                    self._read = (
                        content,
                        read_collection(self.files.index, self.files.texts, self.names),
                    )
                if self._marked is None or self._marked[0] != hiding:
                    self._marked = hiding, read_marks(self.files.marks)
                if self.files.state() == state:
                    return self._read[1], self._marked[1]
                self._read = self._marked = None
        raise StoreError(f"{self._address}: the files change all the time; try again later")

    @contextlib.contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        with telling(self._address, doing):
            try:
                yield
            except (InputError, OutputError) as error:
                raise StoreError(f"{self._address}: {doing} failed ({error})") from error


def _tolerance(found: Collection) -> float:
    return VECTOR_TOLERANCE if found.traits.exact else math.inf
