"""CleanBase: documents that form cliques of unusually heavy edges in the neighbour graph."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators._vectors import nearest
from ragsieve.lab.comparators.base import (
    ControlPoint,
    CorpusComparator,
    Declaration,
    UnmeasuredError,
)
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.records import NeighborGraph

_SOURCE = "CleanBase, arXiv 2605.00460"
CLIQUE_DECLARATION = Declaration(
    name="cleanbase",
    control_point=ControlPoint.INGEST,
    needs=frozenset({Need.EMBEDDER}),
    native_rule=(
        "keep edges above mean + 2.5 standard deviations of half the edges; flag the members of "
        "maximal cliques of 3 to 11 documents, exact copies aside; the sample is seeded"
    ),
    fidelity=Fidelity.EXACT,
    source=_SOURCE,
    binary=True,
)
TRIANGLE_DECLARATION = Declaration(
    name="cleanbase-triangle",
    control_point=ControlPoint.INGEST,
    needs=frozenset({Need.EMBEDDER}),
    native_rule=(
        "flag a document in a triangle whose weakest edge exceeds the clique rule's threshold: "
        "the same decision without the limits on size and copies"
    ),
    fidelity=Fidelity.VARIANT,
    source=_SOURCE,
)

# Cosines of identical float32 rows miss 1 by about this.
_COPY = 1.0 - 1e-6

Adjacency = Sequence[Mapping[int, float]]


@dataclasses.dataclass(frozen=True, slots=True)
class CleanBaseConfig:
    """Constants.

    :param neighbors: per document, before edges are made undirected.
    :param deviations: above the mean at which an edge is heavy.
    :param sampled: share of the edges that set the threshold.
    :param smallest: documents of a clique.
    :param largest: documents of a clique.
    """

    neighbors: int = 10
    deviations: float = 2.5
    sampled: float = 0.5
    seed: int = 2026
    smallest: int = 3
    largest: int = 11

    def __post_init__(self) -> None:
        if self.neighbors < 1 or not 0 < self.sampled <= 1:
            raise ConfigError("cleanbase: neighbors must be at least 1 and sampled in (0, 1]")
        if not 2 <= self.smallest <= self.largest:  # noqa: PLR2004
            raise ConfigError("cleanbase: expected 2 <= smallest <= largest")


class _CleanBase(CorpusComparator):
    def __init__(self, config: CleanBaseConfig | None = None) -> None:
        self.config = config or CleanBaseConfig()
        self.neighbors = self.config.neighbors

    def fingerprint(self) -> str:
        """Hash of the constants."""
        return fingerprint(self.profile, self.config)


class CleanBase(_CleanBase):
    """Score: 1 for a member of a suspicious clique, else 0."""

    declaration = CLIQUE_DECLARATION

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
    ) -> npt.NDArray[np.float64]:
        """Members of maximal cliques over the heavy edges."""
        networkx = require("networkx", extra="lab")
        edges = undirected_edges(nearest(graph, self.config.neighbors))
        heavy = networkx.Graph()
        cut = edge_threshold(edges, self.config)
        heavy.add_weighted_edges_from((i, j, w) for (i, j), w in edges.items() if w > cut)
        flagged = np.zeros(len(contents))
        for clique in networkx.find_cliques(heavy):
            if not self.config.smallest <= len(clique) <= self.config.largest:
                continue
            weights = [heavy[i][j]["weight"] for i, j in itertools.combinations(clique, 2)]
            if float(np.mean(weights)) < _COPY:
                flagged[clique] = 1.0
        return flagged


class CleanBaseTriangle(_CleanBase):
    """Score: weakest edge of the best triangle around a document over the threshold, >= 0."""

    declaration = TRIANGLE_DECLARATION

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
    ) -> npt.NDArray[np.float64]:
        """``s_i / T``; 0 without a triangle.

        :raises UnmeasuredError: when the threshold is not positive: no ratio has a meaning.
        """
        edges = undirected_edges(nearest(graph, self.config.neighbors))
        cut = edge_threshold(edges, self.config)
        if not cut > 0:
            raise UnmeasuredError(f"the edges' threshold must be positive, found {cut:.4f}")
        strongest = np.maximum(triangle_bottlenecks(edges, len(contents)), 0.0)
        ratio = strongest / cut
        # The rule says above, the detector flags at the threshold or above.
        below_one = np.nextafter(1.0, 0.0)
        return np.where(strongest > cut, np.maximum(ratio, 1.0), np.minimum(ratio, below_one))


def undirected_edges(graph: NeighborGraph) -> dict[tuple[int, int], float]:
    """Weights of the edges (i, j), i < j, that either end has among its neighbours, in order."""
    found: dict[tuple[int, int], float] = {}
    for row, (near, weights) in enumerate(
        zip(graph.indices.tolist(), graph.similarities.tolist(), strict=True)
    ):
        for other, weight in zip(near, weights, strict=True):
            found[min(row, other), max(row, other)] = weight
    return dict(sorted(found.items()))


def edge_threshold(edges: Mapping[tuple[int, int], float], config: CleanBaseConfig) -> float:
    """``T = mean + 2.5 std`` over a seeded sample of the edges; infinite without an edge."""
    weights = np.fromiter(edges.values(), dtype=np.float64, count=len(edges))
    if not weights.size:
        return float("inf")
    size = max(1, int(weights.size * config.sampled))
    sample = np.random.default_rng(config.seed).choice(weights, size=size, replace=False)
    return float(sample.mean() + config.deviations * sample.std())


def triangle_bottlenecks(
    edges: Mapping[tuple[int, int], float], size: int
) -> npt.NDArray[np.float64]:
    """Largest over a document's triangles of the triangle's smallest edge; -inf without one.

    :returns: shape (size,).
    """
    degree = np.zeros(size, dtype=np.int64)
    for i, j in edges:
        degree[i] += 1
        degree[j] += 1
    # Every edge points to its end of higher degree: hubs then have few edges of their own.
    onward: list[dict[int, float]] = [{} for _ in range(size)]
    for (i, j), weight in edges.items():
        low, high = (i, j) if (degree[i], i) < (degree[j], j) else (j, i)
        onward[low][high] = weight
    best = np.full(size, -np.inf)
    for i, of_i in enumerate(onward):
        for j, weight in of_i.items():
            for k in of_i.keys() & onward[j].keys():
                weakest = min(weight, of_i[k], onward[j][k])
                for member in (i, j, k):
                    best[member] = max(best[member], weakest)
    return best
