"""The question bank: questions a developer asks, true answers the corpus holds, false ones."""

from __future__ import annotations

import pytest

from ragsieve.errors import RecordError
from ragsieve.lab.demo import questions as module
from ragsieve.lab.demo._prose import words_of
from ragsieve.lab.demo.corpus import docstring_corpus
from ragsieve.lab.demo.questions import demo_questions

QUESTIONS = demo_questions()


def test_there_are_enough_distinct_questions():
    assert len(QUESTIONS) >= 76
    assert len({one.id for one in QUESTIONS}) == len(QUESTIONS)
    assert len({one.question.casefold() for one in QUESTIONS}) == len(QUESTIONS)
    assert len({one.subject for one in QUESTIONS}) == len(QUESTIONS)


def test_openings_and_lengths_vary():
    assert len({one.question.split()[0] for one in QUESTIONS}) >= 10
    lengths = {len(one.question.split()) for one in QUESTIONS}
    assert min(lengths) >= 6
    assert max(lengths) <= 18
    assert all(one.question.endswith("?") for one in QUESTIONS)


def test_every_subject_stands_in_the_corpus_and_shares_words_with_its_question():
    texts = {document.id: document.content for document in docstring_corpus()}
    assert [one.subject for one in QUESTIONS if one.subject not in texts] == []
    for one in QUESTIONS:
        asked = {word for word in words_of(one.question) if len(word) > 3}
        assert len(asked & set(words_of(texts[one.subject]))) >= 2, one.id


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.id)
def test_false_answers_are_false_short_and_distinct(one):
    folded = [answer.casefold() for answer in (one.answer, *one.false_answers)]
    assert len(folded) == 4
    assert len(set(folded)) == 4
    assert all(0 < len(answer.split()) <= 13 for answer in folded)
    assert not any(answer.endswith(".") for answer in folded)
    asked = one.question.casefold()
    assert not [answer for answer in folded[1:] if answer in asked]
    assert len(one.topic) == 3
    # Otherwise a woven text would give the true answer away beside the false one.
    said = " ".join(one.topic[1:]).casefold()
    assert len(one.answer) < 4 or one.answer.casefold() not in said


def test_a_line_without_three_topic_phrases_is_refused(tmp_path, monkeypatch):
    (tmp_path / "questions.jsonl").write_text(
        '{"id": "q1", "question": "?", "subject": "s", "answer": "a", "topic": ["one"]}\n'
    )
    monkeypatch.setattr(module.resources, "files", lambda package: tmp_path)
    with pytest.raises(RecordError, match="expected three phrases, found 1"):
        demo_questions()
