"""CEM-C and CEM-D: a trigger of whole words found by the cross-entropy method, shared by siblings.

Source: Chang, Bao, Luo, Yu, "Overcoming the Retrieval Barrier" (arXiv 2601.07072), in the
form of the RAGSieve evaluation: one trigger for the passages of a question, in front (C) or
scattered among the payload's words (D, which takes C's trigger). Rebuilt from descriptions:
the vocabulary is the encoder's whole words (the corpus's words without one), the objective is
the mean cosine over the payloads, and ``smoothing`` weighs the elite's frequencies.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError, InputError
from ragsieve.evidence.tokens import paper_words
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._finish import Meter, finish
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop
from ragsieve.lab.poison.faithfulness import clean_floor
from ragsieve.records import FloatArray

_MOST_CORPUS_WORDS = 30_000
_WORD = re.compile(r"[^\W\d_]{2,}")
_GAP = re.compile(r"\s+")


@dataclasses.dataclass(frozen=True, slots=True)
class CemConfig:
    """The budget and constants of the search.

    :param length: words of a trigger, n.
    :param samples: triggers drawn in one iteration, N.
    :param iterations: T.
    :param elite: share that the distributions move towards, lambda.
    :param smoothing: weight of the elite's frequencies against the distribution before, alpha.
    :param shortlist: only this many words nearest to the question; all of them when None.
    :param averaged: payloads the objective averages over; all of them when None.
    """

    length: int = 10
    samples: int = 5_000
    iterations: int = 30
    elite: float = 0.2
    smoothing: float = 0.55
    shortlist: int | None = None
    averaged: int | None = None

    def __post_init__(self) -> None:
        optional = [value for value in (self.shortlist, self.averaged) if value is not None]
        if min(self.length, self.samples, self.iterations, *optional) < 1:
            raise ConfigError("cem: lengths and budgets must be at least 1")
        if not 0 < self.elite <= 1 or not 0 < self.smoothing <= 1:
            raise ConfigError("cem: elite and smoothing must lie in (0, 1]")

    @property
    def reduced(self) -> bool:
        """Whether the search is narrower than the published one."""
        return (
            self.length < 10  # noqa: PLR2004 -- the published constants
            or self.samples * self.iterations < 150_000  # noqa: PLR2004
            or self.shortlist is not None
            or self.averaged is not None
        )


REDUCED = CemConfig(samples=150, iterations=20, shortlist=400, averaged=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Scattered:
    """A payload with words put between its own.

    :param inserted: where they stand, as (start, stop), each with the space after it.
    """

    text: str
    inserted: tuple[tuple[int, int], ...]

    def without_inserted(self) -> str:
        """The payload as it was."""
        kept, place = [], 0
        for start, stop in self.inserted:
            kept.append(self.text[place:start])
            place = stop
        return "".join([*kept, self.text[place:]])


def scatter(payload: str, words: Sequence[str]) -> Scattered:
    """Put ``words`` in order and at even distances before words of the payload."""
    starts = [0, *(match.end() for match in _GAP.finditer(payload))]
    before = [starts[(row * len(starts)) // max(1, len(words))] for row in range(len(words))]
    pieces: list[str] = []
    inserted: list[tuple[int, int]] = []
    place = length = 0
    for word, start in zip(words, before, strict=True):
        pieces += [payload[place:start], f"{word} "]
        length += start - place
        inserted.append((length, length + len(word) + 1))
        length += len(word) + 1
        place = start
    return Scattered("".join([*pieces, payload[place:]]), tuple(inserted))


def best_trigger(
    words: Sequence[str],
    payloads: Sequence[str],
    question: FloatArray,
    workshop: Workshop,
    config: CemConfig,
    rng: np.random.Generator,
    meter: Meter,
) -> tuple[str, ...]:
    """The trigger of highest mean cosine ever drawn.

    One categorical distribution over ``words`` a place, uniform at first and independent.

    :param question: shape (d,).
    """
    chances = np.full((config.length, len(words)), 1.0 / len(words))
    known: dict[tuple[int, ...], float] = {}
    elite = max(1, round(config.elite * config.samples))
    for _ in range(config.iterations):
        drawn = np.stack(
            [rng.choice(len(words), size=config.samples, p=line) for line in chances], axis=1
        )
        keys = [tuple(row) for row in drawn.tolist()]
        fresh = [key for key in dict.fromkeys(keys) if key not in known]
        triggers = [" ".join(words[place] for place in key) for key in fresh]
        known.update(
            zip(fresh, _mean_cosines(triggers, payloads, question, workshop, meter), strict=True)
        )
        values = np.array([known[key] for key in keys])
        chosen = drawn[np.argsort(-values, kind="stable")[:elite]]
        for place in range(config.length):
            shares = np.bincount(chosen[:, place], minlength=len(words)) / elite
            moved = (1 - config.smoothing) * chances[place] + config.smoothing * shares
            chances[place] = moved / moved.sum()
    best = min(known, key=lambda key: (-known[key], key))
    return tuple(words[place] for place in best)


class Cem:
    """Knows embeddings and no gradient. ``scattered`` makes CEM-D."""

    fidelity = Fidelity.RECONSTRUCTED
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def __init__(self, config: CemConfig | None = None, *, scattered: bool = False) -> None:
        self.config = config or CemConfig()
        self._scattered = scattered
        self._pools: dict[str, tuple[list[str], FloatArray | None]] = {}

    @property
    def name(self) -> str:
        """CEM-C or CEM-D, with a suffix when the budget is smaller than published."""
        return f"CEM-{'D' if self._scattered else 'C'}{'-reduced' if self.config.reduced else ''}"

    def fingerprint(self) -> str:
        """Hash of name and configuration."""
        return fingerprint(self.name, self.config)

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """One document a payload, all with the same trigger.

        :raises InputError: when there is no word to build a trigger from.
        """
        meter = Meter()
        if not payloads:
            return finish(self, target, (), workshop, meter, reduced=self.config.reduced)
        question = np.asarray(workshop.embedder.embed_queries([target.query.text])[0], np.float32)
        trigger = best_trigger(
            self._words(question, workshop, meter),
            payloads[: self.config.averaged],
            question,
            workshop,
            self.config,
            rng,
            meter,
        )
        if self._scattered:
            made = [scatter(payload, trigger) for payload in payloads]
            texts = [one.text for one in made]
            pairs = zip(made, payloads, strict=True)
            form = ("payload is left without the trigger", all(_restores(m, p) for m, p in pairs))
        else:
            front = " ".join(trigger)
            texts = [f"{front} {payload}" for payload in payloads]
            form = ("trigger shared", all(text.startswith(f"{front} ") for text in texts))
        reached = float((workshop.embedder.embed_documents(texts) @ question).mean())
        floor = clean_floor(workshop.rows, question)
        above = ("above the fifth clean document", reached > floor)
        return finish(
            self, target, texts, workshop, meter, checks=(form, above), reduced=self.config.reduced
        )

    def _words(self, question: FloatArray, workshop: Workshop, meter: Meter) -> list[str]:
        words, table = self._pool(workshop, meter)
        if table is None or self.config.shortlist is None:
            return words
        near = table @ question
        kept = np.argsort(-near, kind="stable")[: self.config.shortlist]
        return [words[row] for row in kept.tolist()]

    def _pool(self, workshop: Workshop, meter: Meter) -> tuple[list[str], FloatArray | None]:
        """The words a trigger may hold; their vectors where a shortlist is made of them."""
        key = f"{workshop.embedder.identity}\0{workshop.dataset.name}"
        if key not in self._pools:
            words = _vocabulary(workshop)
            if not words:
                raise InputError(
                    f"{self.name}: expected words in the encoder's vocabulary or the corpus, "
                    "found none"
                )
            table = None
            if self.config.shortlist is not None and len(words) > self.config.shortlist:
                table = np.asarray(workshop.embedder.embed_documents(words), dtype=np.float32)
                meter.encodes += len(words)
            self._pools[key] = (words, table)
        return self._pools[key]


def _mean_cosines(
    triggers: Sequence[str],
    payloads: Sequence[str],
    question: FloatArray,
    workshop: Workshop,
    meter: Meter,
) -> list[float]:
    if not triggers:
        return []
    texts = [f"{trigger} {payload}" for trigger in triggers for payload in payloads]
    meter.encodes += len(texts)
    near = np.asarray(workshop.embedder.embed_documents(texts)) @ question
    means = near.astype(np.float64).reshape(-1, len(payloads)).mean(axis=1)
    return [float(value) for value in means]


def _restores(made: Scattered, payload: str) -> bool:
    return made.without_inserted() == payload


def _vocabulary(workshop: Workshop) -> list[str]:
    """Whole words of the encoder's vocabulary, else the corpus's commonest, sorted."""
    if workshop.gradients is not None:
        encoder = workshop.gradients
        # A word that starts one carries a mark in some vocabularies, a continuation in others.
        marked = any(token.startswith(("▁", "Ġ")) for token in encoder.vocabulary)
        opening = ("▁", "Ġ") if marked else ("",)
        bare = {
            token.lstrip("▁Ġ")
            for row, token in enumerate(encoder.vocabulary)
            if token.startswith(opening) and row not in encoder.special_ids
        }
        return sorted(token for token in bare if _WORD.fullmatch(token))
    counts: Counter[str] = Counter()
    for document in workshop.dataset.documents:
        counts.update(word for word in paper_words(document.content) if _WORD.fullmatch(word))
    return sorted(word for word, _ in counts.most_common(_MOST_CORPUS_WORDS))
