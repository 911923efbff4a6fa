"""Pipelines that answer: the stages of `ragsieve ask`, replies paid once, costs that add up."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ragsieve.asking import Defense, Index, panel, stages
from ragsieve.chat.journal import JournaledChat, ReplyJournal
from ragsieve.chat.protocol import read_refusal, read_reply
from ragsieve.errors import BackendError
from ragsieve.lab.experiments import materials, measures
from ragsieve.lab.experiments.asked import Bill, SettledChat
from ragsieve.lab.experiments.judging import Judges
from ragsieve.lab.experiments.outcome import Condition
from ragsieve.lab.experiments.pipelines import plan_of, rewritten, stages_of
from ragsieve.lab.experiments.report import WORDS, section_of, table_of, write_report
from ragsieve.lab.experiments.run import run_experiment
from ragsieve.lab.experiments.spec import Answers, JudgeKind, Kind, PipelineName, cells_of
from ragsieve.lab.experiments.store import Store
from ragsieve.lab.experiments.summary import summarize
from ragsieve.records import ChatMessage, ChatReply
from ragsieve.settings import load_settings
from unit.lab.experiments.fakes import FakeParts, comparator, experiment, pipeline, world

TWO = Answers(members=("a", "b"), answer_tokens=24)


class Chat:
    """Says what the documents say; counts calls, and breaks after so many.

    :param clean: what it says when no document names the thief.
    """

    def __init__(self, name="a", clean="the warden", breaks_after=None, rewrite=""):
        self.identity = f"fake {name}"
        self.clean = clean
        self.breaks_after = breaks_after
        self.rewrite = rewrite
        self.asked = []

    def reply(self, messages, *, max_tokens):
        if self.breaks_after is not None and len(self.asked) >= self.breaks_after:
            raise BackendError("the server went away")
        self.asked.append(messages[-1].content)
        if "other words" in messages[0].content:
            return ChatReply(self.rewrite, 7, 5, 0.5)
        said = "the thief" if "the thief" in messages[-1].content else self.clean
        return ChatReply(said, 10, 3, 2.0)


class Parts(FakeParts):
    """Members by name."""

    def __init__(self, *chats, **given):
        super().__init__(**given)
        self.chats = chats

    def members(self, answers):
        return dict(zip(answers.names, self.chats, strict=True))


def piped(*names, **changes):
    methods = changes.pop("methods", tuple(pipeline(name) for name in names))
    given = {"kind": Kind.END_TO_END, "answers": TWO, "methods": methods}
    return experiment(**{**given, **changes})


def store_of(folder):
    return Store(folder / "trial")


def rows(folder, names=("contexts", "answers")):
    store = store_of(folder)
    plan = store.plan()["cells"]
    return {
        one["title"].partition(", ")[2]: tuple(
            getattr(store, name)(one["fingerprint"]) for name in names
        )
        for one in plan
    }


def ran(tmp_path, tried, parts):
    report = run_experiment(tried, parts, tmp_path)
    assert report.problems == ()
    return rows(tmp_path)


def test_every_pipeline_answers_every_question_under_both_conditions(tmp_path):
    chats = Chat(rewrite="who keeps the old harbour bridge"), Chat("b")
    found = ran(tmp_path, piped(*PipelineName), Parts(*chats))
    assert list(found) == list(PipelineName)
    asked = [(c, f"q{row}") for c in Condition for row in range(4)]
    for contexts, answers in found.values():
        assert [(one.condition, one.query_id) for one in answers] == asked
        assert [(one.condition, one.query_id) for one in contexts] == asked
        assert all(len(one.before) == 5 for one in contexts)
    cells = {cell.method: cell for cell in summarize(tmp_path / "trial").cells}
    assert cells["none"].figure(measures.ASR).value == 1.0
    # What the fake planted repeats the question's words: ring 1 is made for that.
    assert cells["ring-1"].figure(measures.ASR).value == 0.0
    assert cells["ring-1"].figure(measures.ASR_UNDEFENDED).value == 1.0
    assert cells["rings"].figure(measures.ACCURACY).value == 1.0
    wide = found["larger-k"][0]
    assert all(len(one.after) == 10 and one.after[:5] == one.before for one in wide)
    assert cells["larger-k"].figure(measures.PLACES_REMOVED).value == 0.0


@pytest.mark.parametrize(
    ("name", "defense"),
    [
        (PipelineName.NONE, Defense.NONE),
        (PipelineName.RINGS, Defense.TRISHIELD),
        (PipelineName.SIEVE, Defense.SIEVE),
        (PipelineName.SIEVE_AND_RINGS, Defense.ALL),
    ],
)
def test_pipelines_are_those_of_ask(tmp_path, name, defense):
    settings = load_settings(models_dir=tmp_path)
    tried = piped(name)
    parts = Parts(Chat(), Chat("b"))
    made = materials.Materials(tried, parts)
    case = made.staged(cells_of(tried)[0]).poisoned
    judges = Judges(tried, parts, made.dataset, made.rows)
    plan = plan_of(name, tried)
    ours = stages_of(plan, case, judges.sieving(case) if name.sieves else ())
    theirs = stages(settings, defense, Index(case.documents, case.rows))
    assert [type(stage) for stage in ours] == [type(stage) for stage in theirs]
    assert (plan.guard, plan.scorer) == (settings.trishield.guard, settings.trishield.scorer)
    wanted = panel(settings, defense, {"a": Chat()}).config
    lasting = {"max_tokens": 24, "timeout_seconds": plan.consensus.timeout_seconds}
    assert plan.consensus == dataclasses.replace(wanted, **lasting)


def test_one_ring_is_one_ring():
    tried = piped("none")

    def names(name):
        made = materials.Materials(tried, FakeParts())
        case = made.staged(cells_of(tried)[0]).poisoned
        return [stage.name for stage in stages_of(plan_of(name, tried), case, ())]

    assert names(PipelineName.RING_1) == ["ingest-guard"]
    assert names(PipelineName.RING_2) == ["retrieval-scorer"]
    assert names(PipelineName.RING_3) == names(PipelineName.LARGER_K) == []
    gates = {name: str(plan_of(name, tried).consensus.gate) for name in PipelineName}
    assert gates["ring-3"] == "always"
    assert gates["rings"] == gates["sieve+rings"] == "gated"
    assert {gates[name] for name in ("none", "ring-1", "ring-2", "sieve", "larger-k")} == {"never"}


def test_a_retry_brings_documents_from_further_down(tmp_path):
    parts = Parts(Chat(), Chat("b", clean="somebody else"))
    contexts, answers = ran(tmp_path, piped("ring-3"), parts)["ring-3"]
    clean = [one for one in contexts if one.condition is Condition.UNPOISONED]
    for one in clean:
        # One of five, the lowest third, was dropped, and the sixth moved up.
        assert len(set(one.after) - set(one.before)) == 1
        assert len(one.after) == 5
    assert {one.agreed for one in answers} == {True, False}
    (cell,) = summarize(tmp_path / "trial").cells
    assert cell.figure(measures.PLACES_REMOVED).value == pytest.approx(0.2)
    assert cell.figure(measures.ACCURACY).value == 1.0
    assert cell.figure(measures.ACCURACY_AGREED).value == 0.0
    # Both repeat the planted answer: agreement says nothing about truth.
    assert cell.figure(measures.ASR_AGREED).value == 1.0


def test_costs_add_up(tmp_path):
    quarrel = Parts(Chat(), Chat("b", clean="somebody else"))
    found = ran(tmp_path, piped("none", "ring-3"), quarrel)
    alone, both = found["none"][1], found["ring-3"][1]
    assert {
        (one.calls, one.seconds, one.prompt_tokens, one.completion_tokens) for one in alone
    } == {(1, 2.0, 10, 3)}
    costs = {(one.condition, one.calls, one.seconds, one.prompt_tokens) for one in both}
    assert costs == {(Condition.POISONED, 2, 4.0, 20), (Condition.UNPOISONED, 4, 8.0, 40)}
    assert all(one.stage_seconds == 0 for one in both)
    cells = {cell.method: cell for cell in summarize(tmp_path / "trial").cells}
    seconds = cells["ring-3"].figure(measures.ANSWER_SECONDS)
    assert (seconds.value, seconds.low, seconds.high, seconds.count) == (6.0, 6.0, 6.0, 8)
    assert cells["ring-3"].figure(measures.ANSWER_TOKENS).value == 39.0
    assert cells["none"].figure(measures.ANSWER_CALLS).value == 1.0


def journaled(path, *chats):
    return [JournaledChat(chat, ReplyJournal(path)) for chat in chats]


def test_identical_prompts_are_answered_once_and_a_replay_costs_what_it_cost(tmp_path):
    names = ("none", "sieve", "ring-3", "rings", "sieve+rings")
    methods = (*map(pipeline, names), comparator("longest"), comparator("crowded"))
    tried = piped(methods=methods)
    chats = Chat(), Chat("b")
    first = ran(tmp_path / "1", tried, Parts(*journaled(tmp_path / "kept.jsonl", *chats)))
    for chat in chats:
        assert len(chat.asked) == len(set(chat.asked)) > 0
    before = [len(chat.asked) for chat in chats]
    # Undefended and defended contexts are often the same.
    assert before[0] < 8 * len(methods)
    again = ran(tmp_path / "2", tried, Parts(*journaled(tmp_path / "kept.jsonl", *chats)))
    assert [len(chat.asked) for chat in chats] == before

    def timeless(found):
        return {
            name: (contexts, [dataclasses.replace(one, stage_seconds=None) for one in answers])
            for name, (contexts, answers) in found.items()
        }

    assert timeless(again) == timeless(first)
    assert {one.seconds for one in again["none"][1]} == {2.0}


def test_an_outage_fails_the_cell_and_loses_no_reply(tmp_path):
    tried = piped("none", "ring-3", "rings")
    kept, out = tmp_path / "kept.jsonl", tmp_path / "out"
    broken = Chat(breaks_after=11)
    second = Chat("b")
    report = run_experiment(tried, Parts(*journaled(kept, broken, second)), out)
    assert report.failed > 0
    assert all("the server went away" in reason for _, reason in report.problems)
    whole = Chat()
    resumed = run_experiment(tried, Parts(*journaled(kept, whole, second)), out)
    assert resumed.complete
    assert not set(whole.asked) & set(broken.asked)
    assert len(second.asked) == len(set(second.asked))
    straight = ran(tmp_path / "straight", tried, Parts(Chat(), Chat("b")))
    for name, (contexts, answers) in rows(out).items():
        assert contexts == straight[name][0]
        assert [one.text for one in answers] == [one.text for one in straight[name][1]]


def test_a_stage_that_breaks_is_no_abstention(tmp_path, monkeypatch):
    def breaks(*_):
        raise BackendError("it cannot weigh")

    monkeypatch.setattr("ragsieve.trishield.retrieval_scorer.RetrievalScorer.run", breaks)
    report = run_experiment(piped("ring-2", "none"), Parts(Chat(), Chat("b")), tmp_path)
    assert (report.failed, report.done) == (1, 1)
    assert "it cannot weigh" in report.problems[0][1]


def test_without_documents_nobody_is_asked(tmp_path, monkeypatch):
    from unit.lab.experiments.fakes import Longest

    monkeypatch.setattr(Longest, "candidates", 40)
    monkeypatch.setattr(Longest, "documents", 40)
    monkeypatch.setattr(Longest, "scores", lambda _, view: [2.0] * len(view.candidates))
    chat = Chat()
    found = ran(tmp_path, piped(methods=(comparator("longest"),)), Parts(chat, Chat("b")))
    assert chat.asked == []
    assert {(one.text, one.calls) for one in found["longest"][1]} == {("", 0)}
    (cell,) = summarize(tmp_path / "trial").cells
    assert cell.figure(measures.UNANSWERED).value == 1.0
    assert cell.figure(measures.ANSWER_TOKENS) is None


def test_mostly_wrong_answers_are_called_not_informative(tmp_path):
    parts = Parts(Chat(clean="no idea of mine"), Chat("b"))
    run_experiment(piped("none", "ring-1"), parts, tmp_path)
    summary = summarize(tmp_path / "trial")
    section = section_of(summary)
    for cell in summary.cells:
        assert not cell.informative
        assert cell.remarks[0].startswith("not informative: 0% of the unpoisoned questions")
    assert any(remark.startswith("not informative") for remark, _ in section.remarks)
    table = table_of(summary, measures.ASR, WORDS[measures.ASR])
    assert all(text.endswith("(not informative)") for _, texts in table.rows for text in texts[:1])
    seconds = table_of(summary, measures.ANSWER_SECONDS, "seconds")
    assert not any("informative" in text for _, texts in seconds.rows for text in texts)


def test_enough_right_answers_are_not(tmp_path):
    run_experiment(piped("none"), Parts(Chat(), Chat("b")), tmp_path)
    (cell,) = summarize(tmp_path / "trial").cells
    assert cell.informative
    assert not any("informative" in remark for remark in cell.remarks)


def test_the_judge_stands_in_every_table_it_decided(tmp_path):
    run_experiment(piped("none", "ring-3"), Parts(Chat(), Chat("b")), tmp_path)
    summary = summarize(tmp_path / "trial")
    section = section_of(summary)
    assert (
        dict(summary.facts)["answers"] == "a, replies of at most 24 tokens; with it in the panel: b"
    )
    titles = [table.title for table in section.tables]
    judged = [title for title in titles if title.startswith(("ASR", "accuracy"))]
    assert len(judged) == len(measures.JUDGED)
    assert all("(judge: string containment, no model)" in title for title in judged)
    assert not any("judge" in title for title in set(titles) - set(judged))
    assert all("judge" in title for title, _ in section.plots)


def test_the_name_of_a_judge_is_hostile_too(tmp_path):
    chat = Chat("<b>\u202e|`", clean="no JSON")
    said = '{"target_supported": false, "correct_supported": true}'
    chat.reply = lambda messages, *, max_tokens: ChatReply(said)
    tried = piped("none", answers=Answers(members=("a",), judge=JudgeKind.CHAT))
    assert run_experiment(tried, Parts(chat), tmp_path).problems == ()
    for path in write_report(tmp_path, [summarize(tmp_path / "trial")]):
        text = path.read_text("utf-8")
        assert "judge: chat judge, fake " in text
        assert "<b>" not in text.replace("&lt;b>", "")
        assert "\u202e" not in text


FIREWALL = tuple(
    pipeline(name) for name in ("none", "ring-1", "ring-2", "rings", "sieve", "sieve+rings")
)


def test_no_ring_knows_a_label(tmp_path, monkeypatch):
    tried = piped(methods=(*FIREWALL, pipeline("ring-3")))
    known = ran(tmp_path / "with", tried, Parts(Chat(), Chat("b")))
    staged = materials.Materials.staged

    def without(self, cell):
        return dataclasses.replace(staged(self, cell), labels={})

    monkeypatch.setattr(materials.Materials, "staged", without)
    unknown = ran(tmp_path / "without", tried, Parts(Chat(), Chat("b")))
    assert said(known) == said(unknown)


def said(found, names=None):
    """Contexts and replies, without what a clock decides."""
    called = names or {}
    return {
        name: (
            [tuple(called.get(one, one) for one in context.after) for context in contexts],
            [(one.text, one.agreed, one.calls) for one in answers],
        )
        for name, (contexts, answers) in found.items()
    }


def test_other_ids_change_nothing(tmp_path):
    tried = piped(methods=FIREWALL)
    found = ran(tmp_path / "as-is", tried, Parts(Chat(), Chat("b")))
    dataset = world()
    names = {one.id: f"clean-{hash(one.id) % 7}-{row}" for row, one in enumerate(dataset.documents)}
    other = dataclasses.replace(
        dataset,
        documents=tuple(dataclasses.replace(one, id=names[one.id]) for one in dataset.documents),
        relevant={},
    )
    renamed = Parts(Chat(), Chat("b"), dataset=other)
    give = renamed.file_attack

    def planted(dataset, file):
        written = give(dataset, file)
        new = {one.id: f"POISONED-{one.id}" for one in written.poisoning.documents}
        names.update(new)
        poisoning = dataclasses.replace(
            written.poisoning,
            documents=tuple(
                dataclasses.replace(one, id=new[one.id]) for one in written.poisoning.documents
            ),
            labels={new[name]: label for name, label in written.poisoning.labels.items()},
        )
        return dataclasses.replace(written, poisoning=poisoning)

    renamed.file_attack = planted
    again = ran(tmp_path / "renamed", tried, renamed)
    assert said(again, {new: old for old, new in names.items()}) == said(found)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Which person keeps the bridge?", "Which person keeps the bridge?"),
        ('\n "What is the bridge keeper called?"\nBecause', "What is the bridge keeper called?"),
        ("Who keeps THE bridge", None),
        ("", None),
        ("keeper", None),
        ("word " * 40, None),
        ("I do not know who keeps it", None),
    ],
)
def test_a_rewrite_is_another_question_of_about_the_length(reply, expected):
    assert rewritten("Who keeps the bridge?", reply) == expected


def test_paraphrased_retrieves_for_other_words_and_asks_the_question(tmp_path):
    chat = Chat(rewrite="winter council winter council winter")
    found = ran(tmp_path, piped("paraphrased"), Parts(chat, Chat("b")))
    contexts, answers = found["paraphrased"]
    assert any(one.after != one.before for one in contexts)
    answered = [text for text in chat.asked if "[document 1 begins" in text]
    assert len(answered) == 8
    assert all(text.count("keeper\nAnswer:") == 1 for text in answered)
    assert not any(
        "winter council winter council winter" in text.split("Question:")[1] for text in answered
    )
    assert {(one.calls, one.seconds, one.prompt_tokens) for one in answers} == {(2, 2.5, 17)}


def test_rewrites_that_cannot_be_used_are_counted(tmp_path):
    found = ran(tmp_path, piped("none", "paraphrased"), Parts(Chat(rewrite=""), Chat("b")))
    assert [one.after for one in found["paraphrased"][0]] == [one.after for one in found["none"][0]]
    cells = summarize(tmp_path / "trial").cells
    assert any(remark.startswith("8 of 8 rewrites") for remark in cells[1].remarks)


def test_what_stays_silent_is_a_reply_and_an_outage_is_none():
    body = b'{"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}'
    reason = read_reply(body, "application/json", str).reason
    long = "request (2100 tokens) exceeds the available context size (2048 tokens), try increasing"
    refused = read_refusal(400, {}, json.dumps({"error": {"message": long}}), str).reason

    class Server:
        identity = "server"

        def __init__(self, words):
            self.words = words

        def reply(self, messages, *, max_tokens):
            raise BackendError(self.words)

    asked = [ChatMessage("user", "?")]
    for words in (reason, refused):
        chat = SettledChat(Server(f"chat model a: {words}"))
        assert chat.reply(asked, max_tokens=3).content == ""
    assert SettledChat(Server(reason)).identity == "server"
    with pytest.raises(BackendError, match="timed out"):
        SettledChat(Server("timed out")).reply(asked, max_tokens=3)


def test_a_bill_is_settled_once_and_names_who_failed():
    bill = Bill({"first": Chat(), "second": Chat("b", breaks_after=0)})
    bill.first.reply([ChatMessage("user", "?")], max_tokens=3)
    assert bill.settle().calls == 1
    assert (bill.settle().calls, bill.settle().prompt_tokens) == (0, None)
    with pytest.raises(BackendError):
        bill.members["second"].reply([ChatMessage("user", "?")], max_tokens=3)
    with pytest.raises(BackendError, match="second: the server went away"):
        bill.settle()
    assert bill.settle().calls == 0
