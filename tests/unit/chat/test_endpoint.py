"""Members: what may be said of one, and how settings name them."""

from __future__ import annotations

import math

import pytest

from ragsieve import assembly
from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.errors import ConfigError
from ragsieve.settings import load_settings

URL = "http://127.0.0.1:8080/v1"
TWO = f"""
[chat]
model = "small"
[chat.members.small]
base_url = "{URL}"
model = "smollm2"
family = "SmolLM"
[chat.members.large]
base_url = "https://models.example/v1"
model = "large-1"
name = "The large one"
key_variable = "PROVIDER_KEY"
timeout_seconds = 5
attempts = 2
concurrency = 8
seed = 1
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_url": ""}, "base_url"),
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "http:///v1"}, "base_url"),
        ({"base_url": "http://host:99999/v1"}, "base_url"),
        ({"base_url": "http://host/v1\n"}, "base_url"),
        ({"model": ""}, "model"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": math.nan}, "timeout_seconds"),
        ({"timeout_seconds": math.inf}, "timeout_seconds"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": 21}, "attempts"),
        ({"concurrency": 0}, "concurrency"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"tokens_field": "tokens"}, "tokens_field"),
    ],
)
def test_impossible_values_are_named(changes, words):
    with pytest.raises(ConfigError, match=f"^{words}"):
        ChatEndpoint(**{"base_url": URL, "model": "m", **changes})


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback(host, loopback):
    assert ChatEndpoint(f"http://{host}:8080/v1", "m").loopback is loopback


def test_the_identity_is_what_changes_replies():
    base = ChatEndpoint(URL, "m")
    same = ChatEndpoint(f"{URL}/", "m", name="n", family="f", timeout_seconds=1, attempts=1)
    assert base.identity == same.identity
    others = {
        ChatEndpoint(URL, "other").identity,
        ChatEndpoint("http://127.0.0.1:8081/v1", "m").identity,
        ChatEndpoint(URL, "m", seed=1).identity,
        ChatEndpoint(URL, "m", temperature=1).identity,
        ChatEndpoint(URL, "m", revision="abc").identity,
    }
    assert len(others | {base.identity}) == 6
    # A local server on another port is the same model.
    moved = ChatEndpoint("http://127.0.0.1:9/v1", "m", revision="abc")
    assert moved.identity == ChatEndpoint(URL, "m", revision="abc").identity


def test_members_of_a_file(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(TWO)
    settings = load_settings(path)
    small = assembly.chat_member(settings)
    assert (small.title, small.family, small.model) == ("small", "SmolLM", "smollm2")
    large = assembly.chat_member(settings, "large")
    assert (large.title, large.concurrency, large.seed) == ("The large one", 8, 1)
    with pytest.raises(ConfigError, match="expected one of large, small, found 'other'"):
        assembly.chat_member(settings, "other")


def test_the_environment_overrides_a_member(tmp_path, monkeypatch):
    path = tmp_path / "c.toml"
    path.write_text(TWO)
    monkeypatch.setenv("RAGSIEVE_CHAT__MODEL", "large")
    monkeypatch.setenv("RAGSIEVE_CHAT__MEMBERS__LARGE__ATTEMPTS", "9")
    chosen = assembly.chat_member(load_settings(path))
    assert (chosen.model, chosen.attempts, chosen.seed) == ("large-1", 9, 1)


def test_one_member_needs_no_choice_and_none_is_an_error(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(f'[chat.members.only]\nbase_url = "{URL}"\nmodel = "m"\n')
    assert assembly.chat_member(load_settings(path)).title == "only"
    with pytest.raises(ConfigError, match="choose one"):
        assembly.chat_member(load_settings())
    path.write_text(TWO.replace('model = "small"\n', "", 1))
    with pytest.raises(ConfigError, match="large, small"):
        assembly.chat_member(load_settings(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[chat]\nmodles = 1", "chat.modles: unknown key"),
        ('[chat]\nmodel = "x"', "expected a member (none), found 'x'"),
        (
            f'[chat.members.a]\nbase_url = "{URL}"\nmodel = "m"\nkey = "k"',
            "chat.members.a.key: unknown",
        ),
        ('[chat.members.a]\nmodel = "m"', "chat.members.a.base_url"),
        (
            f'[chat.members.a]\nbase_url = "{URL}"\nmodel = "m"\nattempts = "x"',
            "members.a.attempts",
        ),
        (f'[chat.members.a]\nbase_url = "{URL}"\nmodel = "m"\nconcurrency = 0', "concurrency"),
    ],
)
def test_a_bad_table_is_named(tmp_path, text, words):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert words in str(caught.value)
