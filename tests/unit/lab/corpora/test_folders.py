"""Folders: the published artifact, BEIR, a corpus with attacks; what layout a path has."""

from __future__ import annotations

import dataclasses
import json

import pytest

from builders import write_jsonl
from ragsieve.errors import InputError, RecordError
from ragsieve.lab.corpora.artifact import read_artifact
from ragsieve.lab.corpora.beir import read_beir
from ragsieve.lab.corpora.bench import read_attack_file, read_bench
from ragsieve.lab.corpora.combine import aimed_at
from ragsieve.lab.corpora.contexts import read_labelled_contexts
from ragsieve.lab.corpora.layouts import LAYOUTS, load
from ragsieve.lab.corpora.poisonedrag import read_poisonedrag
from ragsieve.records import Document

CORPUS = [
    {"id": "d1", "text": "Ada Quill painted the blue door.", "title": "The door", "poison": False},
    {"id": "d2", "text": "The ferry stopped in 1951.", "metadata": {"source": "almanac"}},
    {"id": "d3", "text": "The basin is 40 m deep."},
]
QUERIES = [
    {"id": "q1", "text": "Who painted the blue door?", "answers": ["Ada Quill"]},
    {"id": "q2", "text": "When did the ferry stop?", "answers": ["1951", 1951]},
    {"id": "q3", "text": "How deep is the basin?"},
]
ATTACKS = [
    {
        "query_id": "q1",
        "query": "Who painted the blue door?",
        "correct_answers": ["Ada Quill"],
        "target_answer": "Tom Reed",
        "attack": "natural",
        "documents": [
            {
                "id": "n0",
                "text": "Tom Reed painted it.",
                "metadata": {"poison": True, "attack": "natural", "source": "blog"},
            },
            {"id": "n1", "text": "By Tom Reed."},
        ],
    },
    {
        "query_id": "q1",
        "query": "Who painted the blue door?",
        "target_answer": "Tom Reed",
        "attack": "other",
        "documents": [{"id": "o0", "text": "Who painted? Tom Reed.", "poison": True}],
    },
]


@pytest.fixture
def bench(tmp_path):
    folder = tmp_path / "velm"
    (folder / "attacks").mkdir(parents=True)
    write_jsonl(folder / "corpus.jsonl", CORPUS)
    write_jsonl(folder / "queries.jsonl", QUERIES)
    write_jsonl(folder / "attacks" / "all.jsonl", ATTACKS)
    return folder


@pytest.fixture
def artifact(tmp_path):
    folder = tmp_path / "velm"
    folder.mkdir()
    write_jsonl(folder / "corpus.jsonl", CORPUS)
    write_jsonl(folder / "queries.jsonl", QUERIES)
    judged = [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d2", 1)]
    write_jsonl(
        folder / "qrels.jsonl",
        [{"query_id": q, "document_id": d, "score": s} for q, d, s in judged],
    )
    lies = [("q1", "1951"), ("q2", "40 m"), ("q3", "Ada Quill")]
    write_jsonl(
        folder / "targets.jsonl",
        [{"query_id": q, "target_answer": lie, "correct_answers": []} for q, lie in lies],
    )
    write_jsonl(
        folder / "counterfactuals.jsonl",
        [{"query_id": "q2", "target_answer": 1963, "payloads": ["It ran until 1963."]}],
    )
    (folder / "subset_seed2026_n2.json").write_text('{"query_ids": ["q3", "q2"]}')
    return folder


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "velm"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(
        folder / "corpus.jsonl",
        [{"_id": row["id"], "title": row.get("title"), "text": row["text"]} for row in CORPUS],
    )
    write_jsonl(
        folder / "queries.jsonl",
        [
            {"_id": "q1", "text": "Who painted the blue door?", "metadata": {"answer": "Quill"}},
            {"_id": "q2", "text": "When did the ferry stop?", "metadata": {}},
            {"_id": "q9", "text": "Of another split?"},
        ],
    )
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t1\r\nq1\td3\t0\nq2\td2\t2\n"
    )
    (folder / "qrels" / "dev.tsv").write_text("q9\td3\t1\n")
    return folder


