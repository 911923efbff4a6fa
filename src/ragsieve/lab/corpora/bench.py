"""Folders with ``corpus.jsonl``, ``queries.jsonl`` with answers, and ``attacks/*.jsonl``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ragsieve.errors import InputError
from ragsieve.files.corpus import read_corpus
from ragsieve.lab.corpora._gather import (
    check_apart,
    first_of_query,
    joined,
    labels_of,
    poison_alone,
)
from ragsieve.lab.corpora._questions import read_questions
from ragsieve.lab.corpora.poisonedrag import NATURAL
from ragsieve.lab.corpora.records import AttackSet, Dataset, Loaded, Poisoning, Target
from ragsieve.lab.datasets import AttackTarget, read_attacks
from ragsieve.records import Document, Query

ATTACKS = "attacks"


def read_bench(folder: Path | str) -> Loaded:
    """The corpus, its questions, and the attacks by the name their rows give.

    The documents of an attack ``natural`` are the payloads of its targets.

    :raises InputError: when a file is missing, cannot be read or is empty, or a planted
        document has the id of another document.
    :raises RecordError: for a row that breaks the layout.
    """
    root = Path(folder)
    documents = read_corpus(root / "corpus.jsonl")
    queries, answers = read_questions(root / "queries.jsonl")
    files = sorted((root / ATTACKS).glob("*.jsonl"))
    attacks = attacks_of(files, answers, documents)
    dataset = Dataset(
        name=root.resolve().name,
        documents=documents,
        queries=queries,
        targets=first_of_query(one for attack in attacks.values() for one in attack.targets),
        answers=answers,
        relevant={},
    )
    return Loaded(dataset, attacks)


def read_attack_file(path: Path | str) -> Loaded:
    """The attacks of one file, without a corpus.

    :raises InputError: when it cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout.
    """
    attacks = attacks_of([Path(path)], {}, ())
    targets = first_of_query(one for attack in attacks.values() for one in attack.targets)
    return poison_alone(Path(path).stem, attacks, targets)


def attacks_of(
    files: Sequence[Path],
    answers: Mapping[str, tuple[str, ...]],
    documents: Iterable[Document],
) -> dict[str, AttackSet]:
    """The attacks in files, by name.

    :param answers: reference answers by query id, where they are known.
    :param documents: of the corpus, whose ids planted documents must not have.
    :raises InputError: when a file is unreadable or empty, a question of an attack stands
        twice, or a planted document has the id of another document.
    :raises RecordError: for a row that breaks the layout.
    """
    corpus = tuple(documents)
    targets: defaultdict[str, dict[str, Target]] = defaultdict(dict)
    plantings: defaultdict[str, list[Poisoning]] = defaultdict(list)
    for path in files:
        for row in read_attacks(path):
            if row.query_id in targets[row.attack]:
                raise InputError(
                    f"{path}: attack {row.attack!r} has the question {row.query_id!r} twice"
                )
            targets[row.attack][row.query_id] = _target_of(row, answers)
            plantings[row.attack].append(
                Poisoning(row.documents, labels_of(row.attack, row.query_id, row.documents))
            )
    source = files[0].parent if files else ATTACKS
    # Across attacks too: contexts of all of them name documents by id.
    check_apart(
        corpus, joined((part for parts in plantings.values() for part in parts), source), source
    )
    return {
        name: AttackSet(tuple(targets[name].values()), joined(parts, source))
        for name, parts in plantings.items()
    }


def _target_of(row: AttackTarget, answers: Mapping[str, tuple[str, ...]]) -> Target:
    texts = tuple(document.text for document in row.documents) if row.attack == NATURAL else ()
    return Target(
        query=Query(row.query_id, row.query),
        correct_answers=answers.get(row.query_id, ()),
        target_answer=row.target_answer,
        payloads=texts,
    )
