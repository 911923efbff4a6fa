"""The two attacks TriShieldRAG is measured with: its template, and the payload without one.

Source: arXiv 2607.23838: version 1 measures a fixed template of false authority behind the
question, version 2 also the payload alone under a title of its first words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison import _frames as frames
from ragsieve.lab.poison._finish import Extras, Meter, finish
from ragsieve.lab.poison._texts import asks_verbatim, contains, with_question
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop

_TITLE_WORDS = 6


class AuthorityTemplate:
    """The question, then the same boilerplate for every target; one document."""

    name = "TriShield-template"
    fidelity = Fidelity.RECONSTRUCTED
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def fingerprint(self) -> str:
        """Hash of name and wording."""
        return fingerprint(self.name, frames.AUTHORITY)

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,  # noqa: ARG002 -- nothing is drawn
    ) -> Crafted:
        """As many copies of the template as there are payloads, each ending with one of them."""
        meter = Meter()
        words = frames.AUTHORITY.format(answer=target.target_answer)
        texts = [
            with_question(target.query.text, words if not row else f"{words} {payload}")
            for row, payload in enumerate(payloads)
        ]
        question = target.query.text.strip()
        checks = (("opens with the question", all(t.startswith(question) for t in texts)),)
        return finish(self, target, texts, workshop, meter, checks=checks)


class FormatOnly:
    """The payload as it is, under a title of its first words: no question, no template.

    :param name: as written in files.
    """

    fidelity = Fidelity.RECONSTRUCTED
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def __init__(self, name: str = "TriShield-format-only") -> None:
        self.name = name

    def fingerprint(self) -> str:
        """Hash of the name and the length of a title."""
        return fingerprint(self.name, str(_TITLE_WORDS))

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,  # noqa: ARG002 -- nothing is drawn
    ) -> Crafted:
        """One document a payload."""
        meter = Meter()
        titles = tuple(" ".join(text.split()[:_TITLE_WORDS]) for text in payloads)
        checks = (
            ("question absent", not any(asks_verbatim(t, target.query.text) for t in payloads)),
            ("target answer present", all(contains(t, target.target_answer) for t in payloads)),
        )
        return finish(
            self, target, payloads, workshop, meter, checks=checks, extras=Extras(titles=titles)
        )