def test_a_corpus_with_attacks(bench):
    loaded = read_bench(bench)
    dataset = loaded.dataset
    assert (dataset.name, len(dataset.documents), len(dataset.queries)) == ("velm", 3, 3)
    assert dataset.answers == {"q1": ("Ada Quill",), "q2": ("1951", "1951"), "q3": ()}
    natural = loaded.attacks["natural"]
    assert natural.targets[0].payloads == ("Tom Reed painted it.", "By Tom Reed.")
    assert natural.targets[0].correct_answers == ("Ada Quill",)
    assert {name: label.member for name, label in natural.poisoning.labels.items()} == {
        "n0": 0,
        "n1": 1,
    }
    assert loaded.attacks["other"].targets[0].payloads == ()
    assert [target.target_answer for target in dataset.targets] == ["Tom Reed"]


def test_no_label_reaches_a_document(bench):
    loaded = read_bench(bench)
    planted = [one for attack in loaded.attacks.values() for one in attack.poisoning.documents]
    for document in (*loaded.dataset.documents, *planted):
        assert {field.name for field in dataclasses.fields(document)} == {
            *("id", "text", "title", "provenance"),
        }
        assert "poison" not in repr(document)
        assert "natural" not in repr(document)


def test_a_planted_document_has_an_id_of_its_own(bench):
    clash = ATTACKS[1] | {"documents": [{"id": "d1", "text": "Tom Reed."}]}
    write_jsonl(bench / "attacks" / "all.jsonl", [clash])
    with pytest.raises(InputError, match="has the id of a document of the corpus"):
        read_bench(bench)
    again = ATTACKS[1] | {"documents": [{"id": "n0", "text": "Tom Reed."}]}
    write_jsonl(bench / "attacks" / "all.jsonl", [ATTACKS[0], again])
    with pytest.raises(InputError, match="two planted documents have the id 'n0'"):
        read_bench(bench)


def test_a_question_is_attacked_once_by_an_attack(bench):
    write_jsonl(bench / "attacks" / "more.jsonl", [ATTACKS[1]])
    with pytest.raises(InputError, match=r"more\.jsonl: attack 'other' has the question 'q1'"):
        read_bench(bench)


def test_an_attack_file_alone(bench):
    loaded = read_attack_file(bench / "attacks" / "all.jsonl")
    assert loaded.dataset.documents == ()
    assert set(loaded.attacks) == {"natural", "other"}


def test_broken_rows_of_an_attack_file_are_named(bench):
    write_jsonl(bench / "attacks" / "all.jsonl", [ATTACKS[0], ATTACKS[1] | {"documents": 3}])
    with pytest.raises(RecordError, match=r"all\.jsonl:2: field 'documents'"):
        read_bench(bench)


def test_the_published_artifact(artifact):
    dataset = read_artifact(artifact).dataset
    assert dataset.relevant == {"q1": frozenset({"d1"}), "q2": frozenset({"d2"})}
    chosen = [(one.query.id, one.target_answer, one.payloads) for one in dataset.targets]
    assert chosen == [("q3", "Ada Quill", ()), ("q2", "1963", ("It ran until 1963.",))]
    assert dataset.targets[1].correct_answers == ("1951", "1951")


def test_without_a_subset_counterfactuals_say_who_is_attacked_and_without_them_targets(artifact):
    (artifact / "subset_seed2026_n2.json").unlink()
    assert [one.query.id for one in read_artifact(artifact).dataset.targets] == ["q2"]
    (artifact / "counterfactuals.jsonl").unlink()
    assert [one.query.id for one in read_artifact(artifact).dataset.targets] == ["q1", "q2", "q3"]
    (artifact / "targets.jsonl").unlink()
    (artifact / "qrels.jsonl").unlink()
    dataset = read_artifact(artifact).dataset
    assert (dataset.targets, dataset.relevant) == ((), {})


