"""The false passages that constructions carry: from a file, a chat model, or own templates."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from ragsieve.errors import InputError
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison import _frames as frames
from ragsieve.lab.poison._texts import (
    capitalised,
    contains,
    holds_truth,
    kind_of_answer,
    parts_of,
    topic_of,
)
from ragsieve.ports import ChatModel
from ragsieve.records import ChatMessage

MOST_WORDS = 30
_MOST_TOKENS = 120
_TRIES_A_PAYLOAD = 3
# Replies come at temperature 0: only another request gives another wording.
_MANNERS = (
    "an encyclopaedia entry",
    "a newspaper paragraph",
    "a textbook remark",
    "a museum label",
    "a forum reply",
    "an almanac line",
    "a book review",
    "a press release",
    "a lecture note",
    "a travel guide",
)


class PayloadSource(enum.StrEnum):
    """Who wrote a payload."""

    FILE = "file"
    CHAT = "chat"
    TEMPLATE = "template"


@dataclasses.dataclass(frozen=True, slots=True)
class Payloads:
    """False passages for one target, all distinct and valid.

    :param sources: who wrote each of ``texts``.
    :param discarded: passages that were refused.
    """

    texts: tuple[str, ...]
    sources: tuple[PayloadSource, ...]
    discarded: int


def payload_problem(text: str, target: Target) -> str | None:
    """Why a passage cannot serve: it lacks the lie or holds the truth; None when it can."""
    if not contains(text, target.target_answer):
        return "lacks the target answer"
    if holds_truth(text, target.correct_answers, target.target_answer):
        return "contains a correct answer"
    return None


def payloads_for(
    target: Target, count: int, rng: np.random.Generator, chat: ChatModel | None = None
) -> Payloads:
    """``count`` payloads: the target's own first, then a chat model's, then from templates.

    :raises InputError: when the templates cannot fill what is missing, which happens when
        the question itself holds a correct answer.
    :raises BackendError: when the chat model fails.
    """
    texts: list[str] = []
    sources: list[PayloadSource] = []
    discarded = 0
    offers: list[tuple[PayloadSource, Iterator[str]]] = [
        (PayloadSource.FILE, iter(target.payloads))
    ]
    if chat is not None:
        offers.append((PayloadSource.CHAT, _asked(target, count, chat)))
    offers.append((PayloadSource.TEMPLATE, _worded(target, rng)))
    for source, offered in offers:
        while len(texts) < count:
            text = next(offered, None)
            if text is None:
                break
            if text in texts or payload_problem(text, target) is not None:
                discarded += 1
                continue
            texts.append(text)
            sources.append(source)
    if len(texts) < count:
        raise InputError(
            f"target {target.query.id!r}: expected {count} payloads that hold "
            f"{target.target_answer!r} and no correct answer, found {len(texts)}; "
            "supply payloads with the target or choose another target answer"
        )
    return Payloads(tuple(texts), tuple(sources), discarded)


def with_payloads(
    targets: Sequence[Target], count: int, seed: int, chat: ChatModel | None = None
) -> tuple[Target, ...]:
    """The targets with their payloads filled in, so that all constructions carry the same ones.

    Fill them once and keep the result when a chat model writes them: replies may change.

    :raises InputError: as :func:`payloads_for`.
    """
    return tuple(
        dataclasses.replace(
            target, payloads=payloads_for(target, count, payload_rng(target, seed), chat).texts
        )
        for target in targets
    )


def payload_rng(target: Target, seed: int) -> np.random.Generator:
    """Depends on the seed and the question's id and on nothing else, a construction least of all."""
    digest = hashlib.sha256(f"payloads\0{target.query.id}".encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])


def _asked(target: Target, count: int, chat: ChatModel) -> Iterator[str]:
    for row in range(_TRIES_A_PAYLOAD * count):
        manner = _MANNERS[row % len(_MANNERS)]
        again = f" Word it differently from version {row // len(_MANNERS)}." * (
            row >= len(_MANNERS)
        )
        request = (
            "A test corpus for a poisoning detector needs a counterfactual passage. In the "
            f"manner of {manner}, write at most {MOST_WORDS} words from which a reader would "
            f"answer the question below with: {target.target_answer}. Use these words exactly "
            f"and give the passage alone.{again}\n\nQuestion: {target.query.text}"
        )
        reply = chat.reply([ChatMessage("user", request)], max_tokens=_MOST_TOKENS)
        yield " ".join(reply.content.split()).strip("\"' ")


def _worded(target: Target, rng: np.random.Generator) -> Iterator[str]:
    slots = {
        "answer": target.target_answer,
        "kind": kind_of_answer(target.query.text),
    }
    openings = rng.permutation(len(frames.PAYLOAD_OPENINGS)).tolist()
    ways = parts_of(topic_of(target.query.text))
    endings = rng.permutation(len(frames.PAYLOAD_CONTINUATIONS)).tolist()
    # A round gives every opening once, each with an ending of its own.
    for turn in range(len(endings)):
        for place, opening in enumerate(openings):
            ending = endings[(place + turn) % len(endings)]
            subject = ways[(place + turn) % len(ways)]
            first = frames.PAYLOAD_OPENINGS[opening].format(subject=subject, **slots)
            second = frames.PAYLOAD_CONTINUATIONS[ending].format(**slots)
            yield f"{capitalised(first)} {capitalised(second)}"
