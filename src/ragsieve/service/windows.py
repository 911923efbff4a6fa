"""What recent traffic looks like: shares over the last retrievals, and how far they moved."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable

from ragsieve.records import Decision

RECENT_RETRIEVALS = 1_000
RECENT_DECISIONS = 2_000
REMEMBERED_SUSPECTS = 20_000
# Keeps the index finite where a decision never occurred: half a count.
_HALF = 0.5


class Traffic:
    """Counts over windows; may be shared between threads. A share of nothing is None, not 0.

    The reference is the first full window of decisions after the start.
    """

    def __init__(
        self, *, retrievals: int = RECENT_RETRIEVALS, decisions: int = RECENT_DECISIONS
    ) -> None:
        self._fallbacks: deque[bool] = deque(maxlen=retrievals)
        self._tails: deque[tuple[int, int]] = deque(maxlen=retrievals)
        self._decisions: deque[Decision] = deque(maxlen=decisions)
        self._reference: Counter[Decision] = Counter()
        self._size = decisions
        self._suspects: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def fell_back(self) -> None:
        """One retrieval was not judged."""
        with self._lock:
            self._fallbacks.append(True)

    def judged(
        self,
        collection: str,
        decisions: Iterable[tuple[str, Decision]],
        tail_ids: Iterable[str],
        suspects: frozenset[str],
    ) -> None:
        """One retrieval was judged.

        :param decisions: of the candidates, by id.
        :param tail_ids: the documents they were judged against.
        :param suspects: what a scan flagged.
        """
        with self._lock:
            self._fallbacks.append(False)
            for name, decision in decisions:
                if self._reference.total() < self._size:
                    self._reference[decision] += 1
                else:
                    self._decisions.append(decision)
                if decision is Decision.FLAGGED:
                    self._suspects[(collection, name)] = None
                    self._suspects.move_to_end((collection, name))
            while len(self._suspects) > REMEMBERED_SUSPECTS:
                self._suspects.popitem(last=False)
            tail = list(tail_ids)
            found = sum(name in suspects or (collection, name) in self._suspects for name in tail)
            if tail:
                self._tails.append((found, len(tail)))

    @property
    def fallback_share(self) -> float | None:
        """Recent retrievals that were not judged, in [0, 1]."""
        with self._lock:
            return sum(self._fallbacks) / len(self._fallbacks) if self._fallbacks else None

    @property
    def tail_contamination(self) -> float | None:
        """Recent tail places held by documents flagged by a scan or in a retrieval, in [0, 1].

        A tail of such documents raises the bar that others are measured by.
        """
        with self._lock:
            places = sum(size for _, size in self._tails)
            return sum(found for found, _ in self._tails) / places if places else None

    def decision_shares(self) -> dict[Decision, float] | None:
        """Shares of the decisions in the recent window; the reference until that is full."""
        with self._lock:
            counts = self._recent()
        total = counts.total()
        return {one: counts[one] / total for one in Decision} if total else None

    @property
    def drift(self) -> float | None:
        """Population stability index of recent decisions against the reference, >= 0.

        ``sum((p - q) ln(p / q))`` over decisions; None until both windows are full. Usual marks:
        above .1 a shift, above .25 a large one.
        """
        with self._lock:
            if self._reference.total() < self._size or len(self._decisions) < self._size:
                return None
            recent, reference = Counter(self._decisions), self._reference
        total = self._size + _HALF * len(Decision)
        shares = [
            ((recent[one] + _HALF) / total, (reference[one] + _HALF) / total) for one in Decision
        ]
        return math.fsum((p - q) * math.log(p / q) for p, q in shares)

    def _recent(self) -> Counter[Decision]:
        return Counter(self._decisions) if self._decisions else self._reference
