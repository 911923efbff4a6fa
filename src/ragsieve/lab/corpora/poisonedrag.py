"""Published false passages: an object of targets with ``adv_texts``, five passages each.

The passages are payloads: constructions put a carrier before them, and planted as they
stand they are the attack ``natural``.
"""

from __future__ import annotations

from pathlib import Path

from ragsieve._jsonl import Row
from ragsieve.lab.corpora._gather import joined, planted, poison_alone
from ragsieve.lab.corpora._rows import answer_of, answers_of, read_rows, texts_of
from ragsieve.lab.corpora.records import AttackSet, Loaded, Target
from ragsieve.records import Query

NATURAL = "natural"


def read_poisonedrag(path: Path | str, *, attack: str = NATURAL) -> Loaded:
    """Targets of an ``adv_texts`` file with their payloads, and these as planted documents.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a record that breaks the layout or repeats a question.
    """
    targets = adversarial_targets(path)
    plantings = (planted(attack, target.query.id, target.payloads) for target in targets)
    attacks = {attack: AttackSet(targets, joined(plantings, path))}
    return poison_alone(Path(path).stem, attacks, targets)


def adversarial_targets(path: Path | str) -> tuple[Target, ...]:
    """The targets of an ``adv_texts`` file, in file order, their texts as payloads.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a record that breaks the layout or repeats a question.
    """
    targets: dict[str, Target] = {}
    for row in read_rows(path):
        target = _target_of(row)
        if target.query.id in targets:
            raise row.error("id", f"{target.query.id!r} stands twice; ids are unique")
        targets[target.query.id] = target
    return tuple(targets.values())


def _target_of(row: Row) -> Target:
    return Target(
        query=Query(row.identifier("id"), row.text("question")),
        correct_answers=answers_of(row, "correct answer", "correct_answer", "correct_answers"),
        target_answer=answer_of(row, "incorrect answer", "incorrect_answer"),
        payloads=texts_of(row, "adv_texts"),
    )
