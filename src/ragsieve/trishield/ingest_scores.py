"""Ring 1's measures of one document: repetition, questions, distance from the index."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from ragsieve.errors import EmbeddingError
from ragsieve.records import FloatArray
from ragsieve.trishield.words import ring_words

_FEWEST_WORDS = 8
_REPETITION_WEIGHT, _TOP_WEIGHT, _TOP_FREE = 0.6, 2.0, 0.12
_SHORT_CHARACTERS = 400
_OUTLIER_WEIGHT = 0.7
_ROWS_AT_ONCE = 8_192
_DEVIATIONS = 6.0
_LEAST_DEVIATION = 1e-3
_MAD_TO_SIGMA = 1.4826
# The question mark of an address (`?page=2`) ends no sentence.
_QUESTION = re.compile(r"\w[^?？؟]*(?:\?(?![\w=&])|[？؟])")


@dataclasses.dataclass(frozen=True, slots=True)
class Centre:
    """Where an index lies, and how far its documents lie from there.

    :param direction: shape (d,), unit mean direction.
    :param median: median of ``1 - cosine`` to it over the index.
    :param deviation: 1.4826 times the median absolute deviation of those, at least .001.
    :param rows: documents it was fitted on.
    """

    direction: FloatArray
    median: float
    deviation: float
    rows: int


def lexical_score(text: str, option: Literal["default", "paper-text"] = "default") -> float:
    """S_perp: how far a text repeats itself, in [0, 1]; 0 under eight words.

    ``default``: ``min(1, .6 rep + 2 max(0, top - .12))`` with rep = 1 - distinct / total and
    top the share of the most frequent word. ``paper-text``: ``min(1, rep + [top > .12] top)``.
    """
    words = ring_words(text)
    if len(words) < _FEWEST_WORDS:
        return 0.0
    counts = collections.Counter(words)
    repetition = 1.0 - len(counts) / len(words)
    top = max(counts.values()) / len(words)
    if option == "paper-text":
        return min(1.0, repetition + (top if top > _TOP_FREE else 0.0))
    return min(1.0, _REPETITION_WEIGHT * repetition + _TOP_WEIGHT * max(0.0, top - _TOP_FREE))


def asks_in_short(text: str) -> bool:
    """Whether a text of fewer than 400 characters holds a sentence that ends as a question."""
    return len(text) < _SHORT_CHARACTERS and _QUESTION.search(text) is not None


def outlier_score(
    row: npt.ArrayLike, centre: Centre, option: Literal["relative", "paper"] = "relative"
) -> float:
    """S_out, in [0, 1], of the distance ``d = 1 - cosine`` to the centre of the index.

    ``paper``: d clipped to [0, 1]. ``relative``: ``(d - median) / (6 deviation)`` clipped to
    [0, 1], because in an index of many subjects most documents are far from the centre.

    :raises EmbeddingError: when the row is not finite, zero, or of another dimension.
    """
    vector = np.asarray(row, dtype=np.float64)
    if vector.shape != centre.direction.shape:
        raise EmbeddingError(
            f"ingest guard: the centre has shape {centre.direction.shape}, the row "
            f"{vector.shape}; use embeddings of the encoder the guard was fitted with"
        )
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        raise EmbeddingError("ingest guard: a row is zero or not finite; embed the document again")
    distance = 1.0 - float(vector @ centre.direction) / length
    if option == "relative":
        distance = (distance - centre.median) / (_DEVIATIONS * centre.deviation)
    return min(1.0, max(0.0, distance))


def centre_of(rows: npt.ArrayLike) -> Centre:
    """The centre of an index; every row counts with its direction alone.

    :param rows: shape (V, d).
    :raises EmbeddingError: when rows are not finite, zero, or cancel out.
    """
    matrix = np.asarray(rows)
    if matrix.ndim != 2 or not len(matrix):  # noqa: PLR2004 -- rows, columns
        raise EmbeddingError(f"ingest guard: expected rows (V, d), found shape {matrix.shape}")
    mean = sum((part.sum(axis=0) for part in _unit_parts(matrix)), np.zeros(matrix.shape[1]))
    mean /= len(matrix)
    length = float(np.linalg.norm(mean))
    if length < 1e-9:  # noqa: PLR2004 -- rounding
        raise EmbeddingError("ingest guard: the rows cancel out, their mean has no direction")
    direction: FloatArray = mean / length
    distances = 1.0 - np.concatenate([part @ direction for part in _unit_parts(matrix)])
    median = float(np.median(distances))
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(distances - median)))
    return Centre(direction, median, max(_LEAST_DEVIATION, spread), len(matrix))


def _unit_parts(matrix: FloatArray) -> Iterator[FloatArray]:
    # In parts, so that an index on disk is never copied whole.
    for start in range(0, len(matrix), _ROWS_AT_ONCE):
        part = np.asarray(matrix[start : start + _ROWS_AT_ONCE], dtype=np.float64)
        lengths = np.linalg.norm(part, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbeddingError(
                f"ingest guard: rows {start} to {start + len(part) - 1} hold one that is zero or "
                "not finite; embed the corpus again"
            )
        yield part / lengths


def combined_score(lexical: float, pattern: float, outlier: float | None) -> float:
    """``C = max(S_perp, S_pat, .7 S_out + .3 max(S_perp, S_pat))``, over what was measured."""
    own = max(lexical, pattern)
    if outlier is None:
        return own
    return max(own, _OUTLIER_WEIGHT * outlier + (1.0 - _OUTLIER_WEIGHT) * own)
