"""BM25 over texts kept in memory: few enough lines not to need a package."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tokens import paper_words

_K1, _B = 1.5, 0.75


class Bm25:
    """Okapi BM25 with k1 = 1.5, b = 0.75 and ``idf = ln(1 + (N - n + 0.5) / (n + 0.5))``."""

    def __init__(self, texts: Sequence[str]) -> None:
        places: dict[str, list[tuple[int, int]]] = {}
        lengths = np.zeros(len(texts))
        for row, text in enumerate(texts):
            counts = Counter(paper_words(text))
            lengths[row] = counts.total()
            for word, count in counts.items():
                places.setdefault(word, []).append((row, count))
        self._size = len(texts)
        average = max(1.0, float(lengths.sum()) / max(1, len(texts)))
        self._norms = _K1 * (1 - _B + _B * lengths / average)
        self._places = {word: np.array(found).T for word, found in places.items()}

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Of every text, shape (texts,), >= 0, large is relevant."""
        total = np.zeros(self._size)
        for word in set(paper_words(query)):
            if word not in self._places:
                continue
            rows, counts = self._places[word]
            rare = math.log(1 + (self._size - rows.size + 0.5) / (rows.size + 0.5))
            total[rows] += rare * counts * (_K1 + 1) / (counts + self._norms[rows])
        return total
