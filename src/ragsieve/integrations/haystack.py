"""Haystack: components that filter retrievals and hold new documents out.

A score is evidence that a document is promoted into retrieval, never a verdict on truth.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ragsieve._extras import require
from ragsieve.defense.policy import Resort
from ragsieve.detectors.query import Mode
from ragsieve.errors import ConfigError, InputError
from ragsieve.integrations.arrivals import (
    Arrival,
    ArrivalFilter,
    LiveCorpus,
    ScannedState,
    Sorted,
)
from ragsieve.integrations.contexts import Filtered, Found, Marked
from ragsieve.integrations.marks import KEY, declared, without_marks
from ragsieve.integrations.retrieved import ContextFilter
from ragsieve.records import Level
from ragsieve.settings import load_settings

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError:
    require("haystack", extra="haystack")
    raise


@component
class ContextSieve:
    """Takes flagged documents out of a retrieval and refills from its tail.

    Ids, scores and metadata stay; ``meta["ragsieve"]`` says what the filter found. Connect it
    to a retriever of at least ``fewest`` documents (:func:`deepen` sets its ``top_k``; Haystack's
    own default is 10), before rankers and joiners that reorder or cut. Paths and names alone are
    kept; files and models are opened by ``warm_up``. Pipelines that hold it are loaded with
    ``allowed_modules=["ragsieve.*"]``.

    :param config: TOML file of settings.
    :param state: what ``ragsieve scan --state`` kept of the corpus.
    :param predictions: what that scan wrote; its findings are taken out first.
    :param top_n: documents handed over; as many as are judged when None.
    :param mode: ``full`` or ``decision``.
    :param on_short: ``keep``, ``remove`` or ``raise`` where the tail is insufficient; as
        configured when None.
    :param sieve: a filter made elsewhere, in place of the others; it cannot be serialised.
    """

    def __init__(
        self,
        config: str | None = None,
        *,
        state: str | None = None,
        predictions: str | None = None,
        top_n: int | None = None,
        mode: str = "full",
        on_short: str | None = None,
        sieve: ContextFilter | None = None,
    ) -> None:
        self.config = config
        self.state = state
        self.predictions = predictions
        self.top_n = top_n
        self.mode = Mode(mode).value
        self.on_short = None if on_short is None else Resort(on_short).value
        self._given = sieve
        self._sieve = sieve

    @property
    def sieve(self) -> ContextFilter:
        """The filter, which opens what it needs at first use.

        :raises ConfigError: for settings that do not fit.
        """
        # Two threads may both make one, and the last stands; neither has opened anything yet.
        if self._sieve is None:
            settings = load_settings(_path(self.config))
            policy = settings.filter
            if self.on_short is not None:
                policy = dataclasses.replace(policy, on_short=Resort(self.on_short))
            self._sieve = ContextFilter.from_config(
                settings=settings,
                state=self.state,
                predictions=self.predictions,
                policy=policy,
                top_n=self.top_n,
                mode=Mode(self.mode),
            )
        return self._sieve

    def warm_up(self) -> None:
        """Open files and models now.

        :raises RagsieveError: for what is missing or does not fit.
        """
        self.sieve.warm_up()

    @component.output_types(  # type: ignore[untyped-decorator]
        documents=list[Document], removed=list[Document], report=dict[str, Any]
    )
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """The context as ``documents``, what was taken out, and the trace as plain data.

        :raises RankingError: when the retrieval cannot be judged and the policy says raise.
        """
        return _filtered(self.sieve.judge(query, _found(documents)))

    @component.output_types(  # type: ignore[untyped-decorator]
        documents=list[Document], removed=list[Document], report=dict[str, Any]
    )
    async def run_async(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """As ``run``, beside the event loop."""
        return _filtered(await self.sieve.ajudge(query, _found(documents)))

    def to_dict(self) -> dict[str, Any]:
        """As Haystack writes it.

        :raises ConfigError: for a filter that was made elsewhere.
        """
        if self._given is not None:
            raise ConfigError(
                "a filter that was made elsewhere cannot be written; give config, state and "
                "predictions instead of sieve"
            )
        return default_to_dict(  # type: ignore[no-any-return]
            self,
            config=self.config,
            state=self.state,
            predictions=self.predictions,
            top_n=self.top_n,
            mode=self.mode,
            on_short=self.on_short,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ContextSieve:
        """As Haystack reads it."""
        return default_from_dict(cls, data)  # type: ignore[no-any-return]


@component
class ArrivalSieve:
    """Holds flagged documents out of what a ``DocumentWriter`` gets, and marks the others.

    It stands behind the document embedder. Flat keys ``ragsieve_*`` of ``meta`` say what the gate
    found; ids stay. What is held comes out as ``held``, for somebody to look at.

    :param live: folder of a live index, which every batch enters.
    :param state: folder of ``ragsieve scan --state``, which stays as it is; one of the two.
    :param config: TOML file of the settings it was made with.
    :param hold_at: ``review`` or ``quarantine``; None writes all documents, marked.
    :param gate: a filter made elsewhere, in place of the others; it cannot be serialised.
    """

    def __init__(
        self,
        live: str | None = None,
        *,
        state: str | None = None,
        config: str | None = None,
        hold_at: str | None = "quarantine",
        gate: ArrivalFilter | None = None,
    ) -> None:
        if sum(one is not None for one in (live, state, gate)) != 1:
            raise ConfigError("expected one of live, state and gate; give the corpus they come to")
        self.live = live
        self.state = state
        self.config = config
        self.hold_at = None if hold_at is None else Level(hold_at).value
        self._given = gate
        self._gate = gate

    def warm_up(self) -> None:
        """Check what is given; folders are opened at each batch, as others write to them."""
        _ = self.gate

    @property
    def gate(self) -> ArrivalFilter:
        """The filter of new documents."""
        if self._gate is None:
            corpus: LiveCorpus | ScannedState
            if self.live is not None:
                corpus = LiveCorpus(self.live, config=self.config)
            else:
                corpus = ScannedState(str(self.state), config=self.config)
            self._gate = ArrivalFilter(corpus, hold_at=self.hold_at)
        return self._gate

    @component.output_types(  # type: ignore[untyped-decorator]
        documents=list[Document], held=list[Document], report=dict[str, Any]
    )
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Documents to write, those held out, and which are concerned as plain data.

        :raises InputError: for a document without an embedding.
        """
        return _sorted(self.gate.sort(_arrivals(documents)))

    @component.output_types(  # type: ignore[untyped-decorator]
        documents=list[Document], held=list[Document], report=dict[str, Any]
    )
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """As ``run``, beside the event loop."""
        return _sorted(await self.gate.asort(_arrivals(documents)))

    def to_dict(self) -> dict[str, Any]:
        """As Haystack writes it.

        :raises ConfigError: for a filter that was made elsewhere.
        """
        if self._given is not None:
            raise ConfigError(
                "a gate that was made elsewhere cannot be written; give live or state instead"
            )
        return default_to_dict(  # type: ignore[no-any-return]
            self, live=self.live, state=self.state, config=self.config, hold_at=self.hold_at
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ArrivalSieve:
        """As Haystack reads it."""
        return default_from_dict(cls, data)  # type: ignore[no-any-return]


def deepen(retriever: Any, sieve: ContextFilter) -> Any:
    """Set a retriever's ``top_k`` to ``sieve.depth`` where it is below; the same retriever.

    :raises ConfigError: for a component without ``top_k``.
    """
    depth = getattr(retriever, "top_k", None)
    if not isinstance(depth, int):
        raise ConfigError(
            f"expected a retriever with top_k, found {type(retriever).__name__}; set its depth to "
            f"{sieve.depth} where it is made"
        )
    retriever.top_k = max(depth, sieve.depth)
    return retriever


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _found(documents: list[Document]) -> list[Found[Document]]:
    return [Found(one, one.content or "", one.id, one.score) for one in documents]


def _filtered(filtered: Filtered[Document]) -> dict[str, Any]:
    return {
        "documents": [_marked(one) for one in filtered.kept],
        "removed": [_marked(one) for one in filtered.removed],
        "report": filtered.report(),
    }


def _marked(one: Marked[Document]) -> Document:
    # replace, because a document made anew from other meta gets another id.
    return dataclasses.replace(one.item, meta=one.item.meta | {KEY: one.mark.fields()})


def _arrivals(documents: list[Document]) -> list[Arrival[Document]]:
    for one in documents:
        if one.embedding is None:
            raise InputError(
                "expected documents with embeddings, found one without; connect the component "
                "behind a document embedder"
            )
    return [
        Arrival(one, one.content or "", one.embedding, one.id, declared(one.meta))
        for one in documents
    ]


def _sorted(done: Sorted[Document]) -> dict[str, Any]:
    def marked(pairs: tuple[tuple[Document, dict[str, str | float]], ...]) -> list[Document]:
        return [
            dataclasses.replace(one, meta=without_marks(one.meta) | fields) for one, fields in pairs
        ]

    judged = done.judged
    return {
        "documents": marked(done.kept),
        "held": marked(done.held),
        "report": {
            "judged": 0 if judged is None else len(judged.verdicts),
            "held_ids": [] if judged is None else list(judged.held_ids),
            "earlier_ids": [] if judged is None else list(judged.earlier_ids),
        },
    }
