"""What the demo found, as records that can be saved, read again and put in words."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ragsieve._atomic import write_text
from ragsieve.display import visible
from ragsieve.explain import MEANING


@dataclasses.dataclass(frozen=True, slots=True)
class DefenseRow:
    """One defence over the same questions and the same poisoned index.

    :param poison_in_context: poison documents in the contexts of the targets.
    :param targets_hit: targets with at least one poison document in the context.
    :param by_attack: poison documents in the contexts, by construction.
    :param clean_removed: clean documents taken out of the first ranks of the unpoisoned questions.
    :param clean_candidates: clean documents in those ranks without a defence.
    :param partial: retrievals in which something could not be judged.
    """

    defense: str
    poison_in_context: int
    targets_hit: int
    by_attack: dict[str, int]
    clean_removed: int
    clean_candidates: int
    partial: int


@dataclasses.dataclass(frozen=True, slots=True)
class Catch:
    """A poison document that was flagged, with its strongest evidence in words."""

    document_id: str
    attack: str
    question: str
    excerpt: str
    detector: str
    score: float
    threshold: float
    words: str


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """A poison document that still stands in a context after both detectors."""

    document_id: str
    attack: str
    question: str
    excerpt: str
    corpus_score: float
    query_score: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class DemoResult:
    """Everything the demo prints."""

    seed: int
    documents: int
    planted: int
    targets: int
    unpoisoned: int
    planted_by_attack: dict[str, int]
    poison_flagged_by_scan: int
    clean_flagged_by_scan: int
    clean_quarantined_by_scan: int
    campaigns: int
    rows: tuple[DefenseRow, ...]
    catches: tuple[Catch, ...]
    misses: tuple[Miss, ...]
    unavailable: tuple[str, ...]
    report: str

    def fields(self) -> dict[str, Any]:
        """The result as plain data."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """The result in words, misses included."""
        return [*self._head(), *self._table(), *self._catches(), *self._misses(), MEANING]

    def _head(self) -> list[str]:
        planted = ", ".join(f"{count} {name}" for name, count in self.planted_by_attack.items())
        return [
            f"{self.documents:,} real documents; {self.planted} poison documents planted for "
            f"{self.targets} questions (seed {self.seed}): {planted}.",
            f"RSG scan of the index: {self.poison_flagged_by_scan} of {self.planted} poison and "
            f"{self.clean_flagged_by_scan} of {self.documents:,} clean documents flagged "
            f"({self.clean_flagged_by_scan / self.documents:.1%}) in {self.campaigns} campaigns; "
            f"{self.clean_quarantined_by_scan} clean documents at level quarantine "
            f"({self.clean_quarantined_by_scan / self.documents:.1%}), the others to review.",
            *(f"Unavailable: {reason}" for reason in self.unavailable),
            "",
        ]

    def _table(self) -> list[str]:
        attacks = list(self.planted_by_attack)
        header = f"{'poison in the top 5':<20}{'all':>5}" + "".join(
            f"{name:>14}" for name in attacks
        )
        lines = [f"{header}{'targets hit':>13}{'clean removed*':>18}"]
        for row in self.rows:
            counts = "".join(f"{row.by_attack.get(name, 0):>14}" for name in attacks)
            share = row.clean_removed / max(1, row.clean_candidates)
            lines.append(
                f"{row.defense:<20}{row.poison_in_context:>5}{counts}"
                f"{f'{row.targets_hit} of {self.targets}':>13}"
                f"{f'{row.clean_removed} ({share:.1%})':>18}"
            )
        candidates = self.rows[0].clean_candidates
        note = f"* of {candidates} clean top-5 places of {self.unpoisoned} unpoisoned questions"
        return [*lines, note, ""]

    def _catches(self) -> list[str]:
        lines = []
        for catch in self.catches:
            lines += [
                f"Caught by {catch.detector} ({catch.attack}, score {catch.score:.2f}, threshold "
                f"{catch.threshold:g}): {visible(catch.document_id)}",
                f"  text: {visible(catch.excerpt)}",
                f"  why:  {catch.words}",
            ]
        return [*lines, ""]

    def _misses(self) -> list[str]:
        if not self.misses:
            return ["Missed: none of the planted documents is left in a context."]
        lines = [f"Missed: {len(self.misses)} poison documents are left in contexts:"]
        for miss in self.misses[:5]:
            query = (
                "not judged (refilled)" if miss.query_score is None else f"{miss.query_score:.2f}"
            )
            lines.append(
                f"  {visible(miss.document_id)} ({miss.attack}; scan score {miss.corpus_score:.2f}, "
                f"filter score {query}): {visible(miss.excerpt)}"
            )
        more = len(self.misses) - 5
        return lines + ([f"  and {more} more in the report"] if more > 0 else [])


_ADAPTER = TypeAdapter(DemoResult)


def save_result(path: Path, result: DemoResult) -> None:
    """Write a result as JSON, atomically.

    :raises OutputError: when it cannot be written.
    """
    write_text(path, _ADAPTER.dump_json(result, indent=2).decode() + "\n")


def read_result(path: Path) -> DemoResult:
    """Read a saved result.

    :raises ValueError: when it is not one, or of another version of the record.
    """
    return _ADAPTER.validate_json(path.read_bytes())
