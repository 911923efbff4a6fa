"""The chat port over the OpenAI-compatible protocol: bounded repeats, safe reasons, no keys."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ragsieve._extras import require
from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.protocol import Failure, read_refusal, read_reply, shown, valid
from ragsieve.chat.usage import Meter, Usage
from ragsieve.chat.wire import LARGEST_BYTES, OversizedReplyError, guarded_client
from ragsieve.display import visible
from ragsieve.errors import BackendError, ConfigError
from ragsieve.records import ChatMessage, ChatReply

if TYPE_CHECKING:
    from pydantic import SecretStr

LONGEST_WAIT_SECONDS = 60.0
"""A server that asks for a longer pause gets no further request."""

_FIRST_WAIT_SECONDS = 0.5
_SECRET = 8  # shorter keys are the placeholders of servers without keys


class OpenAIChat:
    """One member, reached through the ``openai`` client; several threads may ask.

    Repeated are timeouts, broken connections, 408, 429 and 5xx, at most ``endpoint.attempts``
    times in all, after twice the last pause with jitter or after what Retry-After asks for. The
    client's own repeats are off, so that each one is counted. Every failure is a BackendError
    whose reason is short, without control characters and without the key; the client's
    exceptions are not chained, since they hold the request with its key.

    :param key: of ``endpoint.key_variable``; see :func:`ragsieve.settings.api_key`.
    :param sleep: called with seconds between attempts.
    :raises MissingExtraError: when extra ``chat`` is not installed.
    :raises ConfigError: for a key that no header can carry.
    """

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        key: SecretStr | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        require("openai", extra="chat")
        import openai

        secret = "" if key is None else key.get_secret_value()
        if any(not 33 <= ord(sign) < 127 for sign in secret):  # noqa: PLR2004 -- visible ASCII
            raise ConfigError(
                f"{endpoint.key_variable or endpoint.title}: expected a key of visible ASCII "
                "characters; set the variable again, without spaces or line breaks"
            )
        self.endpoint = endpoint
        self._key = key
        self._sleep = sleep
        self._meter = Meter()
        self._slots = threading.BoundedSemaphore(endpoint.concurrency)
        wire = guarded_client(endpoint, key)
        # The key is set by the wire; what the client would read from OPENAI_API_KEY is not wanted.
        self._client = openai.OpenAI(
            base_url=endpoint.base_url,
            api_key="unused",
            max_retries=0,
            timeout=endpoint.timeout_seconds,
            http_client=wire,
        )
        self._closed = weakref.finalize(self, wire.close)

    @property
    def identity(self) -> str:
        """The endpoint's."""
        return self.endpoint.identity

    @property
    def usage(self) -> Usage:
        """What was asked so far and what it cost."""
        return self._meter.usage

    def reply(self, messages: Sequence[ChatMessage], *, max_tokens: int) -> ChatReply:
        """One reply.

        :raises BackendError: when there is none; names the member, the reason and the attempts.
        """
        with self._slots:
            start = time.perf_counter()
            found: ChatReply | Failure = Failure("interrupted")
            requests = 0
            try:
                found, requests = self._repeated(messages, max_tokens)
            finally:
                reply = found if isinstance(found, ChatReply) else None
                spent = time.perf_counter() - start
                self._meter.add(reply, requests=requests, seconds=spent)
        if isinstance(found, ChatReply):
            return dataclasses.replace(found, seconds=spent)
        tries = "" if requests == 1 else f" ({requests} attempts)"
        raise BackendError(
            f"chat model {visible(self.endpoint.title)} at {self.endpoint.base_url}: "
            f"{found.reason}{tries}"
        )

    def close(self) -> None:
        """Close the connections; it cannot be asked any more."""
        self._closed()

    def __repr__(self) -> str:
        return f"OpenAIChat({self.endpoint.title!r}, {self.identity!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("OpenAIChat holds a key and is not copied; hand on its endpoint")

    def _repeated(
        self, messages: Sequence[ChatMessage], max_tokens: int
    ) -> tuple[ChatReply | Failure, int]:
        for attempt in range(1, self.endpoint.attempts + 1):
            found = self._once(messages, max_tokens)
            if isinstance(found, ChatReply) or not found.again:
                break
            wait = found.wait_seconds
            if wait is not None and wait > LONGEST_WAIT_SECONDS:
                words = f"{found.reason}; it asks to wait {wait:,.0f} s, which is too long"
                return Failure(words), attempt
            if attempt < self.endpoint.attempts:
                self._sleep(_pause(attempt) if wait is None else wait)
        return found, attempt

    def _once(self, messages: Sequence[ChatMessage], max_tokens: int) -> ChatReply | Failure:
        import httpx2
        import openai

        asked: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [{"role": one.role, "content": valid(one.content)} for one in messages],
            "temperature": self.endpoint.temperature,
            self.endpoint.tokens_field: max_tokens,
        }
        if self.endpoint.seed is not None:
            asked["seed"] = self.endpoint.seed
        try:
            # As bytes: the client's own reading takes any shape for a completion.
            raw = self._client.post("/chat/completions", cast_to=httpx2.Response, body=asked)
            kind = raw.headers.get("content-type", "")
            return read_reply(raw.content, kind, self._without_key)
        except openai.APITimeoutError:
            return Failure(f"no reply within {self.endpoint.timeout_seconds:g} s", again=True)
        except openai.APIConnectionError as error:
            why = shown(str(error.__cause__ or error), self._without_key)
            return Failure(f"no connection ({why})", again=True)
        except openai.APIStatusError as error:
            said = error.response
            return read_refusal(said.status_code, said.headers, said.text, self._without_key)
        except OversizedReplyError:
            return Failure(f"the reply is larger than {LARGEST_BYTES:,} bytes, or compressed")
        except Exception as error:  # noqa: BLE001 -- a server's bytes may break anything on the way
            return Failure(f"the client failed ({type(error).__name__})")

    def _without_key(self, words: str) -> str:
        """Servers repeat what they were sent, headers too."""
        secret = "" if self._key is None else self._key.get_secret_value()
        return words.replace(secret, "[key]") if len(secret) >= _SECRET else words


def _pause(attempt: int) -> float:
    """Seconds before the attempt after this one: doubled each time, the second half at random."""
    full = min(LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1))
    return full * random.SystemRandom().uniform(0.5, 1.0)
