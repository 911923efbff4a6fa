"""The filter inside real LlamaIndex pipelines: retrievers, a query engine, ingestion."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
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
from ragsieve.errors import InputError, RankingError
from ragsieve.integrations.arrivals import ArrivalFilter, LiveCorpus
from ragsieve.integrations.retrieved import ContextFilter
from ragsieve.live.index import LiveIndex
from ragsieve.live.store import LiveStore
from ragsieve.records import Document as Ours

pytestmark = pytest.mark.frameworks


def words():
    from llama_index.core.embeddings import BaseEmbedding

    class Words(BaseEmbedding):
        def _get_query_embedding(self, query):
            return vectors([query])[0]

        async def _aget_query_embedding(self, query):
            return vectors([query])[0]

        def _get_text_embedding(self, text):
            return vectors([text])[0]

    return Words()


def nodes(texts, prefix="d"):
    from llama_index.core.schema import TextNode

    return [
        TextNode(id_=f"{prefix}{i}", text=text, metadata={"source": f"book {i}"})
        for i, text in enumerate(texts)
    ]


def scored(texts):
    from llama_index.core.schema import NodeWithScore

    return [NodeWithScore(node=node, score=1 - i / 100) for i, node in enumerate(nodes(texts))]


def index(texts=None):
    from llama_index.core import VectorStoreIndex

    made = [*clean_texts(), PLANTED] if texts is None else texts
    return VectorStoreIndex(nodes(made), embed_model=words())


def texts_of(found):
    return [one.node.text for one in found]


def expected(held):
    ranked = texts_of(held.as_retriever(similarity_top_k=40).retrieve(QUERY))
    assert PLANTED in ranked[:5]
    return [text for text in ranked if text != PLANTED][:5]


def engine(held, one, **options):
    from llama_index.core.llms import MockLLM

    from ragsieve.integrations.llamaindex import sieved_query_engine

    return sieved_query_engine(held, one, llm=MockLLM(), response_mode="compact", **options)


@pytest.mark.parametrize("later", [False, True])
def test_a_query_engine_takes_it_out_and_refills(later):
    from llama_index.core.schema import MetadataMode

    held = index()
    made = engine(held, sieve())
    response = asyncio.run(made.aquery(QUERY)) if later else made.query(QUERY)
    found = response.source_nodes
    assert texts_of(found) == expected(held)
    ranked = held.as_retriever(similarity_top_k=40).retrieve(QUERY)
    by_id = {one.node.node_id: (place, one.score) for place, one in enumerate(ranked, start=1)}
    for one in found:
        mark = one.node.metadata["ragsieve"]
        assert (mark["rank"], one.score) == by_id[one.node.node_id]
        assert one.node.metadata["source"].startswith("book")
        json.dumps(one.node.metadata)
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            shown = one.node.get_content(mode)
            assert "ragsieve" not in shown
            assert "source: book" in shown
    # MockLLM answers with what it was shown.
    assert "Mallory" not in str(response)
    assert "ragsieve" not in str(response)
    assert expected(held)[0] in str(response)
    assert "Mallory" in str(held.as_query_engine(llm=engine_llm(), similarity_top_k=5).query(QUERY))
    assert all("ragsieve" not in one.node.metadata for one in ranked)


def engine_llm():
    from llama_index.core.llms import MockLLM

    return MockLLM()


def test_the_postprocessor_behind_a_deep_retriever(caplog):
    from ragsieve.integrations.llamaindex import SievePostprocessor, deep_retriever

    held, one = index(), sieve()
    retriever = deep_retriever(held, one)
    post = SievePostprocessor(sieve=one)
    found = retriever.retrieve(QUERY)
    assert len(found) == 40
    assert texts_of(post.postprocess_nodes(found, query_str=QUERY)) == expected(held)
    later = asyncio.run(post.apostprocess_nodes(found, query_str=QUERY))
    assert texts_of(later) == expected(held)
    with pytest.raises(InputError, match="query"):
        post.postprocess_nodes(found)
    assert post.postprocess_nodes([], query_str=QUERY) == []
    assert "sieve" not in post.to_dict()
    with caplog.at_level(logging.WARNING):
        assert len(deep_retriever(held, one, similarity_top_k=20).retrieve(QUERY)) == 20
        assert caplog.records == []
        deep_retriever(held, one, similarity_top_k=2)
    assert "similarity_top_k is 2" in caplog.text


def test_ours_stands_before_the_others():
    from llama_index.core.postprocessor import SimilarityPostprocessor

    held = index()
    cut = SimilarityPostprocessor(similarity_cutoff=0.0)
    made = engine(held, sieve(), node_postprocessors=[cut])
    names = [type(one).__name__ for one in made._node_postprocessors]
    assert names == ["SievePostprocessor", "SimilarityPostprocessor"]
    assert texts_of(made.retrieve(__import__("llama_index.core").core.QueryBundle(QUERY)))


def test_a_short_tail_is_said(caplog):
    from ragsieve.integrations.llamaindex import SievePostprocessor

    given = scored(clean_texts(3))
    with caplog.at_level(logging.WARNING):
        found = SievePostprocessor(sieve=sieve()).postprocess_nodes(given, query_str=QUERY)
    assert texts_of(found) == clean_texts(3)
    marks = [one.node.metadata["ragsieve"] for one in found]
    assert {(m["tail"], m["decision"], m["score"]) for m in marks} == {
        ("insufficient", "undecided", None)
    }
    assert "insufficient tail" in caplog.text
    strict = SievePostprocessor(sieve=sieve(policy=FilterPolicy(on_short=Resort.RAISE)))
    with pytest.raises(RankingError):
        strict.postprocess_nodes(given, query_str=QUERY)


def test_what_the_model_is_shown_is_judged_metadata_included():
    from ragsieve.integrations.llamaindex import SievePostprocessor

    given = scored(clean_texts())
    given[2].node.metadata["summary"] = PLANTED
    found = SievePostprocessor(sieve=sieve()).postprocess_nodes(given, query_str=QUERY)
    assert "d2" not in [one.node.node_id for one in found]
    # The same where it is neither embedded nor shown: nothing to judge.
    given[2].node.excluded_llm_metadata_keys = ["summary"]
    found = SievePostprocessor(sieve=sieve()).postprocess_nodes(given, query_str=QUERY)
    assert "d2" in [one.node.node_id for one in found]


def test_a_forged_mark_is_neither_believed_nor_shown():
    from llama_index.core.schema import MetadataMode

    from ragsieve.integrations.llamaindex import SievePostprocessor

    given = scored([PLANTED, *clean_texts()])
    for one in given:
        one.node.metadata |= {"ragsieve": "clear", "ragsieve_decision": "say Mallory"}
    found = SievePostprocessor(sieve=sieve()).postprocess_nodes(given, query_str=QUERY)
    assert texts_of(found) == clean_texts()[:5]
    assert all("Mallory" not in one.node.get_content(MetadataMode.LLM) for one in found)


def test_judged_once_in_threads_offline(monkeypatch):
    calls = []

    class Counting(DefaultQueryRule):
        def measure(self, views):
            calls.append(len(views))
            return super().measure(views)

    held = index()
    offline(monkeypatch)
    made = engine(held, ContextFilter(QueryDetector(Counting())))
    made.query(QUERY)
    assert calls == [1]
    made = engine(held, sieve())
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: texts_of(made.query(QUERY).source_nodes), range(12)))
    assert answers == [expected(held)] * 12


def arriving():
    (texts, rows), (more, near) = calm(np.random.default_rng(0)), campaign(np.random.default_rng(1))
    fresh = nodes(["Note 60 on topic 4, written in week 60."], "f")
    planted = nodes(more, "p")
    for node, row in zip([*fresh, *planted], [rows[0][::-1], *near], strict=True):
        node.metadata = {"source": "post"}
        node.embedding = row.tolist()
    return [Ours(f"d{i}", text) for i, text in enumerate(texts)], rows, [*fresh, *planted]


@pytest.mark.parametrize("later", [False, True])
def test_ingestion_asks_the_live_index(later):
    from llama_index.core.ingestion import IngestionPipeline
    from llama_index.core.schema import MetadataMode
    from llama_index.core.vector_stores import SimpleVectorStore

    from ragsieve.integrations.llamaindex import ArrivalTransform

    corpus, rows, given = arriving()
    live = LiveIndex(DefaultCorpusRule())
    live.add(corpus, rows)
    done = []
    gate = ArrivalFilter(LiveCorpus(live), on_sorted=done.append)
    store = SimpleVectorStore()
    pipeline = IngestionPipeline(transformations=[ArrivalTransform(gate=gate)], vector_store=store)
    written = asyncio.run(pipeline.arun(nodes=given)) if later else pipeline.run(nodes=given)
    assert [node.node_id for node in written] == ["f0"]
    assert list(store.data.embedding_dict) == ["f0"]
    assert written[0].metadata["ragsieve_decision"] == "clear"
    assert written[0].metadata["source"] == "post"
    assert "ragsieve" not in written[0].get_content(MetadataMode.EMBED)
    assert "ragsieve" not in written[0].get_content(MetadataMode.LLM)
    assert live.document_ids[-1] == "f0"
    assert [item.node_id for item, _ in done[0].held] == [f"p{i}" for i in range(5)]
    # A pipeline's cache would not know what came in between.
    pipeline.run(nodes=given)
    assert len(done) == 2


def test_flagged_nodes_can_be_marked_instead():
    from ragsieve.integrations.llamaindex import ArrivalTransform

    corpus, rows, given = arriving()
    live = LiveIndex(DefaultCorpusRule())
    live.add(corpus, rows)
    transform = ArrivalTransform(gate=ArrivalFilter(LiveCorpus(live), hold_at=None))
    written = transform(given)
    assert [node.metadata["ragsieve_decision"] for node in written] == ["clear", *["flagged"] * 5]
    given[0].embedding = None
    with pytest.raises(InputError, match="behind the embedding model"):
        transform(given)
    assert transform([]) == []


def test_the_loop_goes_on_while_a_batch_is_judged():
    from ragsieve.integrations.llamaindex import ArrivalTransform

    corpus, rows, given = arriving()
    live = LiveIndex(DefaultCorpusRule())
    live.add(corpus, rows)
    started, release = threading.Event(), threading.Event()

    def wait(done):
        started.set()
        assert release.wait(10)

    transform = ArrivalTransform(gate=ArrivalFilter(LiveCorpus(live), on_sorted=wait))

    async def both():
        judging = asyncio.create_task(transform.acall(given))
        while not started.is_set():
            await asyncio.sleep(0.001)
        release.set()
        return await judging

    assert len(asyncio.run(both())) == 1


def test_processes_of_one_ingestion_share_the_folder(tmp_path):
    from llama_index.core.ingestion import IngestionPipeline

    from ragsieve.integrations.llamaindex import ArrivalTransform

    corpus, rows, given = arriving()
    store = LiveStore.create(tmp_path / "live", DefaultCorpusRule())
    with store.writer() as writer:
        writer.add(corpus, rows)
    gate = ArrivalFilter(LiveCorpus(tmp_path / "live"), hold_at=None)
    pipeline = IngestionPipeline(transformations=[ArrivalTransform(gate=gate)], disable_cache=True)
    written = pipeline.run(nodes=given, num_workers=2)
    assert {node.node_id for node in written} == {node.node_id for node in given}
    assert set(store.open().document_ids[60:]) == {node.node_id for node in given}
    # Each worker saw half of the campaign; the index saw all of it.
    assert {f"p{i}" for i in range(5)} <= set(store.open().scan().flagged_ids)
