"""What a causal language model's losses say about candidates: asked once a text, when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from ragsieve.detectors.cascade import Seat, Stage
from ragsieve.detectors.rules import QueryView
from ragsieve.detectors.text_memo import TextCache
from ragsieve.errors import BackendError
from ragsieve.ports import CausalScorer
from ragsieve.records import Evidence, FloatArray

Found = TypeVar("Found")

_FOUND_BYTES = 600
_MAX_BYTES = 8 << 20


class LossEvidence(Generic[Found]):
    """One evidence read off the losses of each candidate; remembers what it read.

    :param causal: None where there is no model; the evidence is then unavailable.
    :param read: a small record from finite losses.
    :param evidence: from that record.
    :param limit: the largest value; may be infinite.
    """

    def __init__(
        self,
        name: str,
        causal: CausalScorer | None,
        *,
        read: Callable[[FloatArray], Found],
        evidence: Callable[[Found], Evidence],
        limit: float,
    ) -> None:
        self.name = name
        self.causal = causal
        self.limit = limit
        self._read = read
        self._evidence = evidence
        self._known: TextCache[Found] = TextCache(lambda _: _FOUND_BYTES, max_bytes=_MAX_BYTES)

    def stage(self, views: Sequence[QueryView]) -> Stage:
        """The evidence of the candidates of a batch.

        A model that fails makes it unavailable for the whole batch; losses that are not
        finite, for the one text.
        """
        batch = _Batch(self, views)
        return Stage(self.name, lambda _: self.limit, batch.measure, batch.missing)

    def of_texts(self, texts: Sequence[str]) -> list[Evidence]:
        """The evidence of each text; the model sees those that are new, each once.

        :raises BackendError: when the model fails.
        """
        found = self._known.known(texts)
        new = list(dict.fromkeys(text for text in texts if text not in found))
        if new and self.causal is not None:
            traces = self.causal.losses(new)
            # One text a model fails on says nothing about the others of its batch.
            fresh = {
                text: self._read(trace)
                for text, trace in zip(new, traces, strict=True)
                if bool(np.isfinite(trace).all())
            }
            self._known.keep(fresh)
            found |= fresh
        lost = Evidence.unavailable(self.name, "the causal language model gave no finite losses")
        return [self._evidence(found[text]) if text in found else lost for text in texts]


class _Batch:
    def __init__(self, evidence: LossEvidence[Found], views: Sequence[QueryView]) -> None:
        self._evidence = evidence
        self._views = views
        self._failure = None if evidence.causal else "no causal language model is configured"

    def missing(self, seat: Seat) -> str | None:  # noqa: ARG002
        return self._failure

    def measure(self, seats: Sequence[Seat]) -> list[Evidence]:
        texts = [self._views[seat.view].candidates[seat.place] for seat in seats]
        try:
            return self._evidence.of_texts(texts)
        except BackendError as error:
            self._failure = f"causal language model failed: {error}"
            return [Evidence.unavailable(self._evidence.name, self._failure)] * len(seats)
