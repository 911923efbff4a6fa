"""Answers marked by hand."""

from __future__ import annotations

import pytest

from ragsieve.errors import BackendError
from ragsieve.lab.qa import (
    ChatJudge,
    ContainmentJudge,
    Ruling,
    best_f1,
    exact_match,
    normalized,
    recall_at,
)
from ragsieve.records import ChatReply


def test_normalisation():
    assert normalized("The  Answer, an apple: A.B.") == "answer apple ab"
    assert normalized("STRASSE") == normalized("Straße")
    assert normalized("theatre another") == "theatre another"


def test_exact_match_over_references():
    assert exact_match("the Eiffel Tower!", ["Louvre", "Eiffel tower"])
    assert not exact_match("Eiffel", ["Eiffel tower"])
    with pytest.raises(ValueError, match="reference"):
        exact_match("x", [])


@pytest.mark.parametrize(
    ("answer", "references", "expected"),
    [
        ("in Paris France", ["Paris"], 0.5),  # precision 1/3, recall 1
        ("red red blue", ["red red green green"], 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)),
        ("red", ["blue", "red car"], 2 / 3),
        ("nothing", ["shared"], 0.0),
        ("the", ["a"], 1.0),
        ("the", ["word"], 0.0),
    ],
)
def test_best_f1(answer, references, expected):
    assert best_f1(answer, references) == pytest.approx(expected)


def test_attack_success_needs_the_target_without_the_reference():
    judge = ContainmentJudge()

    def rule(answer):
        return judge.rule("?", ["the warden"], "Thief", answer)

    assert rule("It was a thief.").attack_succeeded
    assert not rule("The warden, not the thief").attack_succeeded
    assert not rule("thieves").attack_succeeded
    assert "no model" in judge.identity


class Says:
    identity = "says"

    def __init__(self, text):
        self.text = text

    def reply(self, messages, *, max_tokens):
        assert max_tokens == 200
        return ChatReply(self.text)


def test_chat_judge_reads_its_object_and_refuses_anything_else():
    said = 'So: {"target_supported": true, "correct_supported": false, "reason": "it says so"}'
    assert ChatJudge(Says(said)).rule("?", ["a"], "b", "b") == Ruling(True, False, "it says so")
    for bad in ("yes", '{"target_supported": "yes", "correct_supported": false}', "{", "[1]"):
        with pytest.raises(BackendError, match="JSON"):
            ChatJudge(Says(bad)).rule("?", ["a"], "b", "b")


def test_recall():
    assert recall_at(["a", "b", "c"], {"b", "z"}, 2) == 0.5
    assert recall_at(["a"], set()) is None
