"""LlamaIndex: a node postprocessor, an ingestion transform, and engines that ask deep enough.

A score is evidence that a document is promoted into retrieval, never a verdict on truth.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from ragsieve._extras import require
from ragsieve.errors import InputError
from ragsieve.integrations.arrivals import Arrival, ArrivalFilter, Sorted
from ragsieve.integrations.contexts import Filtered, Found
from ragsieve.integrations.marks import ARRIVAL_KEYS, KEY, declared, without_marks
from ragsieve.integrations.retrieved import ContextFilter

try:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import (
        BaseNode,
        MetadataMode,
        NodeWithScore,
        QueryBundle,
        TransformComponent,
    )
except ImportError:
    require("llama_index.core", extra="llamaindex")
    raise

_OURS = (KEY, *ARRIVAL_KEYS)


class SievePostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """Takes flagged nodes out of a retrieval and refills from its tail.

    Ids, scores and metadata stay; ``metadata["ragsieve"]`` says what the filter found and is
    kept out of what is embedded and out of what a model is shown. What is judged is what a
    model is shown: the text behind the metadata that LlamaIndex puts before it. It must stand
    before postprocessors that reorder or cut (:func:`sieved_query_engine` puts it first).
    """

    sieve: ContextFilter = Field(exclude=True)

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex writes."""
        return "RagsieveSievePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _context(self.sieve.judge(_query(query_bundle), _found(nodes)))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _context(await self.sieve.ajudge(_query(query_bundle), _found(nodes)))


class ArrivalTransform(TransformComponent):  # type: ignore[misc]
    """Holds flagged nodes out of an ingestion pipeline and marks the others.

    It stands behind the embedding transform and asks what is known of the corpus, because a
    pipeline sees one batch: with ``num_workers`` give a :class:`LiveCorpus
    <ragsieve.integrations.arrivals.LiveCorpus>` a folder, which processes share. A pipeline's
    cache is never used for it: an answer from before other documents came is not this one. Nodes
    need ids that stay: a chunk that comes again under a new id is one more copy of itself.
    """

    gate: ArrivalFilter = Field(exclude=True)

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex writes."""
        return "RagsieveArrivalTransform"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """As LlamaIndex writes it, different each time: the key of its cache."""
        return {**super().to_dict(**kwargs), "asked": uuid.uuid4().hex}

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:  # noqa: ARG002
        """The nodes to write, in their order.

        :raises InputError: for a node without an embedding.
        """
        return _to_write(self.gate.sort(_arrivals(nodes)))

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:  # noqa: ARG002
        """As a call, beside the event loop."""
        return _to_write(await self.gate.asort(_arrivals(nodes)))


def deep_retriever(index: Any, sieve: ContextFilter, **kwargs: Any) -> Any:
    """``index.as_retriever`` at ``sieve.depth`` nodes; LlamaIndex's own default is 2.

    :param kwargs: its arguments; a ``similarity_top_k`` of one's own is kept, with a warning when
        it is below ``sieve.fewest``.
    """
    return index.as_retriever(**_deep(sieve, kwargs))


def sieved_query_engine(index: Any, sieve: ContextFilter, **kwargs: Any) -> Any:
    """``index.as_query_engine`` at ``sieve.depth`` nodes, with the filter before all else.

    :param kwargs: its arguments, as in :func:`deep_retriever`; other postprocessors follow ours.
    """
    others = kwargs.pop("node_postprocessors", None) or []
    first = SievePostprocessor(sieve=sieve)
    return index.as_query_engine(node_postprocessors=[first, *others], **_deep(sieve, kwargs))


def _deep(sieve: ContextFilter, kwargs: dict[str, Any]) -> dict[str, Any]:
    if "similarity_top_k" in kwargs:
        sieve.check_depth(kwargs["similarity_top_k"], "similarity_top_k")
        return kwargs
    return kwargs | {"similarity_top_k": sieve.depth}


def _query(bundle: QueryBundle | None) -> str:
    if bundle is None:
        raise InputError("expected a query, found none; give query_bundle or query_str")
    text: str = bundle.query_str
    return text


def _found(nodes: Sequence[NodeWithScore]) -> list[Found[NodeWithScore]]:
    # Who can write metadata could forge a mark, or hide words in one: ours are not read.
    return [
        Found(one, _unmarked(one.node).get_content(MetadataMode.LLM), one.node.node_id, one.score)
        for one in nodes
    ]


def _context(filtered: Filtered[NodeWithScore]) -> list[NodeWithScore]:
    return [
        one.item.model_copy(
            update={
                "node": _with_fields(
                    one.item.node, one.item.node.metadata | {KEY: one.mark.fields()}
                )
            }
        )
        for one in filtered.kept
    ]


def _arrivals(nodes: Sequence[BaseNode]) -> list[Arrival[BaseNode]]:
    for node in nodes:
        if node.embedding is None:
            raise InputError(
                "expected nodes with embeddings, found one without; put the transform behind the "
                "embedding model in the pipeline"
            )
    return [
        Arrival(
            one,
            _unmarked(one).get_content(MetadataMode.EMBED),
            one.embedding,
            one.node_id,
            declared(one.metadata),
        )
        for one in nodes
    ]


def _to_write(done: Sorted[BaseNode]) -> list[BaseNode]:
    return [_with_fields(node, without_marks(node.metadata) | fields) for node, fields in done.kept]


def _unmarked(node: BaseNode) -> BaseNode:
    if not any(key in node.metadata for key in _OURS):
        return node
    return node.model_copy(update={"metadata": without_marks(node.metadata)})


def _with_fields(node: BaseNode, metadata: dict[str, Any]) -> BaseNode:
    return node.model_copy(
        update={
            "metadata": metadata,
            "excluded_embed_metadata_keys": _also(node.excluded_embed_metadata_keys),
            "excluded_llm_metadata_keys": _also(node.excluded_llm_metadata_keys),
        }
    )


def _also(keys: Sequence[str]) -> list[str]:
    return [*keys, *(key for key in _OURS if key not in keys)]
