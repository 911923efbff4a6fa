"""Draw questions and targets, and vary how many documents an attack plants.

Draws order ids by a keyed digest: the same on every platform and Python, whatever the order
of the file, and a smaller draw is part of a larger one of the same seed. A published subset
file goes before a draw of one's own.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable

from ragsieve.errors import ConfigError
from ragsieve.lab.corpora.records import Dataset, Label, Poisoning
from ragsieve.records import Document

QUERY_SEED, TARGET_SEED = 42, 2026
QUERIES, TARGETS = 1000, 100
VOLUMES = (1, 3, 5, 10)
_REPEATED = 10


def drawn(ids: Iterable[str], count: int, seed: int) -> frozenset[str]:
    """``count`` of the ids, or all of them when there are fewer.

    :raises ConfigError: when count < 1.
    """
    if count < 1:
        raise ConfigError(f"a draw needs a count of at least 1, found {count}")
    return frozenset(sorted(set(ids), key=lambda name: (_digest(name, seed), name))[:count])


def sampled(dataset: Dataset, *, queries: int = QUERIES, targets: int = TARGETS) -> Dataset:
    """A dataset with some of its questions, and some of those as targets; all documents stay.

    :raises ConfigError: when a count is below 1.
    """
    asked = drawn((query.id for query in dataset.queries), queries, QUERY_SEED)
    possible = [target.query.id for target in dataset.targets if target.query.id in asked]
    attacked = drawn(possible, targets, TARGET_SEED)
    return dataclasses.replace(
        dataset,
        queries=tuple(query for query in dataset.queries if query.id in asked),
        targets=tuple(one for one in dataset.targets if one.query.id in attacked),
        answers={name: known for name, known in dataset.answers.items() if name in asked},
        relevant={name: known for name, known in dataset.relevant.items() if name in asked},
    )


def volume(poisoning: Poisoning, documents: int) -> Poisoning:
    """The first 1, 3 or 5 documents of each target, or all five twice, under new ids, for 10.

    The prefixes are nested. A target with fewer documents keeps those it has.

    :param documents: one of ``VOLUMES``.
    :raises ConfigError: for another number.
    """
    if documents not in VOLUMES:
        known = ", ".join(map(str, VOLUMES))
        raise ConfigError(f"documents a target: expected one of {known}, found {documents}")
    if documents == _REPEATED:
        return _repeated(volume(poisoning, _REPEATED // 2))
    kept = {name: label for name, label in poisoning.labels.items() if label.member < documents}
    return Poisoning(tuple(one for one in poisoning.documents if one.id in kept), kept)


def _repeated(poisoning: Poisoning) -> Poisoning:
    documents: list[Document] = list(poisoning.documents)
    labels: dict[str, Label] = dict(poisoning.labels)
    for document in poisoning.documents:
        label = poisoning.labels[document.id]
        name = _fresh(document.id, labels)
        documents.append(dataclasses.replace(document, id=name))
        labels[name] = dataclasses.replace(label, member=label.member + _REPEATED // 2)
    return Poisoning(tuple(documents), labels)


def _fresh(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name = f"{name}+"
    return name


def _digest(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()
