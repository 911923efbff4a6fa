"""Keys: shown once, kept as hashes, ended for good, read anew when they change."""

from __future__ import annotations

import datetime
import json
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.errors import ConfigError, InputError
from ragsieve.service.keys import KeyFile, Role
from unit.service.making import key_file

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Clock:
    def __init__(self):
        self.time = NOW

    def __call__(self):
        return self.time


def test_the_token_opens_and_stands_nowhere(tmp_path):
    file = key_file(tmp_path)
    token, key = file.add("web", Role.SERVICE, tenant="acme")
    assert file.find(token) == key
    assert (key.role, key.tenant) == (Role.SERVICE, "acme")
    kept = (tmp_path / "keys.json").read_text()
    assert token not in kept
    assert token.removeprefix("ragsieve_") not in kept
    assert len(token) >= 43 + len("ragsieve_")
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_two_keys_differ_and_open_only_themselves(tmp_path):
    file = key_file(tmp_path)
    (one, first), (two, second) = file.add("a", Role.SERVICE), file.add("b", Role.ADMIN)
    assert one != two
    assert (file.find(one), file.find(two)) == (first, second)
    assert file.find(one[:-1]) is None
    assert file.find(one + "x") is None


@given(st.text(max_size=300))
def test_nothing_else_opens(tmp_path_factory, text):
    file = KeyFile(tmp_path_factory.getbasetemp() / "shared-keys.json")
    if not file.keys():
        file.add("a", Role.ADMIN)
    assert file.find(text) is None


def test_revoked_and_expired_keys_open_nothing(tmp_path):
    clock = Clock()
    file = key_file(tmp_path, now=clock)
    short, _ = file.add("short", Role.SERVICE, lifetime=datetime.timedelta(hours=1))
    long, key = file.add("long", Role.SERVICE)
    assert file.find(short) is not None
    clock.time = NOW + datetime.timedelta(hours=1)
    assert file.find(short) is None
    assert file.any_active()
    file.revoke(key.id)
    assert file.find(long) is None
    assert file.active(key.id) is None
    assert not file.any_active()
    assert len(file.keys()) == 2


def test_another_process_is_seen(tmp_path):
    ours, theirs = key_file(tmp_path), key_file(tmp_path)
    assert ours.keys() == ()
    token, key = theirs.add("a", Role.SERVICE)
    assert ours.find(token) == key
    theirs.revoke(key.id)
    assert ours.find(token) is None


def test_changes_from_many_threads_are_all_kept(tmp_path):
    threads = [
        threading.Thread(target=lambda n=n: key_file(tmp_path).add(f"k{n}", Role.SERVICE))
        for n in range(12)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = key_file(tmp_path).keys()
    assert {key.name for key in found} == {f"k{n}" for n in range(12)}


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "a\nb", "a\u202eb"])
def test_names_are_short_and_printable(tmp_path, name):
    with pytest.raises(ConfigError, match="name"):
        key_file(tmp_path).add(name, Role.SERVICE)
    assert key_file(tmp_path).keys() == ()


def test_one_name_one_active_key(tmp_path):
    file = key_file(tmp_path)
    _, key = file.add("a", Role.SERVICE)
    with pytest.raises(ConfigError, match="revoke"):
        file.add("a", Role.ADMIN)
    file.revoke(key.id)
    assert file.add("a", Role.ADMIN)[1].role is Role.ADMIN


def test_an_unknown_id_is_said(tmp_path):
    with pytest.raises(InputError, match="no key has the id"):
        key_file(tmp_path).revoke("nope")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2, "keys": []}',
        '{"format": 1, "keys": [{"id": "x"}]}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_damaged_file_is_an_error_and_never_no_keys(tmp_path, text):
    (tmp_path / "keys.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"keys\.json"):
        key_file(tmp_path).keys()


def test_a_time_without_its_zone_is_refused(tmp_path):
    file = key_file(tmp_path)
    file.add("a", Role.SERVICE)
    found = json.loads(file.path.read_text())
    found["keys"][0]["expires"] = "2999-01-01T00:00:00"
    file.path.write_text(json.dumps(found))
    with pytest.raises(InputError):
        file.keys()
