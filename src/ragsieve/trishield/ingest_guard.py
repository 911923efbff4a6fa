"""Ring 1: what one document shows by itself, before it enters the index or after retrieval."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ragsieve.defense.pipeline import Flow
from ragsieve.errors import ConfigError, EmbeddingError
from ragsieve.outcomes import Action, Step
from ragsieve.ports import FeatureSource
from ragsieve.records import Document, FloatArray
from ragsieve.trishield.ingest_scores import (
    Centre,
    asks_in_short,
    centre_of,
    combined_score,
    lexical_score,
    outlier_score,
)
from ragsieve.trishield.words import word_run

STAGE = "ingest-guard"

_QUESTION_SCORE, _WATCHED_SCORE, _PHRASE_SCORE = 0.4, 0.5, 0.3
_FEWEST_ROWS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class IngestGuardConfig:
    """How ring 1 measures and when it blocks.

    :param lexical: ``default`` or ``paper-text``; see :func:`lexical_score`.
    :param outlier: ``relative`` or ``paper``; see :func:`outlier_score`.
    :param watched_questions: the operator's own query log or FAQ; a document that holds one
        word for word was perhaps written to be found by it.
    :param phrases: stock assertion phrasing. Empty on purpose: a list written from an attack's
        template finds that template and nothing else.
    :param threshold: blocked at or above, in (0, 1].
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    lexical: Literal["default", "paper-text"] = "default"
    outlier: Literal["relative", "paper"] = "relative"
    watched_questions: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if self.lexical not in {"default", "paper-text"}:
            raise ConfigError(
                f"ingest guard: lexical must be default or paper-text, found {self.lexical!r}"
            )
        if self.outlier not in {"relative", "paper"}:
            raise ConfigError(
                f"ingest guard: outlier must be relative or paper, found {self.outlier!r}"
            )
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"ingest guard: threshold must be in (0, 1], found {self.threshold}")
        for name in ("watched_questions", "phrases"):
            for text in getattr(self, name):
                if not word_run(text).strip():
                    raise ConfigError(
                        f"ingest guard: {name} holds {text!r}, which has no word; remove it"
                    )


@dataclasses.dataclass(frozen=True, slots=True)
class IngestAssessment:
    """What ring 1 found about one document; None means not measured, never 0.

    :param lexical: S_perp, in [0, 1], as every score here; large is suspicious.
    :param question: .4 for a question in a short text, else 0.
    :param watched: .5 for a watched question, else 0; None when none is watched.
    :param phrase: .3 for stock phrasing, else 0; None when no phrase is listed.
    :param pattern: S_pat, the sum of those three that were measured, at most 1.
    :param outlier: S_out; None without a centre or an embedding.
    :param combined: C.
    :param reasons: what reached the threshold, in words.
    :param unmeasured: what is missing from C, and why.
    """

    document_id: str
    lexical: float
    question: float
    watched: float | None
    phrase: float | None
    pattern: float
    outlier: float | None
    combined: float
    threshold: float
    blocked: bool
    reasons: tuple[str, ...]
    unmeasured: tuple[str, ...]

    @property
    def components(self) -> tuple[tuple[str, float | None], ...]:
        """Every number, by name."""
        names = "lexical question watched phrase pattern outlier combined threshold".split()
        return tuple((name, getattr(self, name)) for name in names)


