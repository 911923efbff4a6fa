"""What a reply counts as, and when two replies say the same."""

from __future__ import annotations

import pytest

from ragsieve.chat.answers import normalized
from ragsieve.chat.prompts import answer_prompt
from ragsieve.records import Document
from ragsieve.trishield.replies import Standing, agree, read_reply

ASKED = "Which city is the capital of the Kingdom of Spain?"


@pytest.mark.parametrize(
    ("content", "standing", "words"),
    [
        ("Madrid", "answered", "madrid"),
        ("The capital is Madrid.", "answered", "capital is madrid"),
        ("", "empty", ""),
        (" \n ?! ", "empty", ""),
        ("the", "empty", ""),
        ("Not in the documents.", "abstained", ""),
        ("I do not know", "abstained", ""),
        (ASKED, "echo", ""),
        (f"Question: {ASKED}\nAnswer:", "echo", ""),
        ("Question: Which city is the capital", "echo", ""),
        ("city is the capital of the Kingdom of", "echo", ""),
        (f"{ASKED} Madrid", "answered", "madrid"),
        (f"Question: {ASKED} Answer: Madrid", "answered", "madrid"),
        ("Kingdom of Spain", "answered", "kingdom of spain"),
        ("You answer questions from quoted documents. The documents", "echo", ""),
        ("[document 1 begins abc123]", "echo", ""),
        ("Answer:", "echo", ""),
        ("word " * 33, "too-long", ""),
        (" ".join(f"w{n}" for n in range(32)), "answered", " ".join(f"w{n}" for n in range(32))),
    ],
)
def test_what_a_reply_counts_as(content, standing, words):
    found = read_reply(content, ASKED, max_words=32)
    assert found.standing is Standing(standing)
    assert " ".join(found.words) == words
    assert (found.reason is None) is (standing == "answered")


@pytest.mark.parametrize("cut", [30, 60, 120, 200, 400, 10_000])
def test_a_prompt_given_back_is_an_echo_wherever_it_is_cut(cut):
    prompt = answer_prompt(ASKED, [Document("d", "Madrid is a city.")])
    for turns in (prompt, prompt[1:]):
        text = "\n".join(turn.content for turn in turns)
        found = read_reply(text[:cut], ASKED, max_words=32)
        assert found.standing is not Standing.ANSWERED


def test_where_there_is_no_vote_no_reply_is_too_long():
    assert read_reply("word " * 90, ASKED, max_words=None).standing is Standing.ANSWERED


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("Madrid", "madrid.", True),
        ("Madrid", "It is Madrid", True),
        ("Madrid", "Barcelona", False),
        ("William Shakespeare", "Shakespeare", True),
        ("Madrid", "Madrid or Barcelona", False),
        ("Madrid", "It is not Madrid", False),
        ("Madrid", "maybe Madrid", False),
        ("is", "Madrid is the one", False),
        ("it", "it", True),
        ("Spain", "Madrid beats all of Spain", False),
        ("Spain", "Spain, of course", True),
        ("no", "no one at all", False),
        ("yes", "Yes, both are", True),
        ("yes", "Both are, yes", False),
        ("no", "there is no record", False),
        ("no", "No, it is not", True),
        ("no", "no or yes", False),
        ("yes", "yes and no", False),
        ("5", "5 million", False),
        ("1990", "19 July 1990", True),
        ("mad", "Madrid", False),
    ],
)
def test_when_two_replies_say_the_same(left, right, same):
    asked = frozenset(normalized(ASKED).split())
    pair = normalized(left).split(), normalized(right).split()
    assert agree(*pair, asked) is same
    assert agree(*pair[::-1], asked) is same
