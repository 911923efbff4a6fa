"""Adversarial hubness: documents that far more probes retrieve than is usual."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.detectors.rules import Measurement, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.knn import cosine_knn, nearest_rows
from ragsieve.lab.comparators._clusters import quiet_clustering
from ragsieve.lab.comparators._vectors import check_rows, corpus_rows
from ragsieve.lab.comparators.base import ControlPoint, CorpusComparator, Declaration
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.records import EvidenceColumn, FloatArray, NeighborGraph, Provenance

DECLARATION = Declaration(
    name="ahd",
    control_point=ControlPoint.INGEST,
    needs=frozenset({Need.EMBEDDER}),
    native_rule=(
        "flag a robust z-score of weighted hits of 6 or more, or the highest 0.1% of the risk "
        "0.6 z + 0.2 spread over probe clusters - 0.3 boilerplate; cosine distance as written, "
        "not the inner product that the published code reads in its place"
    ),
    fidelity=Fidelity.RECONSTRUCTED,
    source="Adversarial Hubness Detector, arXiv 2602.22427",
)

_MAD_UNIT = 1.4826
_CLIP = 100.0
_NEAR_COPY = 0.95
_COPIES_LOOKED_AT = 10
_CLUSTER_SEED = 42
_SMALLEST = 2


@dataclasses.dataclass(frozen=True, slots=True)
class HubnessConfig:
    """Constants.

    :param probes: half random documents, half centroids of clusters of them.
    :param hits: documents that a probe retrieves.
    :param clusters: of probes, at most.
    :param zscore: at which a document is flagged.
    :param highest: share of documents that is flagged by risk.
    :param sampled: documents among which boilerplate is sought, at most.
    """

    probes: int = 10_000
    hits: int = 20
    clusters: int = 1024
    zscore: float = 6.0
    highest: float = 0.001
    sampled: int = 10_000
    seed: int = 42

    def __post_init__(self) -> None:
        if min(self.probes, self.hits, self.clusters, self.sampled) < _SMALLEST:
            raise ConfigError("ahd: probes, hits, clusters and sampled must be at least 2")
        if not 0 < self.highest < 1 or not 0 < self.zscore <= _CLIP:
            raise ConfigError("ahd: highest must lie in (0, 1) and zscore in (0, 100]")


class Hubness(CorpusComparator):
    """Score: the risk brought into [0, 1), plus 1 for what the published rule flags.

    The rule's two parts look at two numbers, so one threshold on the risk cannot say it.
    Components: ``hub_z`` and ``hub_risk``.

    :param rows: the corpus's vectors, one a document.
    """

    declaration = DECLARATION

    def __init__(self, rows: FloatArray, config: HubnessConfig | None = None) -> None:
        self.config = config or HubnessConfig()
        self._rows = corpus_rows(rows)

    def fingerprint(self) -> str:
        """Hash of the constants and the vectors."""
        rows = hashlib.sha256(np.ascontiguousarray(self._rows).tobytes()).hexdigest()
        return fingerprint(self.profile, self.config, rows)

    def measure(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,  # noqa: ARG002
        declared: Sequence[Provenance],  # noqa: ARG002
    ) -> Measurement:
        """The score, with the z-score and the risk as components."""
        check_rows(self._rows, len(contents))
        if len(contents) < _SMALLEST:
            reason = "hubs need at least two documents"
            missing = np.full(len(contents), np.nan)
            return Measurement((EvidenceColumn(self.profile, missing, reason=reason),))
        zscores, risk = self._risk()
        column = EvidenceColumn(
            self.profile,
            self._judged(zscores, risk),
            components=(("hub_z", zscores), ("hub_risk", risk)),
        )
        return Measurement((column,))

    def scores(self, contents: Sequence[str], graph: NeighborGraph) -> npt.NDArray[np.float64]:
        """The score alone."""
        return self.measure(contents, graph, ()).columns[0].values

    def _judged(
        self, zscores: npt.NDArray[np.float64], risk: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        high = risk >= np.percentile(risk, 100 * (1 - self.config.highest))
        # z lies in +-100, spread and boilerplate in [0, 1].
        span = 0.6 * _CLIP + 0.5
        placed = (risk + span) / (2 * span)
        judged: npt.NDArray[np.float64] = placed + (high | (zscores >= self.config.zscore))
        return judged

    def _risk(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        size = len(self._rows)
        rng = np.random.default_rng(self.config.seed)
        probes = self._probes(rng)
        found, cosines = nearest_rows(probes, self._rows, self.config.hits)
        zscores = robust_zscores(weighted_hits(found, cosines, size))
        spread = cluster_spread(found, self._groups(probes), size)
        risk = 0.6 * zscores + 0.2 * spread - 0.3 * self._boilerplate(rng)
        return zscores, risk

    def _probes(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        size, half = len(self._rows), self.config.probes // 2
        documents = self._rows[rng.choice(size, min(half, size), replace=False)]
        count = min(size, max(_SMALLEST, min(half, size // 10)))
        centres = self._means(self._rows, count, self.config.seed, 1000).cluster_centers_[:half]
        more = min(half - len(centres), size)
        filled = self._rows[rng.choice(size, more, replace=False)]
        probes = np.vstack([documents, centres, filled]).astype(np.float64)
        # Clusters that cancel out have no direction to ask in.
        kept: npt.NDArray[np.float64] = probes[np.linalg.norm(probes, axis=1) > 0]
        return kept

    def _groups(self, probes: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        count = min(self.config.clusters, len(probes) // 10, len(self._rows) // 100)
        count = min(len(probes), max(_SMALLEST, count))
        return np.asarray(self._means(probes, count, _CLUSTER_SEED, 10_000).labels_, dtype=np.int64)

    @staticmethod
    def _means(
        rows: npt.NDArray[np.floating], count: int, seed: int, batch: int
    ) -> _FittedClusters:
        cluster = require("sklearn.cluster", extra="lab")
        with quiet_clustering():
            fitted: _FittedClusters = cluster.MiniBatchKMeans(
                n_clusters=count, random_state=seed, batch_size=min(batch, len(rows)), n_init=3
            ).fit(rows)
        return fitted

    def _boilerplate(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        size = len(self._rows)
        chosen = rng.choice(size, min(self.config.sampled, size), replace=False)
        looked = min(_COPIES_LOOKED_AT, len(chosen))
        near = cosine_knn(self._rows[chosen], looked - 1).similarities
        # Squared distance of unit rows; the document itself counts as one.
        close = 1 + (2 - 2 * near < _NEAR_COPY).sum(axis=1)
        found = np.zeros(size)
        found[chosen] = np.where(close > 1, np.minimum(1.0, close / looked), 0.0)
        return found


class _FittedClusters:
    cluster_centers_: npt.NDArray[np.float64]
    labels_: npt.NDArray[np.int32]


def weighted_hits(
    found: npt.NDArray[np.int64], cosines: npt.NDArray[np.float64], size: int
) -> npt.NDArray[np.float64]:
    """``h_d = sum of max(0, 1 - distance) / (rank + 1) over probes``, over the number of probes.

    :param found: shape (probes, k), documents retrieved, best first; ranks count from 0.
    :param cosines: shape (probes, k); distance is 1 - cosine.
    :returns: shape (size,), >= 0.
    """
    weights = np.maximum(0.0, cosines) / np.arange(1, found.shape[1] + 1)
    hits = np.bincount(found.ravel(), weights=weights.ravel(), minlength=size)
    return hits / len(found)


def robust_zscores(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``(h - median) / (1.4826 MAD)`` within +-100; all 0 where the MAD is 0."""
    median = float(np.median(values))
    deviation = float(np.median(np.abs(values - median)))
    if deviation == 0:
        return np.zeros_like(values)
    return np.clip((values - median) / (_MAD_UNIT * deviation), -_CLIP, _CLIP)


def cluster_spread(
    found: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.float64]:
    """Entropy over probe clusters of a document's hits, over its largest value, in [0, 1].

    :param found: shape (probes, k), documents retrieved.
    :param groups: shape (probes,), each probe's cluster.
    :returns: shape (size,); 0 for a document that no probe retrieves.
    """
    names, places = np.unique(groups, return_inverse=True)
    if names.size <= 1:
        return np.zeros(size)
    pairs, counts = np.unique(found * names.size + places.reshape(-1, 1), return_counts=True)
    owners = pairs // names.size
    totals = np.bincount(owners, weights=counts, minlength=size)
    shares = counts / totals[owners]
    entropy = np.bincount(owners, weights=-shares * np.log(shares), minlength=size)
    spread: npt.NDArray[np.float64] = np.maximum(entropy, 0.0) / np.log(names.size)
    return spread
