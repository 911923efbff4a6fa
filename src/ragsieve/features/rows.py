"""Embeddings by document id, where nothing else about a corpus is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.records import Document, DocumentFeatures, Surroundings


class RowFeatures:
    """A :class:`ragsieve.ports.FeatureSource` of embeddings alone.

    :param embeddings: shape (len(documents), d), unit rows.
    """

    def __init__(self, documents: Sequence[Document], embeddings: npt.ArrayLike) -> None:
        self._rows = np.asarray(embeddings)
        self._places = {document.id: place for place, document in enumerate(documents)}

    @property
    def surroundings(self) -> Surroundings:
        """Nothing is known about the corpus."""
        return Surroundings()

    def features(self, document_ids: Sequence[str]) -> tuple[DocumentFeatures, ...]:
        """The embedding of each document that is known."""
        places = [self._places.get(name) for name in document_ids]
        return tuple(
            DocumentFeatures() if place is None else DocumentFeatures(embedding=self._rows[place])
            for place in places
        )
