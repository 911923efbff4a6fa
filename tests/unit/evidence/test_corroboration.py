"""The remark about what a direct answer asserts alone."""

from __future__ import annotations

import pytest

from ragsieve.evidence.corroboration import uncorroborated

QUERY = "Who designed the Falken bridge in Ulmstadt?"
ANSWER = "A small note. The Falken bridge in Ulmstadt was designed by Berta Kranich in 1911."
TAIL = ["The old town has a bridge.", "Ulmstadt lies on a river and has a mill."]


def test_a_name_nobody_else_tells():
    (one,) = uncorroborated(QUERY, [ANSWER], TAIL)
    assert one.words == "Berta Kranich"
    assert ANSWER[one.span.start : one.span.stop] == "Berta Kranich"


def test_the_next_longest_run_when_the_name_is_shared():
    others = [*TAIL, "An exhibition about berta kranich."]
    (one,) = uncorroborated(QUERY, [ANSWER], others)
    assert one.words == "1911"
    assert uncorroborated(QUERY, [ANSWER], [*others, "Built in 1911."]) == (None,)


def test_candidates_support_each_other():
    found = uncorroborated(QUERY, [ANSWER, ANSWER.replace("note", "remark")], TAIL)
    assert found == (None, None)


def test_no_direct_answer_no_remark():
    tail = [*TAIL, "Somebody designed the Falken bridge in Ulmstadt."]
    assert uncorroborated(QUERY, [ANSWER], tail) == (None,)
    assert uncorroborated(QUERY, ["Berta Kranich was born in 1880."], TAIL) == (None,)


@pytest.mark.parametrize("query", ["", "?", "a b"])
def test_a_query_without_words(query):
    assert uncorroborated(query, [ANSWER, ""], TAIL) == (None, None)


def test_without_capitals_only_numbers_speak():
    text = "桥 was 设计 1911 年. falken bridge ulmstadt designed 在 1911"
    (one,) = uncorroborated(QUERY, [text], TAIL)
    assert one.words == "1911"
