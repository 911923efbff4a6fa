"""Published optimised documents: a list of targets with ``poisoned_texts`` and ``poisoned_docs``.

Records with ``gen_atk`` carry a refusal behind a trigger word instead of a false answer.
They are an attack of their own and give no targets, since no lie is promoted.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ragsieve._jsonl import Row
from ragsieve.lab.corpora._gather import joined, planted, poison_alone
from ragsieve.lab.corpora._rows import answer_of, answers_of, read_rows, texts_of
from ragsieve.lab.corpora.records import AttackSet, Loaded, Poisoning, Target
from ragsieve.records import Query

OPTIMISED = "hotflip"
REFUSAL = "refusal"


def read_gmtp(path: Path | str, *, attack: str = OPTIMISED, refusal: str = REFUSAL) -> Loaded:
    """Targets with ``poisoned_texts`` as payloads, and ``poisoned_docs`` as planted documents.

    :param attack: what documents that promote a false answer are called.
    :param refusal: what documents that ask for a refusal are called.
    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a record that breaks the layout or repeats a question.
    """
    targets: list[Target] = []
    plantings: dict[str, list[Poisoning]] = {}
    queries: dict[str, Query] = {}
    answers: dict[str, tuple[str, ...]] = {}
    for row in read_rows(path):
        query = Query(row.identifier("query_id", "id"), row.text("query"))
        if query.id in queries:
            raise row.error("query_id", f"{query.id!r} stands twice; ids are unique")
        queries[query.id] = query
        answers[query.id] = answers_of(row, "correct_answer", "correct_answers", "answers")
        name = attack if row.fields.get("gen_atk") is None else refusal
        texts = texts_of(row, "poisoned_docs")
        plantings.setdefault(name, []).append(planted(name, query.id, texts))
        if name == attack:
            targets.append(_target_of(row, query, answers[query.id]))
    attacks = {
        name: AttackSet(tuple(targets) if name == attack else (), joined(parts, path))
        for name, parts in plantings.items()
    }
    loaded = poison_alone(Path(path).stem, attacks, targets)
    # Questions of refusals are questions too, though not targets.
    dataset = dataclasses.replace(loaded.dataset, queries=tuple(queries.values()), answers=answers)
    return Loaded(dataset, attacks)


def _target_of(row: Row, query: Query, answers: tuple[str, ...]) -> Target:
    return Target(
        query=query,
        correct_answers=answers,
        target_answer=answer_of(row, "incorrect_answer"),
        payloads=texts_of(row, "poisoned_texts"),
    )
