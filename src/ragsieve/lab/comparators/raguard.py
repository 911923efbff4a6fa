"""RAGuard: fluency of both halves and closeness to the query, against clean reference passages."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators._text import halves
from ragsieve.lab.comparators._vectors import document_rows, normalised, query_row
from ragsieve.lab.comparators.base import CleanPair, ControlPoint, Declaration, QueryComparator
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import CausalScorer, TextEmbedder

FloatColumn = npt.NDArray[np.float64]

DECLARATION = Declaration(
    name="raguard",
    control_point=ControlPoint.RETRIEVAL,
    needs=frozenset({Need.CAUSAL, Need.EMBEDDER, Need.CLEAN_REFERENCE}),
    native_rule=(
        "reject a document when the difference of its halves' mean losses leaves the clean "
        "2.5% to 97.5%, or their maximum or its similarity to the query exceeds the clean 97.5%"
    ),
    fidelity=Fidelity.RECONSTRUCTED,
    source="RAGuard, IEEE BigData 2025, arXiv 2510.25025",
)


@dataclasses.dataclass(frozen=True, slots=True)
class RaguardConfig:
    """Constants.

    :param alpha: share of clean passages that each tail may reject.
    """

    candidates: int = 5
    alpha: float = 0.025

    def __post_init__(self) -> None:
        if self.candidates < 1 or not 0 < self.alpha < 0.5:  # noqa: PLR2004
            raise ConfigError("raguard: candidates must be at least 1 and alpha in (0, 0.5)")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RaguardReference:
    """The three statistics of clean passages, each sorted, shape (pairs,).

    :param difference: mean loss of the first half minus that of the second, nats.
    :param highest: the larger of the two, nats.
    :param similarity: cosine to the passage's query.
    """

    difference: npt.NDArray[np.float64]
    highest: npt.NDArray[np.float64]
    similarity: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, pairs: Sequence[CleanPair], causal: CausalScorer, embedder: TextEmbedder
    ) -> RaguardReference:
        """Measure clean passages; those too short to halve are left out.

        :raises BackendError: when a model fails.
        """
        passages = [pair.passage for pair in pairs]
        difference, highest = _fluency(passages, causal)
        asked = normalised(embedder.embed_queries([pair.query for pair in pairs]))
        rows = normalised(embedder.embed_documents(passages))
        table = np.stack([difference, highest, (asked * rows).sum(axis=1)])
        table = np.sort(table[:, np.isfinite(table).all(axis=0)], axis=1)
        return cls(*table)

    def __len__(self) -> int:
        return int(self.difference.size)

    def digest(self) -> str:
        """Hash of the numbers."""
        table = np.stack([self.difference, self.highest, self.similarity])
        return hashlib.sha256(table.tobytes()).hexdigest()


class Raguard(QueryComparator):
    """Score: the largest share of clean passages that a statistic lies beyond, in [0, 1].

    With the quantile taken as the smallest clean value that a share ``1 - alpha`` does not
    exceed, a value lies beyond it exactly when that share lies below the value, so the
    published decision is a threshold on this score.

    :raises ConfigError: when the reference is too small to have such quantiles.
    """

    declaration = DECLARATION

    def __init__(
        self,
        reference: RaguardReference,
        causal: CausalScorer,
        embedder: TextEmbedder,
        config: RaguardConfig | None = None,
    ) -> None:
        self.config = config or RaguardConfig()
        fewest = math.ceil(1 / self.config.alpha)
        if len(reference) < fewest:
            raise ConfigError(
                f"raguard: expected at least {fewest} clean passages, found {len(reference)}"
            )
        self.candidates = self.config.candidates
        self.threshold = 1 - self.config.alpha
        self._reference, self._causal, self._embedder = reference, causal, embedder

    def fingerprint(self) -> str:
        """Hash of the constants, the reference and the models."""
        return fingerprint(
            self.profile,
            self.config,
            self._reference.digest(),
            self._causal.identity,
            self._embedder.identity,
        )

    def scores(self, view: QueryView) -> Sequence[float]:
        """The largest of the three tail ranks; the difference is looked at from both sides."""
        difference, highest = _fluency(view.candidates, self._causal)
        rows = document_rows(view, self._embedder)
        similarity = rows @ query_row(view.query, self._embedder, rows.shape[1])
        clean = self._reference
        ranks = np.stack(
            [
                _below(clean.difference, difference),
                _below(-clean.difference[::-1], -difference),
                _below(clean.highest, highest),
                _below(clean.similarity, similarity),
            ]
        )
        found: list[float] = ranks.max(axis=0).tolist()
        return found


def _below(ordered: FloatColumn, values: FloatColumn) -> FloatColumn:
    ranks = np.searchsorted(ordered, values, side="left") / ordered.size
    return np.where(np.isfinite(values), ranks, np.nan)


def _fluency(texts: Sequence[str], causal: CausalScorer) -> tuple[FloatColumn, FloatColumn]:
    parts = list(dict.fromkeys(half for text in texts for half in halves(text)))
    means = {
        part: float(np.mean(losses)) if np.size(losses) else math.nan
        for part, losses in zip(parts, causal.losses(parts), strict=True)
    }
    table = np.array([[means[half] for half in halves(text)] for text in texts]).reshape(-1, 2)
    return table[:, 0] - table[:, 1], table.max(axis=1)
