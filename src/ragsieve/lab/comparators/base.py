"""What a comparator declares, and the plain parts of a rule with a single score."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import Measurement, QueryView
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.records import (
    Annotation,
    Detail,
    Document,
    Evidence,
    EvidenceColumn,
    Level,
    NeighborGraph,
    Provenance,
    Scan,
)


class ControlPoint(enum.StrEnum):
    """Where a defence stands."""

    INGEST = "ingest"
    RETRIEVAL = "retrieval"
    GENERATION = "generation"


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """What a comparator says about itself.

    :param native_rule: the published decision, in words.
    :param binary: whether it decides without a usable score: its own operating point only.
    :param source: where its rule is published.
    """

    name: str
    control_point: ControlPoint
    needs: frozenset[Need]
    native_rule: str
    fidelity: Fidelity
    source: str
    binary: bool = False


class QueryComparator:
    """Base of a :class:`ragsieve.detectors.rules.QueryRule` with one score, large is suspicious.

    Subclasses set ``declaration``, ``candidates``, ``documents`` and ``threshold`` (in the
    unit of the score) and write ``scores``.
    """

    declaration: Declaration
    candidates = 5
    documents = 20
    threshold = 1.0
    max_characters = 1_000_000

    @property
    def profile(self) -> str:
        """The comparator's name."""
        return self.declaration.name

    @property
    def fewest_documents(self) -> int:
        """It needs its whole depth."""
        return self.documents

    def fingerprint(self) -> str:
        """Name, rule and constants; subclasses add models."""
        raise NotImplementedError

    def scores(self, view: QueryView) -> Sequence[float]:
        """One score, >= 0, for each candidate."""
        raise NotImplementedError

    def measure(self, views: Sequence[QueryView]) -> list[tuple[tuple[Evidence, ...], ...]]:
        """The single evidence of each candidate; unavailable on a ranking without a tail."""
        measured: list[tuple[tuple[Evidence, ...], ...]] = []
        for view in views:
            if view.problem is not None:
                missing = (Evidence.unavailable(self.profile, view.problem),)
                measured.append((missing,) * len(view.candidates))
                continue
            found = self.scores(view)
            measured.append(tuple((Evidence(self.profile, float(value)),) for value in found))
        return measured

    def annotate(self, view: QueryView) -> tuple[tuple[Annotation, ...], ...]:
        """No remarks."""
        return ((),) * len(view.candidates)

    def combine(self, values: Sequence[float]) -> float:
        """The score itself."""
        return max(values, default=0.0)

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """One flag."""
        return Level.QUARANTINE


class CorpusComparator:
    """Base of a :class:`ragsieve.detectors.rules.CorpusRule` with one score a document.

    Subclasses set ``declaration``, ``neighbors`` and ``threshold`` and write ``scores``.
    """

    declaration: Declaration
    neighbors = 16
    threshold = 1.0
    max_characters = 1_000_000

    @property
    def profile(self) -> str:
        """The comparator's name."""
        return self.declaration.name

    def fingerprint(self) -> str:
        """Name, rule and constants."""
        raise NotImplementedError

    def scores(self, contents: Sequence[str], graph: NeighborGraph) -> npt.NDArray[np.float64]:
        """One score, >= 0, for each document."""
        raise NotImplementedError

    def measure(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
        declared: Sequence[Provenance],  # noqa: ARG002 -- comparators do not look
    ) -> Measurement:
        """The single evidence column."""
        return Measurement((EvidenceColumn(self.profile, self.scores(contents, graph)),))

    def details(
        self,
        documents: Sequence[Document],  # noqa: ARG002
        scan: Scan,  # noqa: ARG002
        row: int,  # noqa: ARG002
    ) -> tuple[Detail | None, ...]:
        """No facts beyond the score."""
        return (None,)

    def combine(self, values: Sequence[float]) -> float:
        """The score itself."""
        return max(values, default=0.0)

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """One flag."""
        return Level.QUARANTINE
