"""The question bank of the demonstration: what a developer asks, and where the answer stands."""

from __future__ import annotations

import dataclasses
from importlib import resources

from ragsieve._jsonl import read_jsonl

_FILE = "questions.jsonl"


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question about the docstring corpus.

    :param subject: id of the document that answers it.
    :param answer: the true answer, a short noun phrase.
    :param false_answers: three plausible answers that are wrong.
    :param topic: three noun phrases that restate the question: the object it is about,
        the thing asked for, so that "<thing> of <object> is <answer>" reads well, and the
        task in which it comes up.
    """

    id: str
    question: str
    subject: str
    answer: str
    false_answers: tuple[str, ...]
    topic: tuple[str, str, str]


def demo_questions() -> tuple[Question, ...]:
    """The questions, in the order of the file.

    :raises RecordError: when a line of the packaged file lacks a field.
    """
    with resources.as_file(resources.files(__package__) / _FILE) as path:
        questions = []
        for row in read_jsonl(path):
            topic = row.strings("topic")
            if len(topic) != 3:  # noqa: PLR2004
                raise row.error("topic", f"expected three phrases, found {len(topic)}")
            questions.append(
                Question(
                    id=row.identifier("id"),
                    question=row.text("question"),
                    subject=row.text("subject"),
                    answer=row.text("answer"),
                    false_answers=row.strings("false_answers"),
                    topic=(topic[0], topic[1], topic[2]),
                )
            )
    return tuple(questions)
