"""Replies, counted: who says the same, and how heavy the largest group is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ragsieve.chat.answers import normalized
from ragsieve.trishield.replies import Standing, agree

_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class MemberReply:
    """What one member said, how it counts, and what it cost.

    :param model: the member's model, as it names itself.
    :param content: at most its first 4,000 characters; None when there was no reply.
    :param words: the normalised words that vote; empty when it does not vote.
    :param reason: why it does not vote; None when it does.
    :param prompt_tokens: as counted by the server; None when it did not say.
    """

    member: str
    model: str
    weight: float
    standing: Standing
    seconds: float
    content: str | None = None
    words: tuple[str, ...] = ()
    reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Members that say the same.

    :param answer: the reply most of their weight gave, the shortest of equals, as written.
    """

    answer: str
    members: tuple[str, ...]
    weight: float


@dataclasses.dataclass(frozen=True, slots=True)
class Ballot:
    """One round of replies, counted.

    :param groups: heaviest first, equals in the panel's order.
    :param asked_weight: of all members asked, voting or not.
    :param agreement: share of the heaviest group in it; None when one member answered alone.
    :param threshold: share that was needed.
    :param accepted: whether it was reached; None when one member answered alone.
    :param tied: whether another group is as heavy as the first.
    """

    replies: tuple[MemberReply, ...]
    groups: tuple[Group, ...]
    asked_weight: float
    agreement: float | None
    threshold: float
    accepted: bool | None
    tied: bool

    @property
    def answer(self) -> str | None:
        """The heaviest group's answer; None when nobody voted."""
        return self.groups[0].answer if self.groups else None

    @property
    def broken(self) -> bool:
        """Whether no member gave any reply."""
        return all(reply.standing.broken for reply in self.replies)


def count(replies: Sequence[MemberReply], question: str, threshold: float) -> Ballot:
    """Group the voting replies and weigh the groups against all members asked.

    Replies are a group when they agree with one another and with the same replies beyond. One
    that agrees with two that do not agree with each other belongs to neither, so that a short or
    a sweeping reply brings no two answers together.

    :param replies: of every member asked, in the panel's order.
    """
    voters = [reply for reply in replies if reply.standing is Standing.ANSWERED]
    asked = sum(reply.weight for reply in replies)
    groups = tuple(sorted(_groups(voters, question), key=lambda group: -group.weight))
    agreement = groups[0].weight / asked if groups else 0.0
    return Ballot(
        replies=tuple(replies),
        groups=groups,
        asked_weight=asked,
        agreement=agreement,
        threshold=threshold,
        accepted=bool(groups) and agreement >= threshold - _ROUNDING,
        tied=len(groups) > 1 and groups[1].weight >= groups[0].weight - _ROUNDING,
    )


def _groups(voters: Sequence[MemberReply], question: str) -> list[Group]:
    asked = frozenset(normalized(question).split())
    answers = list(dict.fromkeys(reply.words for reply in voters))
    # Equal neighbourhoods, the answer itself included, are groups in which all agree with all.
    homes = {
        one: frozenset(other for other in answers if agree(one, other, asked)) for one in answers
    }
    found = []
    for home in dict.fromkeys(homes.values()):
        members = [reply for reply in voters if homes[reply.words] == home]
        names = tuple(reply.member for reply in members)
        found.append(Group(_spoken(members), names, sum(reply.weight for reply in members)))
    return found


def _spoken(members: Sequence[MemberReply]) -> str:
    weights: dict[tuple[str, ...], float] = {}
    for reply in members:
        weights[reply.words] = weights.get(reply.words, 0.0) + reply.weight
    best = min(weights, key=lambda words: (-weights[words], len(words)))
    written = next(reply.content for reply in members if reply.words == best)
    return (written or "").strip()
