"""The filter inside real LangChain pipelines: retrievers, Runnables, an agent."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from frameworks.planted import (
    PLANTED,
    QUERY,
    calm,
    campaign,
    clean_texts,
    offline,
    sieve,
    vectors,
)
from ragsieve.defense.policy import FilterPolicy, Resort
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.default_query import DefaultQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import ConfigError, InputError, RankingError
from ragsieve.integrations.arrivals import ArrivalFilter, LiveCorpus
from ragsieve.integrations.marks import content_id
from ragsieve.integrations.retrieved import ContextFilter
from ragsieve.live.index import LiveIndex
from ragsieve.records import Document as Ours

pytestmark = pytest.mark.frameworks


def embeddings():
    from langchain_core.embeddings import Embeddings

    class Words(Embeddings):
        def embed_documents(self, texts):
            return vectors(texts)

        def embed_query(self, text):
            return vectors([text])[0]

    return Words()


def documents(texts, **options):
    from langchain_core.documents import Document

    return [
        Document(id=f"d{i}", page_content=text, metadata={"source": f"book {i}", "page": i})
        for i, text in enumerate(texts)
    ]


def store(texts=None):
    from langchain_core.vectorstores import InMemoryVectorStore

    made = InMemoryVectorStore(embeddings())
    made.add_documents(documents([*clean_texts(), PLANTED] if texts is None else texts))
    return made


def pages(found):
    return [one.page_content for one in found]


def expected(held, filtered=PLANTED):
    ranked = pages(held.similarity_search(QUERY, k=40))
    assert ranked[0] == PLANTED
    return [text for text in ranked if text != filtered][:5]


async def both(runnable, given):
    return await runnable.ainvoke(given)


def test_compression_retriever_takes_it_out_and_refills():
    from ragsieve.integrations.langchain import sieved_retriever

    held = store()
    retriever = sieved_retriever(held, sieve())
    for found in (retriever.invoke(QUERY), asyncio.run(both(retriever, QUERY))):
        assert pages(found) == expected(held)
        for one in found:
            assert one.id.startswith("d")
            assert one.metadata["source"] == f"book {one.metadata['page']}"
            assert one.metadata["ragsieve"]["decision"] in {"undecided", "unjudged"}
            json.dumps(one.metadata)
        assert [one.metadata["ragsieve"]["rank"] for one in found] == [2, 3, 4, 5, 6]
    # What the store holds is as it was: nothing was written into shared metadata.
    assert "ragsieve" not in held.similarity_search(QUERY, k=1)[0].metadata
    assert "ragsieve" not in held.similarity_search(QUERY, k=2)[1].metadata


def test_runnables_alone_in_batches_and_beside_others():
    from langchain_core.runnables import RunnableParallel, RunnablePassthrough

    from ragsieve.integrations.langchain import deep_retriever, sieve_runnable, sieved_runnable

    held = store()
    chains = [
        sieved_runnable(held, sieve()),
        RunnableParallel(query=RunnablePassthrough(), documents=deep_retriever(held, sieve()))
        | sieve_runnable(sieve()),
    ]
    for chain in chains:
        assert pages(chain.invoke(QUERY)) == expected(held)
        assert pages(asyncio.run(both(chain, QUERY))) == expected(held)
        many = chain.batch([QUERY, "market stone archive", QUERY])
        assert pages(many[0]) == pages(many[2]) == expected(held)
        assert len(many[1]) == 5
        later = asyncio.run(chain.abatch([QUERY] * 3))
        assert [pages(one) for one in later] == [expected(held)] * 3
    with pytest.raises(InputError, match="query and documents"):
        sieve_runnable(sieve()).invoke({"query": QUERY})


def test_each_retrieval_is_judged_once_and_alone():
    from ragsieve.integrations.langchain import sieved_retriever, sieved_runnable

    calls = []

    class Counting(DefaultQueryRule):
        def measure(self, views):
            calls.append([view.query for view in views])
            return super().measure(views)

    held, counted = store(), ContextFilter(QueryDetector(Counting()))
    sieved_retriever(held, counted).invoke(QUERY)
    assert calls == [[QUERY]]
    asyncio.run(both(sieved_runnable(held, counted), QUERY))
    assert calls == [[QUERY]] * 2


def test_threads_and_tasks_together():
    from ragsieve.integrations.langchain import sieved_runnable

    held = store()
    chain = sieved_runnable(held, sieve())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(chain.invoke, [QUERY] * 24))
    assert [pages(one) for one in found] == [expected(held)] * 24

    async def together():
        return await asyncio.gather(*(chain.ainvoke(QUERY) for _ in range(24)))

    assert [pages(one) for one in asyncio.run(together())] == [expected(held)] * 24


def test_the_depth_is_asked_for(caplog):
    from ragsieve.integrations.langchain import deep_retriever

    held, one = store(), sieve()
    assert deep_retriever(held, one).search_kwargs == {"k": 40}
    assert deep_retriever(held.as_retriever(), one).search_kwargs["k"] == 40
    filtered = held.as_retriever(search_kwargs={"k": 60, "filter": None})
    assert deep_retriever(filtered, one).search_kwargs == {"k": 60, "filter": None}
    with caplog.at_level(logging.WARNING):
        assert deep_retriever(held, one, k=20).search_kwargs == {"k": 20}
        assert caplog.records == []
        assert deep_retriever(held, one, k=4).search_kwargs == {"k": 4}
    assert "insufficient tail: search_kwargs['k'] is 4" in caplog.text
    with pytest.raises(ConfigError, match="mmr"):
        deep_retriever(held.as_retriever(search_type="mmr"), one)
    with pytest.raises(ConfigError, match="set the depth where it was made"):
        deep_retriever(deep_retriever_of_another(), one, k=20)


def deep_retriever_of_another():
    from langchain_core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return documents(clean_texts(4))

    return Fixed()


def test_a_shallow_retriever_is_said_to_be_one(caplog):
    from ragsieve.integrations.langchain import sieved_retriever

    with caplog.at_level(logging.WARNING):
        found = sieved_retriever(deep_retriever_of_another(), sieve()).invoke(QUERY)
    assert len(found) == 4
    for one in found:
        mark = one.metadata["ragsieve"]
        assert (mark["tail"], mark["decision"], mark["score"]) == (
            "insufficient",
            "undecided",
            None,
        )
        assert mark["note"].startswith("insufficient tail")
    assert "insufficient tail" in caplog.text
    strict = sieve(policy=FilterPolicy(on_short=Resort.RAISE))
    with pytest.raises(RankingError):
        sieved_retriever(deep_retriever_of_another(), strict).invoke(QUERY)


def test_a_store_that_repeats_a_chunk():
    """A store filled twice gives every chunk twice, under other ids."""
    from langchain_core.documents import Document

    from ragsieve.integrations.langchain import sieved_retriever

    held = store(clean_texts())
    held.add_documents([Document(page_content=text) for text in clean_texts()])
    twice = pages(held.similarity_search(QUERY, k=40))
    assert len(set(twice)) == 20
    found = sieved_retriever(held, sieve()).invoke(QUERY)
    assert pages(found) == list(dict.fromkeys(twice))[:5]


def test_nothing_retrieved_and_documents_without_ids():
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    from ragsieve.integrations.langchain import SieveCompressor, sieved_retriever

    empty = InMemoryVectorStore(embeddings())
    assert sieved_retriever(empty, sieve()).invoke(QUERY) == []
    compressor = SieveCompressor(sieve=sieve())
    assert compressor.compress_documents([], QUERY) == []
    bare = [Document(page_content=text) for text in [PLANTED, *clean_texts()]]
    found = compressor.compress_documents(bare, QUERY)
    assert pages(found) == clean_texts()[:5]
    assert all(one.id is None for one in found)
    assert all(one.metadata == {} for one in bare)


def test_a_forged_mark_does_not_stay():
    from ragsieve.integrations.langchain import SieveCompressor

    given = documents([PLANTED, *clean_texts()])
    for one in given:
        one.metadata["ragsieve"] = {"decision": "clear", "score": 0.0}
    found = SieveCompressor(sieve=sieve()).compress_documents(given, QUERY)
    assert PLANTED not in pages(found)
    assert {one.metadata["ragsieve"]["decision"] for one in found} == {"undecided", "unjudged"}


def test_nothing_is_downloaded(monkeypatch):
    from ragsieve.integrations.langchain import sieved_runnable

    offline(monkeypatch)
    held = store()
    chain = sieved_runnable(held, ContextFilter.from_config())
    assert len(chain.invoke(QUERY)) == 5


def agent(held, middleware, calls, response_format="content_and_artifact"):
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import create_retriever_tool

    from ragsieve.integrations.langchain import deep_retriever

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools, **options):
            return self

        def _generate(self, messages, *arguments, **options):
            calls.append(messages)
            return super()._generate(messages, *arguments, **options)

    tool = create_retriever_tool(
        deep_retriever(held, sieve()), "library", "finds documents", response_format=response_format
    )
    asked = AIMessage(
        "", tool_calls=[{"name": "library", "args": {"query": QUERY}, "id": "call-1"}]
    )
    model = Model(messages=iter([asked, AIMessage("The keeper does.")]))
    return create_agent(model, [tool], middleware=middleware)


@pytest.mark.parametrize("later", [False, True])
def test_an_agent_reads_neither_in_artifact_nor_in_content(later):
    from langchain_core.messages import ToolMessage

    from ragsieve.integrations.langchain_agent import SieveMiddleware

    held, calls = store(), []
    made = agent(held, [SieveMiddleware(sieve(), tools=["library"])], calls)
    given = {"messages": [("user", QUERY)]}
    done = asyncio.run(both(made, given)) if later else made.invoke(given)
    (message,) = [one for one in done["messages"] if isinstance(one, ToolMessage)]
    assert pages(message.artifact) == expected(held)
    assert message.content == "\n\n".join(expected(held))
    assert (message.tool_call_id, message.name, message.status) == ("call-1", "library", "success")
    assert "Mallory" not in str(message)
    # What the model was shown the second time.
    assert "Mallory" not in str(calls[-1])
    assert expected(held)[0] in str(calls[-1])
    assert done["messages"][-1].content == "The keeper does."


def test_without_the_middleware_it_would_read_it():
    calls = []
    agent(store(), [], calls).invoke({"messages": [("user", QUERY)]})
    assert "Mallory" in str(calls[-1])


def test_a_guarded_tool_without_documents_is_refused():
    from ragsieve.integrations.langchain_agent import SieveMiddleware

    given = {"messages": [("user", QUERY)]}
    made = agent(store(), [SieveMiddleware(sieve(), tools=["library"])], [], "content")
    with pytest.raises(InputError, match="content_and_artifact"):
        made.invoke(given)
    # Unnamed, it passes: there is no telling what it is.
    calls = []
    agent(store(), [SieveMiddleware(sieve())], calls, "content").invoke(given)
    assert "Mallory" in str(calls[-1])


def request(arguments):
    from langgraph.prebuilt.tool_node import ToolCallRequest

    call = {"name": "library", "args": arguments, "id": "c", "type": "tool_call"}
    return ToolCallRequest(tool_call=call, tool=None, state={}, runtime=None)


def message(texts, **options):
    from langchain_core.messages import ToolMessage

    return ToolMessage("all of it", artifact=documents(texts), tool_call_id="c", **options)


def test_results_of_other_kinds():
    from langchain_core.messages import HumanMessage, ToolMessage
    from langgraph.types import Command

    from ragsieve.integrations.langchain_agent import NOTHING_LEFT, SieveMiddleware

    wrap = SieveMiddleware(sieve()).wrap_tool_call
    texts = [PLANTED, *clean_texts()]
    # A command's messages are filtered too; what else it says stays.
    command = Command(goto="next", update={"messages": [message(texts), HumanMessage("x")], "n": 1})
    done = wrap(request({"query": QUERY}), lambda _: command)
    first, second = done.update["messages"]
    assert "Mallory" not in first.content
    assert (second.content, done.goto, done.update["n"]) == ("x", "next", 1)
    plain = Command(goto="next")
    assert wrap(request({}), lambda _: plain) is plain
    # The only text is the query; two without a name are none.
    assert "Mallory" not in wrap(request({"q": QUERY, "n": 3}), lambda _: message(texts)).content
    with pytest.raises(InputError, match="query_argument"):
        wrap(request({"a": "x", "b": "y"}), lambda _: message(texts))
    failed = message(texts, status="error")
    assert wrap(request({"query": QUERY}), lambda _: failed) is failed
    number = ToolMessage("4", artifact=4, tool_call_id="c")
    assert wrap(request({"query": QUERY}), lambda _: number) is number
    nothing = message([])
    guarded = SieveMiddleware(sieve(), tools=["library"]).wrap_tool_call
    assert wrap(request({"query": QUERY}), lambda _: nothing) is nothing
    # Named, what it says besides its documents is not handed on.
    done = guarded(request({"query": QUERY}), lambda _: nothing)
    assert (done.content, done.artifact) == (NOTHING_LEFT, [])
    # One message stands for a list of one; what cannot be read is refused.
    alone = Command(update={"messages": message(texts)})
    (first,) = guarded(request({"query": QUERY}), lambda _: alone).update["messages"]
    assert "Mallory" not in str(first)
    pairs = Command(update=[("messages", [message(texts)])])
    with pytest.raises(InputError, match="mapping"):
        guarded(request({"query": QUERY}), lambda _: pairs)
    # A model must not be handed an empty message where documents were.
    bare = sieve(policy=FilterPolicy(on_few_survivors=Resort.REMOVE))
    done = SieveMiddleware(bare).wrap_tool_call(
        request({"query": QUERY}), lambda _: message(texts[:2])
    )
    assert (done.content, done.artifact) == (NOTHING_LEFT, [])


def test_the_content_is_written_as_the_tool_writes_it():
    from langchain_core.prompts import PromptTemplate

    from ragsieve.integrations.langchain_agent import SieveMiddleware

    prompt = PromptTemplate.from_template("[{source}] {page_content}")
    one = SieveMiddleware(sieve(), document_prompt=prompt, document_separator="\n--\n")
    done = one.wrap_tool_call(
        request({"query": QUERY}), lambda _: message([PLANTED, *clean_texts()])
    )
    first, *others = done.content.split("\n--\n")
    assert first == f"[book 1] {clean_texts()[0]}"
    assert len(others) == 4


def test_new_documents_pass_the_gate_before_the_store():
    import numpy as np
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from ragsieve.integrations.langchain import arrivals_runnable

    (texts, rows), (more, near) = calm(np.random.default_rng(0)), campaign(np.random.default_rng(1))
    fresh = "Note 60 on topic 4, written in week 60."
    known = dict(zip([*more, fresh], [*near.tolist(), rows[0][::-1].tolist()], strict=True))

    class Table(Embeddings):
        def embed_documents(self, texts):
            return [known[text] for text in texts]

        def embed_query(self, text):
            return known[text]

    async def later(chain, given):
        return await chain.ainvoke(given)

    for run in (lambda chain, given: chain.invoke(given), lambda c, g: asyncio.run(later(c, g))):
        index = LiveIndex(DefaultCorpusRule())
        index.add([Ours(f"d{i}", text) for i, text in enumerate(texts)], rows)
        held = InMemoryVectorStore(Table())
        done = []
        gate = ArrivalFilter(LiveCorpus(index), on_sorted=done.append)
        chain = arrivals_runnable(gate, Table()) | held.add_documents
        given = [Document(page_content=text, metadata={"a": 1}) for text in [*more, fresh]]
        assert run(chain, given) == [content_id(fresh)]
        assert run(chain, given[-1:]) == [content_id(fresh)]
        (written,) = held.similarity_search(fresh, k=4)
        assert written.metadata["a"] == 1
        assert written.metadata["ragsieve_decision"] == "clear"
        assert len(done[0].held) == 5
        assert index.document_ids[-1] == content_id(fresh)
        assert run(chain, []) == []