def test_an_artifact_with_attacks_beside_it(artifact):
    other = ATTACKS[1] | {"query_id": "q2", "query": "When did the ferry stop?"}
    write_jsonl(artifact / "attacks.jsonl", [other])
    (target,) = read_artifact(artifact).attacks["other"].targets
    assert target.payloads == ("It ran until 1963.",)


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("subset_seed2026_n2.json", '{"query_ids": ["q8"]}', "query_ids"),
        ("subset_seed2026_n2.json", '{"query_ids": []}', "query_ids"),
        ("subset_seed2026_n2.json", '{"query_ids": "q1"}', "query_ids"),
        ("targets.jsonl", '{"query_id": "q8", "target_answer": "a"}\n', "query_id"),
        ("targets.jsonl", '{"query_id": "q1"}\n', "target_answer"),
        ("targets.jsonl", '{"query_id": "q1", "target_answer": "a"}\n' * 2, "query_id"),
        ("qrels.jsonl", '{"query_id": "q8", "document_id": "d1"}\n', "query_id"),
        ("qrels.jsonl", '{"query_id": "q1", "document_id": "d8"}\n', "document_id"),
        ("qrels.jsonl", '{"query_id": "q1", "document_id": "d1", "score": "x"}\n', "score"),
        ("queries.jsonl", '{"id": "q1", "text": "?"}\n{"id": "q1", "text": "?"}\n', "id"),
        ("queries.jsonl", '{"id": "q1", "text": "?", "answers": {"a": 1}}\n', "answers"),
    ],
)
def test_broken_files_of_an_artifact_are_named(artifact, name, content, where):
    (artifact / name).write_text(content)
    with pytest.raises(RecordError) as caught:
        read_artifact(artifact)
    assert caught.value.path == str(artifact / name)
    assert caught.value.field == where


def test_a_subset_needs_lies_and_stands_alone(artifact):
    (artifact / "subset_other.json").write_text('{"query_ids": ["q1"]}')
    with pytest.raises(InputError, match="expected one subset file"):
        read_artifact(artifact)
    (artifact / "subset_other.json").unlink()
    (artifact / "targets.jsonl").unlink()
    with pytest.raises(RecordError, match="no target answer for the question 'q3'"):
        read_artifact(artifact)


def test_beir(beir):
    dataset = read_beir(beir).dataset
    assert dataset.documents[0] == Document("d1", CORPUS[0]["text"], "The door")
    assert [query.id for query in dataset.queries] == ["q1", "q2"]
    assert dataset.relevant == {"q1": frozenset({"d1"}), "q2": frozenset({"d2"})}
    assert dataset.answers == {"q1": ("Quill",), "q2": ()}
    assert [query.id for query in read_beir(beir, split="dev").dataset.queries] == ["q9"]


def test_beir_without_a_test_split(beir):
    with pytest.raises(InputError, match=r"expected train\.tsv, found dev, test"):
        read_beir(beir, split="train")
    (beir / "qrels" / "test.tsv").unlink()
    assert [query.id for query in read_beir(beir).dataset.queries] == ["q9"]


@pytest.mark.parametrize(
    ("content", "line", "field"),
    [
        ("q1\td1\n", 1, None),
        ("q1\td1\t1\nq1\td8\t1\n", 2, "corpus-id"),
        ("q8\td1\t1\n", 1, "query-id"),
        ("\n\nq1\td1\tmuch\n", 3, "score"),
    ],
)
def test_broken_judgements_are_named(beir, content, line, field):
    (beir / "qrels" / "test.tsv").write_text(content)
    with pytest.raises(RecordError) as caught:
        read_beir(beir)
    assert (caught.value.line, caught.value.field) == (line, field)


def test_judgements_must_be_utf8_and_find_something(beir):
    (beir / "qrels" / "test.tsv").write_bytes(b"q1\td1\t\xff\n")
    with pytest.raises(RecordError, match="expected UTF-8"):
        read_beir(beir)
    (beir / "qrels" / "test.tsv").write_text("q1\td1\t0\n")
    with pytest.raises(InputError, match="judges no document relevant"):
        read_beir(beir)


def test_repeated_ids_of_beir_are_refused(beir):
    write_jsonl(beir / "corpus.jsonl", [{"_id": "d1", "text": "a"}, {"_id": "d1", "text": "b"}])
    with pytest.raises(RecordError, match=r"corpus\.jsonl:2: field '_id'"):
        read_beir(beir)


