"""Keys of the service: shown once, kept as hashes, in one file that is replaced whole."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragsieve._atomic import replacing
from ragsieve.errors import ConfigError, InputError, OutputError

FORMAT = 1
PREFIX = "ragsieve_"
LONGEST_NAME = 100
_TOKEN_BYTES = 32
_LONGEST_TOKEN = 200
_TIMES = ("created", "expires", "revoked")


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Role(enum.StrEnum):
    """What a key may do."""

    SERVICE = "service"
    REVIEWER = "reviewer"
    ADMIN = "admin"


@dataclasses.dataclass(frozen=True, slots=True)
class ApiKey:
    """One key, without the token that opens.

    :param id: names it in logs and commands; opens nothing.
    :param tenant: whose collections it sees; None for all.
    :param sha256: of the token, hexadecimal. The token is 256 random bits, so that a plain hash
        cannot be turned round.
    """

    id: str
    name: str
    role: Role
    tenant: str | None
    sha256: str
    created: datetime.datetime
    expires: datetime.datetime | None = None
    revoked: datetime.datetime | None = None

    def active(self, now: datetime.datetime) -> bool:
        """Whether it opens anything."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class KeyFile:
    """The keys of a file, read anew when it changes; may be shared between threads.

    :param now: the time, with a zone.
    """

    def __init__(self, path: Path, *, now: Callable[[], datetime.datetime] = _utc_now) -> None:
        self.path = path
        self._now = now
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._keys: tuple[ApiKey, ...] = ()

    def keys(self) -> tuple[ApiKey, ...]:
        """Every key, revoked and expired ones too; none where there is no file.

        :raises InputError: when the file cannot be read or is damaged.
        """
        with self._lock:
            try:
                found = self.path.stat()
            except FileNotFoundError:
                self._stamp, self._keys = None, ()
                return ()
            except OSError as error:
                raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._keys = _read(self.path)
                self._stamp = stamp
            return self._keys

    def any_active(self) -> bool:
        """Whether one of them opens anything."""
        now = self._now()
        return any(key.active(now) for key in self.keys())

    def find(self, token: str) -> ApiKey | None:
        """The active key that a token opens with; every key is compared, in constant time."""
        # Hashing has no use for what no key can be.
        given = _hash(token[:_LONGEST_TOKEN])
        now, found = self._now(), None
        for key in self.keys():
            if hmac.compare_digest(key.sha256, given) and key.active(now):
                found = key
        return found

    def active(self, key_id: str) -> ApiKey | None:
        """The active key called so."""
        now = self._now()
        return next((key for key in self.keys() if key.id == key_id and key.active(now)), None)

    def add(
        self,
        name: str,
        role: Role,
        *,
        tenant: str | None = None,
        lifetime: datetime.timedelta | None = None,
    ) -> tuple[str, ApiKey]:
        """Make a key.

        :returns: its token, which is nowhere else, and the key.
        :raises ConfigError: for an empty name, one too long or one that an active key has.
        :raises OutputError: when the file cannot be written.
        """
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise ConfigError(f"name: expected 1 to {LONGEST_NAME} printable characters")
        if tenant is not None and not (tenant.strip() and tenant.isprintable()):
            raise ConfigError("tenant: expected printable characters, found none")
        if lifetime is not None and lifetime <= datetime.timedelta(0):
            raise ConfigError("expires: expected a time that is still to come")
        token = PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._now()
        key = ApiKey(
            id=secrets.token_hex(6),
            name=name,
            role=role,
            tenant=tenant,
            sha256=_hash(token),
            created=now,
            expires=None if lifetime is None else now + lifetime,
        )
        with self._changing() as keys:
            if any(one.name == name and one.active(now) for one in keys):
                raise ConfigError(f"name: {name!r} is that of an active key; revoke it first")
            keys.append(key)
        return token, key

    def revoke(self, key_id: str) -> ApiKey:
        """End a key for good.

        :raises InputError: when there is no such key.
        :raises OutputError: when the file cannot be written.
        """
        with self._changing() as keys:
            for place, key in enumerate(keys):
                if key.id == key_id:
                    keys[place] = dataclasses.replace(key, revoked=key.revoked or self._now())
                    return keys[place]
            raise InputError(f"{self.path}: no key has the id {key_id!r}; `ragsieve keys list`")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[ApiKey]]:
        """The keys to be changed, one process at a time."""
        import fcntl

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_name(self.path.name + ".lock").open("ab")
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written ({error.strerror})") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys = list(self.keys())
            yield keys
            mode = self.path.stat().st_mode & 0o777 if self.path.exists() else 0o600
            with replacing(self.path) as handle:
                handle.write(_written(keys))
            self.path.chmod(mode)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _written(keys: list[ApiKey]) -> bytes:
    rows = []
    for key in keys:
        row = dataclasses.asdict(key)
        for field in _TIMES:
            row[field] = None if row[field] is None else row[field].isoformat()
        rows.append(row)
    return (json.dumps({"format": FORMAT, "keys": rows}, indent=1) + "\n").encode()


def _read(path: Path) -> tuple[ApiKey, ...]:
    try:
        return _keys(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: expected the keys that `ragsieve keys add` writes "
            f"({type(error).__name__}); restore the file or move it away"
        ) from error


def _keys(found: dict[str, Any]) -> tuple[ApiKey, ...]:
    if found["format"] != FORMAT:
        raise ValueError(f"format {found['format']!r}, expected {FORMAT}")
    return tuple(_key(row) for row in found["keys"])


def _key(row: dict[str, Any]) -> ApiKey:
    times = {
        field: None if row[field] is None else datetime.datetime.fromisoformat(row[field])
        for field in _TIMES
    }
    if times["created"] is None or not all(one is None or one.tzinfo for one in times.values()):
        raise ValueError("a time without its zone")
    return ApiKey(**{**row, **times, "role": Role(row["role"])})
