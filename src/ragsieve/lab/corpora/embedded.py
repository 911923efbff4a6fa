"""The dataset every installation has: documentation of what is installed, with judged questions.

The documents are 1,600 of the docstring corpus: those that answer a question, for each of
them the ten nearest by shared words, and others in the order of a digest. Payloads are
worded from the project's own sentence frames.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ragsieve.lab.corpora.records import Dataset, Target
from ragsieve.lab.demo import _frames as frames
from ragsieve.lab.demo._prose import words_of
from ragsieve.lab.demo.corpus import docstring_corpus
from ragsieve.lab.demo.questions import Question, demo_questions
from ragsieve.records import Document, Query

DOCSTRINGS = "docstrings"
DOCUMENTS = 1600
NEAREST = 10
PAYLOADS = 5
# A word in more than a twentieth of the documents says nothing about which are alike.
_COMMON = 0.05


def docstrings_dataset() -> Dataset:
    """The dataset; the same for the same Python, numpy and scipy. Every question is a target.

    :raises InputError: when numpy's or scipy's sources are not installed as files.
    """
    corpus = docstring_corpus()
    names = {document.id for document in corpus}
    questions = tuple(one for one in demo_questions() if one.subject in names)
    kept = _subset(corpus, [one.subject for one in questions])
    return Dataset(
        name=DOCSTRINGS,
        documents=tuple(document for document in corpus if document.id in kept),
        queries=tuple(Query(one.id, one.question) for one in questions),
        targets=tuple(_target(one) for one in questions),
        answers={one.id: (one.answer,) for one in questions},
        relevant={one.id: frozenset({one.subject}) for one in questions},
    )


def _subset(corpus: Sequence[Document], subjects: Sequence[str]) -> set[str]:
    words = _telling_words(corpus)
    kept = set(subjects)
    for subject in subjects:
        kept.update(_nearest(subject, words))
    for name in sorted(words, key=lambda name: (_digest(name), name)):
        if len(kept) >= DOCUMENTS:
            break
        kept.add(name)
    return kept


def _telling_words(corpus: Sequence[Document]) -> Mapping[str, frozenset[str]]:
    sets = {document.id: frozenset(words_of(document.content)) for document in corpus}
    spread = Counter(word for found in sets.values() for word in found)
    limit = _COMMON * len(corpus)
    common = {word for word, count in spread.items() if count > limit}
    return {name: found - common for name, found in sets.items()}


def _nearest(subject: str, words: Mapping[str, frozenset[str]]) -> list[str]:
    own = words[subject]

    def distance(name: str) -> tuple[float, str]:
        # One division of whole numbers: the same on every platform, ties by name.
        common = len(own & words[name])
        return -common / max(1, len(own) + len(words[name]) - common), name

    return sorted((name for name in words if name != subject), key=distance)[:NEAREST]


def _target(question: Question) -> Target:
    """The first false answer that five passages can promote without giving the true one away."""
    offers = [(lie, tuple(_payloads(question, lie))) for lie in question.false_answers]
    lie, payloads = max(offers, key=lambda offer: len(offer[1]))
    return Target(Query(question.id, question.question), (question.answer,), lie, payloads)


def _payloads(question: Question, lie: str) -> Iterator[str]:
    found = 0
    for text in _passages(question, lie):
        if found < PAYLOADS and _says(text, lie) and not _says(text, question.answer):
            found += 1
            yield text


def _passages(question: Question, lie: str) -> Iterator[str]:
    """A passage for every opening frame; each takes its other sentences from other frames."""
    thing, aspect, task = question.topic
    pools = (frames.PREFIXED, frames.DETAILS, frames.CLOSINGS)
    openings, details, closings = (_shuffled(pool, question.id) for pool in pools)
    for row, opening in enumerate(openings):
        sentences = []
        for pool, frame in enumerate((opening, details[row % len(details)])):
            filled = frame.format(
                thing=thing,
                aspect=aspect,
                task=task,
                answer=lie,
                source=frames.SOURCES[row % len(frames.SOURCES)],
                moment=frames.MOMENTS[(2 * row + pool) % len(frames.MOMENTS)],
                readers=frames.READERS[(2 * row + pool) % len(frames.READERS)],
            )
            sentences.append(
                filled if filled.startswith(thing) else filled[:1].upper() + filled[1:]
            )
        yield " ".join([*sentences, closings[row % len(closings)]])


def _says(text: str, answer: str) -> bool:
    wanted = words_of(answer)
    if not wanted:
        return answer in text
    return f" {' '.join(wanted)} " in f" {' '.join(words_of(text))} "


def _shuffled(pool: Sequence[str], key: str) -> list[str]:
    return sorted(pool, key=lambda frame: _digest(f"{key}\0{frame}"))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
