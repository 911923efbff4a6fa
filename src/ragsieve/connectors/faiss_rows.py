"""What an index of FAISS and its file of texts hold, read together and checked against each other."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve._jsonl import kind_of
from ragsieve.connectors.contract import PAGE_ROWS, Row
from ragsieve.connectors.exchange import batched
from ragsieve.connectors.faiss_files import read_lines
from ragsieve.connectors.faiss_index import (
    Ids,
    Traits,
    ids_of,
    lists_of,
    open_vectors,
    traits_of,
    vectors_of,
)
from ragsieve.display import visible
from ragsieve.errors import StoreError
from ragsieve.records import FloatArray

NUMBER = "faiss_id"
"""Field of a row's id in the index; in a file without it, rows are counted from 0."""

METADATA = "metadata"
Line = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """Fields of a row in the file of texts."""

    id: str = "id"
    text: str = "text"

    @property
    def own(self) -> frozenset[str]:
        """Those that are no metadata."""
        return frozenset({self.id, self.text, NUMBER})


class Collection:
    """An index and its texts at one moment. Vectors stay in the index until they are asked for.

    :param texts: the file, for errors.
    :raises StoreError: when index and texts do not belong together.
    """

    def __init__(self, index: Any, lines: Sequence[Line], names: Names, texts: Path) -> None:
        self.index, self.lines, self.names, self.texts = index, lines, names, texts
        self.traits: Traits = traits_of(index)
        self.numbered = any(NUMBER in line for line in lines)
        self.numbers = _numbers(lines, texts, numbered=self.numbered)
        self.ids = [_identifier(line, at, names, texts) for at, line in enumerate(lines, 1)]
        self.places: dict[str, list[int]] = collections.defaultdict(list)
        for place, name in enumerate(self.ids):
            self.places[name].append(place)
        self.place_of = {number: place for place, number in enumerate(self.numbers.tolist())}
        self.in_index = self._found(ids_of(index))
        if self.traits.readable:
            open_vectors(index)

    def _found(self, stored: Ids | None) -> npt.NDArray[np.bool_]:
        """Which rows have a vector in the index; shape (n,)."""
        total = int(self.index.ntotal)
        if stored is None:
            stored = self.numbers
        if len(np.unique(stored)) < len(stored):
            raise StoreError(f"{self.texts}: the index holds an id twice; add its vectors anew")
        found = np.isin(self.numbers, stored)
        # Inverted lists pass over a vector with NaN when it is added, and count it all the same.
        passed_over = total - len(stored)
        missing = int((~found).sum())
        if len(self.lines) != total or missing != passed_over:
            raise StoreError(
                f"{self.texts}: expected one row for each of the {total} vectors of the index, "
                f"found {len(self.lines)} rows of which {missing} have no vector; they were not "
                "written together, take both from one backup"
            )
        return found

    def rows(self, places: Sequence[int]) -> list[Row]:
        """The rows of these lines."""
        vectors = self.vectors(places)
        return [
            Row(
                self.ids[place],
                _text(self.lines[place], self.names),
                vector,
                metadata_of(self.lines[place], self.names),
            )
            for place, vector in zip(places, vectors, strict=True)
        ]

    def vectors(self, places: Sequence[int]) -> list[FloatArray | None]:
        """The vectors of these lines; None where the index has none or gives none back."""
        found: list[FloatArray | None] = [None] * len(places)
        if self.traits.readable:
            there = [at for at, place in enumerate(places) if self.in_index[place]]
            numbers = self.numbers[[places[at] for at in there]]
            for at, vector in zip(there, vectors_of(self.index, numbers), strict=True):
                found[at] = vector
        return found

    def lines_without(self, places: Iterable[int]) -> list[Line]:
        """The file without these lines."""
        gone = set(places)
        return self._counted([line for at, line in enumerate(self.lines) if at not in gone])

    def lines_with(self, rows: Sequence[Row], numbers: Ids) -> list[Line]:
        """The file with these rows behind the others, under these numbers."""
        nested = not self.lines or any(METADATA in line for line in self.lines)
        stand = self.numbered or not self.traits.shifts
        new = [
            line_of(row, int(number) if stand else None, self.names, nested=nested)
            for row, number in zip(rows, numbers, strict=True)
        ]
        return self._counted([*self.lines, *new])

    def next_numbers(self, count: int) -> Ids:
        """Numbers that no row has."""
        first = int(self.numbers.max()) + 1 if len(self.numbers) else 0
        return np.arange(first, first + count, dtype=np.int64)

    def vectors_to_add(self, rows: Sequence[Row]) -> FloatArray:
        """The vectors of rows that are not there, shape (n, d).

        :raises StoreError: when the index cannot keep one.
        """
        size = int(self.index.d)
        lists = lists_of(self.index) is not None
        vectors = []
        for row in rows:
            if row.vector is None or row.vector.shape != (size,):
                raise StoreError(
                    f"{self.texts}: {visible(row.id)!r} has no vector of {size} numbers, without "
                    "which the index takes no row"
                )
            if lists and not np.isfinite(row.vector).all():
                raise StoreError(
                    f"{self.texts}: the vector of {visible(row.id)!r} is not finite, and the index "
                    "would lose it"
                )
            vectors.append(np.asarray(row.vector, dtype=np.float32))
        return np.stack(vectors)

    def unfit(self) -> int:
        """Rows without a vector, or with one that is not finite."""
        if not self.traits.readable:
            return 0
        return sum(
            vector is None or not np.isfinite(vector).all()
            for places in batched(range(len(self.ids)), PAGE_ROWS)
            for vector in self.vectors(places)
        )

    @property
    def removes(self) -> bool:
        """Whether rows can be removed and brought back."""
        return self.traits.removes and self.traits.readable and not self._only_counted

    @property
    def why_not_removed(self) -> str:
        """What is in the way, where something is."""
        if self._only_counted and self.traits.removes and self.traits.readable:
            return (
                f"rows of {self.traits.kind} keep their ids when others go, and the file of texts "
                f"counts lines: write {NUMBER!r} into every row before deleting"
            )
        return f"FAISS removes no rows from {self.traits.kind}"

    @property
    def _only_counted(self) -> bool:
        return bool(self.lines) and not self.numbered and not self.traits.shifts

    def _counted(self, lines: list[Line]) -> list[Line]:
        if not (self.numbered and self.traits.shifts):
            return lines
        # Such an index counts its vectors anew.
        return [{**line, NUMBER: number} for number, line in enumerate(lines)]

    def places_of(self, ids: Iterable[str]) -> list[int]:
        """The lines of these ids, in their order."""
        return [place for name in ids for place in self.places.get(name, ())]

    def numbers_of(self, ids: Iterable[str]) -> Ids:
        """The ids in the index of these rows."""
        return self.numbers[np.asarray(self.places_of(ids), dtype=np.int64)]


