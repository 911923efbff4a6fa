"""Sessions of the desk: random, hashed, bounded in time, ended with their key."""

from __future__ import annotations

import pytest
from fastapi import Response

from ragsieve.service.access import LOCAL, Access, Principal
from ragsieve.service.keys import Role
from ragsieve.service.sessions import MOST_SESSIONS, Sessions, csrf_holds
from unit.service.making import key_file


class Clock:
    time = 0.0

    def __call__(self):
        return self.time


def made(keys=None, *, secure=False):
    clock = Clock()
    sessions = Sessions(Access(keys), idle_seconds=10, seconds=30, secure=secure, clock=clock)
    return sessions, clock


def cookie_of(response):
    line = response.headers["set-cookie"]
    return line.split(";")[0].split("=", 1)[1], line


def test_a_cookie_that_scripts_and_other_sites_cannot_use():
    sessions, _ = made(secure=True)
    response = Response()
    session = sessions.open(LOCAL, response)
    token, line = cookie_of(response)
    assert line.startswith("__Host-ragsieve=")
    for word in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"):
        assert word in line
    assert "Domain" not in line
    assert sessions.find(token) == session
    assert token not in str(vars(sessions))
    assert token != session.csrf
    assert len(token) >= 43


@pytest.mark.parametrize("token", [None, "", "x", "x" * 100_000, "\ud800"])
def test_no_other_cookie_opens(token):
    sessions, _ = made()
    sessions.open(LOCAL, Response())
    assert sessions.find(token) is None


def test_they_end_idle_and_end_anyway():
    sessions, clock = made()
    response = Response()
    sessions.open(LOCAL, response)
    token, _ = cookie_of(response)
    for clock.time in (9, 18, 27):
        assert sessions.find(token) is not None
    clock.time = 30
    assert sessions.find(token) is None
    assert len(sessions) == 0
    response = Response()
    sessions.open(LOCAL, response)
    token, _ = cookie_of(response)
    clock.time = 40
    assert sessions.find(token) is None


def test_they_end_with_their_key(tmp_path):
    keys = key_file(tmp_path)
    _, key = keys.add("a", Role.REVIEWER, tenant="acme")
    sessions, _ = made(keys)
    response = Response()
    sessions.open(Principal(key.id, key.name, key.role, key.tenant), response)
    token, _ = cookie_of(response)
    assert sessions.find(token).principal.tenant == "acme"
    keys.revoke(key.id)
    assert sessions.find(token) is None
    assert len(sessions) == 0


def test_the_local_users_session_ends_when_keys_come(tmp_path):
    keys = key_file(tmp_path)
    sessions, _ = made(keys)
    response = Response()
    sessions.open(LOCAL, response)
    token, _ = cookie_of(response)
    assert sessions.find(token).principal is LOCAL
    keys.add("a", Role.ADMIN)
    assert sessions.find(token) is None


def test_closing_ends_it():
    sessions, _ = made()
    response = Response()
    sessions.open(LOCAL, response)
    token, _ = cookie_of(response)
    gone = Response()
    sessions.close(token, gone)
    assert sessions.find(token) is None
    assert "Max-Age=0" in gone.headers["set-cookie"]


def test_there_are_never_too_many():
    sessions, _ = made()
    first = Response()
    sessions.open(LOCAL, first)
    for _ in range(MOST_SESSIONS):
        sessions.open(LOCAL, Response())
    assert len(sessions) == MOST_SESSIONS
    assert sessions.find(cookie_of(first)[0]) is None


def test_a_form_needs_the_sessions_own_token():
    sessions, _ = made()
    one, two = sessions.open(LOCAL, Response()), sessions.open(LOCAL, Response())
    assert csrf_holds(one, one.csrf)
    for given in (None, "", two.csrf, one.csrf[:-1], one.csrf + "x", "\ud800"):
        assert not csrf_holds(one, given)
