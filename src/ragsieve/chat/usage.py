"""What a member's replies have cost so far."""

from __future__ import annotations

import dataclasses
import threading

from ragsieve.records import ChatReply


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Sums over the calls of one member.

    :param calls: replies asked for, whatever came of it.
    :param failed_calls: of these, without a reply in the end.
    :param retries: requests beyond the first of a call.
    :param prompt_tokens: as the server counted them, over the replies it counted.
    :param uncounted_calls: replies without a count; the token sums are lower bounds where there
        are any.
    :param seconds: from a call's first request to its end, waits included, summed over calls.
    """

    calls: int = 0
    failed_calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted_calls: int = 0
    seconds: float = 0.0


class Meter:
    """Adds up a :class:`Usage`; several threads may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sum = Usage()

    @property
    def usage(self) -> Usage:
        """So far."""
        return self._sum

    def add(self, reply: ChatReply | None, *, requests: int, seconds: float) -> None:
        """One call that ended.

        :param reply: None when there was none.
        """
        prompt = None if reply is None else reply.prompt_tokens
        completion = None if reply is None else reply.completion_tokens
        uncounted = reply is not None and (prompt is None or completion is None)
        with self._lock:
            before = self._sum
            self._sum = Usage(
                calls=before.calls + 1,
                failed_calls=before.failed_calls + (reply is None),
                retries=before.retries + max(0, requests - 1),
                prompt_tokens=before.prompt_tokens + (prompt or 0),
                completion_tokens=before.completion_tokens + (completion or 0),
                uncounted_calls=before.uncounted_calls + uncounted,
                seconds=before.seconds + seconds,
            )
