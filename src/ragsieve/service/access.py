"""Who asks, and whether they may: keys, roles, tenants; this machine's own user without keys."""

from __future__ import annotations

import dataclasses
import ipaddress
import logging
import urllib.parse
from collections.abc import Awaitable, Callable

from fastapi import Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ragsieve.errors import InputError
from ragsieve.service.keys import ApiKey, KeyFile, Role
from ragsieve.service.problems import Refused, problem_response

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
DESK = "/desk"
_BEARER = HTTPBearer(auto_error=False, description="A key from `ragsieve keys add`.")

log = logging.getLogger("ragsieve.service")


@dataclasses.dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    :param key_id: None for the user of this machine, where there are no keys.
    :param tenant: whose collections are seen; None for all.
    """

    key_id: str | None
    name: str
    role: Role
    tenant: str | None = None

    def may(self, *roles: Role) -> bool:
        """Whether one of the roles is held; an admin holds all."""
        return self.role is Role.ADMIN or self.role in roles

    def sees(self, tenant: str | None) -> bool:
        """Whether something that a tenant owns is shown."""
        return self.tenant is None or self.tenant == tenant


LOCAL = Principal(None, "local", Role.ADMIN)


class Access:
    """Decides who asks.

    Once keys were there, nothing is open without one, even when the file is gone.

    :param keys: None for a service of this machine alone.
    """

    def __init__(self, keys: KeyFile | None) -> None:
        self._keys = keys
        self._keyed = False

    @property
    def keyed(self) -> bool:
        """Whether a key is needed.

        :raises InputError: when the keys cannot be read.
        """
        if self._keys is not None and not self._keyed:
            self._keyed = bool(self._keys.keys())
        return self._keyed

    def of_token(self, token: str) -> Principal | None:
        """Who holds a token; None for a stranger.

        :raises InputError: when the keys cannot be read.
        """
        key = None if self._keys is None else self._keys.find(token)
        return None if key is None else _principal(key)

    def of_key(self, key_id: str | None) -> Principal | None:
        """Who holds the key of that id, as long as it is active; for sessions.

        :param key_id: None for the local user, who is one only while there are no keys.
        :raises InputError: when the keys cannot be read.
        """
        if key_id is None:
            return None if self.keyed else LOCAL
        key = None if self._keys is None else self._keys.active(key_id)
        return None if key is None else _principal(key)


class AccessMiddleware:
    """Turns strangers away before their body is read.

    Without keys only this machine is served, under its own names: a page that had its name
    resolved to this address cannot ask, nor can one of another origin.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve with ``scope["state"]["principal"]``, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope.setdefault("state", {})["principal"] = self._admit(scope)
        except Refused as error:
            response = problem_response(error.status, error.detail, headers=error.headers)
            await response(scope, receive, send)
            return
        except InputError:
            log.error("the keys cannot be read; nobody is let in")  # noqa: TRY400 -- no text
            response = problem_response(503, "keys cannot be checked at present")
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Principal | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._access.keyed:
            _check_local(scope, headers)
            return LOCAL
        if path in OPEN_PATHS or path == DESK or path.startswith(f"{DESK}/"):
            return None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        found = self._access.of_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Refused(
                401,
                "expected a valid key: Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found


def require(*roles: Role) -> Callable[..., Awaitable[Principal]]:
    """A dependency: who asks, if one of the roles is held."""

    async def held(request: Request, _bearer: object = Security(_BEARER)) -> Principal:
        found: Principal | None = request.scope["state"].get("principal")
        if found is None:
            raise Refused(401, "expected a valid key", headers={"WWW-Authenticate": "Bearer"})
        if not found.may(*roles):
            raise Refused(403, f"this needs a key of role {' or '.join(roles)}")
        return found

    return held


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_local(scope: Scope, headers: Headers) -> None:
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        raise Refused(403, "without keys only this machine is served; `ragsieve keys add`")
    if not is_loopback(_host_of(f"//{headers.get('host', '')}")):
        raise Refused(403, "without keys the service is called localhost or 127.0.0.1")
    origin = headers.get("origin")
    elsewhere = headers.get("sec-fetch-site") in {"cross-site", "same-site"}
    if elsewhere or (origin is not None and not is_loopback(_host_of(origin))):
        raise Refused(403, "a page of another origin may not ask without a key")


def _host_of(address: str) -> str:
    try:
        return urllib.parse.urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _principal(key: ApiKey) -> Principal:
    return Principal(key.id, key.name, key.role, key.tenant)
