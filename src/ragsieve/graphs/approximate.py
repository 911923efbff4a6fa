"""An approximate neighbour graph that says how it was made and how much it finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from ragsieve.errors import ConfigError
from ragsieve.evidence.copies import find_copies
from ragsieve.evidence.knn import unit_graph, unit_rows
from ragsieve.evidence.shortlist import Floats, exact_similarities
from ragsieve.evidence.tiles import Found
from ragsieve.graphs.inverted import Parameters, search_lists
from ragsieve.graphs.layered import search_layers
from ragsieve.graphs.recall import Recall, recall_of, sampled_rows
from ragsieve.records import NeighborGraph

METHODS = ("ivf", "hnsw")
_SMALL = 200


@dataclasses.dataclass(frozen=True, slots=True)
class ApproximateConfig:
    """How to search approximately.

    :param method: ``ivf`` (inverted lists) or ``hnsw`` (layers of links). Inverted lists were
        the quicker at every size measured.
    :param target_recall: of the neighbours wanted, in (0, 1).
    :param sample_rows: rows searched exactly to estimate the recall; half as many others tune.
    :param seed: of both samples and the lists.
    :raises ConfigError: for a value outside its range.
    """

    method: Literal["ivf", "hnsw"] = "ivf"
    target_recall: float = 0.99
    sample_rows: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(
                f"method: expected one of {', '.join(METHODS)}, found {self.method!r}"
            )
        if not 0 < self.target_recall < 1:
            raise ConfigError(f"target_recall: expected (0, 1), found {self.target_recall}")
        if self.sample_rows < 2:  # noqa: PLR2004 -- an interval needs a variance
            raise ConfigError(f"sample_rows: expected at least 2, found {self.sample_rows}")


@dataclasses.dataclass(frozen=True, slots=True)
class ApproximateGraph:
    """Neighbours found without looking at every pair; their similarities are exact.

    :param parameters: of the method, as it chose them.
    :param recall: estimated on rows that had no part in the choice.
    """

    graph: NeighborGraph
    method: str
    parameters: Parameters
    recall: Recall
    target_recall: float

    @property
    def reached(self) -> bool:
        """Whether the estimated recall is at least the target."""
        return self.recall.share >= self.target_recall

    def __str__(self) -> str:
        chosen = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value:,}"
            for name, value in self.parameters
        )
        short = "" if self.reached else f", below the target {self.target_recall:g}"
        return f"approximate neighbours ({self.method}: {chosen}), {self.recall}{short}"


def approximate_graph(
    embeddings: npt.ArrayLike,
    k: int,
    config: ApproximateConfig = ApproximateConfig(),
    *,
    progress: Callable[[int], None] | None = None,
) -> ApproximateGraph:
    """Top ``k`` cosine neighbours of every row, most of them.

    Similarities are those of :func:`ragsieve.evidence.knn.cosine_knn`, to the last bit. Rows
    equal to the last bit are searched once. A corpus of fewer than 200 different rows is
    searched exactly.

    :param embeddings: shape (V, d), any float dtype; may be memory-mapped.
    :param k: neighbours wanted, >= 1; V - 1 are given in a corpus of fewer than k + 1.
    :param progress: called with the number of rows finished.
    :raises EmbeddingError: for rows that are not finite or are zero.
    :raises MissingExtraError: when FAISS is not installed.
    :raises ValueError: when k < 1.
    """
    if k < 1:
        raise ValueError("k must be at least 1")
    unit = unit_rows(embeddings)
    size = len(unit)
    copies = find_copies(unit)
    single = unit if copies is None else unit[copies.first]
    if len(single) < max(_SMALL, 4 * k):
        graph = unit_graph(unit, k, progress=progress)
        parameters: Parameters = ()
    else:
        near, cosines, parameters = _searched(single, k, config, progress)
        if copies is not None:
            every, groups = np.arange(size), np.arange(len(single))
            own = exact_similarities(single, single, groups, groups)
            near, cosines = copies.expanded(every, near, cosines, own, k)
            if progress is not None:
                progress(size - len(single))
        graph = NeighborGraph(near, cosines)
    rng = np.random.default_rng([config.seed, 1])
    rows = sampled_rows(size, config.sample_rows, rng)
    exact = unit_graph(unit, k, rows=rows)
    found = NeighborGraph(graph.indices[rows], graph.similarities[rows])
    method = config.method if parameters else "exact"
    return ApproximateGraph(
        graph, method, parameters, recall_of(found, exact), config.target_recall
    )


def _searched(
    unit: Floats, k: int, config: ApproximateConfig, progress: Callable[[int], None] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], Parameters]:
    rng = np.random.default_rng([config.seed, 0])
    rows = sampled_rows(len(unit), max(2, config.sample_rows // 2), rng)
    tuning = rows, unit_graph(unit, k, rows=rows)
    # Half of what may be missed is left to chance and to the method.
    aim = (1 + config.target_recall) / 2
    found: Found
    if config.method == "ivf":
        found, parameters = search_lists(unit, k, tuning, aim, config.seed, progress)
    else:
        found, parameters = search_layers(unit, k, tuning, aim, progress)
    return *found, parameters
