"""Sessions of the desk: a random cookie made from a key, and a token that forms must send back."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi import Response

from ragsieve.service.access import Access, Principal

FORM_FIELD = "csrf"
HEADER = "x-csrf-token"
MOST_SESSIONS = 1_000
_BYTES = 32
_LONGEST = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """Somebody at the desk.

    :param principal: as of now; a revoked key ends its sessions.
    :param csrf: what each of its forms must send, as field ``csrf`` or header X-CSRF-Token.
    """

    principal: Principal
    csrf: str


@dataclasses.dataclass(slots=True)
class _Kept:
    key_id: str | None
    csrf: str
    opened: float
    used: float


class Sessions:
    """Sessions in memory, by the hash of their cookie; they end with the process.

    :param access: asked each time whether the key is still active.
    :param secure: whether the cookie goes over TLS alone; it then has a host's own name.
    :param clock: seconds that only grow.
    """

    def __init__(
        self,
        access: Access,
        *,
        idle_seconds: float,
        seconds: float,
        secure: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._idle, self._longest, self._secure = idle_seconds, seconds, secure
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def cookie(self) -> str:
        """The cookie's name."""
        return "__Host-ragsieve" if self._secure else "ragsieve"

    def __len__(self) -> int:
        return len(self._kept)

    def open(self, principal: Principal, response: Response) -> Session:
        """Begin a session and set its cookie; the longest unused one ends when there are many."""
        token, csrf, now = (
            secrets.token_urlsafe(_BYTES),
            secrets.token_urlsafe(_BYTES),
            self._clock(),
        )
        with self._lock:
            self._kept[_hash(token)] = _Kept(principal.key_id, csrf, now, now)
            while len(self._kept) > MOST_SESSIONS:
                self._kept.popitem(last=False)
        response.set_cookie(
            self.cookie,
            token,
            max_age=int(self._longest),
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )
        return Session(principal, csrf)

    def find(self, token: str | None) -> Session | None:
        """The session of a cookie; None when there is none, it ended, or its key did.

        :raises InputError: when the keys cannot be read.
        """
        if not token:
            return None
        name, now = _hash(token[:_LONGEST]), self._clock()
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                return None
            if now - kept.used >= self._idle or now - kept.opened >= self._longest:
                del self._kept[name]
                return None
            kept.used = now
            self._kept.move_to_end(name)
        principal = self._access.of_key(kept.key_id)
        if principal is None:
            with self._lock:
                self._kept.pop(name, None)
            return None
        return Session(principal, kept.csrf)

    def close(self, token: str | None, response: Response) -> None:
        """End a session and its cookie."""
        if token:
            with self._lock:
                self._kept.pop(_hash(token[:_LONGEST]), None)
        response.delete_cookie(
            self.cookie, path="/", secure=self._secure, httponly=True, samesite="strict"
        )


def csrf_holds(session: Session, given: str | None) -> bool:
    """Whether a form was made for this session; compared in constant time."""
    sent = (given or "")[:_LONGEST].encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sent, session.csrf.encode())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
