"""CamoDocs in the RAGSieve evaluation's form: real documents, spread apart, around a payload.

Source: arXiv 2608.28389 and the variant of it that RAGSieve is measured with: benign carriers
come from the corpus by BM25, each is cut into two chunks, the chunks are moved away from their
common centroid through a proxy encoder's gradients, and only then the payload goes between
them. Where it goes and which language model filters are choices of ours; without a language
model the filter keeps the tokens the gradient favours most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._bm25 import Bm25
from ragsieve.lab.poison._finish import Meter, finish, needed_gradients
from ragsieve.lab.poison._texts import asks_verbatim, contains, halves, holds_truth
from ragsieve.lab.poison.base import Crafted, Fidelity, GradientEncoder, Need, Workshop
from ragsieve.lab.poison.hotflip import Banned, banned_tokens, favoured
from ragsieve.records import Document, FloatArray

_LEAST_GAIN = 1e-6
_LEAST_WORDS = 6


@dataclasses.dataclass(frozen=True, slots=True)
class CamoConfig:
    """The budget.

    :param iterations: flips tried on one chunk, alpha.
    :param candidates: tokens the gradient proposes, m.
    :param kept: of them that the language model lets through, m'.
    :param carrier_words: words of a real document that are used, from its beginning.
    """

    iterations: int = 30
    candidates: int = 1_000
    kept: int = 100
    carrier_words: int = 60

    def __post_init__(self) -> None:
        if min(self.iterations, self.kept) < 1 or self.candidates < self.kept:
            raise ConfigError("camodocs: expected iterations >= 1 and candidates >= kept >= 1")
        if self.carrier_words < _LEAST_WORDS:
            raise ConfigError(f"camodocs: expected carrier_words >= {_LEAST_WORDS}")

    @property
    def reduced(self) -> bool:
        """Whether less is spent than was published."""
        return self.iterations < 30 or self.candidates < 1_000 or self.kept < 100  # noqa: PLR2004


REDUCED = CamoConfig(iterations=15, candidates=64, kept=8)


def dispersion(rows: FloatArray) -> float:
    """Mean distance of rows, shape (n, d), to their centroid."""
    return float(np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean())


class CamoDocs:
    """Knows the corpus and a proxy encoder (``workshop.gradients``); the question is not used."""

    fidelity = Fidelity.VARIANT
    needs: frozenset[Need] = frozenset({Need.EMBEDDER, Need.GRADIENTS})

    def __init__(self, config: CamoConfig | None = None) -> None:
        self.config = config or CamoConfig()
        self._index: tuple[tuple[Document, ...], Bm25] | None = None
        self._bans: dict[str, Banned] = {}

    @property
    def name(self) -> str:
        """With a suffix when the budget is smaller than published."""
        return "CamoDocs-reduced" if self.config.reduced else "CamoDocs"

    def fingerprint(self) -> str:
        """Hash of name and budget."""
        return fingerprint(self.name, self.config)

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """One document a carrier; fewer than payloads where the corpus offers few carriers.

        :raises ConfigError: without gradients.
        """
        meter = Meter()
        encoder = needed_gradients(self, workshop)
        if encoder.identity not in self._bans:
            self._bans[encoder.identity] = banned_tokens(encoder)
        chunks = [
            encoder.token_ids(chunk)
            for carrier in self._carriers(target, workshop, len(payloads))
            for chunk in halves(carrier)
        ]
        before = after = 0.0
        if chunks:
            rows = encoder.encode_ids(chunks)
            meter.encodes += len(chunks)
            before = dispersion(rows)
            chunks, after = self._spread(chunks, rows, workshop, rng, meter)
        words = [encoder.decode(chunk) for chunk in chunks]
        texts = [
            f"{words[2 * row]} {payload} {words[2 * row + 1]}"
            for row, payload in zip(range(len(chunks) // 2), payloads, strict=False)
        ]
        checks = (
            ("dispersion grew", after > before),
            ("question absent", not any(asks_verbatim(t, target.query.text) for t in texts)),
            ("target answer present", all(contains(t, target.target_answer) for t in texts)),
        )
        return finish(
            self, target, texts, workshop, meter, checks=checks, reduced=self.config.reduced
        )

    def _carriers(self, target: Target, workshop: Workshop, count: int) -> list[str]:
        """Beginnings of the documents that match the question's words and hold no answer."""
        documents = workshop.dataset.documents
        if self._index is None or self._index[0] is not documents:
            self._index = (documents, Bm25([document.content for document in documents]))
        scores = self._index[1].scores(target.query.text)
        found: list[str] = []
        for row in np.argsort(-scores, kind="stable").tolist():
            if len(found) == count or scores[row] <= 0:
                break
            text = " ".join(documents[row].text.split()[: self.config.carrier_words])
            usable = len(text.split()) >= _LEAST_WORDS
            if usable and not holds_truth(text, target.correct_answers, ""):
                found.append(text)
        return found

    def _spread(
        self,
        chunks: list[list[int]],
        rows: FloatArray,
        workshop: Workshop,
        rng: np.random.Generator,
        meter: Meter,
    ) -> tuple[list[list[int]], float]:
        """Chunks after the flips, one chunk after the other, and their dispersion."""
        encoder = needed_gradients(self, workshop)
        chunks, rows = [list(chunk) for chunk in chunks], rows.copy()
        value = dispersion(rows)
        for row, chunk in enumerate(chunks):
            for _ in range(self.config.iterations if chunk else 0):
                place = int(rng.integers(len(chunk)))
                slope = encoder.gradient(chunk, _ascent(rows, row))[place]
                meter.gradients += 1
                trials = self._coherent(encoder, chunk, place, slope, workshop)
                if not trials:
                    continue
                vectors = encoder.encode_ids(trials)
                meter.encodes += len(trials)
                values = [_with_row(rows, row, vector) for vector in vectors]
                best = int(np.argmax(values))
                if values[best] > value + _LEAST_GAIN:
                    value, rows[row] = values[best], vectors[best]
                    chunk[:] = trials[best]
        return chunks, value

    def _coherent(
        self,
        encoder: GradientEncoder,
        chunk: list[int],
        place: int,
        slope: FloatArray,
        workshop: Workshop,
    ) -> list[list[int]]:
        """Versions of a chunk with another token, those a language model finds least odd."""
        banned = self._bans[encoder.identity]
        tokens = favoured(encoder, slope, self.config.candidates, banned, chunk[place])
        if workshop.causal is None:
            tokens = tokens[: self.config.kept]
        trials = [[*chunk[:place], token, *chunk[place + 1 :]] for token in tokens]
        if workshop.causal is None or len(trials) <= self.config.kept:
            return trials
        losses = workshop.causal.losses([encoder.decode(trial) for trial in trials])
        means = np.array([trace.mean() if trace.size else 0.0 for trace in losses])
        return [trials[row] for row in np.argsort(means, kind="stable")[: self.config.kept]]


def _ascent(rows: FloatArray, row: int) -> FloatArray:
    """Gradient of the dispersion at one row: its direction less the mean direction, over n."""
    away = rows - rows.mean(axis=0)
    directions = away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12)
    slope: FloatArray = (directions[row] - directions.mean(axis=0)) / len(rows)
    return slope


def _with_row(rows: FloatArray, row: int, vector: FloatArray) -> float:
    changed = rows.copy()
    changed[row] = vector
    return dispersion(changed)
