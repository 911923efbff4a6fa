"""What an experiment is made on: documents, questions, targets; labels apart from all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ragsieve.records import Document, Query


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A question under attack.

    :param correct_answers: reference answers.
    :param target_answer: the lie that is promoted.
    :param payloads: false passages that a file supplies; empty when they must be written.
    """

    query: Query
    correct_answers: tuple[str, ...]
    target_answer: str
    payloads: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Dataset:
    """A clean corpus with its questions.

    :param answers: reference answers by query id.
    :param relevant: ids of relevant documents by query id; empty where nobody judged.
    """

    name: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    targets: tuple[Target, ...]
    answers: Mapping[str, tuple[str, ...]]
    relevant: Mapping[str, frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """Why a planted document exists.

    :param member: its place among the documents of its target, from 0.
    """

    query_id: str
    attack: str
    member: int


@dataclasses.dataclass(frozen=True, slots=True)
class Poisoning:
    """Planted documents in order, and beside them, by id, what they are."""

    documents: tuple[Document, ...]
    labels: Mapping[str, Label]


@dataclasses.dataclass(frozen=True, slots=True)
class AttackSet:
    """One attack of a file: the questions it is aimed at and the documents it plants.

    Files give different lies for the same question, so targets belong to an attack.
    """

    targets: tuple[Target, ...]
    poisoning: Poisoning


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """What a file or folder holds.

    :param dataset: without documents where the file holds poison alone.
    :param attacks: by name; empty where nothing was planted.
    """

    dataset: Dataset
    attacks: Mapping[str, AttackSet]
