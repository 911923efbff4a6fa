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
