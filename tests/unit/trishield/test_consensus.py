"""Ring 3: parallel members, weights, abstentions, failures; no broken member outvotes another."""

from __future__ import annotations

import threading
import time

import pytest

from ragsieve import BackendError, ConfigError
from ragsieve.chat.prompts import answer_prompt
from ragsieve.records import ChatReply, Document
from ragsieve.trishield.consensus import Member, Panel
from ragsieve.trishield.policy import ConsensusConfig
from ragsieve.trishield.replies import Standing

ASKED = "Which city is the capital of Spain?"
PROMPT = answer_prompt(ASKED, [Document("d", "Madrid is the capital of Spain.")])


def panel(*models, weights=None, **config):
    shares = weights or [1.0] * len(models)
    members = [
        Member(f"m{n}", model, share)
        for n, (model, share) in enumerate(zip(models, shares, strict=True), start=1)
    ]
    return Panel(members, ConsensusConfig(**config))


def ballot(*models, weights=None, **config):
    return panel(*models, weights=weights, **config).ask(PROMPT, ASKED)


def test_the_largest_group_over_all_members_asked(fakes):
    found = ballot(
        fakes.Says("Madrid"), fakes.Says("Barcelona"), fakes.Says("It is Madrid."),
        weights=[0.45, 0.35, 0.20],
    )  # fmt: skip
    assert found.agreement == pytest.approx(0.65)
    assert found.accepted is False
    assert [(one.answer, one.members, one.weight) for one in found.groups] == [
        ("Madrid", ("m1", "m3"), pytest.approx(0.65)),
        ("Barcelona", ("m2",), 0.35),
    ]
    assert found.answer == "Madrid"


def test_two_of_three_are_two_thirds_whatever_the_rounding(fakes):
    for weight in (1.0, 0.1, 1 / 3, 7.7):
        found = ballot(
            fakes.Says("Madrid"), fakes.Says("Madrid"), fakes.Says("Rome"), weights=[weight] * 3
        )
        assert found.accepted is True
    assert ballot(fakes.Says("Madrid"), fakes.Says("Rome")).accepted is False


def test_the_answer_is_the_heaviest_wording_as_it_was_written(fakes):
    found = ballot(fakes.Says("It is Madrid."), fakes.Says("Madrid!"), fakes.Says("it is madrid"))
    assert found.answer == "It is Madrid."
    assert ballot(fakes.Says("It is Madrid."), fakes.Says(" Madrid! ")).answer == "Madrid!"


def test_members_are_asked_side_by_side():
    meeting = threading.Barrier(3, timeout=10)

    class Meets:
        identity = "meets"

        def reply(self, messages, *, max_tokens):
            meeting.wait()
            return ChatReply("Madrid")

    assert ballot(Meets(), Meets(), Meets()).agreement == 1.0


class OddError(Exception):
    pass


@pytest.mark.parametrize(
    ("said", "standing", "reason"),
    [
        (BackendError("429 after 3 tries"), "failed", "429 after 3 tries"),
        (BackendError(), "failed", "no reason given"),
        (OddError("Authorization: Bearer secret-key"), "failed", "unexpected OddError"),
        (ValueError("secret-key"), "failed", "unexpected ValueError"),
        (TimeoutError(), "failed", "unexpected TimeoutError"),
        (SystemExit(3), "failed", "unexpected SystemExit"),
        (None, "failed", "the reply is not text"),
        ({"content": "Madrid"}, "failed", "the reply is not text"),
        (ChatReply(None), "failed", "the reply is not text"),
        ("", "empty", "the reply holds no word"),
        ("not in the documents", "abstained", "says that the documents do not tell"),
        (ASKED, "echo", "repeats the question"),
        ("Madrid " * 40, "too-long", "40 words, an answer may hold 32"),
    ],
)
def test_whatever_does_not_count_is_an_abstention_with_its_reason(fakes, said, standing, reason):
    found = ballot(fakes.Says("Madrid"), fakes.Says("Madrid"), fakes.Says(said))
    reply = found.replies[2]
    assert (reply.standing, reply.reason) == (Standing(standing), reason)
    assert reply.words == ()
    # It does not vote, and stays in the denominator.
    assert found.groups[0].members == ("m1", "m2")
    assert found.agreement == pytest.approx(2 / 3)
    assert found.asked_weight == 3
    assert "secret-key" not in repr(found)


def broken_pairs(fakes):
    hanging = fakes.Hangs()
    return [
        (fakes.Says(BackendError("down")), fakes.Says(OSError("gone"))),
        (fakes.Echoes(), fakes.Echoes()),
        (fakes.Says(""), fakes.Says("")),
        (fakes.Says(ASKED), fakes.Says(ASKED)),
        (fakes.Says("not in the documents"), fakes.Says("not in the documents")),
        (hanging, hanging),
        (
            fakes.Says("Rome Paris London Madrid " * 30),
            fakes.Says("Rome Paris London Madrid " * 30),
        ),
    ]