class IngestGuard:
    """Ring 1: judges documents one at a time; its findings say nothing about truth.

    :param centre: of the index, as :meth:`fit` makes it; without one the outlier score is not
        measured.
    """

    def __init__(
        self, config: IngestGuardConfig | None = None, *, centre: Centre | None = None
    ) -> None:
        self.config = config or IngestGuardConfig()
        self.centre = centre
        self._watched = tuple(word_run(text) for text in self.config.watched_questions)
        self._phrases = tuple(word_run(text) for text in self.config.phrases)

    def fit(self, rows: npt.ArrayLike) -> IngestGuard:
        """A guard of the same configuration with the centre of an index.

        :param rows: shape (V, d), the index's embeddings.
        :raises EmbeddingError: when they are not finite or have no mean direction.
        """
        return IngestGuard(self.config, centre=centre_of(rows))

    def assess(
        self, document: Document, row: npt.ArrayLike | None = None, *, missing: str | None = None
    ) -> IngestAssessment:
        """Judge one document.

        :param row: shape (d,), its embedding; None when unknown.
        :param missing: why there is no embedding, for the record.
        :raises EmbeddingError: when the row does not fit the centre.
        """
        content = document.content
        lexical = lexical_score(content, self.config.lexical)
        question = _QUESTION_SCORE if asks_in_short(content) else 0.0
        run = word_run(content) if self._watched or self._phrases else ""
        watched = _held(self._watched, run, _WATCHED_SCORE)
        phrase = _held(self._phrases, run, _PHRASE_SCORE)
        pattern = min(1.0, question + (watched or 0.0) + (phrase or 0.0))
        outlier = None
        if row is not None and self.centre is not None and self._fitted:
            outlier = outlier_score(row, self.centre, self.config.outlier)
        combined = combined_score(lexical, pattern, outlier)
        threshold = self.config.threshold
        return IngestAssessment(
            document.id, lexical, question, watched, phrase, pattern, outlier, combined, threshold,
            blocked=combined >= threshold,
            reasons=_reasons(lexical, pattern, outlier, combined, threshold),
            unmeasured=self._unmeasured(outlier, missing),
        )  # fmt: skip

    def assess_many(
        self, documents: Sequence[Document], rows: npt.ArrayLike | None = None
    ) -> tuple[IngestAssessment, ...]:
        """Judge a batch that is about to enter the index, in its order.

        :param rows: shape (len(documents), d), their embeddings.
        :raises EmbeddingError: when rows do not fit the documents or the centre.
        """
        if rows is None:
            return tuple(self.assess(document) for document in documents)
        matrix = np.asarray(rows)
        if matrix.ndim != 2 or len(matrix) != len(documents):  # noqa: PLR2004 -- rows, columns
            raise EmbeddingError(
                f"ingest guard: expected one row for each of {len(documents)} documents, found "
                f"shape {matrix.shape}"
            )
        return tuple(self.assess(*pair) for pair in zip(documents, matrix, strict=True))

    @property
    def _fitted(self) -> bool:
        needed = _FEWEST_ROWS if self.config.outlier == "relative" else 1
        return self.centre is not None and self.centre.rows >= needed

    def _unmeasured(self, outlier: float | None, missing: str | None) -> tuple[str, ...]:
        found = []
        if not self._watched:
            found.append("watched: no question is watched")
        if not self._phrases:
            found.append("phrase: no phrase is listed")
        if outlier is None:
            why = missing or "the document has no embedding"
            if self.centre is None:
                why = "the guard was not fitted on an index"
            elif not self._fitted:
                why = f"the index holds {self.centre.rows} documents, {_FEWEST_ROWS} are needed"
            found.append(f"outlier: {why}")
        return tuple(found)


class IngestGuardStage:
    """Ring 1 as a proxy after retrieval: takes blocked documents out of the whole ranking.

    :param features: where embeddings of documents are; None leaves outliers not measured.
    """

    name = STAGE

    def __init__(self, guard: IngestGuard, features: FeatureSource | None = None) -> None:
        self._guard = guard
        self._features = features

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        """Judge every document of each ranking.

        :raises EmbeddingError: when an embedding does not fit the guard's centre.
        """
        return [self._run(flow) for flow in flows]

    def _run(self, flow: Flow) -> Flow:
        entries = flow.ranking.entries
        rows: list[FloatArray | None] = [None] * len(entries)
        missing = "no index is at hand"
        if self._features is not None:
            missing = "the index at hand does not know the document"
            known = self._features.features([entry.document.id for entry in entries])
            rows = [one.embedding for one in known]
        survivors, taken, steps = [], [], []
        for entry, row in zip(entries, rows, strict=True):
            found = self._guard.assess(entry.document, row, missing=missing)
            action = Action.REMOVED if found.blocked else Action.NOTED
            said = f"combined {found.combined:.3f}, threshold {found.threshold:g}"
            reason = f"blocked: {'; '.join(found.reasons)}" if found.blocked else f"passed: {said}"
            unmeasured = f" (not measured: {'; '.join(found.unmeasured)})"
            steps.append(
                Step(self.name, action, reason + (unmeasured if found.unmeasured else ""),
                     entry.document.id, entry.rank, found.components)
            )  # fmt: skip
            if found.blocked:
                taken.append(entry.document.id)
            else:
                survivors.append(entry)
        moved = dataclasses.replace(
            flow,
            ranking=flow.ranking.renumbered(survivors),
            removed_ids=flow.removed_ids + tuple(taken),
        )
        return moved.noted(*steps)


def _held(wanted: Sequence[str], run: str, score: float) -> float | None:
    if not wanted:
        return None
    return score if any(text in run for text in wanted) else 0.0


def _reasons(
    lexical: float, pattern: float, outlier: float | None, combined: float, threshold: float
) -> tuple[str, ...]:
    found = [
        f"{name} {value:.3f} reaches {threshold:g}"
        for name, value in (("lexical", lexical), ("pattern", pattern))
        if value >= threshold
    ]
    if not found and combined >= threshold and outlier is not None:
        found.append(f"outlier {outlier:.3f} with the rest makes {combined:.3f}, {threshold:g}")
    return tuple(found)
