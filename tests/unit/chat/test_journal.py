"""A paid reply is never lost and never paid twice, whatever dies when."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.chat.journal import JournaledChat, ReplyJournal, request_key
from ragsieve.errors import BackendError, OutputError
from ragsieve.ports import ChatModel
from ragsieve.records import ChatMessage, ChatReply

ASKED = (ChatMessage("user", "who?"),)


class Counting:
    """Replies with a number; each call costs."""

    identity = "counting"

    def __init__(self, *, failing=0, wait=0.0):
        self.calls = 0
        self.failing = failing
        self.wait = wait
        self._lock = threading.Lock()

    def reply(self, messages, *, max_tokens):
        with self._lock:
            self.calls += 1
            number = self.calls
        time.sleep(self.wait)
        if number <= self.failing:
            raise BackendError("down")
        return ChatReply(f"{messages[-1].content} {number}", 3, None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.jsonl"


def test_the_same_request_is_paid_once(path):
    model = Counting()
    chat = JournaledChat(model, ReplyJournal(path))
    assert isinstance(chat, ChatModel)
    first = chat.reply(ASKED, max_tokens=5)
    assert chat.reply(list(ASKED), max_tokens=5) == first == ChatReply("who? 1", 3, None)
    again = JournaledChat(model, ReplyJournal(path))
    assert again.reply(ASKED, max_tokens=5) == first
    assert model.calls == 1
    assert again.identity == "counting"


def test_a_kept_reply_keeps_what_it_took(path):
    ReplyJournal(path).keep("k", "m", ChatReply("yes", 1, 1, seconds=2.5))
    ReplyJournal(path).keep("unmeasured", "m", ChatReply("no"))
    again = ReplyJournal(path)
    assert again.find("k").seconds == 2.5
    assert again.find("unmeasured").seconds is None


def test_every_part_of_a_request_counts():
    keys = {
        request_key("a", ASKED, 5),
        request_key("b", ASKED, 5),
        request_key("a", ASKED, 6),
        request_key("a", (ChatMessage("system", "who?"),), 5),
        request_key("a", (*ASKED, *ASKED), 5),
        request_key("a", (ChatMessage("user", "who?\ud800"),), 5),
        request_key("a", (), 5),
    }
    assert len(keys) == 7
    assert all(len(key) == 64 for key in keys)


@given(st.lists(st.tuples(st.text(), st.text()), max_size=4), st.integers(1, 9))
def test_where_one_message_ends_is_part_of_the_key(turns, cut):
    messages = [ChatMessage(role, content) for role, content in turns]
    moved = [ChatMessage(one.role + one.content[:cut], one.content[cut:]) for one in messages]
    assert (request_key("m", messages, 5) == request_key("m", moved, 5)) is (messages == moved)


def test_failures_are_not_kept(path):
    model = Counting(failing=2)
    chat = JournaledChat(model, ReplyJournal(path))
    for _ in range(2):
        with pytest.raises(BackendError, match="down"):
            chat.reply(ASKED, max_tokens=5)
    assert len(ReplyJournal(path)) == 0
    assert chat.reply(ASKED, max_tokens=5).content == "who? 3"


def test_threads_that_ask_the_same_share_one_call(path):
    model = Counting(wait=0.2)
    journal = ReplyJournal(path)
    # Two chats over one journal, as two cells of an experiment make them.
    chats = [JournaledChat(model, journal), JournaledChat(model, journal)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(chats[row % 2].reply, ASKED, max_tokens=5) for row in range(8)]
        said = {one.result().content for one in asked}
    assert (said, model.calls) == ({"who? 1"}, 1)
    assert len(path.read_bytes().splitlines()) == 1


def test_a_failure_is_shared_by_those_who_waited_and_forgotten(path):
    model = Counting(failing=1, wait=0.2)
    chat = JournaledChat(model, ReplyJournal(path))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(chat.reply, ASKED, max_tokens=5) for _ in range(4)]
        errors = [one.exception() for one in asked]
    assert model.calls == 1
    assert [str(error) for error in errors] == ["down"] * 4
    assert len({id(error) for error in errors}) == 4
    assert chat.reply(ASKED, max_tokens=5).content == "who? 2"


def test_many_threads_lose_nothing(path):
    journal = ReplyJournal(path)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda row: journal.keep(f"k{row}", "m", ChatReply(f"r{row}\n\u2028")), range(80)
            )
        )
    again = ReplyJournal(path)
    assert (len(again), again.damaged) == (80, ())
    assert again.find("k7") == ChatReply("r7\n\u2028")


def test_hostile_replies_come_back_as_they_were(path):
    journal = ReplyJournal(path)
    said = ["\ud800", 'a\n{"key": "x"}\n', "\x00\x1b[2J\u202e", "x" * 100_000, ""]
    for row, text in enumerate(said):
        journal.keep(str(row), "m", ChatReply(text))
    again = ReplyJournal(path)
    assert [again.find(str(row)).content for row in range(len(said))] == said
    assert again.damaged == ()


def test_wherever_it_is_torn_the_others_stay_and_the_next_is_whole(path):
    journal = ReplyJournal(path)
    for row in range(3):
        journal.keep(f"k{row}", "m", ChatReply(f"réply {row}"))
    whole = path.read_bytes()
    second_end = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for cut in range(second_end, len(whole)):
        path.write_bytes(whole[:cut])
        torn = ReplyJournal(path)
        complete = cut == len(whole) - 1  # all but the newline is there
        assert torn.damaged == (() if complete or cut == second_end else (3,)), cut
        assert [torn.find(f"k{row}") is not None for row in range(3)] == [True, True, complete]
        torn.keep("new", "m", ChatReply("after the crash"))
        again = ReplyJournal(path)
        assert again.find("new").content == "after the crash"
        assert again.find("k1").content == "réply 1"
        assert again.damaged == torn.damaged


def test_a_line_torn_by_another_process_does_not_swallow_ours(path):
    journal = ReplyJournal(path)
    journal.keep("a", "m", ChatReply("1"))
    with path.open("ab") as other:
        other.write(b'{"key": "half')
    journal.keep("b", "m", ChatReply("2"))
    again = ReplyJournal(path)
    assert (again.find("a").content, again.find("b").content, again.damaged) == ("1", "2", (2,))


def test_whatever_stands_in_a_line_the_others_are_read(path):
    rows = [
        b"\x00\x00\x00",
        b"\xff\xfe",
        b"[1]",
        b'{"key": 3, "content": "x"}',
        b'{"key": "k"}',
        b'{"key": "k", "content": "x", "prompt_tokens": "many"}',
        b"[" * 50_000,
    ]
    good = json.dumps({"key": "good", "content": "y"}).encode()
    path.write_bytes(b"\n".join([*rows, b"", good]) + b"\n")
    journal = ReplyJournal(path)
    assert journal.find("good") == ChatReply("y")
    assert (len(journal), journal.damaged) == (1, tuple(range(1, 8)))


def test_the_first_reply_written_counts(path):
    journal, other = ReplyJournal(path), ReplyJournal(path)
    other.keep("k", "m", ChatReply("first"))
    # What another process wrote is found without being opened again.
    assert journal.find("k").content == "first"
    journal.keep("k", "m", ChatReply("second"))
    assert ReplyJournal(path).find("k").content == "first"


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_paid(tmp_path):
    for place in (tmp_path, tmp_path / "none" / "j.jsonl"):
        with pytest.raises(OutputError):
            ReplyJournal(place)


def test_a_reply_that_cannot_be_written_is_an_error_and_not_asked_again(path, monkeypatch):
    model = Counting()
    chat = JournaledChat(model, ReplyJournal(path))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ragsieve.chat.journal.os.fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        chat.reply(ASKED, max_tokens=5)
    monkeypatch.undo()
    assert chat.reply(ASKED, max_tokens=5).content == "who? 1"
    assert model.calls == 1


WRITER = """
import sys
from ragsieve.chat.journal import ReplyJournal
from ragsieve.records import ChatReply
journal = ReplyJournal(sys.argv[1])
for row in range(100_000):
    journal.keep(f"{sys.argv[2]}-{row}", "m", ChatReply("reply " * 200 + str(row), row, 1))
    sys.stdout.write(f"{row}\\n")
    sys.stdout.flush()
"""


def test_what_was_on_the_disk_survives_a_kill(path):
    """Two processes append to one journal and are killed at different moments, twice."""
    promised = {}
    for turn in range(2):
        writers = {
            f"{turn}{name}": subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path), f"{turn}{name}"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in "ab"
        }
        for name, writer in writers.items():
            # Both are running once each has written.
            promised[name] = [int(writer.stdout.readline())]
        for place, (name, writer) in enumerate(writers.items()):
            time.sleep(0.13 * (place + 1) + 0.031 * turn)
            writer.kill()
            promised[name] += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
            writer.stdout.close()
            assert writer.wait() != 0
    journal = ReplyJournal(path)
    for name, rows in promised.items():
        assert len(rows) > 1
        for row in rows:
            found = journal.find(f"{name}-{row}")
            assert found == ChatReply("reply " * 200 + str(row), row, 1)
    journal.keep("after", "m", ChatReply("alive"))
    assert ReplyJournal(path).find("after").content == "alive"
