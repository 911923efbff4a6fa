"""What an experiment is: one claim, the data it is tested on, and the methods that are compared."""

from __future__ import annotations

import dataclasses
import enum
from typing import TypeAlias

from ragsieve.errors import ConfigError

Value: TypeAlias = bool | int | float | str
"""What a constant of a detector may be set to."""


class Kind(enum.StrEnum):
    """What a file's claim is about; decides which figures the report shows first."""

    DETECTION = "detection"
    VOLUME = "volume"
    ABLATION = "ablation"
    SWEEP = "sweep"
    ADAPTIVE = "adaptive"
    COST = "cost"
    POISON_SHARE = "poison-share"
    RETRIEVAL = "retrieval"
    APPROXIMATE = "approximate"
    END_TO_END = "end-to-end"


class Part(enum.StrEnum):
    """Which targets are attacked: what was tuned on one half is reported on the other."""

    ALL = "all"
    FIRST_HALF = "first-half"
    SECOND_HALF = "second-half"


class Unpoisoned(enum.StrEnum):
    """Which questions over the clean index give the clean candidates."""

    TARGETS = "targets"
    ALL = "all"


class MethodKind(enum.StrEnum):
    """What judges."""

    NONE = "none"
    RSQ = "rsq"
    RSG = "rsg"
    SERIAL = "serial"
    COMPARATOR = "comparator"
    PIPELINE = "pipeline"


class PipelineName(enum.StrEnum):
    """A pipeline that answers: what stands between the question and the reply.

    ``larger-k`` hands over twice the context; ``paraphrased`` retrieves for the question in the
    answering model's other words; neither looks at a document.
    """

    NONE = "none"
    LARGER_K = "larger-k"
    PARAPHRASED = "paraphrased"
    RING_1 = "ring-1"
    RING_2 = "ring-2"
    RING_3 = "ring-3"
    RINGS = "rings"
    SIEVE = "sieve"
    SIEVE_AND_RINGS = "sieve+rings"

    @property
    def rings(self) -> frozenset[int]:
        """The rings it has."""
        if self in {PipelineName.RINGS, PipelineName.SIEVE_AND_RINGS}:
            return frozenset({1, 2, 3})
        alone = {PipelineName.RING_1: 1, PipelineName.RING_2: 2, PipelineName.RING_3: 3}
        return frozenset({alone[self]}) if self in alone else frozenset()

    @property
    def sieves(self) -> bool:
        """Whether RSG and RSQ run."""
        return self in {PipelineName.SIEVE, PipelineName.SIEVE_AND_RINGS}


class JudgeKind(enum.StrEnum):
    """Who says which answer a reply supports."""

    CONTAINMENT = "containment"
    CHAT = "chat"


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """One way to judge documents, or to answer.

    :param name: of a comparator or a pipeline; else as ``kind``.
    :param profile: of a detector; empty for the others.
    :param without: evidences left out of the score.
    :param alone: the one evidence that is kept; None for all that ``without`` leaves.
    :param overrides: constants of the profile set to other values.
    """

    kind: MethodKind
    name: str
    profile: str = ""
    without: tuple[str, ...] = ()
    alone: str | None = None
    overrides: tuple[tuple[str, Value], ...] = ()

    @property
    def title(self) -> str:
        """As tables show it."""
        words = f"{self.name} {self.profile}".strip()
        words += "".join(f" without {name}" for name in self.without)
        words += f" {self.alone} alone" if self.alone else ""
        return words + "".join(f" {key}={value}" for key, value in self.overrides)

    @property
    def base(self) -> Method:
        """The method whose evidence this one combines again."""
        return dataclasses.replace(self, without=(), alone=None)

    @property
    def derived(self) -> bool:
        """Whether it can be had from the evidence of another method."""
        return bool(self.without) or self.alone is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Attack:
    """Documents to plant.

    :param name: of a construction; the report's name where ``file`` is given.
    :param file: name of an attack file of the dataset's folder, without its ending.
    :param published: name of the published column it is set beside; None where there is none.
    :param counts: documents planted for a target.
    :param write: documents asked of a construction, or taken from a file, for a target. Counts
        beyond it repeat them under new ids, as published.
    :param targets: fewer targets than the experiment's, for a slow construction.
    """

    name: str
    counts: tuple[int, ...] = (5,)
    file: str | None = None
    published: str | None = None
    targets: int | None = None
    write: int = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """Who answers from the contexts, and who judges the answers.

    The first of several answers, and judges, where one is needed; all of them are ring 3's panel.

    :param model: name the adapter knows; answers are unavailable without it.
    :param base_url: where ``model`` is served; None for a member of the settings.
    :param local: pulled models that are served for the run.
    :param members: members of the settings by name.
    """

    model: str | None = None
    base_url: str | None = None
    judge: JudgeKind = JudgeKind.CONTAINMENT
    answer_tokens: int = 128
    local: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = [one for one in (self.model, self.local, self.members) if one]
        if len(given) != 1:
            raise ConfigError(
                f"answers: expected one of model, local and members, found {len(given)} of them"
            )
        if self.base_url is not None and self.model is None:
            raise ConfigError("answers.base_url: expected model beside it")
        names = self.names
        if len(set(names)) < len(names):
            raise ConfigError("answers: a model stands twice; name each once")
        if self.answer_tokens < 1:
            raise ConfigError(f"answers.answer_tokens: expected >= 1, found {self.answer_tokens}")

    @property
    def names(self) -> tuple[str, ...]:
        """Everyone who may be asked, the one that answers alone first."""
        return self.local or self.members or ((self.model,) if self.model else ())


