"""Query overlap: a document that repeats the query, whole or nearly, is dropped."""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators.base import ControlPoint, Declaration, QueryComparator
from ragsieve.lab.poison.base import Fidelity

DECLARATION = Declaration(
    name="query-overlap",
    control_point=ControlPoint.RETRIEVAL,
    needs=frozenset(),
    native_rule=(
        "drop a document that holds the query, or a stretch of the query's length whose "
        "difflib ratio to it is at least 0.8"
    ),
    fidelity=Fidelity.RECONSTRUCTED,
    source="simple defence in the comparison of CamoDocs",
)


@dataclasses.dataclass(frozen=True, slots=True)
class OverlapConfig:
    """Constants."""

    candidates: int = 5
    ratio: float = 0.8

    def __post_init__(self) -> None:
        if self.candidates < 1 or not 0 < self.ratio <= 1:
            raise ConfigError(
                "query-overlap: candidates must be at least 1 and ratio in (0, 1], found "
                f"{self.candidates} and {self.ratio}"
            )


class QueryOverlap(QueryComparator):
    """Score: the best ratio of any stretch, in [0, 1]; 1 where the query stands in the text."""

    declaration = DECLARATION

    def __init__(self, config: OverlapConfig | None = None) -> None:
        self.config = config or OverlapConfig()
        self.candidates = self.config.candidates
        self.threshold = self.config.ratio

    def fingerprint(self) -> str:
        """Hash of the constants."""
        return fingerprint(self.profile, self.config)

    def scores(self, view: QueryView) -> Sequence[float]:
        """The best ratio of each candidate."""
        return [best_ratio(view.query, text) for text in view.candidates]


def best_ratio(query: str, text: str) -> float:
    """Best ``2 M / (|a| + |b|)`` of the query and any stretch of its length, cases folded.

    :returns: in [0, 1]; 0 when either is empty.
    """
    asked, seen = query.lower().strip(), text.lower()
    if not asked or not seen:
        return 0.0
    if asked in seen:
        return 1.0
    size = min(len(asked), len(seen))
    bounds = _bounds(asked, seen, size)
    best = 0.0
    # The shared characters bound the ratio from above, so most stretches need no look.
    for start in np.argsort(-bounds, kind="stable").tolist():
        if bounds[start] <= best:
            break
        window = seen[start : start + size]
        best = max(best, difflib.SequenceMatcher(None, asked, window).ratio())
    return best


def _bounds(asked: str, seen: str, size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    codes = np.array([ord(character) for character in seen])
    shared = np.zeros(len(seen) - size + 1)
    for character, count in Counter(asked).items():
        running = np.concatenate([[0], np.cumsum(codes == ord(character))])
        shared += np.minimum(running[size:] - running[:-size], count)
    return 2 * shared / (len(asked) + size)
