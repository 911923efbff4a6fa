"""What experiments need from the rest of the lab and from models, as a protocol for fakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from ragsieve.detectors.rules import CorpusRule, QueryRule
from ragsieve.lab.comparators.base import Declaration, GenerationDefense
from ragsieve.lab.corpora.records import Dataset, Poisoning, Target
from ragsieve.lab.experiments.spec import Answers, Attack, Experiment, Method, Models
from ragsieve.ports import ChatModel, FeatureSource
from ragsieve.records import Document, FloatArray, Scan

Judging: TypeAlias = QueryRule | CorpusRule | GenerationDefense
"""What a comparator is built into."""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """Documents to plant and how they were made.

    :param targets: the questions they were written for, in order.
    :param fidelity: of the construction; empty for a file.
    :param reduced: whether a smaller budget than the published one was spent.
    :param seconds: spent on each target; empty for a file.
    :param figures: of the construction's own checks, by name, means over targets.
    :param failed: targets for which nothing could be written, with the reason.
    """

    targets: tuple[Target, ...]
    poisoning: Poisoning
    fidelity: str = ""
    reduced: bool = False
    seconds: tuple[float, ...] = ()
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    failed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Surrounds:
    """What a comparator may be built with, of the index it will judge.

    :param rows: the index's embeddings, one a document.
    :param targets: questions under attack, which calibration must leave out.
    :param fresh: with models that remember no text, so that time can be taken.
    """

    dataset: Dataset
    clean_rows: FloatArray
    documents: tuple[Document, ...]
    rows: FloatArray
    targets: frozenset[str]
    retriever: str
    fresh: bool = False


class Parts(Protocol):
    """Everything outside this package that an experiment needs.

    Any of these raises :class:`UnavailableError`, ``ModelFilesError`` or ``MissingExtraError`` for
    what this machine cannot do.
    """

    def dataset(self, name: str, payloads: str | None) -> Dataset:
        """A clean corpus with its questions; targets carry the payloads of an attack file.

        :raises ConfigError: for an unknown name.
        """
        ...

    def file_attack(self, dataset: str, file: str) -> Written:
        """What an attack file of the dataset's folder plants."""
        ...

    def crafted(
        self,
        attack: Attack,
        targets: Sequence[Target],
        dataset: Dataset,
        rows: FloatArray,
        experiment: Experiment,
        seed: int,
    ) -> Written:
        """What a construction writes for the targets."""
        ...

    def attack_fingerprint(self, dataset: str, name: str, file: str | None) -> str:
        """Hash of everything that changes the documents of an attack, the dataset aside."""
        ...

    def encoder_identity(self, retriever: str) -> str:
        """The retriever's encoder: whatever changes its vectors."""
        ...

    def rows(self, dataset: Dataset, retriever: str) -> FloatArray:
        """Embeddings of the dataset's documents, shape (V, d), unit length."""
        ...

    def embedded(self, texts: Sequence[str], retriever: str) -> FloatArray:
        """Embeddings of documents, shape (len(texts), d)."""
        ...

    def asked(self, texts: Sequence[str], retriever: str) -> FloatArray:
        """Embeddings of questions, shape (len(texts), d)."""
        ...

    def query_rule(self, method: Method, models: Models, *, fresh: bool = False) -> QueryRule:
        """RSQ's rule.

        :param fresh: with models that remember no text, so that time can be taken.
        """
        ...

    def corpus_rule(self, method: Method, models: Models, *, fresh: bool = False) -> CorpusRule:
        """RSG's rule, as ``query_rule``."""
        ...

    def features(self, scan: Scan, rows: FloatArray) -> FeatureSource:
        """What a scan of profile ``default`` knows, for its query rule."""
        ...

    def declaration(self, comparator: str) -> Declaration:
        """What a comparator says about itself.

        :raises ConfigError: for an unknown name.
        """
        ...

    def comparator(self, name: str, around: Surrounds, models: Models) -> Judging:
        """A comparator, ready for one index."""
        ...

    def members(self, answers: Answers) -> Mapping[str, ChatModel]:
        """The models that may be asked by name, the one that answers alone first."""
        ...
