"""Features of documents by slot, appended as documents come."""

from __future__ import annotations

import numpy as np

from ragsieve.features.growing import GrowingArray, GrowingRagged
from ragsieve.features.origins import Origins
from ragsieve.features.ragged import Ragged
from ragsieve.features.text import TextFeatures
from ragsieve.live.judging import Arrays, Fields, Rows


class FeatureColumns:
    """:class:`ragsieve.features.text.TextFeatures` that grow at their end."""

    def __init__(self) -> None:
        self._tokens, self._words = GrowingRagged(), GrowingRagged()
        self._questions, self._mixing = GrowingArray(np.bool_), GrowingArray(np.bool_)
        self._hidden, self._days = GrowingArray(np.float64), GrowingArray(np.float64)
        self._sources: list[str | None] = []
        self._authors: list[str | None] = []

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> Ragged:
        """The first tokens of every document."""
        return self._tokens.view

    @property
    def words(self) -> Ragged:
        """The words of every document."""
        return self._words.view

    def append(self, features: TextFeatures) -> None:
        """Take documents in, in the next slots."""
        self._tokens.append(features.tokens)
        self._words.append(features.words)
        self._questions.append(features.questions)
        self._mixing.append(features.mixing)
        self._hidden.append(features.hidden)
        self._days.append(features.origins.days)
        self._sources.extend(features.origins.sources)
        self._authors.extend(features.origins.authors)

    def view(self) -> TextFeatures:
        """All of them."""
        return self._from(0)

    def take(self, slots: Rows) -> TextFeatures:
        """Some of them, in the order given."""
        return self.view().take(slots)

    def dump(self, first: int) -> tuple[Fields, Arrays]:
        """Those from ``first`` on, for storage."""
        features = self._from(first)
        fields: Fields = {
            "sources": list(features.origins.sources),
            "authors": list(features.origins.authors),
        }
        arrays: Arrays = {
            "tokens": features.tokens.values,
            "token_offsets": features.tokens.offsets,
            "words": features.words.values,
            "word_offsets": features.words.offsets,
            "questions": features.questions,
            "mixing": features.mixing,
            "hidden": features.hidden,
            "created_days": features.origins.days,
        }
        return fields, arrays

    def load(self, fields: Fields, arrays: Arrays) -> None:
        """Take in what :meth:`dump` gave."""
        self.append(
            TextFeatures(
                tokens=Ragged(arrays["tokens"], arrays["token_offsets"]),
                words=Ragged(arrays["words"], arrays["word_offsets"]),
                questions=arrays["questions"],
                mixing=arrays["mixing"],
                hidden=arrays["hidden"],
                origins=Origins(
                    tuple(fields["sources"]), tuple(fields["authors"]), arrays["created_days"]
                ),
            )
        )

    def _from(self, first: int) -> TextFeatures:
        size = len(self)
        return TextFeatures(
            tokens=self.tokens if not first else self.tokens.rows(first, size),
            words=self.words if not first else self.words.rows(first, size),
            questions=self._questions.view[first:],
            mixing=self._mixing.view[first:],
            hidden=self._hidden.view[first:],
            origins=Origins(
                tuple(self._sources[first:]), tuple(self._authors[first:]), self._days.view[first:]
            ),
        )
