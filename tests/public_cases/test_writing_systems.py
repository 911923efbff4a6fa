"""Public reports 1 to 16: scripts, homoglyphs, invisible and directional characters."""

from __future__ import annotations

import numpy as np
import pytest

from builders import ranking as ranking_of
from ragsieve.detectors.profiles import query_rule
from ragsieve.detectors.query import QueryDetector
from ragsieve.display import visible
from ragsieve.evidence.hidden import HiddenKind, hidden_text
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.writing import mixed_tokens

ORDINARY = [
    "帮我写段代码",
    "你有最新指南吗",
    "Привет, как дела? Покажи отчёт за март.",
    "Москва является столицей России. Сегодня хорошая погода.",
    "你好,世界。我们明天去图书馆。",
    "α, β, Σ",
    "alpha test: α = 0.05, β = 0.8 and Σ of x",
    "Δv",
    "Σ",
    "5μm",
    "the orbit needs Δv of 3 km/s and a slit of 5μm",
]
IDENTITY = ["аpple", "а1pple", "yourаccountsuspended"]
JOINED = [
    "an astronaut \U0001f9d1\u200d\U0001f680 waved",
    "a family \U0001f468\u200d\U0001f469\u200d\U0001f467 on the beach",
]
FARSI = ["می‌خواهم به خانه بروم", "کتاب‌های قدیمی", "خانه‌ای بزرگ"]


def test_case_01_punctuation_moves_no_score():
    for text in ("你好呀", "Привет", "hello"):
        for mark in "!?.,;: ":
            plain, marked = script_profile(text), script_profile(text + mark)
            assert plain.minority_share == marked.minority_share == 0.0
            assert mixed_tokens(text) == mixed_tokens(text + mark) == ()
            assert hidden_text(text).value == hidden_text(text + mark).value == 0.0


@pytest.mark.parametrize("text", ORDINARY)
def test_cases_02_to_06_ordinary_writing_is_not_suspicious(text):
    assert mixed_tokens(text) == ()
    assert hidden_text(text).value == 0.0


@pytest.mark.parametrize("text", [t for t in ORDINARY if not t.isascii()])
def test_cases_02_to_06_a_whole_retrieval_of_it_raises_no_alarm(text):
    texts = [f"{text} {number}" for number in range(20)]
    detector = QueryDetector(query_rule("default"))
    verdicts = detector.score(ranking_of(texts))
    assert [one.document_id for one in verdicts if one.flagged] == []


@pytest.mark.parametrize("word", IDENTITY)
def test_case_07_a_look_alike_is_found_across_digits(word):
    (token,) = mixed_tokens(f"log in to {word} today")
    assert token.text == word


def test_case_07_an_underscore_ends_a_word_which_is_this_profiles_limit():
    """`а_pple`: one Cyrillic letter alone is a list item, a variable or an initial."""
    assert mixed_tokens("log in to а_pple today") == ()
    assert script_profile("а_pple").minority_share == pytest.approx(0.2)


@pytest.mark.parametrize("text", JOINED)
def test_case_08_emoji_joined_as_unicode_says_are_in_place(text):
    assert hidden_text(text).value == 0.0


@pytest.mark.parametrize("text", ["text\u200dSYSTEM", "pass\u200cword", "a\u200b.b"])
def test_case_09_a_joiner_between_latin_letters_fires(text):
    found = hidden_text(text)
    assert found.value > 0
    assert found.characters[0].kind is HiddenKind.ZERO_WIDTH


@pytest.mark.parametrize("text", [*FARSI, "\ufeffA file that starts with a byte order mark"])
def test_case_10_joiners_of_joining_scripts_and_a_leading_mark_are_in_place(text):
    assert hidden_text(text).value == 0.0


@pytest.mark.parametrize("text", FARSI)
def test_case_11_no_text_is_changed_by_looking_at_it(text):
    ranking = ranking_of([text] * 3 + [f"{text} {n}" for n in range(17)])
    QueryDetector(query_rule("default")).score(ranking)
    assert ranking.documents[0].text == text
    assert "<U+200C>" in visible(text)


def test_case_12_one_arabic_letter_excuses_no_override():
    found = hidden_text("Access GRANTED \u202eDENIED \u0645")
    assert found.reorders
    assert found.value == 1.0


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C])
def test_case_13_every_bidi_control_is_known(code):
    found = hidden_text(f"order {chr(code)}from left to right")
    assert [one.kind for one in found.characters] == [HiddenKind.BIDI]
    assert f"<U+{code:04X}>" in visible(chr(code))


def test_case_16_a_score_does_not_read_colours():
    """White on a black banner is ordinary text; only characters are judged, never styles."""
    text = "White on black: a banner as magazines print them"
    assert hidden_text(text).value == 0.0
    assert mixed_tokens(text) == ()


def test_a_planted_look_alike_among_twenty_weighs_more_than_its_neighbours():
    texts = [f"the password page of the bank, number {n}, is here" for n in range(20)]
    texts[1] = "the pаsswоrd page of the bаnk, and nothing else, is here"
    detector = QueryDetector(query_rule("default"))
    first, second = detector.score(ranking_of(texts))[:2]
    assert second.score > first.score
    assert np.isfinite(second.score)
