"""Answering from more documents, from one document at a time, or from several rewritten queries."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError, InputError
from ragsieve.evidence.tokens import tokens
from ragsieve.lab.comparators.base import Answer, ControlPoint, Declaration
from ragsieve.lab.comparators.prompts import (
    UNKNOWN,
    Conversation,
    answer_request,
    contents_of,
    is_refusal,
    neutralised,
    quoted,
    unusable,
)
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import ChatModel
from ragsieve.records import Ranking

_POISONED_RAG = "PoisonedRAG, USENIX Security 2025, section 7"
EXPANSION_DECLARATION = Declaration(
    name="knowledge-expansion",
    control_point=ControlPoint.GENERATION,
    needs=frozenset({Need.CHAT}),
    native_rule="answer from 50 documents, more than were planted",
    fidelity=Fidelity.EXACT,
    source=_POISONED_RAG,
)
VOTE_DECLARATION = Declaration(
    name="divide-and-vote",
    control_point=ControlPoint.GENERATION,
    needs=frozenset({Need.CHAT}),
    native_rule="answer from each document alone; the same model names the majority's answer",
    fidelity=Fidelity.RECONSTRUCTED,
    source="Divide-and-Vote, 2023, as described by CamoDocs",
)
PARAPHRASE_DECLARATION = Declaration(
    name="paraphrasing",
    control_point=ControlPoint.GENERATION,
    needs=frozenset({Need.CHAT, Need.EMBEDDER}),
    native_rule="rewrite the question five times; retrieve five documents and answer for each",
    fidelity=Fidelity.RECONSTRUCTED,
    source=_POISONED_RAG,
)
_REWRITE_TOKENS = 400
_VOTE_TOKENS = 24


@dataclasses.dataclass(frozen=True, slots=True)
class DepthConfig:
    """How many documents of a ranking are read."""

    documents: int = 5

    def __post_init__(self) -> None:
        if self.documents < 1:
            raise ConfigError(f"documents: expected at least 1, found {self.documents}")


@dataclasses.dataclass(frozen=True, slots=True)
class ParaphraseConfig:
    """How many rewrites, and how many documents are read for each."""

    rewrites: int = 5
    documents: int = 5

    def __post_init__(self) -> None:
        if min(self.rewrites, self.documents) < 1:
            raise ConfigError("paraphrasing: rewrites and documents must be at least 1")


class KnowledgeExpansion:
    """Answers from many documents; with ``documents`` at 5 it is the undefended system."""

    declaration = EXPANSION_DECLARATION

    def __init__(self, config: DepthConfig | None = None) -> None:
        self.config = config or DepthConfig(documents=50)

    def fingerprint(self) -> str:
        """Hash of the constants and the prompt."""
        return fingerprint(self.declaration.name, self.config, answer_request("", ()))

    def answer(self, question: str, ranking: Ranking, chat: ChatModel) -> Answer:
        """One call.

        :raises InputError: when fewer documents were retrieved than are to be read.
        """
        wanted = self.config.documents
        if len(ranking) < wanted:
            raise InputError(
                f"{self.declaration.name}: expected a ranking of at least {wanted} documents, "
                f"found {len(ranking)}; retrieve deeper, or read fewer"
            )
        texts, ids = contents_of(ranking, wanted)
        talk = Conversation(chat)
        return Answer(talk.insist(answer_request(question, texts)), talk.calls, ids)


class DivideAndVote:
    """Answers from each document, and lets the model name the majority's answer.

    A document whose two replies are broken abstains. When the vote itself is broken twice,
    equal answers are counted; a tie goes to the one that the better rank gave.
    """

    declaration = VOTE_DECLARATION

    def __init__(self, config: DepthConfig | None = None) -> None:
        self.config = config or DepthConfig()

    def fingerprint(self) -> str:
        """Hash of the constants and the prompts."""
        prompts = [answer_request("", ()), _vote_request("", ())]
        return fingerprint(self.declaration.name, self.config, prompts)

    def answer(self, question: str, ranking: Ranking, chat: ChatModel) -> Answer:
        """One call a document and one for the vote."""
        talk = Conversation(chat)
        replies, ids = answers_apart(talk, question, ranking, self.config.documents)
        if not replies:
            return Answer(UNKNOWN, talk.calls, ())
        voted = talk.ask(_vote_request(question, replies), max_tokens=_VOTE_TOKENS)
        return Answer(voted or counted(replies), talk.calls, ids)


class Paraphrasing:
    """Answers every rewrite of the question from what the rewrite retrieves.

    The answer's text is that of the first rewrite; measures average over ``alternatives``.

    :param retrieve: ranks the corpus for a text.
    :param rewrites: made earlier, by question; asked of the model where there is none.
    """

    declaration = PARAPHRASE_DECLARATION

    def __init__(
        self,
        retrieve: Callable[[str], Ranking],
        *,
        rewrites: Mapping[str, Sequence[str]] | None = None,
        config: ParaphraseConfig | None = None,
    ) -> None:
        self.config = config or ParaphraseConfig()
        self._retrieve = retrieve
        self._rewrites = {key: tuple(value) for key, value in (rewrites or {}).items()}

    def fingerprint(self) -> str:
        """Hash of the constants, the prompts and the rewrites made earlier."""
        prompts = [answer_request("", ()), _rewrite_request("", 0)]
        known = sorted((key, list(value)) for key, value in self._rewrites.items())
        return fingerprint(self.declaration.name, self.config, prompts, known)

    def answer(self, question: str, ranking: Ranking, chat: ChatModel) -> Answer:  # noqa: ARG002
        """One call for the rewrites, unless they are at hand, and one for each."""
        talk = Conversation(chat)
        rewrites = self._rewrites.get(question) or self._written(talk, question, chat)
        answers: list[str] = []
        used: dict[str, None] = {}
        for rewrite in rewrites:
            texts, ids = contents_of(self._retrieve(rewrite), self.config.documents)
            answers.append(talk.insist(answer_request(rewrite, texts)))
            used |= dict.fromkeys(ids)
        return Answer(answers[0], talk.calls, tuple(used), tuple(answers))

    def _written(self, talk: Conversation, question: str, chat: ChatModel) -> tuple[str, ...]:
        count = self.config.rewrites
        found = talk.parse(
            _rewrite_request(question, count),
            lambda reply: read_rewrites(reply, count),
            max_tokens=_REWRITE_TOKENS,
        )
        if found is None:
            raise unusable(chat)
        return found


def answers_apart(
    talk: Conversation, question: str, ranking: Ranking, count: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replies from each document alone, refusals and broken ones left out, and whose they are."""
    replies: list[str] = []
    used: list[str] = []
    for text, name in zip(*contents_of(ranking, count), strict=True):
        reply = talk.ask(answer_request(question, (text,)))
        if reply is not None and not is_refusal(reply):
            replies.append(reply)
            used.append(name)
    return tuple(replies), tuple(used)