def read_collection(index: Path, texts: Path, names: Names) -> Collection:
    """Read both files.

    :raises StoreError: when there are none, or they do not belong together.
    """
    for path in (index, texts):
        if not path.is_file():
            raise StoreError(f"{path}: no such file; expected an index and its file of texts")
    faiss = require("faiss", extra="faiss")
    return Collection(faiss.read_index(str(index)), read_lines(texts), names, texts)


def metadata_of(line: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A row's metadata: its other fields, and those inside ``metadata``.

    Where a name stands in both, or ``metadata`` is no object, it stays as one value.
    """
    own = {key: value for key, value in line.items() if key not in names.own}
    inner = own.get(METADATA)
    if isinstance(inner, dict) and METADATA not in inner and not inner.keys() & own.keys():
        del own[METADATA]
        own.update(inner)
    return own


def line_of(row: Row, number: int | None, names: Names, *, nested: bool) -> Line:
    """A row as a line of the file of texts, from which `metadata_of` gives the same.

    :param nested: whether the rows of the file have an object ``metadata``.
    """
    line: Line = {names.id: row.id, names.text: row.text}
    if number is not None:
        line[NUMBER] = number
    metadata = dict(row.metadata)
    if METADATA in metadata or not (nested or names.own & metadata.keys()):
        return {**line, **metadata}
    return {**line, METADATA: metadata}


def _numbers(lines: Sequence[Line], texts: Path, *, numbered: bool) -> Ids:
    if not numbered:
        return np.arange(len(lines), dtype=np.int64)
    found = [line.get(NUMBER) for line in lines]
    for at, number in enumerate(found, 1):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
            raise StoreError(
                f"{texts}: row {at}: field {NUMBER!r}: expected the row's id in the index, found "
                f"{kind_of(number)}; number all rows or none"
            )
    if len(set(found)) < len(found):
        raise StoreError(f"{texts}: field {NUMBER!r}: two rows have one number; number them anew")
    return np.asarray(found, dtype=np.int64)


def _identifier(line: Line, at: int, names: Names, texts: Path) -> str:
    value = line.get(names.id)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise StoreError(
        f"{texts}: row {at}: field {names.id!r}: expected a string or a whole number, found "
        f"{visible(kind_of(value), limit=80)}"
    )


def _text(line: Line, names: Names) -> str:
    value = line.get(names.text)
    return "" if value is None else value if isinstance(value, str) else str(value)
