"""Rules over a finding: what must hold for a measure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import ClassVar, Literal

from ragsieve.cases import Measure, Place, RiskTier, Standing
from ragsieve.declared import matches
from ragsieve.errors import ConfigError
from ragsieve.records import Level, Verdict

Kind = Literal["scan", "filter", "guard"]


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What a rule looks at.

    :param kind: whether a corpus, a retrieval or a new document was judged.
    :param known_versions: document versions with the same id judged before; a rule may ask
        whether this one is new.
    """

    verdict: Verdict
    place: Place
    standing: Standing
    kind: Kind = "scan"
    known_versions: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Every condition that is given must hold; what nobody measured or declared fails it.

    Patterns are those of `ragsieve.declared.matches`: ``*`` stops at a slash, ``**`` does not.

    :param level: the finding's level is this or above.
    :param evidence: one of these evidences has a value of at least ``evidence_at_least``.
    :param evidence_at_least: in units of the threshold.
    :param score_at_least: combined evidence.
    :param complete: every evidence was measured (true), or one was not (false).
    :param source: pattern over the declared source; ``author``, ``tenant``, ``acl``,
        ``document_version`` and ``store`` likewise.
    :param trust_at_most: source trust, in [0, 1]; ``trust_at_least`` likewise.
    :param new_version: the document's declared version was not judged before (true) or was.
    :param risk_tier: the collection is in one of these.
    :param kind: the finding is of one of these kinds of run.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    measure: Measure
    reason: str
    level: Level | None = None
    evidence: tuple[str, ...] = ()
    evidence_at_least: float = 1.0
    score_at_least: float | None = None
    complete: bool | None = None
    source: str | None = None
    author: str | None = None
    tenant: str | None = None
    acl: str | None = None
    store: str | None = None
    document_version: str | None = None
    new_version: bool | None = None
    trust_at_most: float | None = None
    trust_at_least: float | None = None
    risk_tier: tuple[RiskTier, ...] = ()
    kind: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.reason.strip():
            raise ConfigError("a rule needs a name and a reason, which stand in every decision")
        if not self._conditions():
            raise ConfigError(
                f"rule {self.name!r} has no condition; put what holds always into 'otherwise'"
            )
        for field in ("evidence_at_least", "score_at_least"):
            value = getattr(self, field)
            if value is not None and not math.isfinite(value):
                raise ConfigError(f"{field} must be a finite number, found {value}")
        for field in ("trust_at_most", "trust_at_least"):
            value = getattr(self, field)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"{field} must be in [0, 1], found {value}")

    def fits(self, subject: Subject) -> bool:
        """Whether every condition of this rule holds."""
        return all(holds(subject) for holds in self._conditions())

    def _conditions(self) -> list[Callable[[Subject], bool]]:
        """One test for each condition that is given."""
        least_level, least_score = self.level or Level.INFO, self.score_at_least or 0.0
        trusted = self.trust_at_most is not None or self.trust_at_least is not None
        possible: list[tuple[bool, Callable[[Subject], bool]]] = [
            (self.level is not None, lambda one: one.verdict.level.reaches(least_level)),
            (bool(self.evidence), self._shows),
            (self.score_at_least is not None, lambda one: one.verdict.score >= least_score),
            (self.complete is not None, lambda one: one.verdict.complete is self.complete),
            (self.new_version is not None, self._version_fits),
            (trusted, self._trusted),
            (bool(self.risk_tier), lambda one: one.standing.risk_tier in self.risk_tier),
            (bool(self.kind), lambda one: one.kind in self.kind),
        ]
        possible += [
            (pattern is not None, _pattern(pattern or "", read))
            for pattern, read in self._patterns()
        ]
        return [holds for given, holds in possible if given]

    def _shows(self, subject: Subject) -> bool:
        return any(
            one.name in self.evidence
            and one.value is not None
            and one.value >= self.evidence_at_least
            for one in subject.verdict.evidences
        )

    def _patterns(self) -> list[tuple[str | None, Callable[[Subject], str | None]]]:
        return [
            (self.source, lambda one: one.standing.provenance.source),
            (self.author, lambda one: one.standing.provenance.author),
            (self.tenant, lambda one: one.place.tenant or one.standing.provenance.tenant),
            (self.acl, lambda one: one.standing.acl),
            (self.store, lambda one: one.place.store),
            (self.document_version, lambda one: one.standing.document_version),
        ]

    def _version_fits(self, subject: Subject) -> bool:
        version = subject.standing.document_version
        if version is None:
            return False
        return (version not in subject.known_versions) is self.new_version

    def _trusted(self, subject: Subject) -> bool:
        trust = subject.standing.source_trust
        if trust is None:
            return False
        most = 1.0 if self.trust_at_most is None else self.trust_at_most
        least = 0.0 if self.trust_at_least is None else self.trust_at_least
        return least <= trust <= most


def _pattern(pattern: str, read: Callable[[Subject], str | None]) -> Callable[[Subject], bool]:
    return lambda subject: matches(pattern, read(subject))
