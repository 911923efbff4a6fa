"""The declared policy: read strictly, known by the hash of its file."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from importlib import resources
from pathlib import Path
from typing import ClassVar, Literal

from ragsieve.cases import Measure, Place, PolicyDecision, RiskTier
from ragsieve.declared import matches, parse_declared, read_bytes
from ragsieve.errors import ConfigError
from ragsieve.policy.rules import Kind, Rule, Subject


@dataclasses.dataclass(frozen=True, slots=True)
class Otherwise:
    """What happens to a finding that no rule fits."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    measure: Measure = Measure.REVIEW
    reason: str = "no rule asks for more; somebody should look at it"


@dataclasses.dataclass(frozen=True, slots=True)
class Tier:
    """How much harm a wrong answer from these collections does.

    :param store: pattern over the store's address; ``tenant`` likewise. At least one.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    risk_tier: RiskTier
    store: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        if self.store is None and self.tenant is None:
            raise ConfigError("a tier needs a pattern for store or tenant")

    def fits(self, place: Place) -> bool:
        """Whether a place lies in these collections."""
        store = self.store is None or matches(self.store, place.store)
        return store and (self.tenant is None or matches(self.tenant, place.tenant))


@dataclasses.dataclass(frozen=True, slots=True)
class SliceThreshold:
    """A calibrated threshold for one slice of the traffic; it stands in for the profile's.

    :param threshold: in units of the profile's threshold; a finding has score >= threshold.
    :param dataset: pattern over the store's address.
    :param retriever: the embedding version, exactly; any when None.
    :param tenant: exactly; any when None.
    :param alarm_rate: expected share of benign documents (or queries) with an alarm, in [0, 1].
    :param low: lower end of the interval of that share; ``high`` likewise.
    :param benign: documents (or queries) it was measured on.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    threshold: float
    profile: str
    kind: Kind
    dataset: str = "**"
    retriever: str | None = None
    tenant: str | None = None
    alarm_rate: float | None = None
    low: float | None = None
    high: float | None = None
    benign: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and self.threshold > 0):
            raise ConfigError(f"threshold must be above 0, found {self.threshold}")

    def fits(self, subject: Subject, retriever: str | None) -> bool:
        """Whether a finding lies in this slice."""
        return self.covers(
            profile=subject.verdict.profile,
            kind=subject.kind,
            dataset=subject.place.store,
            retriever=retriever,
            tenant=subject.place.tenant,
        )

    def covers(
        self, *, profile: str, kind: Kind, dataset: str, retriever: str | None, tenant: str | None
    ) -> bool:
        """Whether everything in a narrower slice lies in this one.

        A pattern over stores covers another that it matches as it is written.
        """
        return (
            profile == self.profile
            and kind == self.kind
            and (dataset == self.dataset or matches(self.dataset, dataset))
            and (self.retriever is None or self.retriever == retriever)
            and (self.tenant is None or self.tenant == tenant)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """What stands in a policy file.

    :param rules: in order; the first that fits decides.
    :param tiers: in order; the first that fits decides; ``normal`` where none does.
    :param thresholds: in order; the first slice that fits decides; the profile's where none does.
    :param keep_questions: whether an incident keeps the question it was found in.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    version: Literal[1]
    rules: tuple[Rule, ...] = ()
    otherwise: Otherwise = Otherwise()
    tiers: tuple[Tier, ...] = ()
    thresholds: tuple[SliceThreshold, ...] = ()
    keep_questions: bool = True

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            raise ConfigError("two rules have one name; a decision could not be traced to one")


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A declaration with the hash that stands in every decision made by it.

    :param sha256: of the file's bytes, hexadecimal.
    :param origin: where it was read.
    """

    declared: Declaration
    sha256: str
    origin: str

    def threshold(self, subject: Subject, *, retriever: str | None = None) -> float:
        """What a score must reach to be a finding here; the verdict's own without a slice."""
        found = (one for one in self.declared.thresholds if one.fits(subject, retriever))
        first = next(found, None)
        return subject.verdict.threshold if first is None else first.threshold

    def risk_tier(self, place: Place) -> RiskTier:
        """How much harm a wrong answer from there does."""
        found = (one.risk_tier for one in self.declared.tiers if one.fits(place))
        return next(found, RiskTier.NORMAL)

    def decide(self, subject: Subject, *, retriever: str | None = None) -> PolicyDecision:
        """What happens to a document: by evidence and standing, never by what it says is true.

        Below the threshold of its slice a document is recorded and nothing else. Its
        standing holds the tier of its place, as `risk_tier` gives it.

        :param retriever: the embedding version, for calibrated thresholds.
        """
        needed = self.threshold(subject, retriever=retriever)
        if subject.verdict.score < needed:
            reason = f"score {subject.verdict.score:.3g} is below the threshold {needed:.3g}"
            return PolicyDecision(Measure.RECORD, "threshold", reason, self.sha256)
        for rule in self.declared.rules:
            if rule.fits(subject):
                return PolicyDecision(rule.measure, rule.name, rule.reason, self.sha256)
        rest = self.declared.otherwise
        return PolicyDecision(rest.measure, "otherwise", rest.reason, self.sha256)


def read_policy(path: Path | str | None) -> Policy:
    """The policy of a TOML file; the built-in one without a path.

    :raises ConfigError: when the file cannot be read, holds an unknown key or an impossible
        value; the message names file and field.
    """
    if path is None:
        return _built_in()
    raw = read_bytes(path)
    return Policy(
        parse_declared(raw, Declaration, path), hashlib.sha256(raw).hexdigest(), str(path)
    )


@functools.cache
def _built_in() -> Policy:
    with resources.as_file(resources.files("ragsieve.policy") / "default.toml") as path:
        policy = read_policy(path)
    return dataclasses.replace(policy, origin="built-in policy")
