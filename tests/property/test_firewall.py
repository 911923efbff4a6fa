"""Nothing but texts, queries and vectors can move a score: not ids, metadata or labels."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import ragsieve
from builders import clustered, documents, ranking, write_jsonl
from ragsieve import records
from ragsieve.cli.main import run
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.rules import QueryView
from ragsieve.files.contexts import ContextRow, context_fields, read_contexts
from ragsieve.files.corpus import read_corpus
from ragsieve.records import Document, Provenance
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder

few = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 100_000)
FORBIDDEN = ("label", "poison", "target", "attack", "correct")


def facts(verdict):
    return (
        verdict.score.hex(),
        verdict.decision,
        [(e.name, e.value, e.probability, e.components, e.detail) for e in verdict.evidences],
    )


def query_facts(ranking_):
    detector = QueryDetector(
        "paper", causal=FakeCausalScorer(["river"]), encoder=FakeTokenEncoder()
    )
    return [facts(verdict) for verdict in detector.score(ranking_)]


@few
@given(seeds, st.lists(st.text(min_size=1), min_size=25, max_size=25, unique=True))
def test_names_and_provenance_move_no_bit(seed, names):
    texts, rows = clustered(np.random.default_rng(seed), 25)
    dressed = [
        Document(name, text, provenance=Provenance(name, "poison", names[0], "9", "yesterday"))
        for name, text in zip(names, texts, strict=True)
    ]
    plain = CorpusDetector("paper").scan(documents(texts), rows)
    other = CorpusDetector("paper").scan(dressed, rows)
    assert [facts(verdict) for verdict in plain] == [facts(verdict) for verdict in other]
    renamed = ranking(texts, ids=names, query_id="another")
    assert query_facts(ranking(texts)) == query_facts(renamed)


@few
@given(seeds)
def test_similarities_and_what_lies_beyond_the_tail_move_no_bit(seed):
    texts, _ = clustered(np.random.default_rng(seed), 30)
    deep = ranking(texts)
    blind = tuple(dataclasses.replace(e, similarity=None) for e in deep.entries[:20])
    assert query_facts(deep) == query_facts(deep.renumbered(blind))


@few
@given(seeds)
def test_fields_for_the_lab_move_no_byte_of_a_prediction(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("firewall")
    rng = np.random.default_rng(seed)
    texts, rows = clustered(rng, 30)
    np.save(folder / "e.npy", rows)
    lab = {"poison": True, "label": 1, "target_answer": "no", "attack": "x", "score": 9.0}

    def outputs(extra):
        plain = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
        write_jsonl(folder / "c.jsonl", [row | extra for row in plain])
        entries = [row | {"rank": rank} | extra for rank, row in enumerate(plain, 1)]
        context = {"query_id": "q", "query": "who built the bridge", "documents": entries} | extra
        write_jsonl(folder / "x.jsonl", [context])
        scan = ["scan", "--documents", f"{folder}/c.jsonl", "--embeddings", f"{folder}/e.npy"]
        assert run([*scan, "--output", f"{folder}/s.jsonl"]) in {0, 1}
        sieve = ["filter", "--input", f"{folder}/x.jsonl", "--output", f"{folder}/p.jsonl"]
        models = ["--causal-model", "none", "--token-model", "none"]
        assert run([*sieve, "--contexts-output", f"{folder}/r.jsonl", *models]) == 3
        return [(folder / name).read_bytes() for name in ("s.jsonl", "p.jsonl", "r.jsonl")]

    assert outputs({}) == outputs(lab)


def test_the_door_drops_them(tmp_path):
    entry = {"id": "d", "rank": 1, "text": "x", "poison": True}
    context = {"query_id": "q", "query": "?", "documents": [entry], "poison": False}
    read = read_contexts(write_jsonl(tmp_path / "x.jsonl", [context]))[0]
    assert "poison" not in json.dumps(context_fields(read))
    corpus = write_jsonl(tmp_path / "c.jsonl", [{"id": "d", "text": "x", "poison": True}])
    assert "poison" not in repr(read_corpus(corpus))


def test_no_record_of_the_runtime_can_hold_a_label():
    kinds = [
        kind
        for kind in (*vars(records).values(), *vars(ragsieve).values(), QueryView, ContextRow)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    ]
    assert Document in kinds
    assert len(set(kinds)) > 12
    for kind in kinds:
        for field in dataclasses.fields(kind):
            assert not any(word in field.name.lower() for word in FORBIDDEN), (kind, field.name)


def test_a_record_takes_no_further_attribute():
    slotted = [
        kind
        for kind in vars(records).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    ]
    assert len(slotted) > 10
    assert [kind.__name__ for kind in slotted if not hasattr(kind, "__slots__")] == []
    # What a rule sees of a ranking: no ids, no ranks, no metadata.
    assert [field.name for field in dataclasses.fields(QueryView)] == [
        "query", "candidates", "tail", "problem", "features", "surroundings",
    ]  # fmt: skip
