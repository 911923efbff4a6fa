"""The dataset of what is installed."""

from __future__ import annotations

import dataclasses

import pytest

from ragsieve.lab.corpora import embedded
from ragsieve.lab.corpora.layouts import load
from ragsieve.lab.demo.corpus import docstring_corpus
from ragsieve.lab.demo.questions import demo_questions


@pytest.fixture(scope="module")
def corpus():
    return docstring_corpus()


@pytest.fixture(scope="module")
def dataset():
    return embedded.docstrings_dataset()


def test_its_size(dataset):
    assert dataset.name == "docstrings"
    assert len(dataset.documents) == embedded.DOCUMENTS >= 1500
    assert len(dataset.queries) == len(dataset.targets) >= 60
    assert [one.id for one in dataset.documents] == sorted(one.id for one in dataset.documents)


def test_every_question_is_judged_and_its_document_is_there(dataset):
    names = {document.id for document in dataset.documents}
    for query in dataset.queries:
        assert dataset.answers[query.id]
        assert dataset.relevant[query.id] <= names
        assert dataset.relevant[query.id]


def test_close_neighbours_of_a_gold_document_are_there(dataset, corpus):
    words = embedded._telling_words(corpus)
    names = {document.id for document in dataset.documents}
    for subject in [one.subject for one in demo_questions()][:10]:
        assert set(embedded._nearest(subject, words)) <= names
    near = embedded._nearest("numpy.linspace", words)
    assert {"numpy.logspace", "numpy.geomspace"} & set(near)


def test_payloads_promote_the_lie_and_never_give_the_answer_away(dataset):
    for target in dataset.targets:
        assert len(target.payloads) == len(set(target.payloads)) == embedded.PAYLOADS
        for text in target.payloads:
            assert embedded._says(text, target.target_answer)
            assert not embedded._says(text, target.correct_answers[0])
            assert 15 <= len(text.split()) <= 80
            assert "{" not in text


def test_it_is_the_same_every_time_and_has_a_name(dataset, corpus, monkeypatch):
    monkeypatch.setattr(embedded, "docstring_corpus", lambda: corpus)
    loaded = load("docstrings")
    assert loaded.dataset == dataset
    assert loaded.attacks == {}


def test_a_question_whose_document_is_not_installed_is_left_out(corpus, monkeypatch):
    present = tuple(document for document in corpus if document.id != "numpy.linspace")
    monkeypatch.setattr(embedded, "docstring_corpus", lambda: present)
    smaller = embedded.docstrings_dataset()
    assert len(smaller.queries) == len(demo_questions()) - 1
    assert "numpy.linspace" not in {document.id for document in smaller.documents}


def test_no_document_has_a_field_for_a_label(dataset):
    fields = {field.name for field in dataclasses.fields(dataset.documents[0])}
    assert fields == {"id", "text", "title", "provenance"}


def test_answers_are_looked_for_as_words():
    assert embedded._says("It is 10 m deep.", "10 m")
    assert not embedded._says("It is 110 metres deep.", "10 m")
    assert embedded._says("Use ++ here.", "++")
