"""Aim the attacks of one file at the corpus of another: questions are matched by their words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ragsieve.lab.corpora._gather import check_apart, first_of_query
from ragsieve.lab.corpora.records import AttackSet, Dataset, Loaded, Poisoning, Target
from ragsieve.records import Query


@dataclasses.dataclass(frozen=True, slots=True)
class Combined:
    """A dataset under the attacks of another file.

    :param unmatched: ids, in that file, of questions the dataset does not ask.
    """

    loaded: Loaded
    unmatched: tuple[str, ...]


def aimed_at(dataset: Dataset, poison: Loaded) -> Combined:
    """The attacks of ``poison`` against the questions of ``dataset``, under the dataset's ids.

    Ids are not compared: different files count the same questions differently.

    :raises InputError: when a planted document has the id of a document of the corpus.
    """
    known = {_words(query.text): query for query in dataset.queries}
    found = {
        query.id: known[_words(query.text)]
        for query in poison.dataset.queries
        if _words(query.text) in known
    }
    attacks = {
        name: AttackSet(
            tuple(
                _aimed(one, found[one.query.id], dataset)
                for one in attack.targets
                if one.query.id in found
            ),
            _relabelled(attack.poisoning, found),
        )
        for name, attack in poison.attacks.items()
    }
    for attack in attacks.values():
        check_apart(dataset.documents, attack.poisoning, poison.dataset.name)
    targets = first_of_query(one for attack in attacks.values() for one in attack.targets)
    joint = dataclasses.replace(dataset, targets=targets or dataset.targets)
    missing = tuple(query.id for query in poison.dataset.queries if query.id not in found)
    return Combined(Loaded(joint, attacks), missing)


def _aimed(target: Target, query: Query, dataset: Dataset) -> Target:
    answers = dataset.answers.get(query.id) or target.correct_answers
    return dataclasses.replace(target, query=query, correct_answers=answers)


def _relabelled(poisoning: Poisoning, found: Mapping[str, Query]) -> Poisoning:
    labels = {
        name: dataclasses.replace(label, query_id=found[label.query_id].id)
        for name, label in poisoning.labels.items()
        if label.query_id in found
    }
    documents = tuple(one for one in poisoning.documents if one.id in labels)
    return Poisoning(documents, labels)


def _words(text: str) -> str:
    return " ".join(text.casefold().split())
