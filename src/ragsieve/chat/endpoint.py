"""A member: where a chat model is reached, and how patiently. It names its key and never holds it."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import re
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from ragsieve.errors import ConfigError

# Upper case alone, so that a key written here by mistake is refused and never shown.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_MOST_ATTEMPTS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """One chat model behind an OpenAI-compatible address.

    :param base_url: http or https, up to and with the version: ``https://host/v1``. Required,
        so that nothing is sent to an address nobody chose.
    :param model: as the server calls it.
    :param name: how traces and tables call the member; the model's where empty.
    :param family: models of one family err together; empty when nobody says.
    :param key_variable: NAME of the environment variable that holds the key; None for a server
        that asks for none.
    :param timeout_seconds: to connect, between two pieces of a reply, and for its whole body.
    :param attempts: requests for one reply at most.
    :param concurrency: requests at a time.
    :param temperature: sent as it is; anything above 0 makes replies vary.
    :param seed: sent when it is given.
    :param tokens_field: what the server calls the limit on a reply's tokens.
    :param revision: what stands behind the address where the address says little, as the hash of
        a local model's file; takes the address's place in the identity, so that a server on
        another port finds its journal.
    :param plain_http: let a key travel over http to another machine.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    base_url: str
    model: str
    name: str = ""
    family: str = ""
    key_variable: str | None = None
    timeout_seconds: float = 60.0
    attempts: int = 4
    concurrency: int = 4
    temperature: float = 0.0
    seed: int | None = None
    tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    revision: str | None = None
    plain_http: bool = False

    def __post_init__(self) -> None:
        _check_address(self.base_url)
        if not self.model:
            raise ConfigError("model: expected the name the server knows, found ''")
        if self.key_variable is not None and not _VARIABLE.fullmatch(self.key_variable):
            # What was found is not shown: it may be a key.
            raise ConfigError(
                "key_variable: expected the NAME of an environment variable in capitals, such as "
                "PROVIDER_KEY; the key itself belongs into that variable"
            )
        if not (self.timeout_seconds > 0 and math.isfinite(self.timeout_seconds)):
            raise ConfigError(
                f"timeout_seconds: expected a number above 0, found {self.timeout_seconds}"
            )
        if not 1 <= self.attempts <= _MOST_ATTEMPTS:
            raise ConfigError(f"attempts: expected 1 to {_MOST_ATTEMPTS}, found {self.attempts}")
        if self.concurrency < 1:
            raise ConfigError(f"concurrency: expected at least 1, found {self.concurrency}")
        if not 0 <= self.temperature <= 2:  # noqa: PLR2004 -- the protocol's range
            raise ConfigError(f"temperature: expected 0 to 2, found {self.temperature}")
        if self.tokens_field not in {"max_tokens", "max_completion_tokens"}:
            raise ConfigError(
                "tokens_field: expected max_tokens or max_completion_tokens, "
                f"found {self.tokens_field!r}"
            )
        plain = urlsplit(self.base_url).scheme == "http" and not self.loopback
        if plain and self.key_variable is not None and not self.plain_http:
            raise ConfigError(
                f"base_url: {self.base_url} would carry the key in clear text to another machine; "
                "use https, or set plain_http = true where the network is yours"
            )

    @property
    def title(self) -> str:
        """The name, or the model where there is none."""
        return self.name or self.model

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        host = urlsplit(self.base_url).hostname or ""
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def identity(self) -> str:
        """Whatever changes the replies: model, server, temperature, seed."""
        place = self.base_url.rstrip("/") if self.revision is None else f"revision {self.revision}"
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.model} at {place}, temperature {self.temperature:g}{seed}"


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable or any(not 33 <= ord(sign) < 127 for sign in url):  # noqa: PLR2004 -- visible ASCII
        raise ConfigError(
            "base_url: expected an address such as https://host/v1 or http://127.0.0.1:8080/v1"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Not shown: that is where addresses hold secrets.
        raise ConfigError(
            "base_url: expected an address without user, password, query or fragment; "
            "name a key's variable in key_variable"
        )
