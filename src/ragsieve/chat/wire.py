"""The HTTP client under the chat port: what leaves, where it may go, how much may come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ragsieve._extras import require
from ragsieve.chat.endpoint import ChatEndpoint

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

LARGEST_BYTES = 4 * 2**20
"""Most bytes of a server's reply that are read."""

_SENT = frozenset(
    "host connection accept accept-encoding user-agent content-type content-length".split()
)


class OversizedReplyError(Exception):
    """A reply larger than :data:`LARGEST_BYTES`, or one packed so that its size cannot be known."""


def guarded_client(endpoint: ChatEndpoint, key: SecretStr | None) -> httpx2.Client:
    """A client that sends the named headers alone, follows no redirect and reads no endless reply.

    The ``openai`` client adds headers about this machine and whatever ``OPENAI_*`` variables say,
    which is meant for one provider and none of any other member's business; they are dropped
    here. The key enters a request at the last moment and is held nowhere else. On loopback
    proxies from the environment are not asked.

    :raises MissingExtraError: when extra ``chat`` is not installed.
    """
    require("httpx2", extra="chat")
    import httpx2

    return httpx2.Client(
        timeout=endpoint.timeout_seconds,
        follow_redirects=False,
        trust_env=not endpoint.loopback,
        event_hooks={"request": [_outgoing(key)], "response": [_incoming(endpoint)]},
    )


def _outgoing(key: SecretStr | None) -> Callable[[httpx2.Request], None]:
    import httpx2

    def change(request: httpx2.Request) -> None:
        kept = {name: value for name, value in request.headers.items() if name in _SENT}
        kept |= {"accept": "application/json", "accept-encoding": "identity"}
        kept["user-agent"] = "ragsieve"
        if key is not None:
            kept["authorization"] = f"Bearer {key.get_secret_value()}"
        request.headers = httpx2.Headers(kept)

    return change


def _incoming(endpoint: ChatEndpoint) -> Callable[[httpx2.Response], None]:
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __init__(self, stream: httpx2.SyncByteStream, request: httpx2.Request) -> None:
            self._stream = stream
            self._request = request

        def __iter__(self) -> Iterator[bytes]:
            left = LARGEST_BYTES
            deadline = time.monotonic() + endpoint.timeout_seconds
            for piece in self._stream:
                left -= len(piece)
                if left < 0:
                    raise OversizedReplyError
                # A server that sends a byte now and then would never run into the read timeout.
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("the body took too long", request=self._request)
                yield piece

        def close(self) -> None:
            self._stream.close()

    def change(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise OversizedReplyError
        # JSON is UTF-8; the charset a server claims may be a codec that unpacks.
        response.encoding = "utf-8"
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = Bounded(response.stream, response.request)

    return change
