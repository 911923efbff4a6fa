"""PR-B: the question, then a false passage.

Source: PoisonedRAG, black-box setting (arXiv 2402.07867), in the form with a space between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._finish import Meter, finish
from ragsieve.lab.poison._texts import contains, with_question
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop


class Prefixed:
    """Knows the question and nothing else; costs nothing."""

    name = "PR-B"
    fidelity = Fidelity.EXACT
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def fingerprint(self) -> str:
        """Hash of the name; there is nothing to configure."""
        return fingerprint(self.name)

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,  # noqa: ARG002 -- nothing is drawn
    ) -> Crafted:
        """One document a payload."""
        meter = Meter()
        question = target.query.text.strip()
        texts = [with_question(question, payload) for payload in payloads]
        checks = (
            ("opens with the question", all(text.startswith(question) for text in texts)),
            ("target answer present", all(contains(t, target.target_answer) for t in texts)),
        )
        return finish(self, target, texts, workshop, meter, checks=checks)