@pytest.mark.parametrize("case", range(7))
@pytest.mark.parametrize("place", [0, 1, 2])
def test_two_broken_members_never_outvote_a_working_one(fakes, case, place):
    models = list(broken_pairs(fakes)[case])
    models.insert(place, fakes.Says("Madrid"))
    found = ballot(*models, timeout_seconds=0.2)
    assert found.accepted is False
    assert found.answer == "Madrid"
    assert len(found.groups) == 1
    for model in models:
        if isinstance(model, fakes.Hangs):
            model.released.set()


def test_who_is_late_abstains_and_holds_nobody_up(fakes):
    hanging = fakes.Hangs()
    start = time.perf_counter()
    found = ballot(fakes.Says("Madrid"), hanging, timeout_seconds=0.1)
    assert time.perf_counter() - start < 5
    assert found.replies[1].standing is Standing.TIMED_OUT
    assert found.replies[1].reason == "no reply within 0.1 seconds"
    assert not found.broken
    hanging.released.set()


def test_what_a_member_used_is_counted(fakes):
    found = ballot(fakes.Says("Madrid", tokens=(40, 3)), fakes.Says("Madrid", tokens=(None, None)))
    assert [(one.prompt_tokens, one.completion_tokens) for one in found.replies] == [
        (40, 3), (None, None),
    ]  # fmt: skip
    assert all(one.seconds >= 0 for one in found.replies)


def members_of(found):
    return sorted(one.members for one in found.groups)


@pytest.mark.parametrize(
    ("replies", "groups"),
    [
        # A short reply does not bring two longer ones together.
        (["John", "John Smith", "John Brown"], [("m1",), ("m2",), ("m3",)]),
        (["Smith", "John Smith", "Mr John Smith"], [("m1", "m2", "m3")]),
        (
            ["Smith", "John Smith", "Al John Smith", "Ed John Smith"],
            [("m1", "m2"), ("m3",), ("m4",)],
        ),
        # Nor does a sweeping one bring two short ones together.
        (["Madrid", "Rome", "Madrid Rome"], [("m1",), ("m2",), ("m3",)]),
        (["Madrid", "Rome", "Madrid or Rome"], [("m1",), ("m2",), ("m3",)]),
        (["is", "Madrid is big", "Rome is old"], [("m1",), ("m2",), ("m3",)]),
        (["Madrid", "Madrid", "not Madrid"], [("m1", "m2"), ("m3",)]),
    ],
)
def test_agreement_is_never_passed_on(fakes, replies, groups):
    found = ballot(*(fakes.Says(text) for text in replies))
    assert members_of(found) == groups


def test_equal_groups_are_said_and_the_panels_order_decides(fakes):
    found = ballot(fakes.Says("Rome"), fakes.Says("Madrid"))
    assert found.tied
    assert found.answer == "Rome"


def test_alone_the_first_answers_and_a_failure_goes_to_the_next(fakes):
    first, second = fakes.Says("word " * 50), fakes.Says("Rome")
    found = panel(first, second).ask_alone(PROMPT, ASKED)
    assert (found.agreement, found.accepted) == (None, None)
    assert found.answer == ("word " * 50).strip()
    assert second.asked == []
    down = fakes.Says(BackendError("down"))
    found = panel(down, second).ask_alone(PROMPT, ASKED)
    assert [one.standing for one in found.replies] == [Standing.FAILED, Standing.ANSWERED]
    assert found.answer == "Rome"
    closed = panel(down, second, on_member_failure="closed").ask_alone(PROMPT, ASKED)
    assert closed.answer is None
    assert len(closed.replies) == 1


def test_lone_surrogates_and_endless_replies_do_not_reach_the_record(fakes):
    found = ballot(fakes.Says("Madrid \ud800"), fakes.Says("x" * 10_000))
    assert found.replies[0].content == "Madrid ?"
    assert len(found.replies[1].content) == 4_000


def test_impossible_panels_are_refused(fakes):
    with pytest.raises(ConfigError, match="names of their own"):
        Panel([])
    with pytest.raises(ConfigError, match="names of their own"):
        Panel([Member("a", fakes.Says("x")), Member("a", fakes.Says("x"))])
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="weight must be above 0"):
            Panel([Member("a", fakes.Says("x"), weight)])


@pytest.mark.parametrize(
    "wrong",
    [{"threshold": 0}, {"threshold": 1.1}, {"gate": "often"}, {"on_disagreement": "x"},
     {"on_member_failure": "x"}, {"max_tokens": 0}, {"max_words": 0}, {"timeout_seconds": 0},
     {"timeout_seconds": float("inf")}, {"spread_above": -1}, {"near_share": float("nan")}],
)  # fmt: skip
def test_impossible_configurations_are_refused(wrong):
    with pytest.raises(ConfigError, match="consensus"):
        ConsensusConfig(**wrong)
