"""Counts what a construction spends and closes its work on one target."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Protocol

from ragsieve.errors import ConfigError
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison.base import Cost, Crafted, GradientEncoder, Need, Workshop
from ragsieve.lab.poison.faithfulness import faithfulness
from ragsieve.ports import CausalScorer, ChatModel
from ragsieve.records import Provenance


class Named(Protocol):
    """Anything with a name as files write it."""

    @property
    def name(self) -> str:
        """As written in files."""
        ...


class Meter:
    """Counters of one target's work; the clock starts with it."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.encodes = 0
        self.gradients = 0
        self.chat_calls = 0

    def cost(self) -> Cost:
        """What was spent so far."""
        seconds = time.perf_counter() - self._started
        return Cost(seconds, self.encodes, self.gradients, self.chat_calls)


@dataclasses.dataclass(frozen=True, slots=True)
class Extras:
    """What may go beside texts: titles and declared origins, one each, or none."""

    titles: tuple[str, ...] = ()
    origins: tuple[Provenance, ...] = ()


def finish(
    construction: Named,
    target: Target,
    texts: Sequence[str],
    workshop: Workshop,
    meter: Meter,
    *,
    checks: Sequence[tuple[str, bool]] = (),
    reduced: bool = False,
    extras: Extras = Extras(),
) -> Crafted:
    """The record of one target's texts, figures included; measuring them is not their cost."""
    cost = meter.cost()
    return Crafted(
        query_id=target.query.id,
        attack=construction.name,
        texts=tuple(texts),
        reduced=reduced,
        cost=cost,
        faithfulness=faithfulness(target, texts, workshop, checks, extras.titles),
        titles=extras.titles,
        origins=extras.origins,
    )


def needed_gradients(construction: Named, workshop: Workshop) -> GradientEncoder:
    """The workshop's gradient encoder.

    :raises ConfigError: when it has none.
    """
    if workshop.gradients is None:
        raise _lacking(construction, Need.GRADIENTS, "an encoder with gradients")
    return workshop.gradients


def needed_causal(construction: Named, workshop: Workshop) -> CausalScorer:
    """The workshop's language model.

    :raises ConfigError: when it has none.
    """
    if workshop.causal is None:
        raise _lacking(construction, Need.CAUSAL, "a causal language model")
    return workshop.causal


def needed_chat(construction: Named, workshop: Workshop) -> ChatModel:
    """The workshop's chat model.

    :raises ConfigError: when it has none.
    """
    if workshop.chat is None:
        raise _lacking(construction, Need.CHAT, "a chat model")
    return workshop.chat


def _lacking(construction: Named, need: Need, thing: str) -> ConfigError:
    return ConfigError(
        f"{construction.name}: expected {thing} in the workshop ({need}), found none; "
        "configure one or choose another construction"
    )
