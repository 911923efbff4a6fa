"""Plant poison in a corpus one owns: documents that promote a false answer to a question.

Five documents a target, worded from different frames with the same false answer, except
for one target that gets a single document. The labels are returned beside the documents,
never on them, and neither ids nor declared sources give them away.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import numpy as np

from ragsieve.errors import InputError
from ragsieve.lab.demo import _frames as frames
from ragsieve.lab.demo._scripts import mixed_trigger
from ragsieve.lab.demo.questions import Question
from ragsieve.records import Document, Provenance

DOCUMENTS_PER_TARGET = 5
LEAST_WORDS, MOST_WORDS = 35, 80
_TITLED_SHARE = 0.3


class Attack(enum.StrEnum):
    """How a planted document seeks its rank."""

    PREFIXED = "prefixed"  # the question itself, then false text
    SCRIPT_MIXED = "script-mixed"  # the question's words among foreign letters, then false text
    WOVEN = "woven"  # fluent text around the question's words, never the question
    SINGLE = "single"  # as PREFIXED, but one document alone


# One target for each entry.
PLAN = (*[Attack.PREFIXED, Attack.SCRIPT_MIXED, Attack.WOVEN] * 3, Attack.SINGLE)


@dataclasses.dataclass(frozen=True, slots=True)
class PoisonLabel:
    """Why a planted document exists."""

    query_id: str
    attack: Attack
    false_answer: str


@dataclasses.dataclass(frozen=True, slots=True)
class Draw:
    """A split of the questions, each part in the order of the bank.

    :param targets: questions that are attacked.
    :param untouched: all the others.
    """

    targets: tuple[Question, ...]
    untouched: tuple[Question, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Planting:
    """Planted documents, in an order that does not follow the targets, and their labels.

    :param labels: from a planted document's id; covers exactly ``documents``.
    """

    documents: tuple[Document, ...]
    labels: Mapping[str, PoisonLabel]


def draw(questions: Sequence[Question], rng: np.random.Generator) -> Draw:
    """Choose as many targets as ``PLAN`` has entries.

    The first thing ``plant`` does: a generator in the same state gives the same split.

    :raises InputError: when there are too few questions.
    """
    if len(questions) < len(PLAN):
        raise InputError(f"expected at least {len(PLAN)} questions, found {len(questions)}")
    chosen = set(rng.permutation(len(questions))[: len(PLAN)].tolist())
    return Draw(
        targets=tuple(item for row, item in enumerate(questions) if row in chosen),
        untouched=tuple(item for row, item in enumerate(questions) if row not in chosen),
    )


def plant(questions: Sequence[Question], rng: np.random.Generator) -> Planting:
    """Write the poison against targets drawn from ``questions``.

    Each target gets an attack kind, one of its false answers, and documents of 35 to 80
    words whose frames and sub-clauses are drawn without replacement.

    :raises InputError: when there are too few questions.
    """
    targets = draw(questions, rng).targets
    kinds = [PLAN[row] for row in rng.permutation(len(PLAN)).tolist()]
    pairs: list[tuple[Document, PoisonLabel]] = []
    taken: set[str] = set()
    for question, attack in zip(targets, kinds, strict=True):
        false_answer = str(rng.choice(question.false_answers))
        label = PoisonLabel(question.id, attack, false_answer)
        for text in _texts(question, label, rng):
            title = ""
            if rng.random() < _TITLED_SHARE:
                title = str(rng.choice(frames.TITLES)).format(thing=question.topic[0])
            name = _fresh_id(taken, rng)
            pairs.append((Document(name, text, title, _declared(question)), label))
    pairs = [pairs[row] for row in rng.permutation(len(pairs)).tolist()]
    return Planting(
        documents=tuple(document for document, _ in pairs),
        labels={document.id: label for document, label in pairs},
    )


def _texts(question: Question, label: PoisonLabel, rng: np.random.Generator) -> list[str]:
    """The texts against one target; every pool gives each of them a different member."""
    count = 1 if label.attack is Attack.SINGLE else DOCUMENTS_PER_TARGET
    sentences = [_shuffled(pool, rng) for pool in _pools(label.attack)]
    sources, moments, readers = (
        _shuffled(pool, rng) for pool in (frames.SOURCES, frames.MOMENTS, frames.READERS)
    )
    thing, aspect, task = question.topic
    texts = []
    for row in range(count):
        # Two sub-clauses of a kind in one text would read oddly if they were the same.
        parts = [_lead(question, label.attack, rng)]
        for place, pool in enumerate(sentences):
            filled = pool[row].format(
                thing=thing,
                aspect=aspect,
                task=task,
                answer=label.false_answer,
                source=sources[row],
                moment=moments[(2 * row + place) % len(moments)],
                readers=readers[(2 * row + place) % len(readers)],
            )
            parts.append(filled if filled.startswith(thing) else filled[0].upper() + filled[1:])
        texts.append(_fitted([part for part in parts if part], spare=frames.FILLERS[row]))
    return texts


def _pools(attack: Attack) -> tuple[tuple[str, ...], ...]:
    """Where the sentences of a text come from, in order; the last may be left out."""
    if attack is Attack.WOVEN:
        return frames.WOVEN, frames.WOVEN_AGAIN, frames.DETAILS, frames.CLOSINGS
    first = frames.SCRIPT_MIXED if attack is Attack.SCRIPT_MIXED else frames.PREFIXED
    return first, frames.DETAILS, frames.CLOSINGS


def _lead(question: Question, attack: Attack, rng: np.random.Generator) -> str:
    if attack is Attack.WOVEN:
        return ""
    if attack is Attack.SCRIPT_MIXED:
        return mixed_trigger(question.question, rng, keep=question.topic[0]) + "."
    return question.question


def _fitted(parts: list[str], *, spare: str) -> str:
    """The sentences as one text: without the last if too long, with one more if too short."""
    words = sum(len(part.split()) for part in parts)
    if words > MOST_WORDS:
        parts = parts[:-1]
    elif words < LEAST_WORDS:
        parts = [*parts, spare]
    return " ".join(parts)


def _shuffled(pool: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [pool[row] for row in rng.permutation(len(pool)).tolist()]


def _fresh_id(taken: set[str], rng: np.random.Generator) -> str:
    while True:
        name = f"note-{int(rng.integers(0, 16**6)):06x}"
        if name not in taken:
            taken.add(name)
            return name


def _declared(question: Question) -> Provenance:
    """The source a planted document claims: that of the document it wants to displace."""
    package = question.subject.partition(".")[0]
    return Provenance(source=package if package in {"numpy", "scipy"} else "stdlib")
