"""Where documents say they come from, and how near neighbours of the corpus share it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.concentration import (
    FEWEST_PAIRS,
    Habits,
    OriginDetail,
    created_together,
    origin_evidence,
    shared_value,
)
from ragsieve.records import Provenance

_SECONDS_PER_DAY = 86_400.0


@dataclasses.dataclass(frozen=True, slots=True)
class Origins:
    """Declared provenance, by column; V documents.

    :param days: shape (V,), creation in days since 1970, NaN where not declared.
    """

    sources: tuple[str | None, ...]
    authors: tuple[str | None, ...]
    days: npt.NDArray[np.float64]

    @classmethod
    def of(cls, declared: Sequence[Provenance]) -> Origins:
        """The columns of what documents declare."""
        return cls(
            tuple(one.source for one in declared),
            tuple(one.author for one in declared),
            np.array([days_of(one.created) for one in declared], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.sources)

    def followed_by(self, other: Origins) -> Origins:
        """These documents, then the other's."""
        return Origins(
            self.sources + other.sources,
            self.authors + other.authors,
            np.concatenate([self.days, other.days]),
        )

    def take(self, rows: npt.NDArray[np.int64]) -> Origins:
        """The documents in ``rows``, in the order given."""
        chosen = rows.tolist()
        return Origins(
            tuple(self.sources[row] for row in chosen),
            tuple(self.authors[row] for row in chosen),
            self.days[rows],
        )

    def declared(self) -> npt.NDArray[np.bool_]:
        """Shape (V,), which documents declare anything."""
        named = [
            source is not None or author is not None
            for source, author in zip(self.sources, self.authors, strict=True)
        ]
        return np.array(named, dtype=np.bool_) | np.isfinite(self.days)


def days_of(created: str | None) -> float:
    """An ISO 8601 date or time as days since 1970; NaN for anything else."""
    if not created:
        return float("nan")
    try:
        moment = datetime.datetime.fromisoformat(created.strip())
    except ValueError:
        return float("nan")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / _SECONDS_PER_DAY


def habits(origins: Origins, rows: npt.NDArray[np.int64], nearest: npt.NDArray[np.int64]) -> Habits:
    """How often a document's nearest neighbour shares its origin.

    :param rows: documents to learn from: those that do not stand out.
    :param nearest: shape (len(rows),), the nearest neighbour of each.
    """
    pairs = list(zip(rows.tolist(), nearest.tolist(), strict=True))
    apart = np.abs(origins.days[rows] - origins.days[nearest])
    apart = np.sort(apart[~np.isnan(apart)])
    return Habits(
        _shared(origins.sources, pairs),
        _shared(origins.authors, pairs),
        apart if apart.size >= FEWEST_PAIRS else None,
    )


def origin_of_group(
    origins: Origins, row: int, group: Sequence[int], usual: Habits
) -> tuple[float, OriginDetail] | None:
    """Evidence of a document's group; None when nothing about its origin is known.

    :param group: the neighbours that stand out with it.
    """
    found = []
    for field, values, habit in (
        ("source", origins.sources, usual.source),
        ("author", origins.authors, usual.author),
    ):
        own = values[row]
        others = [value for other in group if (value := values[other]) is not None]
        if own is not None and habit is not None and others:
            found.append(shared_value(field, own, others, habit))
    days = origins.days[[row, *group]]
    days = days[~np.isnan(days)]
    if usual.days_apart is not None and not np.isnan(origins.days[row]) and days.size > 1:
        found.append(created_together(days, usual.days_apart))
    return origin_evidence(tuple(found)) if found else None


def _shared(values: tuple[str | None, ...], pairs: list[tuple[int, int]]) -> float | None:
    known = [
        values[left] == values[right]
        for left, right in pairs
        if values[left] is not None and values[right] is not None
    ]
    return sum(known) / len(known) if len(known) >= FEWEST_PAIRS else None
