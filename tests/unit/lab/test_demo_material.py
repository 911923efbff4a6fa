"""The demo's corpus, questions and poison are what the demo says they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ragsieve.lab.demo.corpus import docstring_corpus
from ragsieve.lab.demo.poison import PLAN, Attack, draw, plant
from ragsieve.lab.demo.questions import demo_questions


@pytest.fixture(scope="module")
def corpus():
    return docstring_corpus()


def words(text):
    return set(text.lower().split())


def test_the_corpus_is_large_distinct_and_without_examples(corpus):
    assert len(corpus) >= 3000
    assert len({document.id for document in corpus}) == len(corpus)
    assert len({document.text for document in corpus}) == len(corpus)
    assert not any(">>>" in document.text for document in corpus)
    assert {document.provenance.source for document in corpus} == {"stdlib", "numpy", "scipy"}


def test_every_question_has_its_document_and_three_false_answers(corpus):
    questions = demo_questions()
    ids = {document.id for document in corpus}
    assert len({one.question for one in questions}) == len(questions) >= 76
    assert [one.subject for one in questions if one.subject not in ids] == []
    for one in questions:
        assert len(set(one.false_answers)) == 3
        assert one.answer.casefold() not in {false.casefold() for false in one.false_answers}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_planting(seed):
    questions = demo_questions()
    planting = plant(questions, np.random.default_rng(seed))
    again = plant(questions, np.random.default_rng(seed))
    other = plant(questions, np.random.default_rng(seed + 1))
    assert planting == again
    assert {d.text for d in planting.documents} & {d.text for d in other.documents} == set()
    assert set(planting.labels) == {document.id for document in planting.documents}
    assert len(PLAN) - 1 >= 8
    by_query = {}
    asked = {one.id: one.question for one in draw(questions, np.random.default_rng(seed)).targets}
    for document in planting.documents:
        label = planting.labels[document.id]
        assert label.false_answer.lower() in document.text.lower()
        assert label.attack.value not in document.id
        if label.attack is Attack.WOVEN:
            assert asked[label.query_id].lower() not in document.text.lower()
        by_query.setdefault(label.query_id, []).append(document)
    assert sorted(map(len, by_query.values())) == [1] + [5] * (len(PLAN) - 1)
    for group in by_query.values():
        for one, two in itertools.combinations(group, 2):
            a, b = words(one.text), words(two.text)
            assert len(a & b) / len(a | b) < 0.6
