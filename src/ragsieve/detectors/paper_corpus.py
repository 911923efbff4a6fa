"""RSG as published: density contrast against a 5% alert budget, and script integrity."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import Measurement, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.density import (
    Densities,
    Edge,
    NeighborhoodDetail,
    density_contrast,
    is_eligible,
)
from ragsieve.evidence.scripts import integrity_violations, script_profile
from ragsieve.evidence.tails import corpus_tail
from ragsieve.evidence.tokens import jaccard, paper_word_set
from ragsieve.features.paper import PaperFeatures, densities, edges_of, paper_word_rows
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.records import (
    Detail,
    Document,
    Evidence,
    EvidenceColumn,
    Level,
    NeighborGraph,
    Provenance,
    Scan,
)

TOPOLOGY = "topology_score"
INTEGRITY = "script_integrity"


@dataclasses.dataclass(frozen=True, slots=True)
class PaperCorpusConfig:
    """Constants of RSG, equation symbols in brackets.

    :param neighbors: per document [k_G].
    :param alert_budget: share of the corpus the scan may flag [alpha_G].
    :param threshold: flagged at or above [eta_G].
    :param max_characters: of a document examined for words and scripts; ours, not the paper's.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    neighbors: int = 16
    alert_budget: float = 0.05
    threshold: float = 0.5
    max_characters: int = 1_000_000

    def __post_init__(self) -> None:
        if self.neighbors < 1 or self.max_characters < 1:
            raise ConfigError("corpus: neighbors and max_characters must be at least 1")
        if not 0 < self.alert_budget < 1 or not 0 < self.threshold <= 1:
            raise ConfigError(
                "corpus: alert_budget must lie in (0, 1) and threshold in (0, 1], found "
                f"{self.alert_budget} and {self.threshold}"
            )


class PaperCorpusRule:
    """Measures RSG's topology score and script integrity over a snapshot."""

    profile = "paper"

    def __init__(self, config: PaperCorpusConfig | None = None) -> None:
        self.config = config or PaperCorpusConfig()

    @property
    def neighbors(self) -> int:
        """Neighbours per document, k_G."""
        return self.config.neighbors

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        return self.config.threshold

    @property
    def max_characters(self) -> int:
        """Characters of a document that are examined."""
        return self.config.max_characters

    def fingerprint(self) -> str:
        """Hash of the constants."""
        return fingerprint(self.profile, self.config)

    def combine(self, values: Sequence[float]) -> float:
        """``S_i = max(T_i, I_i)``."""
        return max(values, default=0.0)

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """The published detector knows one flag."""
        return Level.QUARANTINE

    def measure(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
        declared: Sequence[Provenance],  # noqa: ARG002 -- the published rule does not look
    ) -> Measurement:
        """Read the texts, then :meth:`judge`.

        Words are read only of documents at an edge of cosine 0.85 or more.
        """
        at_edge = edges_of(graph.similarities)
        needed = np.zeros(len(contents), dtype=np.bool_)
        needed[at_edge.any(axis=1)] = True
        needed[graph.indices[at_edge]] = True
        words = paper_word_rows(
            [
                text if wanted else ""
                for text, wanted in zip(contents, needed.tolist(), strict=True)
            ],
            Vocabulary(),
        )
        return self.judge(PaperFeatures(words, integrity_violations(contents)), graph)

    def judge(self, features: PaperFeatures, graph: NeighborGraph) -> Measurement:
        """The evidences of documents whose texts were read before.

        :param graph: one row a document of ``features``.
        """
        rows = np.arange(len(features))
        found = densities(features.words, rows, graph.indices, graph.similarities)
        return self.judge_density(found, features.integrity)

    def judge_density(self, found: Densities, violations: npt.NDArray[np.bool_]) -> Measurement:
        """``T_i = min(1, 0.5 alpha / p_i)`` and ``I_i``.

        ``alpha = max(0, budget - mean I)``: script alarms are paid from the same budget.

        :param violations: shape (V,), whether I_i is 1.
        """
        integrity = violations.astype(np.float64)
        tail = corpus_tail(found.density)
        rate = float(integrity.mean()) if integrity.size else 0.0
        topology = topology_scores(tail, max(0.0, self.config.alert_budget - rate))
        components = (
            ("eligible_neighbors", found.eligible),
            ("density_contrast", found.density),
            ("upper_tail_probability", tail),
        )
        columns = (
            EvidenceColumn(TOPOLOGY, topology, components=components),
            EvidenceColumn(INTEGRITY, integrity),
        )
        return Measurement(columns)

    def details(
        self, documents: Sequence[Document], scan: Scan, row: int
    ) -> tuple[Detail | None, ...]:
        """The neighbourhood and the scripts behind one document's evidences."""
        own = paper_word_set(documents[row].content[: self.max_characters])
        edges = []
        for neighbor, similarity in zip(
            scan.graph.indices[row].tolist(), scan.graph.similarities[row].tolist(), strict=True
        ):
            other = documents[neighbor].content[: self.max_characters]
            overlap = jaccard(own, paper_word_set(other))
            eligible = is_eligible(similarity, overlap)
            edges.append(Edge(documents[neighbor].id, similarity, overlap, eligible))
        kept = np.array([edge.similarity for edge in edges if edge.eligible], dtype=np.float64)
        contrast = density_contrast(kept, edges[-1].similarity if edges else 0.0)
        topology = scan.column(TOPOLOGY)
        probability = float(dict(topology.components)["upper_tail_probability"][row])
        rate = float(scan.column(INTEGRITY).values.mean())
        neighborhood = NeighborhoodDetail(
            contrast, tuple(edges), probability, max(0.0, self.config.alert_budget - rate)
        )
        profile = script_profile(documents[row].content[: self.max_characters])
        return neighborhood, profile


def topology_scores(tail: npt.NDArray[np.float64], budget: float) -> npt.NDArray[np.float64]:
    """``T = min(1, 0.5 alpha / p)``; 0 everywhere when no budget is left.

    :param tail: shape (V,), in (0, 1].
    :param budget: alpha >= 0.
    :returns: shape (V,), in [0, 1], large is suspicious.
    """
    return np.minimum(1.0, 0.5 * budget / tail)
