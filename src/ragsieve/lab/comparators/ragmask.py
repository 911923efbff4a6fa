"""RAGMask, rebuilt: how much of a document's similarity to the query a few words carry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators._vectors import normalised, query_row
from ragsieve.lab.comparators.base import ControlPoint, Declaration, QueryComparator
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import TextEmbedder

DECLARATION = Declaration(
    name="ragmask",
    control_point=ControlPoint.RETRIEVAL,
    needs=frozenset({Need.EMBEDDER}),
    native_rule=(
        "flag a document whose cosine to the query falls by 0.2 or more when one run of its "
        "words is masked; runs in place of tokens and the cut-off are ours"
    ),
    fidelity=Fidelity.RECONSTRUCTED,
    source="RAGPart and RAGMask, arXiv 2512.24268",
)


@dataclasses.dataclass(frozen=True, slots=True)
class RagMaskConfig:
    """Constants.

    :param width: words of a run, at the least.
    :param runs: runs of a document, at most; a long document has longer ones.
    :param mask: what stands in place of each word; nothing by default, since encoders differ.
    :param shift: fall of the cosine at which a document is flagged.
    """

    candidates: int = 5
    width: int = 4
    runs: int = 32
    mask: str = ""
    shift: float = 0.2

    def __post_init__(self) -> None:
        if min(self.candidates, self.width, self.runs) < 1 or not self.shift > 0:
            raise ConfigError(
                "ragmask: candidates, width and runs must be at least 1 and shift above 0"
            )


class RagMask(QueryComparator):
    """Score: the largest fall of the cosine, in [0, 2].

    Vectors of the unmasked documents come from the encoder, not from the ingest scan: the
    difference of two encoders would look like a shift.
    """

    declaration = DECLARATION

    def __init__(self, embedder: TextEmbedder, config: RagMaskConfig | None = None) -> None:
        self.config = config or RagMaskConfig()
        self.candidates = self.config.candidates
        self.threshold = self.config.shift
        self._embedder = embedder

    def fingerprint(self) -> str:
        """Hash of the constants and the encoder."""
        return fingerprint(self.profile, self.config, self._embedder.identity)

    def scores(self, view: QueryView) -> Sequence[float]:
        """The largest fall of each candidate; 0 where masking only brings it nearer."""
        masked = [masked_texts(text, self.config) for text in view.candidates]
        flat = [*view.candidates, *(text for found in masked for text in found)]
        rows = normalised(self._embedder.embed_documents(flat))
        near = rows @ query_row(view.query, self._embedder, rows.shape[1])
        start = len(view.candidates)
        scores = []
        for row, found in enumerate(masked):
            falls = near[row] - near[start : start + len(found)]
            start += len(found)
            scores.append(max(0.0, float(np.max(falls))) if found else math.nan)
        return scores


def masked_texts(text: str, config: RagMaskConfig) -> list[str]:
    """The text with one run of words masked, for each run; none for a text of one run."""
    words = text.split()
    width = max(config.width, math.ceil(len(words) / config.runs))
    if len(words) <= width:
        return []
    return [
        " ".join(
            [
                *words[:start],
                *([config.mask] * len(words[start : start + width]) if config.mask else []),
                *words[start + width :],
            ]
        )
        for start in range(0, len(words), width)
    ]
