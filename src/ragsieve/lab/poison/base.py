"""What every construction is given, gives back, and says about itself."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ragsieve.lab.corpora.records import Dataset, Target
from ragsieve.ports import CausalScorer, ChatModel, TextEmbedder
from ragsieve.records import FloatArray, Provenance


class Fidelity(enum.StrEnum):
    """How close a rebuilt method is to the published one."""

    EXACT = "exact"
    RECONSTRUCTED = "reconstructed"
    VARIANT = "variant"


class Need(enum.StrEnum):
    """What a method cannot work without."""

    EMBEDDER = "embedder"
    GRADIENTS = "gradients"
    CAUSAL = "causal"
    MASKED = "masked"
    CHAT = "chat"
    CLEAN_REFERENCE = "clean-reference"


class GradientEncoder(Protocol):
    """An encoder whose token embeddings can be differentiated through."""

    @property
    def identity(self) -> str:
        """Model, revision, pooling, dtype."""
        ...

    @property
    def vocabulary(self) -> Sequence[str]:
        """Token strings by id."""
        ...

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text: markers, padding, places never used."""
        ...

    def token_ids(self, text: str) -> list[int]:
        """Ids without special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""
        ...

    def encode_ids(self, batch: Sequence[Sequence[int]]) -> FloatArray:
        """Unit vectors, shape (len(batch), d), special tokens added."""
        ...

    def gradient(self, ids: Sequence[int], objective: FloatArray) -> FloatArray:
        """Gradient of ``vector . objective`` at each token's embedding, shape (len(ids), e)."""
        ...

    @property
    def embeddings(self) -> FloatArray:
        """Token embeddings, shape (vocabulary, e)."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Workshop:
    """What constructions may use; the operator's own corpus and models.

    :param rows: embeddings of the dataset's documents, unit length.
    """

    dataset: Dataset
    embedder: TextEmbedder
    rows: FloatArray
    gradients: GradientEncoder | None = None
    causal: CausalScorer | None = None
    chat: ChatModel | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What a construction spent on one target."""

    seconds: float
    encodes: int = 0
    gradients: int = 0
    chat_calls: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Faithfulness:
    """Figures that show whether a construction did what it claims.

    :param similarity: mean cosine of the decoded, re-encoded documents to the question.
    :param in_top_5: share of them that the question would retrieve among five.
    :param mixed_scripts: share with letters of more than one writing system.
    :param peak_surprisal_share: mean peak surprisal over ln V; None without a language model.
    :param checks: named properties of the construction and whether they hold.
    """

    similarity: float
    in_top_5: float
    mixed_scripts: float
    peak_surprisal_share: float | None
    checks: tuple[tuple[str, bool], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Crafted:
    """The texts made for one target.

    :param reduced: whether a smaller budget than the published one was spent.
    :param titles: one a text; empty where the construction gives none.
    :param origins: what each text declares; empty where whoever plants them may choose.
    """

    query_id: str
    attack: str
    texts: tuple[str, ...]
    reduced: bool
    cost: Cost
    faithfulness: Faithfulness
    titles: tuple[str, ...] = ()
    origins: tuple[Provenance, ...] = ()


class Construction(Protocol):
    """One way to write documents that a question retrieves."""

    @property
    def name(self) -> str:
        """As written in files."""
        ...

    @property
    def fidelity(self) -> Fidelity:
        """How close to the published construction."""
        ...

    @property
    def needs(self) -> frozenset[Need]:
        """What it cannot work without."""
        ...

    def fingerprint(self) -> str:
        """Hash of everything that changes the texts, models aside."""
        ...

    def craft(
        self, target: Target, payloads: Sequence[str], workshop: Workshop, rng: np.random.Generator
    ) -> Crafted:
        """Write at most ``len(payloads)`` documents for a target.

        :raises ConfigError: when the workshop lacks what it needs.
        """
        ...