def counted(replies: Sequence[str]) -> str:
    """The most frequent reply, letter cases and marks aside; the first of them in a tie."""
    keys = [" ".join(token for token in tokens(reply) if token.isalnum()) for reply in replies]
    # A Counter keeps the order in which it met its keys.
    winner = Counter(keys).most_common(1)[0][0]
    return replies[keys.index(winner)]


def read_rewrites(reply: str, count: int) -> tuple[str, ...] | None:
    """The first ``count`` texts of a JSON list, fenced or not; None when it is anything else."""
    start, stop = reply.find("["), reply.rfind("]")
    if start < 0 or stop < start:
        return None
    try:
        found = json.loads(reply[start : stop + 1])
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(one, str) and one.strip() for one in found) or len(found) < count:
        return None
    return tuple(one.strip() for one in found[:count])


def _vote_request(question: str, replies: Sequence[str]) -> str:
    return (
        f"Question: {neutralised(question)}\n\nSeveral people answered it:\n"
        f"{quoted('reply', replies)}\n\n"
        "Leave out those who would not answer, and give the answer that most of the others share, "
        "in at most five words."
    )


def _rewrite_request(question: str, count: int) -> str:
    return (
        f"Write {count} different ways to ask the following question without changing what it "
        f"asks for.\nQuestion: {neutralised(question)}\n"
        f"Reply with a JSON list of {count} strings and nothing else."
    )
