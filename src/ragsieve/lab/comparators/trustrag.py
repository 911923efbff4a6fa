"""TrustRAG stage 1: where retrieved documents repeat one another, drop the tight cluster."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators._clusters import quiet_clustering
from ragsieve.lab.comparators._text import rouge_l
from ragsieve.lab.comparators._vectors import document_rows
from ragsieve.lab.comparators.base import (
    ControlPoint,
    Declaration,
    QueryComparator,
    UnmeasuredError,
)
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import TextEmbedder

DECLARATION = Declaration(
    name="trustrag",
    control_point=ControlPoint.RETRIEVAL,
    needs=frozenset({Need.EMBEDDER}),
    native_rule=(
        "stage 1: when two documents share ROUGE-L above 0.25, split the list in two by KMeans "
        "and drop what a mean cosine of 0.88 and an n-gram filter say; the index's own encoder "
        "in place of SimCSE"
    ),
    fidelity=Fidelity.EXACT,
    source="TrustRAG, arXiv 2501.00879",
    binary=True,
)

_ROUNDING = 1e-6

Alike = Callable[[int, int], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class TrustRagConfig:
    """Constants.

    :param rouge: ROUGE-L F1 above which two texts repeat each other.
    :param cosine: mean cosine above which a cluster is tight.
    """

    candidates: int = 5
    rouge: float = 0.25
    cosine: float = 0.88

    def __post_init__(self) -> None:
        if self.candidates < 1 or not 0 <= self.rouge < 1 or not -1 < self.cosine < 1:
            raise ConfigError(
                "trustrag: candidates must be at least 1, rouge in [0, 1), cosine in (-1, 1)"
            )


class TrustRag(QueryComparator):
    """Score: 1 for a dropped document, else 0; ties everywhere, so its own cut-off only."""

    declaration = DECLARATION

    def __init__(
        self, embedder: TextEmbedder | None = None, config: TrustRagConfig | None = None
    ) -> None:
        self.config = config or TrustRagConfig()
        self.candidates = self.config.candidates
        self._embedder = embedder

    def fingerprint(self) -> str:
        """Hash of the constants and the encoder."""
        encoder = None if self._embedder is None else self._embedder.identity
        return fingerprint(self.profile, self.config, encoder)

    def scores(self, view: QueryView) -> Sequence[float]:
        """Whether each candidate is dropped."""
        count = len(view.candidates)
        alike = _comparison(view.candidates, self.config.rouge)
        if not any(alike(*pair) for pair in itertools.combinations(range(count), 2)):
            return [0.0] * count
        rows = document_rows(view, self._embedder)
        if not bool(np.isfinite(rows).all()):
            raise UnmeasuredError("an embedding of the list is zero or not finite")
        gone = dropped(rows, split(rows), alike, self.config.cosine)
        return [float(row in gone) for row in range(count)]


def split(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """KMeans' two clusters of the rows, standardised per dimension and brought to length 1.

    :param rows: shape (n, d).
    :returns: shape (n,), 0 or 1; all 0 where every row is the same.
    """
    # Copies differ by rounding at most, which standardising would blow up.
    if bool((np.ptp(rows, axis=0) <= _ROUNDING).all()):
        return np.zeros(len(rows), dtype=np.int64)
    preprocessing = require("sklearn.preprocessing", extra="lab")
    scaled = np.asarray(preprocessing.StandardScaler().fit_transform(rows))
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = scaled / np.where(lengths > 0, lengths, 1.0)
    cluster = require("sklearn.cluster", extra="lab")
    with quiet_clustering():
        model = cluster.KMeans(n_clusters=2, n_init=10, max_iter=500, random_state=0)
        return np.asarray(model.fit(unit).labels_, dtype=np.int64)


def dropped(
    rows: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], alike: Alike, tight: float
) -> frozenset[int]:
    """What stage 1 removes.

    :param rows: shape (n, d), unit length.
    :param groups: shape (n,), each document's cluster.
    :param alike: whether two documents repeat each other.
    :param tight: mean cosine above which a cluster is tight.
    """
    everything = frozenset(range(len(rows)))
    zero, one = (np.flatnonzero(groups == name).tolist() for name in (0, 1))
    if not zero or not one:
        # Rows that are all the same: one cluster, as tight as can be.
        return everything
    for lone, others in ((one, zero), (zero, one)):
        if len(lone) == 1:
            if not _mean_cosine(rows, others) > tight:
                return frozenset(lone)
            crossing = float(rows[zero[0]] @ rows[one[0]])
            return everything if crossing > tight else frozenset(others)
    first_is_tighter = _mean_cosine(rows, one) > _mean_cosine(rows, zero)
    tighter, looser = (one, zero) if first_is_tighter else (zero, one)
    if _mean_cosine(rows, looser) > tight:
        return everything
    if _mean_cosine(rows, tighter) < tight:
        return repeated(tighter, alike) | repeated(looser, alike)
    return frozenset(tighter) | repeated(looser, alike)


def repeated(members: Sequence[int], alike: Alike) -> frozenset[int]:
    """The n-gram filter: both of a repeating pair, and what repeats the first such document."""
    gone: set[int] = set()
    first: int | None = None
    for place, member in enumerate(members):
        if member in gone:
            continue
        partner = next((other for other in members[place + 1 :] if alike(member, other)), None)
        if partner is not None:
            gone |= {member, partner}
            first = member if first is None else first
        if first is not None and alike(member, first):
            gone.add(member)
    return frozenset(gone)


def _mean_cosine(rows: npt.NDArray[np.float64], members: Sequence[int]) -> float:
    # A singleton has no pair; its mean is no number, and no number is above a threshold.
    pairs = [float(rows[i] @ rows[j]) for i, j in itertools.combinations(members, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")


def _comparison(texts: Sequence[str], gate: float) -> Alike:
    tokenizers = require("rouge_score.tokenizers", extra="lab")
    stemming = tokenizers.DefaultTokenizer(use_stemmer=True)
    tokens = [stemming.tokenize(text) for text in texts]
    known: dict[tuple[int, int], bool] = {}

    def alike(left: int, right: int) -> bool:
        if (left, right) not in known:
            known[left, right] = rouge_l(tokens[left], tokens[right]) > gate
        return known[left, right]

    return alike
