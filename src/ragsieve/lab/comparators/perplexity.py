"""Perplexity of a document under a causal language model, on a ranking and on an index."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators.base import (
    ControlPoint,
    CorpusComparator,
    Declaration,
    QueryComparator,
)
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import CausalScorer
from ragsieve.records import FloatArray, NeighborGraph

_SOURCE = "PoisonedRAG, USENIX Security 2025, section 7; cut-off of GMTP's simple baseline"
# Above this exp overflows; no text comes near.
_LARGEST_NATS = 700.0


def _declared(name: str, point: ControlPoint) -> Declaration:
    return Declaration(
        name=name,
        control_point=point,
        needs=frozenset({Need.CAUSAL}),
        native_rule="drop a document whose perplexity is at least 200; high is suspicious",
        fidelity=Fidelity.RECONSTRUCTED,
        source=_SOURCE,
    )


QUERY_DECLARATION = _declared("perplexity", ControlPoint.RETRIEVAL)
INDEX_DECLARATION = _declared("perplexity-index", ControlPoint.INGEST)


@dataclasses.dataclass(frozen=True, slots=True)
class PerplexityConfig:
    """Constants.

    :param largest: perplexity at which a document is dropped.
    """

    candidates: int = 5
    largest: float = 200.0

    def __post_init__(self) -> None:
        if self.candidates < 1 or not self.largest > 0:
            raise ConfigError("perplexity: candidates must be at least 1 and largest above 0")


def perplexity(losses: FloatArray) -> float:
    """``exp(mean NLL)``, > 0; NaN for a text without a loss.

    :param losses: shape (N,), nats.
    """
    if not np.size(losses):
        return math.nan
    mean = float(np.mean(losses))
    return math.exp(min(mean, _LARGEST_NATS)) if math.isfinite(mean) else math.nan


class Perplexity(QueryComparator):
    """Score: the document's perplexity; the query is not looked at."""

    declaration = QUERY_DECLARATION

    def __init__(self, causal: CausalScorer, config: PerplexityConfig | None = None) -> None:
        self.config = config or PerplexityConfig()
        self.candidates = self.config.candidates
        self.threshold = self.config.largest
        self._causal = causal

    def fingerprint(self) -> str:
        """Hash of the constants and the model."""
        return fingerprint(self.profile, self.config, self._causal.identity)

    def scores(self, view: QueryView) -> Sequence[float]:
        """The perplexity of each candidate."""
        return [perplexity(losses) for losses in self._causal.losses(list(view.candidates))]


class PerplexityIndex(CorpusComparator):
    """Score: the document's perplexity; neighbours are not looked at."""

    declaration = INDEX_DECLARATION

    def __init__(self, causal: CausalScorer, config: PerplexityConfig | None = None) -> None:
        self.config = config or PerplexityConfig()
        self.threshold = self.config.largest
        self._causal = causal

    def fingerprint(self) -> str:
        """Hash of the constants and the model."""
        return fingerprint(self.profile, self.config, self._causal.identity)

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,  # noqa: ARG002
    ) -> npt.NDArray[np.float64]:
        """The perplexity of each document; each distinct text is read once."""
        texts = list(dict.fromkeys(contents))
        losses = self._causal.losses(texts)
        found = {text: perplexity(trace) for text, trace in zip(texts, losses, strict=True)}
        return np.array([found[text] for text in contents])
