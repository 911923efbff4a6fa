"""What constructions ask of strings: answers in them, what a question is about, where to cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragsieve.evidence.tokens import paper_words

_ASKING = {
    "who": "the person",
    "whom": "the person",
    "whose": "the owner",
    "when": "the date",
    "where": "the place",
    "why": "the reason",
    "how": "the manner",
    "what": "the fact",
    "which": "the choice",
}
_QUANTITIES = {"many": "the number", "much": "the amount", "long": "the length", "old": "the age"}
_HELPING = frozenset(
    "is are was were be been do does did has have had can could will would shall should may might".split()
)
_COMMON = frozenset(
    "a an the of in on at to for from by with and or as that this it its their his her".split()
)
_EDGES = " \t\n\r?!.,;:\"'"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def contains(text: str, answer: str) -> bool:
    """Whether the words of ``answer`` stand in ``text`` one after another; case is ignored."""
    return _found(_words(text), _words(answer))


def holds_truth(text: str, correct: Iterable[str], lie: str) -> bool:
    """Whether a correct answer stands in ``text`` outside the places where the lie stands.

    A truth that is part of the lie ("Paris" in "Paris, Texas") is not a slip.
    """
    words, false = _words(text), _words(lie)
    place = 0
    while false and place <= len(words) - len(false):
        if words[place : place + len(false)] == false:
            words[place : place + len(false)] = [""]
        place += 1
    return any(_found(words, _words(answer)) for answer in correct)


def asks_verbatim(text: str, question: str) -> bool:
    """Whether the whole question stands in ``text``, punctuation and case aside."""
    return contains(text, question)


def kind_of_answer(question: str) -> str:
    """A noun for what is asked for: "the person", "the date"; "the answer" when unclear."""
    words = paper_words(question)
    for place, word in enumerate(words):
        if word == "how" and place + 1 < len(words) and words[place + 1] in _QUANTITIES:
            return _QUANTITIES[words[place + 1]]
        if word in _ASKING:
            return _ASKING[word]
    return "the answer"


def topic_of(question: str) -> str:
    """The question without what makes it one: never the whole of it, unless it is one word."""
    words = question.strip(_EDGES).split()
    kept = list(words)
    while len(kept) > 1 and _bare(kept[0]) in _ASKING | _QUANTITIES | dict.fromkeys(_HELPING, ""):
        kept.pop(0)
    if len(kept) == len(words) and len(words) > 1:
        kept = [
            word for word in words if _bare(word) not in _ASKING and _bare(word) not in _HELPING
        ]
        kept = kept if 0 < len(kept) < len(words) else words[1:]
    return " ".join(kept)


def parts_of(topic: str) -> tuple[str, ...]:
    """Ways to mention a topic: all of it, its later part, and the two longest words.

    Independent passages do not all repeat a question's wording.
    """
    words = topic.split()
    longest = sorted(content_words(topic), key=len, reverse=True)[:2]
    later = words[len(words) // 2 :]
    while len(later) > 1 and _bare(later[0]) in _COMMON | _HELPING:
        later.pop(0)
    ways = (topic, " ".join(later), " and ".join(longest))
    return tuple(dict.fromkeys(way for way in ways if way))


def clause_of(question: str) -> str:
    """The question as a clause: without its helping verb, or with a noun for who or what acts."""
    words = question.strip(_EDGES).split()
    helping = next((row for row, word in enumerate(words) if _bare(word) in _HELPING), None)
    if helping is None or len(words) < 3:  # noqa: PLR2004 -- nothing would be left
        return f"{kind_of_answer(question)} that {topic_of(question)}"
    return " ".join([*words[:helping], *words[helping + 1 :]])


def content_words(question: str) -> list[str]:
    """The question's words that name things, in order, each once."""
    words = [word.strip(_EDGES) for word in question.split()]
    skipped = _ASKING.keys() | _HELPING | _COMMON
    return list(dict.fromkeys(word for word in words if word and _bare(word) not in skipped))


def with_question(question: str, text: str) -> str:
    """The question, a full stop where it has no mark of its own, and the text."""
    asked = question.strip()
    return f"{asked} {text}" if asked.endswith((".", "?", "!")) else f"{asked}. {text}"


def sentences(text: str) -> list[str]:
    """The sentences of a text, cut after a full stop, question or exclamation mark."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part]


def capitalised(text: str) -> str:
    """With a capital first letter."""
    return text[:1].upper() + text[1:]


def halves(text: str) -> tuple[str, str]:
    """Two chunks: cut between sentences where there are two, between words otherwise."""
    parts = sentences(text)
    if len(parts) < 2:  # noqa: PLR2004
        parts = text.split()
    middle = max(1, len(parts) // 2)
    return " ".join(parts[:middle]), " ".join(parts[middle:])


def _bare(word: str) -> str:
    return word.strip(_EDGES).lower()


def _words(text: str) -> list[str]:
    # \w and not [a-z0-9]: answers may be written in any script.
    return re.findall(r"\w+", text.casefold())


def _found(words: Sequence[str], wanted: Sequence[str]) -> bool:
    size = len(wanted)
    return size > 0 and any(
        list(words[place : place + size]) == list(wanted) for place in range(len(words) - size + 1)
    )
