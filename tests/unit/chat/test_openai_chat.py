"""The chat port against a real server that fails in every way servers fail."""

from __future__ import annotations

import concurrent.futures
import email.utils
import json
import socket
import time

import pytest

from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.openai_chat import LONGEST_WAIT_SECONDS, OpenAIChat
from ragsieve.chat.wire import LARGEST_BYTES
from ragsieve.errors import BackendError
from ragsieve.ports import ChatModel
from ragsieve.records import ChatMessage, ChatReply
from unit.chat.server import Say, Server, refusal

ASKED = (ChatMessage("system", "be brief"), ChatMessage("user", "who built the bridge?"))


@pytest.fixture
def ask():
    """Serve a script, ask once; gives the reply or the error, the pauses, and the server."""

    def asked(*script, **settings):
        pauses = []
        with Server(*script) as server:
            endpoint = ChatEndpoint(server.url, "small", name="member", **settings)
            chat = OpenAIChat(endpoint, sleep=pauses.append)
            try:
                found = chat.reply(ASKED, max_tokens=24)
            except BackendError as error:
                found = error
            finally:
                chat.close()
        return found, pauses, server, chat.usage

    return asked


def test_a_reply_with_its_tokens(ask):
    found, pauses, server, usage = ask(Say("the mason"), seed=5)
    assert found == ChatReply("the mason", 7, 2)
    assert pauses == []
    ((path, headers, fields),) = server.requests
    assert path == "/v1/chat/completions"
    assert fields == {
        "model": "small",
        "messages": [{"role": one.role, "content": one.content} for one in ASKED],
        "temperature": 0.0,
        "max_tokens": 24,
        "seed": 5,
    }
    # Nothing about this machine, nothing from OPENAI_* variables.
    assert set(headers) == set(
        "host connection accept accept-encoding user-agent content-type content-length".split()
    )
    assert (usage.calls, usage.failed_calls, usage.retries) == (1, 0, 0)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.uncounted_calls) == (7, 2, 0)
    assert usage.seconds > 0


def test_it_fits_the_port():
    chat = OpenAIChat(ChatEndpoint("http://127.0.0.1:9/v1", "m"))
    assert isinstance(chat, ChatModel)
    assert "m at http://127.0.0.1:9/v1" in chat.identity


def test_the_limit_has_two_names(ask):
    _, _, server, _ = ask(Say("x"), tokens_field="max_completion_tokens", temperature=1.0)
    fields = server.requests[0][2]
    assert fields["max_completion_tokens"] == 24
    assert fields["temperature"] == 1.0
    assert "max_tokens" not in fields


def test_retry_after_is_waited_for(ask):
    found, pauses, server, usage = ask(refusal(429, retry_after="7"), Say("late"))
    assert found.content == "late"
    assert pauses == [7.0]
    assert (len(server.requests), usage.retries, usage.failed_calls) == (2, 1, 0)


def test_retry_after_as_a_date(ask):
    when = email.utils.formatdate(time.time() + 20, usegmt=True)
    _, pauses, _, _ = ask(refusal(503, retry_after=when), Say("late"))
    assert 15 < pauses[0] <= 20


@pytest.mark.parametrize("value", ["soon", "nan", "inf", ""])
def test_a_senseless_retry_after_is_no_wish(ask, value):
    _, pauses, _, _ = ask(refusal(429, retry_after=value), Say("late"))
    assert 0 < pauses[0] <= 0.5


def test_too_long_a_pause_ends_the_call(ask):
    found, pauses, server, _ = ask(refusal(429, retry_after=str(LONGEST_WAIT_SECONDS + 1)))
    assert "too long" in str(found)
    assert pauses == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_and_bounded(ask, status):
    found, pauses, server, usage = ask(refusal(status, "busy"), attempts=3)
    assert isinstance(found, BackendError)
    assert f"HTTP {status}: busy (3 attempts)" in str(found)
    assert "member at http://127.0.0.1" in str(found)
    assert len(server.requests) == 3
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0
    assert (usage.calls, usage.failed_calls, usage.retries) == (1, 1, 2)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_stays_is_not_tried_again(ask, status):
    found, pauses, server, _ = ask(refusal(status, "wrong"))
    assert f"HTTP {status}: wrong" in str(found)
    assert (len(server.requests), pauses) == (1, [])


@pytest.mark.parametrize(
    ("say", "words"),
    [
        (Say(body=b"{not json"), "malformed JSON"),
        (Say(body=b"[" * 100_000), "malformed JSON"),
        (Say(body=b""), "malformed JSON"),
        (Say(""), "the reply is empty"),
        (Say(" \n"), "the reply is empty"),
        (Say(None, finish="length"), "cut at the limit of tokens"),
        (Say(["a"]), "content is not text"),
        (Say("half", finish="content_filter"), "content_filter"),
        (Say(body=b'{"choices": []}'), "no choices"),
        (Say(body=b'{"choices": [3]}'), "no choices"),
        (Say(body=b'{"error": {"message": "out of credit"}}'), "no choices: out of credit"),
        (Say(body=b"[1]"), "no choices"),
        (Say(body=b'{"choices": [{"message": "x"}]}'), "the reply is empty"),
        (Say(body=b"<html>", kind="text/html"), "content type 'text/html'"),
        (Say(body=b"{}", kind="text/html\x1b[2J"), "content type"),
        (Say("x", headers={"content-encoding": "gzip"}), "compressed"),
        (Say(body=b"x" * (LARGEST_BYTES + 1)), "larger than"),
        (Say(status=400, body=b"x" * (LARGEST_BYTES + 1)), "larger than"),
        (Say(status=400, body=b"x", kind="text/plain; charset=zlib_codec"), "HTTP 400"),
    ],
)
def test_a_broken_reply_names_what_is_wrong(ask, say, words):
    found, _, server, usage = ask(say)
    assert isinstance(found, BackendError)
    assert words in str(found)
    assert "\x1b" not in str(found)
    assert len(server.requests) == 1
    assert usage.failed_calls == 1


