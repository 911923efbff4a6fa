"""What a comparator declares, and the plain parts of a rule with a single score."""

from __future__ import annotations

import abc
import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import Measurement, QueryView
from ragsieve.errors import BackendError, RagsieveError
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import ChatModel
from ragsieve.records import (
    Annotation,
    Detail,
    Document,
    Evidence,
    EvidenceColumn,
    Level,
    NeighborGraph,
    Provenance,
    Ranking,
    Scan,
)

UNSUITED = "the text is too short, or the model gave no finite number for it"
NEVER = 1e9
"""Threshold of a method that publishes no cut-off: it ranks, and flags nothing."""


class UnmeasuredError(RagsieveError):
    """What a comparator works on is not there; the message becomes the evidence's reason."""


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
    :param decides: whether a cut-off is published; without one it ranks and flags nothing.
    """

    name: str
    control_point: ControlPoint
    needs: frozenset[Need]
    native_rule: str
    fidelity: Fidelity
    source: str
    binary: bool = False
    decides: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class CleanPair:
    """A question and a passage known to answer it: the clean reference that some methods need."""

    query: str
    passage: str


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a generation-time defence answered.

    :param calls: replies asked of the chat model, broken ones included.
    :param used_ids: documents that reached the answer, in rank order.
    :param alternatives: every answer, where the method gives one for each of several rewrites.
    """

    text: str
    calls: int
    used_ids: tuple[str, ...]
    alternatives: tuple[str, ...] = ()


class GenerationDefense(Protocol):
    """A defence that has no score: it answers."""

    @property
    def declaration(self) -> Declaration:
        """What it says about itself."""
        ...

    def fingerprint(self) -> str:
        """Hash of its constants and prompts, the chat model aside."""
        ...

    def answer(self, question: str, ranking: Ranking, chat: ChatModel) -> Answer:
        """Answer a question from what was retrieved for it.

        :raises BackendError: when the model fails, or gives no usable reply when asked twice.
        """
        ...


class QueryComparator(abc.ABC):
    """Base of a :class:`ragsieve.detectors.rules.QueryRule` with one score, large is suspicious.

    Subclasses set ``declaration``, ``candidates``, ``documents`` and ``threshold`` (in the
    unit of the score) and write ``scores``.

    ``needs_tail`` says whether a ranking without a usable tail is refused: a method that looks
    at each candidate, or at the candidates alone, does without.
    """

    declaration: Declaration
    candidates = 5
    documents = 20
    threshold = 1.0
    needs_tail = False
    max_characters = 1_000_000

    @property
    def profile(self) -> str:
        """The comparator's name."""
        return self.declaration.name

    @property
    def fewest_documents(self) -> int:
        """It needs its whole depth."""
        return self.documents

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Name, rule and constants; subclasses add models."""

    @abc.abstractmethod
    def scores(self, view: QueryView) -> Sequence[float]:
        """One score, >= 0, for each candidate; NaN where it cannot be measured.

        :raises UnmeasuredError: when no candidate of the view can be.
        """

    def measure(self, views: Sequence[QueryView]) -> list[tuple[tuple[Evidence, ...], ...]]:
        """The single evidence of each candidate; unavailable, with the reason, where a model fails."""
        return [self._measure(view) for view in views]

    def _measure(self, view: QueryView) -> tuple[tuple[Evidence, ...], ...]:
        if self.needs_tail and view.problem is not None:
            return self._missing(view, view.problem)
        try:
            found = self.scores(view)
        except UnmeasuredError as error:
            return self._missing(view, str(error))
        except BackendError as error:
            return self._missing(view, f"the model failed: {error}")
        return tuple((self._evidence(float(value)),) for value in found)

    def _evidence(self, value: float) -> Evidence:
        if not math.isfinite(value):
            return Evidence.unavailable(self.profile, UNSUITED)
        return Evidence(self.profile, value)

    def _missing(self, view: QueryView, reason: str) -> tuple[tuple[Evidence, ...], ...]:
        return ((Evidence.unavailable(self.profile, reason),),) * len(view.candidates)

    def annotate(self, view: QueryView) -> tuple[tuple[Annotation, ...], ...]:
        """No remarks."""
        return ((),) * len(view.candidates)

    def combine(self, values: Sequence[float]) -> float:
        """The score itself."""
        return max(values, default=0.0)

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """One flag."""
        return Level.QUARANTINE


class CorpusComparator(abc.ABC):
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

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Name, rule and constants."""

    @abc.abstractmethod
    def scores(self, contents: Sequence[str], graph: NeighborGraph) -> npt.NDArray[np.float64]:
        """One score, >= 0, for each document, shape (V,); NaN where it cannot be measured.

        :raises UnmeasuredError: when no document can be.
        """

    def measure(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
        declared: Sequence[Provenance],  # noqa: ARG002 -- comparators do not look
    ) -> Measurement:
        """The single evidence column; NaN throughout, with the reason, where a model fails."""
        reason = UNSUITED
        try:
            values = np.asarray(self.scores(contents, graph), dtype=np.float64)
        except UnmeasuredError as error:
            values, reason = np.full(len(contents), np.nan), str(error)
        except BackendError as error:
            values, reason = np.full(len(contents), np.nan), f"the model failed: {error}"
        values = np.where(np.isfinite(values), values, np.nan)
        missing = reason if bool(np.isnan(values).any()) else None
        return Measurement((EvidenceColumn(self.profile, values, reason=missing),))

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
