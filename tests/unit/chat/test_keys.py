"""A key goes into one header of one request to one server, and nowhere else."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import traceback

import pytest
from pydantic import SecretStr

from ragsieve import assembly
from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.journal import JournaledChat, ReplyJournal
from ragsieve.chat.openai_chat import OpenAIChat
from ragsieve.errors import BackendError, ConfigError
from ragsieve.records import ChatMessage
from ragsieve.settings import api_key, load_settings
from unit.chat.server import Say, Server, refusal

KEY = "sk-very-secret-0123456789"
VARIABLE = "RAGSIEVE_TEST_MEMBER_KEY"
ASKED = (ChatMessage("user", "who built the bridge?"),)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"{name}-of-another-provider")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: secret-team\nAuthorization: Bearer other")


def member(url, **changes):
    return ChatEndpoint(url, "m", key_variable=VARIABLE, attempts=1, **changes)


def test_the_key_is_sent_to_its_server_alone():
    with Server(Say("x")) as server:
        chat = assembly.chat_model(member(server.url))
        chat.reply(ASKED, max_tokens=5)
        chat.close()
    headers = server.requests[0][1]
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "another-provider" not in repr(headers)
    assert "secret-team" not in repr(headers)


def test_without_a_variable_no_key_is_sent():
    with Server(Say("x")) as server:
        chat = assembly.chat_model(ChatEndpoint(server.url, "m"))
        chat.reply(ASKED, max_tokens=5)
        chat.close()
    assert "authorization" not in server.requests[0][1]


@pytest.mark.parametrize(
    "say",
    [
        lambda _: refusal(401, f"Incorrect API key provided: {KEY}"),
        lambda _: refusal(400, "x" * 190 + KEY),
        lambda _: Say(body=b"{}", kind=f"text/{KEY}"),
        lambda _: Say(body=f'{{"error": "{KEY}"}}'.encode()),
        lambda _: Say(body=b"{", headers={"x-echo": KEY}),
        lambda _: Say(status=302, body=b"", headers={"location": f"http://127.0.0.1:9/{KEY}"}),
        lambda _: Say(status=500, body=KEY.encode()),
        lambda _: Say("x", wait=0.5),
    ],
)
def test_no_error_and_no_log_shows_it(say, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("openai").setLevel(logging.DEBUG)
    with Server(say) as server:
        chat = assembly.chat_model(member(server.url, timeout_seconds=0.25))
        with pytest.raises(BackendError) as caught:
            chat.reply(ASKED, max_tokens=5)
        chat.close()
    shown = "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    for text in (shown, repr(caught.value), str(caught.value.__dict__)):
        # Not even its beginning, where a message was cut.
        assert KEY[:12] not in text
    # What a server writes into its headers is in the HTTP library's log, once that is on.
    logged = [
        one.getMessage()
        for one in caplog.records
        if not one.getMessage().startswith("receive_response_headers.complete")
    ]
    assert any("send_request_headers" in line for line in logged)
    assert KEY not in "\n".join(logged)


def test_a_server_that_repeats_it_gets_it_into_no_reply():
    with Server(Say(f"you sent {KEY}")) as server:
        chat = assembly.chat_model(member(server.url))
        assert chat.reply(ASKED, max_tokens=5).content == "you sent [key]"
        chat.close()


def test_no_object_shows_it(tmp_path):
    endpoint = member("http://127.0.0.1:9/v1")
    chat = assembly.chat_model(endpoint)
    journaled = JournaledChat(chat, ReplyJournal(tmp_path / "j.jsonl"))
    shown = [
        repr(chat), str(chat), chat.identity, repr(vars(chat)), repr(chat.usage), repr(journaled),
        repr(vars(journaled)), repr(endpoint), repr(dataclasses.asdict(endpoint)),
        repr(vars(chat._client)), repr(vars(chat._client._client)),
        repr(api_key(endpoint)), pickle.dumps(endpoint).decode("latin-1"),
    ]  # fmt: skip
    assert not any(KEY in text for text in shown)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a key"):
            copied(chat)
    chat.close()


def test_a_missing_key_names_the_variable(monkeypatch):
    for empty in ("", None):
        if empty is None:
            monkeypatch.delenv(VARIABLE)
        else:
            monkeypatch.setenv(VARIABLE, empty)
        with pytest.raises(ConfigError, match=f"{VARIABLE} holds no key"):
            api_key(member("http://127.0.0.1:9/v1"))


def test_a_key_that_no_header_carries_is_refused_unseen():
    for broken in (f"{KEY}\nX-Evil: 1", f"{KEY} ", f"{KEY}é"):
        with pytest.raises(ConfigError, match="visible ASCII") as caught:
            OpenAIChat(member("http://127.0.0.1:9/v1"), key=SecretStr(broken))
        assert KEY not in str(caught.value)


def test_a_key_in_place_of_its_variable_is_refused_unseen(tmp_path):
    path = tmp_path / "c.toml"
    for key in (KEY, "0123abcd" * 4):
        path.write_text(
            f'[chat.members.a]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nkey_variable = "{key}"\n'
        )
        with pytest.raises(
            ConfigError, match=r"chat\.members\.a.*NAME of an environment"
        ) as caught:
            load_settings(path)
        assert key not in "".join(traceback.format_exception(caught.value))


def test_a_password_in_an_address_is_refused_unseen():
    for url in (f"https://u:{KEY}@host/v1", f"https://host/v1?key={KEY}", f"https://host/v1#{KEY}"):
        with pytest.raises(ConfigError, match="base_url") as caught:
            ChatEndpoint(url, "m")
        assert KEY not in str(caught.value)


def test_a_key_crosses_a_network_in_clear_only_by_decision():
    with pytest.raises(ConfigError, match="clear text"):
        member("http://10.0.0.7:8000/v1")
    assert member("http://10.0.0.7:8000/v1", plain_http=True).key_variable == VARIABLE
    assert member("https://host/v1").loopback is False
    assert ChatEndpoint("http://10.0.0.7:8000/v1", "m").loopback is False
