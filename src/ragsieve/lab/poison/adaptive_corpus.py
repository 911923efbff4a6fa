"""R1 to R5: against the corpus scan, each aimed at one of its parts.

Every one chooses from a pool of candidates (payload x carrier), embedded once. R5 plants
beside its one poisoned document harmless ones, which use up a scan's budget of alerts.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.density import EDGE_COSINE
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.tokens import jaccard, paper_word_set
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison import _frames as frames
from ragsieve.lab.poison._choice import farthest_first
from ragsieve.lab.poison._finish import Meter, finish
from ragsieve.lab.poison._texts import sentences, with_question
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop
from ragsieve.lab.poison.pool import Pool, build_pool

COPY_JACCARD = 0.6
_GLOSSES = (
    ("вода", "νερό"),
    ("город", "πόλη"),
    ("книга", "βιβλίο"),
    ("время", "χρόνος"),
    ("река", "ποτάμι"),
    ("дорога", "δρόμος"),
    ("школа", "σχολείο"),
    ("музыка", "μουσική"),
)
_FILLERS = ("indeed", "notably", "moreover", "overall", "today", "here", "again", "likewise")


@dataclasses.dataclass(frozen=True, slots=True)
class ChoiceConfig:
    """How a choice from a pool is made.

    :param margin: similarity above the fifth clean document that is asked for.
    :param paraphrases: payloads from the templates added to those given.
    :param most: documents at most; as many as payloads when None.
    :param neighbors: which neighbour's similarity is the background, for R4.
    """

    margin: float = 0.01
    paraphrases: int = 5
    most: int | None = None
    neighbors: int = 16

    def __post_init__(self) -> None:
        least = self.neighbors if self.most is None else min(self.neighbors, self.most)
        if self.paraphrases < 0 or least < 1:
            raise ConfigError("adaptive: expected counts of at least 1 and paraphrases >= 0")


class Chooser:
    """Base of a construction that chooses documents from a pool.

    Subclasses set ``name`` and write ``chosen`` and ``checks``.
    """

    name: str
    fidelity = Fidelity.VARIANT
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def __init__(self, config: ChoiceConfig | None = None) -> None:
        self.config = config or ChoiceConfig()

    def fingerprint(self) -> str:
        """Hash of name, configuration and frames."""
        return fingerprint(
            self.name,
            self.config,
            *frames.WEAVES,
            *frames.PAYLOAD_OPENINGS,
            *frames.PAYLOAD_CONTINUATIONS,
        )

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """Choose at most one document a payload."""
        meter = Meter()
        if not payloads:
            return finish(self, target, (), workshop, meter)
        pool = self.pool(target, payloads, workshop, rng, meter)
        count = min(len(payloads), self.config.most or len(payloads))
        rows = self.chosen(pool, count, workshop)
        checks = self.checks(pool, rows, count)
        texts = [pool.texts[row] for row in rows]
        return finish(self, target, texts, workshop, meter, checks=checks)

    def pool(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
        meter: Meter,
    ) -> Pool:
        """All carriers unless a subclass narrows them."""
        return build_pool(
            target,
            payloads,
            workshop.embedder,
            workshop.rows,
            rng,
            meter,
            paraphrases=self.config.paraphrases,
            margin=self.config.margin,
        )

    def chosen(self, pool: Pool, count: int, workshop: Workshop) -> list[int]:
        """Rows of the pool, at most ``count``."""
        raise NotImplementedError

    def checks(self, pool: Pool, rows: Sequence[int], count: int) -> tuple[tuple[str, bool], ...]:
        """Whether the choice is what was aimed at."""
        raise NotImplementedError


class SpreadApart(Chooser):
    """R1: no pair of siblings at or above the edge of 0.85, all above the clean floor.

    Greedy: the most similar first, then whichever keeps the largest sibling cosine lowest.
    Fewer documents rather than an edge.
    """

    name = "R1"

    def chosen(self, pool: Pool, count: int, workshop: Workshop) -> list[int]:  # noqa: ARG002
        """Rows of the pool whose siblings stay apart."""
        return apart(pool, count)

    def checks(self, pool: Pool, rows: Sequence[int], count: int) -> tuple[tuple[str, bool], ...]:
        """Below the edge, and complete."""
        return (
            ("siblings below the edge", pool.closest_pair(rows) < EDGE_COSINE),
            ("as many as payloads", len(rows) == count),
            ("all above the clean floor", all(pool.scores[row] > pool.floor for row in rows)),
        )


def apart(pool: Pool, count: int, *, below: float = EDGE_COSINE) -> list[int]:
    """Greedy choice of candidates above the floor whose largest cosine stays lowest."""
    return farthest_first(pool.rows, pool.scores, pool.reaching, count, below=below)


class NearCopies(Chooser):
    """R2: one candidate and copies of it with a few words more, above Jaccard 0.60.

    Edges between near-copies are no evidence in the published scan.
    """

    name = "R2"

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """The most similar candidate, repeated with words put between its own."""
        meter = Meter()
        if not payloads:
            return finish(self, target, (), workshop, meter)
        pool = self.pool(target, payloads, workshop, rng, meter)
        best = pool.texts[pool.order[0]]
        texts = [best]
        while len(texts) < len(payloads):
            words = best.split()
            for place in sorted(rng.choice(len(words) + 1, size=2).tolist(), reverse=True):
                words.insert(place, str(rng.choice(_FILLERS)))
            if " ".join(words) not in texts:
                texts.append(" ".join(words))
        sets = [paper_word_set(text) for text in texts]
        close = all(jaccard(a, b) > COPY_JACCARD for a, b in itertools.combinations(sets, 2))
        checks = (("all pairs are near-copies", close),)
        return finish(self, target, texts, workshop, meter, checks=checks)


class Few(Chooser):
    """R3: one or two documents, below the support of two that a group needs."""

    name = "R3"

    def __init__(self, config: ChoiceConfig | None = None) -> None:
        super().__init__(config or ChoiceConfig(most=2))

    def chosen(self, pool: Pool, count: int, workshop: Workshop) -> list[int]:  # noqa: ARG002
        """The most similar, and one that is no neighbour of it."""
        first = pool.order[:1]
        nearest = pool.cosines(first)
        others = [row for row in pool.reaching if nearest[row] < EDGE_COSINE]
        return [*first, *others[: count - 1]]

    def checks(self, pool: Pool, rows: Sequence[int], count: int) -> tuple[tuple[str, bool], ...]:  # noqa: ARG002
        """No more than two."""
        return (("at most two documents", 0 < len(rows) <= 2),)  # noqa: PLR2004


class DenseGround(Chooser):
    """R4: candidates whose 16th clean neighbour is nearest, where density is expected."""

    name = "R4"

    def chosen(self, pool: Pool, count: int, workshop: Workshop) -> list[int]:
        """Those above the floor with the highest background."""
        ground = _background(pool, workshop, self.config.neighbors)
        return sorted(pool.reaching, key=lambda row: -ground[row])[:count]

    def checks(self, pool: Pool, rows: Sequence[int], count: int) -> tuple[tuple[str, bool], ...]:
        """Complete and retrieved."""
        above = all(pool.scores[row] > pool.floor for row in rows)
        return (("as many as payloads", len(rows) == count), ("all above the clean floor", above))


def _background(pool: Pool, workshop: Workshop, neighbors: int) -> list[float]:
    near = pool.rows @ np.asarray(workshop.rows, dtype=np.float32).T
    if near.shape[1] < neighbors:
        return [0.0] * len(pool.texts)
    column = near.shape[1] - neighbors
    return [float(value) for value in np.partition(near, column, axis=1)[:, column]]


class BudgetDecoys:
    """R5: one poisoned document, and harmless ones of three scripts for the rest.

    When flags for mixed scripts reach the alert budget, nothing is left for density. Label
    member 0 is the poison; the others also test false alarms on multilingual text.
    """

    name = "R5"
    fidelity = Fidelity.VARIANT
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def fingerprint(self) -> str:
        """Hash of name and glosses."""
        return fingerprint(self.name, [list(pair) for pair in _GLOSSES])

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """As many documents as payloads; ask for ``decoys_needed`` more than one."""
        meter = Meter()
        if not payloads:
            return finish(self, target, (), workshop, meter)
        documents = workshop.dataset.documents
        decoys: list[str] = []
        for _ in range(len(payloads) - 1 if documents else 0):
            source = documents[int(rng.integers(len(documents)))]
            decoys.append(_glossed(source.text, rng))
        checks = (
            (
                "decoys hold three scripts",
                all(script_profile(t).violates_integrity for t in decoys),
            ),
        )
        texts = [with_question(target.query.text, payloads[0]), *decoys]
        return finish(self, target, texts, workshop, meter, checks=checks)


def decoys_needed(corpus: int, targets: int, budget: float = 0.05) -> int:
    """Harmless documents a target so that all together reach a share of the grown corpus.

    :raises ConfigError: when the share is not in (0, 1) or there is no target.
    """
    if not 0 < budget < 1 or targets < 1:
        raise ConfigError("decoys: expected a budget in (0, 1) and at least one target")
    # x / (corpus + targets + x) >= budget
    return math.ceil(budget * (corpus + targets) / (1 - budget) / targets)


def _glossed(text: str, rng: np.random.Generator) -> str:
    """The beginning of a real text with two foreign words in brackets, one of each script."""
    words = " ".join(sentences(text)[:2]).split()[:40] or ["notes"]
    russian, greek = _GLOSSES[int(rng.integers(len(_GLOSSES)))]
    place = int(rng.integers(1, len(words) + 1))
    return " ".join([*words[:place], f"({russian}, {greek})", *words[place:]])
