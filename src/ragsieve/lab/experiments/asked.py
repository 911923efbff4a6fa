"""Chat models whose replies are counted, so that every answer knows what it cost."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from ragsieve.errors import BackendError, RagsieveError
from ragsieve.ports import ChatModel
from ragsieve.records import ChatMessage, ChatReply

# As the chat room and llama.cpp word it.
_SETTLED = ("the reply is empty", "exceeds the available context size")


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """What the replies to one question cost.

    :param seconds: sum over the replies, of members that are asked side by side too; a reply
        that was kept counts what it took when it was asked.
    :param prompt_tokens: over the replies whose server counted; None, as ``completion_tokens``,
        when none did.
    """

    calls: int
    seconds: float
    prompt_tokens: int | None
    completion_tokens: int | None


class Bill:
    """Members whose replies are counted until somebody settles; several threads may ask.

    :param members: by name, the one that answers alone first.
    """

    def __init__(self, members: Mapping[str, ChatModel]) -> None:
        self._replies: list[ChatReply] = []
        self._failures: list[str] = []
        self.members: dict[str, ChatModel] = {
            name: _Counted(name, chat, self._replies, self._failures)
            for name, chat in members.items()
        }

    @property
    def first(self) -> ChatModel:
        """The member that answers alone."""
        return next(iter(self.members.values()))

    def settle(self) -> Spent:
        """The cost since the last time.

        :raises BackendError: when a member failed: an outage is no abstention, and the cell it
            falls into is to be run again.
        """
        replies, failures = tuple(self._replies), tuple(self._failures)
        self._replies.clear()
        self._failures.clear()
        if failures:
            raise BackendError(failures[0])
        return Spent(
            calls=len(replies),
            seconds=sum(one.seconds or 0.0 for one in replies),
            prompt_tokens=_sum([one.prompt_tokens for one in replies]),
            completion_tokens=_sum([one.completion_tokens for one in replies]),
        )


class _Counted:
    def __init__(
        self, name: str, chat: ChatModel, replies: list[ChatReply], failures: list[str]
    ) -> None:
        self._name = name
        self._chat = chat
        self._replies = replies
        self._failures = failures

    @property
    def identity(self) -> str:
        return self._chat.identity

    def reply(self, messages: Sequence[ChatMessage], *, max_tokens: int) -> ChatReply:
        start = time.perf_counter()
        try:
            reply = self._chat.reply(messages, max_tokens=max_tokens)
        except Exception as error:
            # A panel turns whatever is raised into an abstention.
            words = str(error) if isinstance(error, RagsieveError) else type(error).__name__
            self._failures.append(f"{self._name}: {words}")
            raise
        spent = time.perf_counter() - start if reply.seconds is None else reply.seconds
        self._replies.append(dataclasses.replace(reply, seconds=spent))
        return reply


class SettledChat:
    """A chat model whose silence is a reply where it will be silent every time.

    That is an empty reply, and a prompt longer than the model can take: the member says nothing,
    once and for all, so that a journal may keep it. An outage is another matter and is raised.
    """

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def identity(self) -> str:
        """The model's."""
        return self._chat.identity

    def reply(self, messages: Sequence[ChatMessage], *, max_tokens: int) -> ChatReply:
        """The model's reply, or one without a word; tokens are unknown then.

        :raises BackendError: when there is none.
        """
        start = time.perf_counter()
        try:
            return self._chat.reply(messages, max_tokens=max_tokens)
        except BackendError as error:
            if not any(words in str(error) for words in _SETTLED):
                raise
            return ChatReply("", seconds=time.perf_counter() - start)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
