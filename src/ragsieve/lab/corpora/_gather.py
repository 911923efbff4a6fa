"""Put targets and planted documents together; labels go into a map of their own at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ragsieve.errors import InputError
from ragsieve.lab.corpora.records import AttackSet, Dataset, Label, Loaded, Poisoning, Target
from ragsieve.records import Document

_ID_DIGITS = 12


def planted(attack: str, query_id: str, texts: Sequence[str]) -> Poisoning:
    """Texts as documents against one question.

    Their ids are digests: they are the same in every run and tell nothing.
    """
    documents = tuple(
        Document(_id_of(attack, query_id, member), text) for member, text in enumerate(texts)
    )
    return Poisoning(documents, labels_of(attack, query_id, documents))


def labels_of(attack: str, query_id: str, documents: Iterable[Document]) -> dict[str, Label]:
    """The labels of the documents of one target, in their order."""
    return {
        document.id: Label(query_id, attack, member) for member, document in enumerate(documents)
    }


def joined(parts: Iterable[Poisoning], source: Path | str) -> Poisoning:
    """Several plantings as one, in order.

    :param source: where they come from, for errors.
    :raises InputError: when two documents share an id.
    """
    documents: list[Document] = []
    labels: dict[str, Label] = {}
    for part in parts:
        for document in part.documents:
            if document.id in labels:
                raise InputError(
                    f"{source}: two planted documents have the id {document.id!r}; ids are unique"
                )
            labels[document.id] = part.labels[document.id]
        documents.extend(part.documents)
    return Poisoning(tuple(documents), labels)


def poison_alone(name: str, attacks: Mapping[str, AttackSet], targets: Sequence[Target]) -> Loaded:
    """A file without a corpus: the questions are those of its targets."""
    dataset = Dataset(
        name=name,
        documents=(),
        queries=tuple(target.query for target in targets),
        targets=tuple(targets),
        answers={target.query.id: target.correct_answers for target in targets},
        relevant={},
    )
    return Loaded(dataset, attacks)


def first_of_query(targets: Iterable[Target]) -> tuple[Target, ...]:
    """One target a question: the first."""
    kept: dict[str, Target] = {}
    for target in targets:
        kept.setdefault(target.query.id, target)
    return tuple(kept.values())


def check_apart(documents: Iterable[Document], poisoning: Poisoning, source: Path | str) -> None:
    """Refuse planted documents under ids of the corpus.

    :raises InputError: for the first of them.
    """
    for document in documents:
        if document.id in poisoning.labels:
            raise InputError(
                f"{source}: the planted document {document.id!r} has the id of a document of the "
                "corpus; rename it"
            )


def _id_of(attack: str, query_id: str, member: int) -> str:
    digest = hashlib.sha256(f"{attack}\0{query_id}\0{member}".encode()).hexdigest()
    return f"doc-{digest[:_ID_DIGITS]}"
