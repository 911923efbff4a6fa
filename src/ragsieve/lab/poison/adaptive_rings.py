"""T2 and T3: against the rings, by the share of poison retrieved and by borrowed origins.

T1 is the payload alone: :class:`ragsieve.lab.poison.rings.FormatOnly`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._finish import Extras, Meter, finish
from ragsieve.lab.poison._texts import with_question
from ragsieve.lab.poison.base import Crafted, Fidelity, Need, Workshop
from ragsieve.records import Provenance

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)


class Fraction:
    """T2: so many prefixed documents that they make up a share of what is retrieved.

    :param share: of ``depth`` retrieved documents, in (0, 1].
    """

    fidelity = Fidelity.VARIANT
    needs: frozenset[Need] = frozenset({Need.EMBEDDER})

    def __init__(self, share: float = 0.2, depth: int = 5) -> None:
        if not 0 < share <= 1 or depth < 1:
            raise ConfigError("fraction: expected a share in (0, 1] and a depth of at least 1")
        self._share = share
        self._depth = depth

    @property
    def name(self) -> str:
        """With the share, so that a sweep's members differ."""
        return "T2" if self._share == SHARES[0] else f"T2-{self._share:g}"

    def fingerprint(self) -> str:
        """Hash of name, share and depth."""
        return fingerprint(self.name, repr(self._share), str(self._depth))

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,  # noqa: ARG002 -- nothing is drawn
    ) -> Crafted:
        """The first payloads, as many as the share asks for."""
        meter = Meter()
        wanted = max(1, round(self._share * self._depth))
        texts = [with_question(target.query.text, payload) for payload in payloads[:wanted]]
        checks = (("share reached", len(texts) == wanted),)
        return finish(self, target, texts, workshop, meter, checks=checks)


def fraction_sweep(shares: Sequence[float] = SHARES, depth: int = 5) -> tuple[Fraction, ...]:
    """One construction a share.

    :raises ConfigError: for a share outside (0, 1].
    """
    return tuple(Fraction(share, depth) for share in shares)


class BorrowedOrigin:
    """T3: prefixed documents that declare the origin of the clean document nearest to the question.

    A provenance policy then trusts them as much as what they displace.
    """

    name = "T3"
    fidelity = Fidelity.VARIANT
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
        texts = [with_question(target.query.text, payload) for payload in payloads]
        origin = _nearest_origin(target, workshop)
        checks = (("an origin to borrow", origin != Provenance()),)
        extras = Extras(origins=(origin,) * len(texts))
        return finish(self, target, texts, workshop, meter, checks=checks, extras=extras)


def _nearest_origin(target: Target, workshop: Workshop) -> Provenance:
    if not len(workshop.rows):
        return Provenance()
    question = workshop.embedder.embed_queries([target.query.text])[0]
    nearest = int(np.argmax(np.asarray(workshop.rows) @ question))
    return workshop.dataset.documents[nearest].provenance