@dataclasses.dataclass(frozen=True, slots=True)
class Models:
    """Models of the methods; ``causal`` and ``encoder`` as in the settings.

    :param masked: folder or hub name of a masked language model; None where none is at hand.
    """

    causal: str = "auto"
    encoder: str = "auto"
    masked: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Experiment:
    """One file.

    :param name: the file's, without its ending.
    :param claim: the sentence that the figures support or refute.
    :param targets: most questions attacked; None for all the dataset has.
    :param payloads: attack file whose documents are the payloads that constructions carry; the
        dataset's own when None.
    :param depth: documents a question retrieves.
    :param context: documents handed to the generator.
    :param shares: of the poisoned index that is poison; empty for all targets.
    :param recalls: of the approximate search that is simulated; empty for exact search.
    :param repeats: timed passes of kind ``cost``.
    """

    name: str
    claim: str
    kind: Kind
    dataset: str
    attacks: tuple[Attack, ...]
    methods: tuple[Method, ...]
    retriever: str = "auto"
    depth: int = 100
    context: int = 5
    payloads: str | None = None
    targets: int | None = None
    part: Part = Part.ALL
    unpoisoned: Unpoisoned = Unpoisoned.TARGETS
    seeds: tuple[int, ...] = (2026,)
    shares: tuple[float, ...] = ()
    recalls: tuple[float, ...] = ()
    repeats: int = 1
    models: Models = Models()
    answers: Answers | None = None

    def __post_init__(self) -> None:
        if not self.attacks or not self.methods or not self.seeds:
            raise ConfigError("expected at least one attack, one method and one seed")
        if not 1 <= self.context < self.depth:
            raise ConfigError(
                f"expected 1 <= context < depth, found {self.context} and {self.depth}"
            )
        if any(min(attack.write, *attack.counts) < 1 for attack in self.attacks):
            raise ConfigError("attacks.counts: expected at least one document a target")
        if any(not 0 < share < 1 for share in (*self.shares, *(r for r in self.recalls if r != 1))):
            raise ConfigError("shares and recalls: expected numbers between 0 and 1")
        if self.repeats < 1:
            raise ConfigError(f"repeats: expected at least 1, found {self.repeats}")
        for kind, key, given in (
            (Kind.POISON_SHARE, "shares", bool(self.shares)),
            (Kind.APPROXIMATE, "recalls", bool(self.recalls)),
            (Kind.END_TO_END, "answers", self.answers is not None),
        ):
            if given is not (self.kind is kind):
                verb = "needs" if self.kind is kind else "has no use for"
                raise ConfigError(f"{key}: an experiment of kind {self.kind} {verb} it")
        pipelines = any(method.kind is MethodKind.PIPELINE for method in self.methods)
        if pipelines and self.kind is not Kind.END_TO_END:
            raise ConfigError(f"pipelines: an experiment of kind {self.kind} has no use for them")
        # Tables know a method by its title: detector none and pipeline none are one row.
        if len({method.title for method in self.methods}) < len(self.methods):
            raise ConfigError("a method stands twice; name each once")


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One figure's worth of work: one method on one poisoned index.

    :param count: documents a target.
    :param share: of the index that is poison; None where the number of targets decides.
    :param recall: of the simulated search; None for exact search.
    """

    attack: Attack
    count: int
    method: Method
    seed: int
    share: float | None = None
    recall: float | None = None

    @property
    def title(self) -> str:
        """As progress shows it."""
        words = f"{self.attack.name} x{self.count}, {self.method.title}"
        words += "" if self.share is None else f", {self.share:.0%} poison"
        return words + ("" if self.recall is None else f", recall {self.recall:g}")


def cells_of(experiment: Experiment) -> tuple[Cell, ...]:
    """Every cell, those of one poisoned index together."""
    return tuple(
        Cell(dataclasses.replace(attack, counts=(count,)), count, method, seed, share, recall)
        for seed in experiment.seeds
        for attack in experiment.attacks
        for count in attack.counts
        for share in experiment.shares or (None,)
        for recall in experiment.recalls or (None,)
        for method in experiment.methods
    )