def test_attacks_are_aimed_by_the_words_of_a_question(beir, tmp_path):
    record = {
        "question": "who PAINTED  the blue door?",
        "correct answer": "Ada Quill",
        "incorrect answer": "Tom Reed",
        "adv_texts": ["Tom Reed."],
    }
    path = tmp_path / "passages.json"
    path.write_text(json.dumps({"t7": record, "t8": record | {"question": "Something else?"}}))
    combined = aimed_at(read_beir(beir).dataset, read_poisonedrag(path))
    assert combined.unmatched == ("t8",)
    (target,) = combined.loaded.dataset.targets
    assert (target.query.id, target.query.text) == ("q1", "Who painted the blue door?")
    assert target.correct_answers == ("Quill",)
    poisoning = combined.loaded.attacks["natural"].poisoning
    assert [label.query_id for label in poisoning.labels.values()] == ["q1"]
    assert len(poisoning.documents) == 1


def test_a_layout_shows_in_its_files(bench, tmp_path):
    assert set(load(bench).attacks) == {"natural", "other"}
    assert set(load(bench / "attacks" / "all.jsonl").attacks) == {"natural", "other"}
    record = {"question": "?", "correct answer": "a", "incorrect answer": "b", "adv_texts": ["b"]}
    for name, attack in (("nq.json", "natural"), ("camodocs_nq.json", "camodocs")):
        (tmp_path / name).write_text(json.dumps({"t": record}))
        assert set(load(tmp_path / name).attacks) == {attack}
    optimised = {
        **{"query_id": "t", "query": "?", "correct_answer": "a", "incorrect_answer": "b"},
        **{"poisoned_texts": ["b"], "poisoned_docs": ["# b"]},
    }
    (tmp_path / "g.json").write_text(json.dumps([optimised]))
    assert set(load(tmp_path / "g.json").attacks) == {"hotflip"}


def test_layouts_of_folders(artifact):
    assert [one.query.id for one in load(artifact).dataset.targets] == ["q3", "q2"]


def test_beir_is_recognised(beir):
    assert load(beir).dataset.relevant["q2"] == frozenset({"d2"})


@pytest.mark.parametrize("name", ["notes.txt", "other.json", "empty"])
def test_an_unknown_layout_lists_those_that_are_known(tmp_path, name):
    path = tmp_path / name
    if name == "empty":
        path.mkdir()
    else:
        path.write_text('[{"some": "thing"}]')
    with pytest.raises(InputError, match="unknown layout") as caught:
        load(path)
    assert LAYOUTS in str(caught.value)


def test_what_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(InputError, match="does not exist") as caught:
        load(tmp_path / "nothing")
    assert LAYOUTS in str(caught.value)


def context_rows(second_label):
    documents = [
        {"id": "d1", "rank": 1, "text": "Clean.", "poison": False},
        {
            "id": "n0",
            "rank": 2,
            "text": "Planted.",
            "poison": True,
            "metadata": {"source": "blog", "poison": True, "attack": "natural"},
        },
    ]
    again = [{"id": "n0", "rank": 1, "text": "Planted.", "poison": second_label}]
    return [
        {"query_id": "q1", "query": "?", "condition": "natural", "documents": documents},
        {"query_id": "q2", "query": "?", "condition": "natural", "documents": again},
    ]


def test_labels_in_contexts_are_read_by_the_lab_alone(tmp_path):
    path = write_jsonl(tmp_path / "contexts.jsonl", context_rows(True))
    contexts, labels = read_labelled_contexts(path)
    assert labels == {"d1": False, "n0": True}
    assert contexts[0].metadata["n0"] == {"source": "blog"}
    assert "poison" not in repr(contexts)
    assert contexts[0].carried.condition == "natural"


@pytest.mark.parametrize(("label", "problem"), [(False, "both ways"), ("yes", "true or false")])
def test_bad_labels_in_contexts_are_named(tmp_path, label, problem):
    path = write_jsonl(tmp_path / "contexts.jsonl", context_rows(label))
    with pytest.raises(RecordError, match=problem) as caught:
        read_labelled_contexts(path)
    assert (caught.value.line, caught.value.field) == (2, "documents[0].poison")
