"""Numeric tampering: a real document with one amount or percentage changed.

Source: the attack RAGShield is measured with (arXiv 2604.00387), rebuilt from descriptions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.evidence.tokens import jaccard, paper_word_set
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._finish import Extras, Meter, finish
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop
from ragsieve.records import Document

_NUMBER = re.compile(
    r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,])\d+(?:\.\d+)?(?!\w|[.,]\d)"
)
# Both directions; far enough to matter, near enough to look plausible.
_FACTORS = (0.5, 0.7, 0.8, 1.25, 1.5, 2.0)
_NEAREST = 20
_COPY_JACCARD = 0.6


@dataclasses.dataclass(frozen=True, slots=True)
class Tampered:
    """A document after the edit.

    :param original: the real one, which stays in the corpus.
    """

    original: Document
    text: str


class NumericTampering:
    """Knows the corpus; writes one document a real one, relevant ones first, then the nearest.

    Its near-duplicate is the original: edges above Jaccard 0.60 are no evidence of promotion by
    design, so detectors are not expected to see it.
    """

    name = "numeric-tampering"
    fidelity = Fidelity.RECONSTRUCTED
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def fingerprint(self) -> str:
        """Hash of name and constants."""
        return fingerprint(self.name, _NUMBER.pattern, list(_FACTORS), str(_NEAREST))

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """At most one document a payload, fewer where few real ones hold a number."""
        meter = Meter()
        made: list[Tampered] = []
        for document in _originals(target, workshop):
            if len(made) == len(payloads):
                break
            text = _tampered(document.text, target, rng)
            if text is not None:
                made.append(Tampered(document, text))
        pairs = [(one.original.text, one.text) for one in made]
        close = all(
            jaccard(paper_word_set(left), paper_word_set(right)) > _COPY_JACCARD
            for left, right in pairs
        )
        checks = (
            ("something to tamper with", bool(made)),
            ("near-duplicate of a real document", close),
        )
        extras = Extras(
            tuple(one.original.title for one in made),
            tuple(one.original.provenance for one in made),
        )
        texts = [one.text for one in made]
        return finish(self, target, texts, workshop, meter, checks=checks, extras=extras)


def _originals(target: Target, workshop: Workshop) -> list[Document]:
    relevant = workshop.dataset.relevant.get(target.query.id, frozenset())
    question = np.asarray(workshop.embedder.embed_queries([target.query.text])[0], np.float32)
    near = np.argsort(-(np.asarray(workshop.rows) @ question), kind="stable")[:_NEAREST]
    documents = workshop.dataset.documents
    judged = [document for document in documents if document.id in relevant]
    return judged + [documents[row] for row in near.tolist() if documents[row].id not in relevant]


def _tampered(text: str, target: Target, rng: np.random.Generator) -> str | None:
    """One number replaced: the true answer by the lie where both are numbers, else any."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return None
    lie = _NUMBER.fullmatch(target.target_answer.strip())
    for match in found:
        if lie and match.group() in {answer.strip() for answer in target.correct_answers}:
            return text[: match.start()] + lie.group() + text[match.end() :]
    match = found[int(rng.integers(len(found)))]
    changed = _changed(match.group(), float(rng.choice(_FACTORS)))
    return text[: match.start()] + changed + text[match.end() :]


def _changed(number: str, factor: float) -> str:
    """Another number in the same notation."""
    plain = number.replace(",", "")
    decimals = len(plain.partition(".")[2])
    value = round(float(plain) * factor, decimals)
    if value == float(plain):
        value += 10.0**-decimals
    mark = "," if "," in number else ""
    return f"{value:{mark}.{decimals}f}"
