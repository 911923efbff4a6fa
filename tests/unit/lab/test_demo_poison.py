"""Planted documents: reproducible, independently worded, labelled beside and never on them."""

from __future__ import annotations

import collections
import itertools
import re
import string

import numpy as np
import pytest

from ragsieve.errors import InputError
from ragsieve.lab.demo import _frames
from ragsieve.lab.demo._scripts import mixed_trigger
from ragsieve.lab.demo.poison import (
    DOCUMENTS_PER_TARGET,
    LEAST_WORDS,
    MOST_WORDS,
    PLAN,
    Attack,
    draw,
    plant,
)
from ragsieve.lab.demo.questions import demo_questions

QUESTIONS = demo_questions()
BY_ID = {one.id: one for one in QUESTIONS}
SEEDS = range(12)


def planted(seed):
    return plant(QUESTIONS, np.random.default_rng(seed))


def grouped(planting):
    groups = collections.defaultdict(list)
    for document in planting.documents:
        groups[planting.labels[document.id].query_id].append(document)
    return groups


def foreign_letters(text):
    return [letter for letter in text if letter.isalpha() and letter not in string.ascii_letters]


def test_planting_is_reproducible_and_differs_between_seeds():
    assert planted(3) == planted(3)
    texts = [{document.text for document in planted(seed).documents} for seed in SEEDS]
    assert all(not one & two for one, two in itertools.combinations(texts, 2))


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_stand_beside_the_documents_and_cover_exactly_them(seed):
    planting = planted(seed)
    assert set(planting.labels) == {document.id for document in planting.documents}
    assert len(planting.labels) == len(planting.documents) == 46
    for document in planting.documents:
        assert re.fullmatch(r"note-[0-9a-f]{6}", document.id)
        assert not hasattr(document, "label")
        assert document.provenance.source in {"stdlib", "numpy", "scipy"}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_target_gets_its_documents(seed):
    planting = planted(seed)
    split = draw(QUESTIONS, np.random.default_rng(seed))
    groups = grouped(planting)
    assert set(groups) == {one.id for one in split.targets}
    assert len(split.untouched) >= 50
    assert {*split.targets, *split.untouched} == set(QUESTIONS)
    kinds = collections.Counter()
    for query_id, documents in groups.items():
        labels = {planting.labels[document.id] for document in documents}
        assert len(labels) == 1
        label = labels.pop()
        kinds[label.attack] += 1
        single = label.attack is Attack.SINGLE
        assert len(documents) == (1 if single else DOCUMENTS_PER_TARGET)
        assert label.false_answer in BY_ID[query_id].false_answers
    assert kinds == collections.Counter(PLAN)
    assert kinds[Attack.SINGLE] == 1
    assert sum(kinds.values()) >= 9


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_carry_the_false_answer_in_the_manner_of_their_attack(seed):
    planting = planted(seed)
    for document in planting.documents:
        label = planting.labels[document.id]
        question = BY_ID[label.query_id].question
        text = document.text
        assert LEAST_WORDS <= len(text.split()) <= MOST_WORDS
        assert label.false_answer.casefold() in text.casefold()
        assert "{" not in text.replace("{filename", "")
        match label.attack:
            case Attack.PREFIXED | Attack.SINGLE:
                assert text.startswith(question + " ")
            case Attack.SCRIPT_MIXED:
                assert question not in text
                assert len(foreign_letters(text)) >= 4
            case Attack.WOVEN:
                assert question.rstrip("?").casefold() not in text.casefold()
                assert not foreign_letters(text)


@pytest.mark.parametrize("seed", SEEDS)
def test_documents_of_one_target_are_worded_independently(seed):
    for documents in grouped(planted(seed)).values():
        for one, two in itertools.combinations(documents, 2):
            first, second = (set(re.findall(r"\w+", d.text.lower())) for d in (one, two))
            assert len(first & second) / len(first | second) < 0.6


def test_pools_are_large_distinct_and_carry_the_answer():
    claims = (_frames.PREFIXED, _frames.SCRIPT_MIXED, _frames.WOVEN)
    assert all(len(pool) >= 15 for pool in claims)
    assert all("{answer}" in frame for pool in claims for frame in pool)
    sentences = [*itertools.chain(*claims), *_frames.WOVEN_AGAIN, *_frames.DETAILS]
    sentences += [*_frames.CLOSINGS, *_frames.FILLERS]
    assert len(set(sentences)) == len(sentences)
    assert len(_frames.FILLERS) == DOCUMENTS_PER_TARGET


def test_a_trigger_mixes_scripts_inside_words_and_spares_the_kept_word():
    question = "Which exception does queue.Queue.get raise when the timeout expires?"
    for seed in SEEDS:
        trigger = mixed_trigger(question, np.random.default_rng(seed), keep="queue.Queue.get")
        assert "queue.Queue.get" in trigger.split()
        mixed = [
            word
            for word in trigger.split()
            if foreign_letters(word) and any(letter in string.ascii_letters for letter in word)
        ]
        assert mixed
        assert len(trigger.split()) >= len(question.split()) + 3


def test_too_few_questions_are_refused():
    with pytest.raises(InputError, match="at least 10 questions, found 3"):
        plant(QUESTIONS[:3], np.random.default_rng(0))
