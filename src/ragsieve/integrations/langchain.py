"""LangChain: a document compressor, Runnables, and retrievers that ask deep enough.

A score is evidence that a document is promoted into retrieval, never a verdict on truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict

from ragsieve._extras import require
from ragsieve.errors import ConfigError, InputError
from ragsieve.integrations.arrivals import Arrival, ArrivalFilter, Sorted
from ragsieve.integrations.contexts import Filtered, Found
from ragsieve.integrations.marks import KEY, content_id, declared, without_marks
from ragsieve.integrations.retrieved import ContextFilter

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
    from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
except ImportError:
    require("langchain_core", extra="langchain")
    raise


class SieveCompressor(BaseDocumentCompressor):  # type: ignore[misc]
    """Takes flagged documents out of a retrieval and refills from its tail.

    Ids and metadata stay; ``metadata["ragsieve"]`` says what the filter found. Give the
    retriever at least ``sieve.fewest`` documents, better ``sieve.depth``
    (:func:`sieved_retriever` does), and let nothing reorder or cut them before.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    sieve: ContextFilter

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Any = None,  # noqa: ARG002 -- the framework's signature
    ) -> Sequence[Document]:
        """The context, best first.

        :raises RankingError: when the retrieval cannot be judged and the policy says raise.
        """
        return context(self.sieve.judge(query, found(documents)))

    async def acompress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Any = None,  # noqa: ARG002
    ) -> Sequence[Document]:
        """As :meth:`compress_documents`, beside the event loop."""
        return context(await self.sieve.ajudge(query, found(documents)))


def found(documents: Sequence[Document]) -> list[Found[Document]]:
    """Retrieved documents as the filter reads them."""
    return [Found(one, one.page_content, one.id) for one in documents]


def context(filtered: Filtered[Document]) -> list[Document]:
    """The documents that are kept: copies with their mark, under their ids."""
    return [
        one.item.model_copy(update={"metadata": one.item.metadata | {KEY: one.mark.fields()}})
        for one in filtered.kept
    ]


def sieve_runnable(sieve: ContextFilter) -> Runnable[Mapping[str, Any], list[Document]]:
    """A Runnable from ``{"query": str, "documents": [Document, ...]}`` to the context."""

    def run(inputs: Mapping[str, Any]) -> list[Document]:
        query, documents = _asked(inputs)
        return context(sieve.judge(query, found(documents)))

    async def arun(inputs: Mapping[str, Any]) -> list[Document]:
        query, documents = _asked(inputs)
        return context(await sieve.ajudge(query, found(documents)))

    return RunnableLambda(run, afunc=arun, name="ragsieve")


def sieved_runnable(
    source: VectorStore | BaseRetriever, sieve: ContextFilter, **search_kwargs: Any
) -> Runnable[str, list[Document]]:
    """A Runnable from a query to the context: retrieves as deep as the tail needs, then filters.

    :param search_kwargs: of the vector store.
    :raises ConfigError: for a retriever that reorders what it found.
    """
    retriever = deep_retriever(source, sieve, **search_kwargs)

    def run(query: str, config: RunnableConfig) -> list[Document]:
        return context(sieve.judge(query, found(retriever.invoke(query, config))))

    async def arun(query: str, config: RunnableConfig) -> list[Document]:
        documents = await retriever.ainvoke(query, config)
        return context(await sieve.ajudge(query, found(documents)))

    return RunnableLambda(run, afunc=arun, name="ragsieve")


def sieved_retriever(
    source: VectorStore | BaseRetriever, sieve: ContextFilter, **search_kwargs: Any
) -> BaseRetriever:
    """A ``ContextualCompressionRetriever`` that retrieves as deep as the tail needs.

    :param search_kwargs: of the vector store.
    :raises ConfigError: for a retriever that reorders what it found.
    :raises MissingExtraError: without ``langchain-classic``.
    """
    classic = require("langchain_classic.retrievers", extra="langchain")
    return classic.ContextualCompressionRetriever(
        base_compressor=SieveCompressor(sieve=sieve),
        base_retriever=deep_retriever(source, sieve, **search_kwargs),
    )


def deep_retriever(
    source: VectorStore | BaseRetriever, sieve: ContextFilter, **search_kwargs: Any
) -> BaseRetriever:
    """A retriever of at least ``sieve.depth`` documents; LangChain's own default is 4.

    :param source: a vector store, its retriever, or another retriever, which is taken as it is:
        the filter says so when it gives too little.
    :param search_kwargs: of the vector store; a ``k`` of one's own is kept, with a warning when
        it is below ``sieve.fewest``.
    :raises ConfigError: for a retriever that reorders what it found.
    """
    if isinstance(source, VectorStore):
        source = source.as_retriever(search_kwargs={})
    if not isinstance(source, VectorStoreRetriever):
        if search_kwargs:
            raise ConfigError(
                f"search_kwargs: expected a vector store or its retriever, found "
                f"{type(source).__name__}; set the depth where it was made"
            )
        return source
    if source.search_type == "mmr":
        raise ConfigError(
            "search_type: expected similarity, found mmr, whose order is not that of similarity; "
            "choose similarity, and diversify behind the filter"
        )
    asked = dict(source.search_kwargs) | search_kwargs
    if "k" in search_kwargs:
        sieve.check_depth(asked["k"], "search_kwargs['k']")
    else:
        asked["k"] = max(sieve.depth, asked.get("k", 0))
    return source.model_copy(update={"search_kwargs": asked})


def arrivals_runnable(
    gate: ArrivalFilter, embeddings: Embeddings
) -> Runnable[Sequence[Document], list[Document]]:
    """A Runnable from new documents to those to write: ``gate | store.add_documents``.

    A document without an id gets a hash of its text as one, so that what the gate knows and
    what is stored bear the same, and adding a chunk twice stores it once. Flat metadata keys
    ``ragsieve_*`` say what the gate found.

    :param embeddings: the store's own; the store embeds again.
    """

    def run(documents: Sequence[Document]) -> list[Document]:
        rows = embeddings.embed_documents([one.page_content for one in documents])
        return _to_write(gate.sort(_arrivals(documents, rows)))

    async def arun(documents: Sequence[Document]) -> list[Document]:
        rows = await embeddings.aembed_documents([one.page_content for one in documents])
        return _to_write(await gate.asort(_arrivals(documents, rows)))

    return RunnableLambda(run, afunc=arun, name="ragsieve arrivals")


def _asked(inputs: Mapping[str, Any]) -> tuple[str, Sequence[Document]]:
    try:
        return inputs["query"], inputs["documents"]
    except (KeyError, TypeError) as error:
        raise InputError(
            "expected a mapping with query and documents: "
            "RunnableParallel(query=RunnablePassthrough(), documents=retriever) makes one"
        ) from error


def _arrivals(
    documents: Sequence[Document], rows: Sequence[Sequence[float]]
) -> list[Arrival[Document]]:
    return [
        Arrival(one, one.page_content, row, one.id, declared(one.metadata))
        for one, row in zip(documents, rows, strict=True)
    ]


def _to_write(done: Sorted[Document]) -> list[Document]:
    return [
        one.model_copy(
            update={
                "id": one.id or content_id(one.page_content),
                "metadata": without_marks(one.metadata) | fields,
            }
        )
        for one, fields in done.kept
    ]
