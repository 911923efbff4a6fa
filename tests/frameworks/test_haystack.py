"""The filter inside real Haystack pipelines: retrieval, writing, serialisation."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
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
from ragsieve.errors import ConfigError, InputError, RankingError
from ragsieve.integrations.arrivals import ArrivalFilter, LiveCorpus
from ragsieve.integrations.retrieved import ContextFilter
from ragsieve.live.index import LiveIndex
from ragsieve.live.store import LiveStore
from ragsieve.records import Document as Ours

pytestmark = pytest.mark.frameworks


def documents(texts):
    from haystack import Document

    return [
        Document(content=text, meta={"page": i}, embedding=row)
        for i, (text, row) in enumerate(zip(texts, vectors(texts), strict=True))
    ]


def store(texts=None):
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    made = InMemoryDocumentStore(embedding_similarity_function="cosine")
    made.write_documents(documents([*clean_texts(), PLANTED] if texts is None else texts))
    return made


def pipeline(component, held, **options):
    from haystack import Pipeline
    from haystack.components.builders import PromptBuilder
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever

    from ragsieve.integrations.haystack import deepen

    made = Pipeline()
    retriever = InMemoryEmbeddingRetriever(held, **options)
    made.add_component("retriever", retriever if options else deepen(retriever, component.sieve))
    made.add_component("sieve", component)
    template = "{% for one in documents %}{{ one.content }}\n{% endfor %}{{ query }}"
    made.add_component("prompt", PromptBuilder(template, required_variables="*"))
    made.connect("retriever.documents", "sieve.documents")
    made.connect("sieve.documents", "prompt.documents")
    return made


def asked():
    return {
        "retriever": {"query_embedding": vectors([QUERY])[0]},
        "sieve": {"query": QUERY},
        "prompt": {"query": QUERY},
    }


def run(made, later=False):
    wanted = {"retriever", "sieve", "prompt"}
    if later:
        return asyncio.run(made.run_async(asked(), include_outputs_from=wanted))
    return made.run(asked(), include_outputs_from=wanted)


def strict_config(tmp_path):
    path = tmp_path / "ragsieve.toml"
    path.write_text('[query]\nquery_copy = "strict"\n', "utf-8")
    return str(path)


@pytest.mark.parametrize("later", [False, True])
def test_a_pipeline_takes_it_out_and_refills(later):
    from ragsieve.integrations.haystack import ContextSieve

    made = pipeline(ContextSieve(sieve=sieve()), store())
    done = run(made, later)
    ranked = done["retriever"]["documents"]
    assert len(ranked) == 40
    assert PLANTED in [one.content for one in ranked[:5]]
    left = [one for one in ranked if one.content != PLANTED][:5]
    found = done["sieve"]["documents"]
    assert [(one.id, one.content, one.score) for one in found] == [
        (one.id, one.content, one.score) for one in left
    ]
    for one in found:
        assert one.meta["page"] is not None
        json.dumps(one.meta)
        assert ranked[one.meta["ragsieve"]["rank"] - 1].id == one.id
    (gone,) = done["sieve"]["removed"]
    assert (gone.content, gone.meta["ragsieve"]["decision"]) == (PLANTED, "flagged")
    assert done["sieve"]["report"]["removed_ids"] == [gone.id]
    json.dumps(done["sieve"]["report"])
    assert "Mallory" not in done["prompt"]["prompt"]
    assert left[-1].content in done["prompt"]["prompt"]


def test_it_can_be_written_and_read(tmp_path):
    from haystack import Pipeline

    from ragsieve.integrations.haystack import ContextSieve

    component = ContextSieve(strict_config(tmp_path), top_n=3, mode="decision", on_short="raise")
    made = pipeline(component, store())
    again = Pipeline.loads(made.dumps(), allowed_modules=["ragsieve.*"])
    assert again.to_dict() == made.to_dict()
    read = again.get_component("sieve")
    assert (read.top_n, read.mode, read.on_short) == (3, "decision", "raise")
    done = run(again)["sieve"]
    assert len(done["documents"]) == 3
    assert PLANTED in [one.content for one in done["removed"]]
    assert ContextSieve.from_dict(component.to_dict()).to_dict() == component.to_dict()
    json.dumps(component.to_dict())
    with pytest.raises(ConfigError, match="instead of sieve"):
        ContextSieve(sieve=sieve()).to_dict()


def test_making_one_is_light_and_warming_up_is_not(tmp_path):
    from ragsieve.integrations.haystack import ContextSieve

    component = ContextSieve(state=str(tmp_path / "no state"))
    assert component.to_dict()["init_parameters"]["state"].endswith("no state")
    with pytest.raises(InputError, match="no state"):
        component.warm_up()
    with pytest.raises(ValueError, match="loud"):
        ContextSieve(on_short="loud")
    ContextSieve(strict_config(tmp_path)).warm_up()


def test_the_retriever_is_made_deep():
    from haystack.components.builders import PromptBuilder
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever

    from ragsieve.integrations.haystack import deepen

    one = sieve()
    assert InMemoryEmbeddingRetriever(store()).top_k == 10
    assert deepen(InMemoryEmbeddingRetriever(store()), one).top_k == 40
    assert deepen(InMemoryEmbeddingRetriever(store(), top_k=90), one).top_k == 90
    with pytest.raises(ConfigError, match="top_k"):
        deepen(PromptBuilder("x"), one)


def test_a_short_tail_is_said(caplog):
    from ragsieve.integrations.haystack import ContextSieve

    with caplog.at_level(logging.WARNING, "ragsieve.integrations"):
        done = run(pipeline(ContextSieve(sieve=sieve()), store(clean_texts()), top_k=10))["sieve"]
    assert len(done["documents"]) == 5
    marks = [one.meta["ragsieve"] for one in done["documents"]]
    assert {(m["tail"], m["decision"], m["score"]) for m in marks} == {
        ("insufficient", "undecided", None)
    }
    assert done["report"]["partial"] is True
    assert "insufficient tail" in caplog.text
    strict = ContextSieve(sieve=sieve(policy=FilterPolicy(on_short=Resort.RAISE)))
    with pytest.raises(RankingError):
        strict.run(query=QUERY, documents=documents(clean_texts(3)))


def test_nothing_repeats_and_documents_without_text():
    from haystack import Document
    from haystack.dataclasses import ByteStream

    from ragsieve.integrations.haystack import ContextSieve

    component = ContextSieve(sieve=sieve())
    empty = {"removed_ids": [], "partial": False, "trace": []}
    assert component.run(query=QUERY, documents=[]) == {
        "documents": [],
        "removed": [],
        "report": empty,
    }
    pictures = [Document(blob=ByteStream(bytes([i]))) for i in range(2)]
    texts = clean_texts(30)
    given = [*pictures, *documents([texts[0], *texts])]
    done = component.run(query=QUERY, documents=given)
    assert [one.id for one in done["documents"][:2]] == [one.id for one in pictures]
    assert [one.content for one in done["documents"][2:]] == texts[:3]
    assert [one.content for one in done["removed"]] == [texts[0]]
    assert all("ragsieve" not in one.meta for one in given)


def test_judged_once_in_threads_offline(monkeypatch):
    from ragsieve.integrations.haystack import ContextSieve

    calls = []

    class Counting(DefaultQueryRule):
        def measure(self, views):
            calls.append(len(views))
            return super().measure(views)

    held = store()
    offline(monkeypatch)
    counted = ContextSieve(sieve=ContextFilter(QueryDetector(Counting())))
    run(pipeline(counted, held))
    assert calls == [1]
    component = ContextSieve(sieve=sieve())
    given = documents([PLANTED, *clean_texts()])
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: component.run(query=QUERY, documents=given), range(12)))
    assert all([one.content for one in each["removed"]] == [PLANTED] for each in done)


def arriving():
    from haystack import Document

    (texts, rows), (more, near) = calm(np.random.default_rng(0)), campaign(np.random.default_rng(1))
    fresh = "Note 60 on topic 4, written in week 60."
    given = [
        Document(content=text, embedding=row.tolist(), meta={"source": "post"})
        for text, row in zip([fresh, *more], [rows[0][::-1], *near], strict=True)
    ]
    return [Ours(f"d{i}", text) for i, text in enumerate(texts)], rows, given


@pytest.mark.parametrize("later", [False, True])
def test_new_documents_pass_the_gate_before_the_writer(later, tmp_path):
    from haystack import Pipeline
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from ragsieve.integrations.haystack import ArrivalSieve

    corpus, rows, given = arriving()
    live = LiveStore.create(tmp_path / "live", DefaultCorpusRule())
    with live.writer() as writer:
        writer.add(corpus, rows)
    held = InMemoryDocumentStore()
    made = Pipeline()
    made.add_component("gate", ArrivalSieve(str(tmp_path / "live")))
    made.add_component("writer", DocumentWriter(held))
    made.connect("gate.documents", "writer.documents")
    read = Pipeline.loads(made.dumps(), allowed_modules=["ragsieve.*"])
    assert read.get_component("gate").to_dict() == made.get_component("gate").to_dict()
    data = {"gate": {"documents": given}}
    done = asyncio.run(made.run_async(data)) if later else made.run(data)
    (written,) = held.filter_documents()
    assert (written.id, written.content) == (given[0].id, given[0].content)
    assert written.meta["source"] == "post"
    assert written.meta["ragsieve_decision"] == "clear"
    assert [one.id for one in done["gate"]["held"]] == [one.id for one in given[1:]]
    assert done["gate"]["report"]["held_ids"] == [one.id for one in given[1:]]
    assert live.open().document_ids[60:] == (given[0].id,)


def test_a_gate_needs_one_corpus_and_embeddings():
    from ragsieve.integrations.haystack import ArrivalSieve

    with pytest.raises(ConfigError, match="one of live, state and gate"):
        ArrivalSieve()
    with pytest.raises(ConfigError, match="one of live, state and gate"):
        ArrivalSieve("live", state="state")
    corpus, rows, given = arriving()
    live = LiveIndex(DefaultCorpusRule())
    live.add(corpus, rows)
    gate = ArrivalSieve(gate=ArrivalFilter(LiveCorpus(live), hold_at=None))
    done = gate.run(documents=given)
    assert [one.meta["ragsieve_decision"] for one in done["documents"]] == [
        "clear",
        *["flagged"] * 5,
    ]
    assert gate.run(documents=[])["report"] == {"judged": 0, "held_ids": [], "earlier_ids": []}
    with pytest.raises(ConfigError, match="instead"):
        gate.to_dict()
    with pytest.raises(InputError, match="behind a document embedder"):
        gate.run(documents=[dataclasses.replace(given[0], embedding=None)])
