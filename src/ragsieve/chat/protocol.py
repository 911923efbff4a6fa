"""What a server's bytes say under the OpenAI-compatible protocol: a reply, or why there is none."""

from __future__ import annotations

import dataclasses
import email.utils
import json
import math
import time
from collections.abc import Callable, Mapping

from ragsieve.display import visible
from ragsieve.records import ChatReply

_TIMEOUT_STATUS, _RATE_STATUS, _SERVER_STATUS = 408, 429, 500
_REDIRECTS = range(300, 400)
_SHOWN = 200  # characters of a server's message
_MOST_TOKENS = 2**53


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Why one request gave no reply.

    :param reason: short and safe to show.
    :param again: whether the same request may succeed later.
    :param wait_seconds: the server's wish; None where it has none.
    """

    reason: str
    again: bool = False
    wait_seconds: float | None = None


def read_reply(body: bytes, kind: str, clean: Callable[[str], str]) -> ChatReply | Failure:
    """The first choice of a completion.

    :param kind: the content type.
    :param clean: takes secrets out of a server's words.
    """
    if kind and "json" not in kind.partition(";")[0]:
        return Failure(f"expected JSON, found content type {shown(kind, clean)!r}")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return Failure("the reply is malformed JSON")
    choices = fields.get("choices") if isinstance(fields, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        said = shown(_message_in(fields), clean)
        return Failure("the reply holds no choices" + (f": {said}" if said else ""))
    content = _content_of(choices[0])
    if isinstance(content, Failure):
        return content
    usage = fields.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return ChatReply(
        clean(valid(content)),
        _count(counts.get("prompt_tokens")),
        _count(counts.get("completion_tokens")),
    )


def read_refusal(
    status: int, headers: Mapping[str, str], body: str, clean: Callable[[str], str]
) -> Failure:
    """What a status other than success means."""
    if status in _REDIRECTS:
        return Failure(
            f"HTTP {status}: the server sends requests elsewhere, which are not followed; "
            "set base_url to where it answers"
        )
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    said = shown(_message_in(fields), clean)
    reason = f"HTTP {status}" + (f": {said}" if said else "")
    again = status in {_TIMEOUT_STATUS, _RATE_STATUS} or status >= _SERVER_STATUS
    return Failure(reason, again, _retry_after(headers.get("retry-after")))


def valid(text: str) -> str:
    """Without lone surrogates, which no server accepts and no file takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shown(words: str, clean: Callable[[str], str]) -> str:
    """Foreign words for a reason: without secrets, cut, nothing invisible."""
    return visible(clean(words), limit=_SHOWN).strip()


def _retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which gives seconds or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _message_in(fields: object) -> str:
    """A server's own words about an error, in any of the usual places."""
    for _ in range(2):
        if isinstance(fields, dict):
            fields = fields.get("error") or fields.get("message") or fields.get("detail") or ""
    return fields if isinstance(fields, str) else ""


def _content_of(choice: Mapping[str, object]) -> str | Failure:
    message, ended = choice.get("message"), choice.get("finish_reason")
    content = message.get("content") if isinstance(message, dict) else None
    if ended == "content_filter":
        return Failure("stopped by the server's content filter (content_filter)")
    if content is not None and not isinstance(content, str):
        return Failure("the reply's content is not text")
    if content is None or not content.strip():
        cut = ", cut at the limit of tokens" if ended == "length" else ""
        return Failure(f"the reply is empty{cut}")
    return content


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST_TOKENS else None
