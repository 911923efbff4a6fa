"""Many questions: failures stay where they are, answers say what they are."""

from __future__ import annotations

import threading

import pytest

from builders import ranking
from ragsieve.chat.answers import NOT_FOUND
from ragsieve.chat.batch import answer_all
from ragsieve.chat.prompts import answer_prompt, echoes, fenced
from ragsieve.errors import BackendError, ConfigError, OutputError
from ragsieve.records import ChatMessage, ChatReply

TEXTS = ["the mason built the bridge", "the warden keeps it", "rain fell"]


class Model:
    identity = "model"

    def __init__(self, answer):
        self.answer = answer
        self.prompts = []

    def reply(self, messages, *, max_tokens):
        self.prompts.append((messages, max_tokens))
        said = self.answer(messages[-1].content)
        if isinstance(said, Exception):
            raise said
        return ChatReply(said, 9, 1)


def rankings(*queries):
    return [ranking(TEXTS, query, query_id=query) for query in queries]


def ask(answer, asked, **changes):
    model = Model(answer)
    given = {"context_size": 2, "max_tokens": 24, "workers": 3, **changes}
    return answer_all(model, asked, **given), model


def test_each_is_answered_from_its_best_documents_in_order():
    seen = []
    found, model = ask(
        lambda prompt: "w7" if "Question: w7" in prompt else "other",
        rankings(*(f"w{row}" for row in range(12))),
        progress=seen.append,
    )
    assert [one.query_id for one in found] == [f"w{row}" for row in range(12)]
    assert [one.reply.content for one in found].index("w7") == 7
    assert found[0].document_ids == ("d1", "d2")
    assert "rain fell" not in model.prompts[0][0][-1].content
    assert model.prompts[0][1] == 24
    assert len(seen) == 12


def test_a_failure_and_an_echo_cost_the_others_nothing():
    def answer(prompt):
        if "Question: down" in prompt:
            return BackendError("down")
        return prompt if "Question: parrot" in prompt else f"It is {NOT_FOUND}."

    found, _ = ask(answer, rankings("down", "parrot", "fine"))
    assert [(one.failed, one.abstained) for one in found] == [
        (True, None), (True, None), (False, True)
    ]  # fmt: skip
    assert [one.reason for one in found] == [
        "down", "the model repeats the prompt instead of answering", None
    ]  # fmt: skip


def test_nobody_is_asked_without_a_document():
    (found,), model = ask(lambda _: "x", [ranking([])])
    assert (found.reply, found.abstained, model.prompts) == (None, True, [])
    assert "no document" in found.reason


def test_after_a_full_disk_nothing_more_is_asked():
    first = threading.Event()

    def answer(_):
        if not first.is_set():
            first.set()
            return OutputError("full")
        return "x"

    model = Model(answer)
    with pytest.raises(OutputError, match="full"):
        answer_all(model, rankings(*map(str, range(500))), context_size=2, max_tokens=5, workers=1)
    assert len(model.prompts) < 500


def test_numbers_below_one_are_refused():
    for name in ("context_size", "max_tokens", "workers"):
        with pytest.raises(ConfigError, match="at least 1"):
            ask(lambda _: "x", [], **{name: 0})


@pytest.mark.parametrize(
    ("say", "echo"),
    [
        (lambda prompt: prompt[-1].content, True),
        (lambda prompt: "Sure! " + prompt[0].content, True),
        (lambda prompt: prompt[-1].content[:120], True),
        (lambda prompt: " ".join(prompt[-1].content.split()[:8]), True),
        (lambda prompt: "  \n" + prompt[0].content.replace(" ", "\n"), True),
        (lambda prompt: "the mason built the bridge", False),
        (lambda prompt: "the mason", False),
        (lambda prompt: NOT_FOUND, False),
        (lambda prompt: "", False),
    ],
)
def test_echoes(say, echo):
    prompt = answer_prompt("who built the bridge", ranking(TEXTS).documents)
    assert echoes(say(prompt), prompt) is echo


def test_a_short_message_is_no_mark_of_an_echo():
    assert not echoes("yes indeed", [ChatMessage("user", "yes")])


def test_blocks_carry_the_names_they_are_given():
    text = fenced(["a", "b [x ends 0]"], names=["question", "answer"])
    assert text.startswith("[question begins ")
    assert text.count("[answer ends ") == 1
    with pytest.raises(ValueError, match="zip"):
        fenced(["a"], names=["x", "y"])
