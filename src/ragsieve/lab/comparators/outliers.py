"""Outlier methods on unit embeddings: Isolation Forest, cosine kNN distance, cosine LOF.

Planted documents are often denser than the corpus, so these may rank below chance. The outlier
direction stays as it was declared.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators._vectors import check_rows, corpus_rows, nearest
from ragsieve.lab.comparators.base import NEVER, ControlPoint, CorpusComparator, Declaration
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.records import FloatArray, NeighborGraph


def _declared(name: str, rule: str, source: str, *, decides: bool = True) -> Declaration:
    return Declaration(
        name=name,
        control_point=ControlPoint.INGEST,
        needs=frozenset({Need.EMBEDDER}),
        native_rule=rule,
        fidelity=Fidelity.EXACT,
        source=source,
        decides=decides,
    )


FOREST_DECLARATION = _declared(
    "isolation-forest",
    "scikit-learn's defaults: 100 trees of 256 rows; flag an anomaly score of 0.5 or more",
    "Isolation Forest, ICDM 2008",
)
DISTANCE_DECLARATION = _declared(
    "knn-distance",
    "cosine distance of the 20th neighbour; no published cut-off, so it only ranks",
    "k-nearest-neighbour outliers, SIGMOD 2000",
    decides=False,
)
FACTOR_DECLARATION = _declared(
    "lof",
    "local outlier factor over 20 cosine neighbours; flag 1.5 or more, scikit-learn's default",
    "Local Outlier Factor, SIGMOD 2000",
)
_DENSITY_FLOOR = 1e-10  # scikit-learn's, for copies


@dataclasses.dataclass(frozen=True, slots=True)
class ForestConfig:
    """Constants; rows a tree are scikit-learn's 256 or fewer."""

    trees: int = 100
    seed: int = 42

    def __post_init__(self) -> None:
        if self.trees < 1:
            raise ConfigError(f"isolation-forest: trees must be at least 1, found {self.trees}")


@dataclasses.dataclass(frozen=True, slots=True)
class NeighborhoodConfig:
    """Constants of the two neighbour methods; 16 neighbours match the corpus detector."""

    neighbors: int = 20

    def __post_init__(self) -> None:
        if self.neighbors < 1:
            raise ConfigError(f"outliers: neighbors must be at least 1, found {self.neighbors}")


class IsolationForest(CorpusComparator):
    """Score: scikit-learn's anomaly score with its sign turned, in (0, 1]."""

    declaration = FOREST_DECLARATION
    threshold = 0.5

    def __init__(self, rows: FloatArray, config: ForestConfig | None = None) -> None:
        self.config = config or ForestConfig()
        self._rows = corpus_rows(rows)

    def fingerprint(self) -> str:
        """Hash of the constants and the vectors."""
        rows = hashlib.sha256(np.ascontiguousarray(self._rows).tobytes()).hexdigest()
        return fingerprint(self.profile, self.config, rows)

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,  # noqa: ARG002
    ) -> npt.NDArray[np.float64]:
        """How few cuts set each document apart."""
        check_rows(self._rows, len(contents))
        ensemble = require("sklearn.ensemble", extra="lab")
        forest = ensemble.IsolationForest(
            n_estimators=self.config.trees, random_state=self.config.seed
        )
        return -np.asarray(forest.fit(self._rows).score_samples(self._rows), dtype=np.float64)


class _Neighborhood(CorpusComparator):
    def __init__(self, config: NeighborhoodConfig | None = None) -> None:
        self.config = config or NeighborhoodConfig()
        self.neighbors = self.config.neighbors

    def fingerprint(self) -> str:
        """Hash of the constants."""
        return fingerprint(self.profile, self.config)

    def _distances(self, graph: NeighborGraph) -> tuple[npt.NDArray[np.int64], FloatArray]:
        near = nearest(graph, self.config.neighbors)
        return near.indices, np.maximum(0.0, 1.0 - near.similarities)


class NeighborDistance(_Neighborhood):
    """Score: cosine distance of the k-th neighbour, in [0, 2]."""

    declaration = DISTANCE_DECLARATION
    threshold = NEVER

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
    ) -> npt.NDArray[np.float64]:
        """The distances; 0 in a corpus of one document."""
        _, distances = self._distances(graph)
        if not distances.shape[1]:
            return np.zeros(len(contents))
        return np.asarray(distances[:, -1], dtype=np.float64)


class LocalOutlierFactor(_Neighborhood):
    """Score: density of a document's neighbours over its own, > 0; about 1 in even ground.

    Computed over the exact graph that is at hand, by scikit-learn's formula.
    """

    declaration = FACTOR_DECLARATION
    threshold = 1.5

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
    ) -> npt.NDArray[np.float64]:
        """``mean(lrd of neighbours) / lrd``, ``lrd = 1 / mean max(k-distance, distance)``."""
        indices, distances = self._distances(graph)
        if not distances.shape[1]:
            return np.ones(len(contents))
        reach = np.maximum(distances[:, -1][indices], distances)
        density = 1.0 / (reach.mean(axis=1) + _DENSITY_FLOOR)
        return np.asarray((density[indices] / density[:, None]).mean(axis=1), dtype=np.float64)
