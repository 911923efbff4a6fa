"""RobustRAG by keywords: only what several documents' separate answers share reaches the answer."""

from __future__ import annotations

import dataclasses
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ragsieve._extras import require
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError, MissingExtraError
from ragsieve.lab.comparators.base import Answer, ControlPoint, Declaration
from ragsieve.lab.comparators.prompts import (
    UNKNOWN,
    Conversation,
    answer_request,
    contents_of,
    neutralised,
    quoted,
)
from ragsieve.lab.poison.base import Fidelity, Need
from ragsieve.ports import ChatModel
from ragsieve.records import Ranking

DECLARATION = Declaration(
    name="robustrag-keyword",
    control_point=ControlPoint.GENERATION,
    needs=frozenset({Need.CHAT}),
    native_rule=(
        "answer from each document alone, drop replies with I don't, keep the phrases of at "
        "least min(3, 0.3 n) replies and answer from those alone; parts of speech by spaCy"
    ),
    fidelity=Fidelity.RECONSTRUCTED,
    source="RobustRAG, arXiv 2405.15556",
)

# Parts of speech that end a phrase, by their universal names.
_BREAKS = frozenset("VERB INTJ ADP AUX CCONJ DET PART PRON SCONJ PUNCT SPACE".split())
_ABSTAINS = ("I don't", "I don’t")


class TaggedToken(Protocol):
    """What is read of a token of spaCy."""

    pos_: str
    lemma_: str
    whitespace_: str


Tagger = Callable[[str], Iterable[TaggedToken]]


@dataclasses.dataclass(frozen=True, slots=True)
class RobustRagConfig:
    """Constants, symbols in brackets.

    :param count: replies that must share a phrase, at most [beta].
    :param share: of the replies that must share it [alpha].
    """

    documents: int = 5
    count: int = 3
    share: float = 0.3

    def __post_init__(self) -> None:
        if min(self.documents, self.count) < 1 or not 0 < self.share <= 1:
            raise ConfigError(
                "robustrag-keyword: documents and count must be at least 1, share in (0, 1]"
            )


class RobustRagKeyword:
    """One call a document and one from the keywords.

    :param tagger: spaCy's English pipeline, see :func:`load_tagger`.
    :param tagger_name: the pipeline and its version.
    """

    declaration = DECLARATION

    def __init__(
        self, tagger: Tagger, tagger_name: str, config: RobustRagConfig | None = None
    ) -> None:
        self.config = config or RobustRagConfig()
        self._tagger, self._tagger_name = tagger, tagger_name

    def fingerprint(self) -> str:
        """Hash of the constants, the prompts and the pipeline."""
        prompts = [answer_request("", ()), _keyword_request("", ())]
        return fingerprint(self.declaration.name, self.config, prompts, self._tagger_name)

    def answer(self, question: str, ranking: Ranking, chat: ChatModel) -> Answer:
        """A reply that abstains, or is broken twice, takes no part; without any, unknown."""
        talk = Conversation(chat)
        replies: list[str] = []
        used: list[str] = []
        for text, name in zip(*contents_of(ranking, self.config.documents), strict=True):
            reply = talk.ask(answer_request(question, (text,)))
            if reply is not None and not any(mark in reply for mark in _ABSTAINS):
                replies.append(reply)
                used.append(name)
        if not replies:
            return Answer(UNKNOWN, talk.calls, ())
        kept = shared_phrases([phrases(self._tagger, reply) for reply in replies], self.config)
        return Answer(talk.insist(_keyword_request(question, kept)), talk.calls, tuple(used))


def load_tagger(name: str = "en_core_web_sm") -> tuple[Tagger, str]:
    """The pipeline of spaCy, and its name with version.

    :raises MissingExtraError: when spaCy or the pipeline is not installed: parts of speech
        guessed in another way would be another method.
    """
    problem = (
        "robustrag-keyword needs spaCy and its English pipeline, which no extra installs: "
        f"pip install spacy, then install {name}"
    )
    try:
        spacy = require("spacy", extra="lab")
    except MissingExtraError as error:
        raise MissingExtraError(problem) from error
    try:
        pipeline: Any = spacy.load(name)
    except OSError as error:
        raise MissingExtraError(problem) from error
    return pipeline, f"{name} {pipeline.meta['version']}"


def phrases(tagger: Tagger, reply: str) -> frozenset[str]:
    """The reply itself, its runs of lemmas between the parts that break them, and every lemma."""
    found = {reply.strip()}
    run: list[TaggedToken] = []
    for token in tagger(reply):
        if token.pos_ in _BREAKS:
            found |= _phrase(run)
            run = []
        else:
            run.append(token)
    return frozenset(found | _phrase(run))


def shared_phrases(found: Sequence[frozenset[str]], config: RobustRagConfig) -> tuple[str, ...]:
    """Phrases that enough replies hold, longest first; marks alone are none."""
    needed = min(config.count, config.share * len(found))
    counts = Counter(phrase for one in found for phrase in one)
    kept = [
        phrase
        for phrase, count in counts.items()
        if count >= needed and phrase.strip(string.punctuation + string.whitespace)
    ]
    return tuple(sorted(kept, key=lambda phrase: (len(phrase), phrase), reverse=True))


def _phrase(run: Sequence[TaggedToken]) -> set[str]:
    if not run:
        return set()
    joined = "".join(token.lemma_ + token.whitespace_ for token in run).strip()
    return {joined, *(token.lemma_ for token in run)}


def _keyword_request(question: str, kept: Sequence[str]) -> str:
    return (
        f"Question: {neutralised(question)}\n\n"
        f"Words that several sources share:\n{quoted('words', [', '.join(kept)])}\n\n"
        "Answer the question from these words alone, with a name, a date or a short phrase. "
        f'If they do not tell, reply "{UNKNOWN}"'
    )
