"""Ring 3: a panel of models answers side by side, and what most of them say counts."""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence

from ragsieve.errors import ConfigError, RagsieveError
from ragsieve.ports import ChatModel
from ragsieve.records import ChatMessage, ChatReply
from ragsieve.trishield.ballots import Ballot, MemberReply, count
from ragsieve.trishield.policy import ConsensusConfig, Mode
from ragsieve.trishield.replies import Standing, read_reply

_KEPT_CHARACTERS = 4_000


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One model of the panel.

    :param name: as it stands in traces.
    :param weight: of its vote, above 0.
    """

    name: str
    model: ChatModel
    weight: float = 1.0


class Panel:
    """Models that are asked the same and outvote one another.

    A member that fails, or says nothing that counts, abstains: it does not vote and its weight
    stays in the denominator, so that broken members can only keep the others from agreeing.

    :param members: at least one, each with its own name; the first answers where the panel is
        not asked.
    :param clock: seconds, for measuring.
    :raises ConfigError: for no member, a repeated name, or a weight that is not above 0.
    """

    def __init__(
        self,
        members: Sequence[Member],
        config: ConsensusConfig | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        names = [member.name for member in members]
        if not names or len(set(names)) < len(names):
            raise ConfigError(f"panel: expected members with names of their own, found {names}")
        for member in members:
            if not 0 < member.weight < math.inf:
                raise ConfigError(
                    f"panel: member {member.name!r}: weight must be above 0, found {member.weight}"
                )
        self.members = tuple(members)
        self.config = config or ConsensusConfig()
        self._clock = clock
        self._models = {member.name: str(member.model.identity) for member in members}

    def ask(self, messages: Sequence[ChatMessage], question: str) -> Ballot:
        """Ask every member in parallel and count; failures are abstentions."""
        replies = self._round(self.members, messages, question, self.config.max_words)
        return count(replies, question, self.config.threshold)

    def ask_alone(self, messages: Sequence[ChatMessage], question: str) -> Ballot:
        """Ask the first member alone, and the next where it fails and the policy is open.

        :returns: every reply that was tried; the last may have voted, and is never too long.
        """
        tried: list[MemberReply] = []
        for member in self.members:
            tried += self._round((member,), messages, question, None)
            if not tried[-1].standing.broken or self.config.on_member_failure == Mode.CLOSED:
                break
        counted = count(tried, question, self.config.threshold)
        return dataclasses.replace(counted, agreement=None, accepted=None)

    def _round(
        self,
        members: Sequence[Member],
        messages: Sequence[ChatMessage],
        question: str,
        max_words: int | None,
    ) -> list[MemberReply]:
        # Daemon threads rather than a pool: one that hangs must not hold up the process's end.
        done: queue.SimpleQueue[tuple[int, MemberReply]] = queue.SimpleQueue()
        start = self._clock()
        for place, member in enumerate(members):

            def call(place: int = place, member: Member = member) -> None:
                silent = self._silent(member, Standing.FAILED, "ended without a reply", start)
                try:
                    silent = self._reply(member, messages, question, max_words)
                finally:
                    done.put((place, silent))

            threading.Thread(target=call, name=f"panel {member.name}", daemon=True).start()
        found: dict[int, MemberReply] = {}
        deadline = time.monotonic() + self.config.timeout_seconds
        while len(found) < len(members):
            try:
                place, reply = done.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            found[place] = reply
        late = f"no reply within {self.config.timeout_seconds:g} seconds"
        return [
            found.get(place) or self._silent(member, Standing.TIMED_OUT, late, start)
            for place, member in enumerate(members)
        ]

    def _reply(
        self,
        member: Member,
        messages: Sequence[ChatMessage],
        question: str,
        max_words: int | None,
    ) -> MemberReply:
        start = self._clock()
        try:
            reply: object = member.model.reply(tuple(messages), max_tokens=self.config.max_tokens)
        except RagsieveError as error:
            return self._silent(member, Standing.FAILED, str(error) or "no reason given", start)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- whatever breaks a member is its abstention
            # The message of a foreign exception may hold a request's headers.
            return self._silent(member, Standing.FAILED, f"unexpected {_kind(error)}", start)
        if not isinstance(reply, ChatReply) or not isinstance(reply.content, str):
            return self._silent(member, Standing.FAILED, "the reply is not text", start)
        content = reply.content.encode("utf-8", "replace").decode("utf-8")
        reading = read_reply(content, question, max_words=max_words)
        return dataclasses.replace(
            self._silent(member, reading.standing, reading.reason, start),
            content=content[:_KEPT_CHARACTERS],
            words=reading.words,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
        )

    def _silent(
        self, member: Member, standing: Standing, reason: str | None, start: float
    ) -> MemberReply:
        seconds = self._clock() - start
        model = self._models[member.name]
        return MemberReply(member.name, model, member.weight, standing, seconds, reason=reason)


def _kind(error: BaseException) -> str:
    return type(error).__name__