def test_a_server_that_does_not_count_leaves_no_zero(ask):
    for usage in (
        None,
        {"prompt_tokens": "many", "completion_tokens": True},
        {"prompt_tokens": -1},
    ):
        found, _, _, sums = ask(Say("x", usage=usage))
        assert (found.prompt_tokens, found.completion_tokens) == (None, None)
        assert (sums.prompt_tokens, sums.uncounted_calls) == (0, 1)


def test_a_lone_surrogate_is_replaced_both_ways():
    with Server(Say(body=b'{"choices": [{"message": {"content": "a\\ud800b"}}]}')) as server:
        chat = OpenAIChat(ChatEndpoint(server.url, "m"))
        found = chat.reply([ChatMessage("user", "x\udc80y")], max_tokens=5)
        chat.close()
    assert found.content == "a?b"
    assert server.requests[0][2]["messages"][0]["content"] == "x?y"


def test_a_hostile_message_is_cut_and_made_visible(ask):
    found, _, _, _ = ask(refusal(400, "\x1b[2J\u202eevil " + "x" * 5_000))
    assert len(str(found)) < 400
    assert "<U+001B>[2J<U+202E>evil" in str(found)


def test_silence_is_a_timeout_and_tried_again(ask):
    found, pauses, server, usage = ask(Say("x", wait=0.6), timeout_seconds=0.15, attempts=2)
    assert "no reply within 0.15 s (2 attempts)" in str(found)
    assert (len(server.requests), len(pauses), usage.retries) == (2, 1, 1)


def test_a_server_that_drips_runs_out_of_time(ask):
    start = time.monotonic()
    found, _, _, _ = ask(Say("x", drip=15), timeout_seconds=0.4, attempts=1)
    assert "no reply within 0.4 s" in str(found)
    assert time.monotonic() - start < 1.9


def test_a_refused_connection_is_tried_again():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pauses = []
    chat = OpenAIChat(
        ChatEndpoint(f"http://127.0.0.1:{port}/v1", "m", attempts=2), sleep=pauses.append
    )
    with pytest.raises(BackendError, match=r"no connection \(.*refused\) \(2 attempts"):
        chat.reply(ASKED, max_tokens=5)
    assert len(pauses) == 1


def test_proxies_of_the_environment_are_not_asked_on_loopback(ask, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    found, _, _, _ = ask(Say("direct"))
    assert found.content == "direct"


def test_redirects_are_not_followed():
    with Server(Say("stolen")) as other:
        to = {"location": f"{other.url}/chat/completions"}
        for status in (301, 302, 307, 308):
            with Server(Say(status=status, body=b"", headers=to)) as server:
                chat = OpenAIChat(ChatEndpoint(server.url, "m"))
                with pytest.raises(BackendError, match=f"HTTP {status}.*not followed"):
                    chat.reply(ASKED, max_tokens=5)
                chat.close()
        assert other.requests == []


def test_an_echo_comes_back_as_it_is(ask):
    """Whether a reply is an echo is for whoever knows the prompt; see prompts.echoes."""
    found, _, _, _ = ask(lambda fields: Say(fields["messages"][-1]["content"]))
    assert found.content == ASKED[-1].content


def test_threads_share_it_within_the_limit():
    with Server(lambda fields: Say(fields["messages"][0]["content"], wait=0.05)) as server:
        chat = OpenAIChat(ChatEndpoint(server.url, "m", concurrency=3))
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            asked = [
                pool.submit(chat.reply, [ChatMessage("user", f"n{row}")], max_tokens=5)
                for row in range(24)
            ]
            said = [one.result().content for one in asked]
        chat.close()
    assert said == [f"n{row}" for row in range(24)]
    assert server.most_at_once <= 3
    assert (chat.usage.calls, chat.usage.prompt_tokens) == (24, 24 * 7)


def test_a_failing_thread_gives_its_place_back():
    with Server(refusal(400), Say("x")) as server:
        chat = OpenAIChat(ChatEndpoint(server.url, "m", concurrency=1))
        with pytest.raises(BackendError):
            chat.reply(ASKED, max_tokens=5)
        assert chat.reply(ASKED, max_tokens=5).content == "x"
        chat.close()


def test_a_closed_one_says_so_without_a_crash():
    with Server(Say("x")) as server:
        chat = OpenAIChat(ChatEndpoint(server.url, "m"))
        chat.close()
        with pytest.raises(BackendError, match="the client failed"):
            chat.reply(ASKED, max_tokens=5)


def test_the_script_of_the_server_is_json():
    assert json.loads(Say("x").bytes())["choices"][0]["message"]["content"] == "x"
