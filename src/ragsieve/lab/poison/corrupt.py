"""CorruptRAG-AS: one document that calls the truth outdated and the lie current.

Source: arXiv 2504.03957, variant AS, rebuilt from descriptions in own wording.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison import _frames as frames
from ragsieve.lab.poison._finish import Meter, finish
from ragsieve.lab.poison._texts import contains, with_question
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop
from ragsieve.lab.poison.faithfulness import DEPTH, standing


class CorruptAs:
    """Knows the question and the truth; needs no payload and writes one document."""

    name = "CorruptRAG-AS"
    fidelity = Fidelity.RECONSTRUCTED
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def fingerprint(self) -> str:
        """Hash of name and wording."""
        return fingerprint(self.name, *frames.OUTDATED, *frames.CURRENT)

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """One document; none where no document is allowed or no truth is known."""
        meter = Meter()
        if not payloads or not target.correct_answers:
            return finish(self, target, (), workshop, meter, checks=(("one document", False),))
        truth = target.correct_answers[0]
        note = str(rng.choice(frames.OUTDATED)).format(truth=truth)
        news = str(rng.choice(frames.CURRENT)).format(answer=target.target_answer)
        text = with_question(target.query.text, f"{note} {news}")
        rank = int(standing(target, [text], workshop).ranks[0])
        checks = (
            ("one document", True),
            (
                "both answers present",
                contains(text, truth) and contains(text, target.target_answer),
            ),
            ("among the first five", rank <= DEPTH),
        )
        return finish(self, target, [text], workshop, meter, checks=checks)
