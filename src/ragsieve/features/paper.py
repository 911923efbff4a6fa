"""What the published rule reads off each text, kept as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.density import EDGE_COSINE, EDGE_OVERLAP, Densities, density_contrasts
from ragsieve.evidence.scripts import integrity_violations
from ragsieve.evidence.tokens import paper_words
from ragsieve.features.overlaps import jaccards
from ragsieve.features.ragged import Ragged
from ragsieve.features.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True, slots=True)
class PaperFeatures:
    """Words and scripts of V texts.

    :param words: the distinct paper words of each, as vocabulary numbers, sorted.
    :param integrity: shape (V,), whether I_i is 1.
    """

    words: Ragged
    integrity: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.words)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The columns by name, for storage."""
        return {
            "words": self.words.values,
            "word_offsets": self.words.offsets,
            "integrity": self.integrity,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[np.generic]]) -> PaperFeatures:
        """Columns stored earlier.

        :raises KeyError: when one is missing.
        """
        return cls(
            Ragged(
                arrays["words"].astype(np.int32, copy=False),
                arrays["word_offsets"].astype(np.int64, copy=False),
            ),
            arrays["integrity"].astype(np.bool_, copy=False),
        )


def paper_features(contents: Sequence[str], vocabulary: Vocabulary) -> PaperFeatures:
    """Read every text; the vocabulary grows by what is new in them."""
    return PaperFeatures(paper_word_rows(contents, vocabulary), integrity_violations(contents))


def paper_word_rows(contents: Sequence[str], vocabulary: Vocabulary) -> Ragged:
    """The distinct paper words of each text, as sorted vocabulary numbers."""
    everything: list[int] = []
    sizes = []
    for text in contents:
        found = vocabulary.numbers(paper_words(text))
        sizes.append(len(found))
        everything.extend(found)
    rows = np.repeat(np.arange(len(sizes)), np.array(sizes, dtype=np.int64))
    return Ragged.distinct(np.array(everything, dtype=np.int32), rows, len(sizes))


def edges_of(similarities: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which neighbours are near enough to support, whatever their words: shape (V, k)."""
    return np.asarray(similarities >= EDGE_COSINE)


def densities(
    words: Ragged,
    rows: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> Densities:
    """Density contrast of some documents over their eligible neighbours.

    :param words: of all documents; only those at an edge are looked at.
    :param rows: shape (n,), the documents.
    :param indices: shape (n, k), their neighbours, numbered as ``words``.
    :param similarities: shape (n, k), theirs, non-increasing along a row.
    """
    eligible = edges_of(similarities)
    place, column = np.nonzero(eligible)
    left, right = rows[place], indices[place, column]
    # Two documents that are neighbours of each other share their words once.
    pairs, back = np.unique(
        np.minimum(left, right) * np.int64(len(words)) + np.maximum(left, right),
        return_inverse=True,
    )
    overlap = jaccards(words, *np.divmod(pairs, np.int64(max(1, len(words)))))
    eligible[place, column] = overlap[back] <= EDGE_OVERLAP
    return density_contrasts(similarities, eligible)
