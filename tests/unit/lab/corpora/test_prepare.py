"""Planting in rankings: as if the joined corpus had been ranked; contexts without labels."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from builders import sentence
from ragsieve.errors import ConfigError, InputError, ModelFilesError, OutputError
from ragsieve.files.contexts import read_contexts
from ragsieve.lab import prepare as module
from ragsieve.lab.corpora._gather import joined, planted
from ragsieve.lab.corpora.records import Dataset, Label, Poisoning
from ragsieve.lab.labels import read_labels
from ragsieve.lab.prepare import Plan, Retriever, prepare, prepare_all, retrievers_of
from ragsieve.records import Document, Provenance, Query
from ragsieve.retrieval import rank
from ragsieve.settings import Settings
from ragsieve.testing import FakeTextEmbedder

DEPTH = 12


@pytest.fixture
def dataset():
    rng = np.random.default_rng(5)
    texts = [sentence(rng, 6) for _ in range(60)]
    # Copies: equals have to keep their order.
    texts[20:30] = texts[:10]
    documents = tuple(
        Document(f"d{row}", text, provenance=Provenance(source="almanac" if row % 2 else None))
        for row, text in enumerate(texts)
    )
    queries = tuple(Query(f"q{row}", sentence(rng, 4)) for row in range(6))
    return Dataset("velm", documents, queries, (), {}, {})


@pytest.fixture
def poisoning(dataset):
    first, second, third = dataset.queries[:3]
    copies = [dataset.documents[0].text, dataset.documents[0].text]
    return joined(
        [
            planted("pr_b", first.id, [f"{first.text} {word}" for word in ("stone", "river")]),
            planted("pr_b", second.id, [*copies, second.text]),
            planted("other", first.id, [first.text]),
            planted("pr_b", third.id, ["nothing at all of that kind"]),
        ],
        "here",
    )


def directly(dataset, poisoning, query, attack):
    """The ranking of the corpus joined with the documents of one target."""
    own = [
        one
        for one in poisoning.documents
        if (poisoning.labels[one.id].query_id, poisoning.labels[one.id].attack)
        == (query.id, attack)
    ]
    corpus = (*dataset.documents, *own)
    embedder = FakeTextEmbedder()
    rows = embedder.embed_documents([document.content for document in corpus])
    asked = embedder.embed_queries([query.text])
    (ranking,) = rank([query], corpus, asked, rows, depth=DEPTH)
    return ranking


def written(tmp_path, dataset, poisoning, depth=DEPTH, **more):
    folder = tmp_path / "cell"
    cell = prepare(
        dataset, poisoning, FakeTextEmbedder(), tmp_path / "cache", depth, folder, **more
    )
    return cell, read_contexts(folder / "contexts.jsonl")


def plain(ranking):
    return [
        (one.rank, one.document.id, one.document.text, one.similarity) for one in ranking.entries
    ]


def test_it_equals_ranking_the_joined_corpus(tmp_path, dataset, poisoning):
    _, rows = written(tmp_path, dataset, poisoning)
    attacked = [row for row in rows if row.carried.condition != "clean"]
    assert len(attacked) == 4
    queries = {query.id: query for query in dataset.queries}
    for row in attacked:
        query = queries[row.ranking.query_id]
        expected = directly(dataset, poisoning, query, row.carried.condition)
        assert plain(row.ranking) == plain(expected)


def test_equality_holds_over_random_corpora(tmp_path):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(3, 30))
        documents = tuple(Document(f"d{row}", sentence(rng, 2)) for row in range(size))
        query = Query("q", sentence(rng, 2))
        small = Dataset(f"s{seed}", documents, (query,), (), {}, {})
        own = planted("x", "q", [sentence(rng, 2) for _ in range(int(rng.integers(1, 8)))])
        _, rows = written(tmp_path, small, own)
        assert plain(rows[1].ranking) == plain(directly(small, own, query, "x"))


def test_clean_contexts_are_the_unpoisoned_rankings(tmp_path, dataset, poisoning):
    _, rows = written(tmp_path, dataset, poisoning, encoder="fake")
    clean = [row for row in rows if row.carried.condition == "clean"]
    assert [row.ranking.query_id for row in clean] == [query.id for query in dataset.queries]
    nothing = Poisoning((), {})
    for row, query in zip(clean, dataset.queries, strict=True):
        assert plain(row.ranking) == plain(directly(dataset, nothing, query, ""))
        assert (row.carried.dataset, row.carried.encoder) == ("velm", "fake")
    sources = {row.metadata[name].get("source") for row in clean for name in row.metadata}
    assert sources == {None, "almanac"}


def test_planted_documents_stand_in_the_ranking_of_their_question_alone(
    tmp_path, dataset, poisoning
):
    _, rows = written(tmp_path, dataset, poisoning)
    seen = set()
    for row in rows:
        for document in row.ranking.documents:
            if document.id in poisoning.labels:
                label = poisoning.labels[document.id]
                seen.add(document.id)
                assert label.query_id == row.ranking.query_id
                assert label.attack == row.carried.condition
    assert len(seen) >= 4


def test_labels_stand_in_a_file_of_their_own(tmp_path, dataset, poisoning):
    cell, rows = written(tmp_path, dataset, poisoning)
    labels = read_labels(cell.folder / "labels.jsonl")
    assert {name for name, poison in labels.items() if poison} == set(poisoning.labels)
    ranked = {document.id for row in rows for document in row.ranking.documents}
    assert ranked <= set(labels)
    text = (cell.folder / "contexts.jsonl").read_text()
    fields = {
        key for line in text.splitlines() for one in json.loads(line)["documents"] for key in one
    }
    assert fields <= {"id", "rank", "text", "title", "similarity", "metadata"}
    assert not any(word in text for word in ("poison", "label", "member"))


def test_without_the_label_file_every_context_is_the_same(tmp_path, dataset, poisoning):
    cell, _ = written(tmp_path, dataset, poisoning)
    contexts, labels = cell.folder / "contexts.jsonl", cell.folder / "labels.jsonl"
    before, told = contexts.read_bytes(), labels.read_bytes()
    rows = read_contexts(contexts)
    labels.unlink()
    assert read_contexts(contexts) == rows
    again, _ = written(tmp_path, dataset, poisoning)
    assert again.kept
    assert contexts.read_bytes() == before
    assert labels.read_bytes() == told


def test_other_labels_of_the_same_documents_change_no_text_of_a_context(
    tmp_path, dataset, poisoning
):
    one = Poisoning(
        poisoning.documents,
        {name: Label(label.query_id, "pr_b", 0) for name, label in poisoning.labels.items()},
    )
    _, rows = written(tmp_path, dataset, one)
    _, others = written(tmp_path, dataset, poisoning)
    clean = [row for row in rows if row.carried.condition == "clean"]
    assert clean == [row for row in others if row.carried.condition == "clean"]


class Counting(FakeTextEmbedder):
    def __init__(self, identity="fake-embedder"):
        self.identity = identity
        self.calls = 0

    def embed_documents(self, texts):
        self.calls += 1
        return super().embed_documents(texts)


def test_a_complete_cell_is_kept_and_any_other_made_again(tmp_path, dataset, poisoning):
    cache, folder = tmp_path / "cache", tmp_path / "cell"

    def run(**changes):
        embedder = Counting()
        given = {"dataset": dataset, "poisoning": poisoning, "depth": DEPTH} | changes
        cell = prepare(
            given["dataset"], given["poisoning"], embedder, cache, given["depth"], folder
        )
        return cell.kept, embedder.calls

    assert run() == (False, 6)
    assert run() == (True, 0)
    (folder / "contexts.jsonl").write_text("damaged\n")
    assert run() == (False, 0)
    (folder / "cell.json").write_text("{")
    assert run() == (False, 0)
    (folder / "cell.json").unlink()
    assert run() == (False, 0)
    assert run(depth=5) == (False, 0)
    assert run(depth=5) == (True, 0)
    renamed = dataclasses.replace(dataset, name="other")
    assert run(dataset=renamed) == (False, 0)
    moved = dataclasses.replace(
        dataset,
        documents=(
            dataclasses.replace(dataset.documents[0], provenance=Provenance(author="a")),
            *dataset.documents[1:],
        ),
    )
    assert run(dataset=moved) == (False, 0)
    assert run(poisoning=Poisoning((), {})) == (False, 0)


def test_an_interrupted_cell_is_not_complete(tmp_path, dataset, poisoning, monkeypatch):
    def broken(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_text", broken)
        with pytest.raises(KeyboardInterrupt):
            written(tmp_path, dataset, poisoning)
    assert not (tmp_path / "cell" / "cell.json").exists()
    cell, _ = written(tmp_path, dataset, poisoning)
    assert not cell.kept


def build_missing():
    raise ModelFilesError("big: its files are not here")


def test_cells_of_datasets_and_retrievers(tmp_path, dataset, poisoning):
    other = dataclasses.replace(dataset, name="other")
    first = poisoning.documents[0]
    special = Poisoning((first,), {first.id: poisoning.labels[first.id]})
    plans = [Plan(dataset, poisoning), Plan(other, poisoning, {"two": special})]
    retrievers = [
        Retriever("one", Counting),
        Retriever("big", build_missing),
        Retriever("two", lambda: Counting("two")),
    ]
    told = []
    folders = tmp_path / "cache", DEPTH, tmp_path / "out"
    cells = prepare_all(plans, retrievers, *folders, note=told.append)
    assert [(cell.dataset, cell.retriever, cell.folder is None) for cell in cells] == [
        ("velm", "one", False),
        ("other", "one", False),
        ("velm", "big", True),
        ("other", "big", True),
        ("velm", "two", False),
        ("other", "two", False),
    ]
    assert cells[2].reason == "big: its files are not here"
    assert told[2] == "big: unavailable: big: its files are not here"
    assert not (tmp_path / "out" / "velm" / "big").exists()
    rows = read_contexts(tmp_path / "out" / "other" / "two" / "contexts.jsonl")
    assert sum(row.carried.condition != "clean" for row in rows) == 1
    assert {row.carried.encoder for row in rows} == {"two"}
    again = prepare_all(plans, retrievers, *folders)
    assert [cell.kept for cell in again] == [True, True, False, False, True, True]


def test_names_have_to_be_those_of_folders(tmp_path, dataset, poisoning):
    plan = Plan(dataset, poisoning)
    for names in (["a/b"], [".."], [""], ["a", "a"]):
        retrievers = [Retriever(name, Counting) for name in names]
        with pytest.raises(ConfigError, match="name"):
            prepare_all([plan], retrievers, tmp_path, DEPTH, tmp_path)
    with pytest.raises(ConfigError, match="twice"):
        prepare_all([plan, plan], [], tmp_path, DEPTH, tmp_path)


def test_a_retriever_that_is_not_here_is_not_downloaded(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(module.assembly, "text_embedder", built.append)
    settings = Settings(models={"retriever_path": "/models/x", "allow_download": True})
    for retriever in retrievers_of(settings, ["auto", "BAAI/bge-m3"]):
        retriever.build()
    assert [retriever.name for retriever in retrievers_of(settings, ["BAAI/bge-m3"])] == ["bge-m3"]
    assert [one.models.allow_download for one in built] == [False, False]
    assert [one.models.retriever_path for one in built] == ["/models/x", None]
    assert [one.models.retriever for one in built] == ["auto", "BAAI/bge-m3"]


def test_an_absent_model_is_reported(tmp_path, dataset, poisoning):
    retrievers = retrievers_of(Settings(models_dir=tmp_path / "none"), ["light"])
    (cell,) = prepare_all([Plan(dataset, poisoning)], retrievers, tmp_path, DEPTH, tmp_path / "out")
    assert cell.folder is None
    assert cell.reason


@pytest.mark.parametrize(
    ("label", "name", "problem"),
    [
        (Label("q0", "x", 0), "d1", "an id of the corpus"),
        (Label("q9", "x", 0), "p", "unknown question"),
        (Label("q0", "clean", 0), "p", "no attack can be called"),
    ],
)
def test_unusable_plantings_are_refused(tmp_path, dataset, label, name, problem):
    poisoning = Poisoning((Document(name, "text"),), {name: label})
    with pytest.raises(InputError, match=problem):
        written(tmp_path, dataset, poisoning)


def test_unlabelled_plantings_empty_datasets_and_depths_are_refused(tmp_path, dataset, poisoning):
    with pytest.raises(InputError, match="one label for every planted document"):
        written(tmp_path, dataset, Poisoning(poisoning.documents, {}))
    with pytest.raises(InputError, match="expected documents and questions"):
        written(tmp_path, dataclasses.replace(dataset, documents=()), Poisoning((), {}))
    with pytest.raises(ConfigError, match="depth"):
        written(tmp_path, dataset, poisoning, depth=0)


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path, dataset, poisoning):
    (tmp_path / "cell").write_text("a file")
    with pytest.raises(OutputError, match="cannot be created"):
        written(tmp_path, dataset, poisoning)
