"""How far the operator trusts what documents declare as their origin."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from ragsieve.declared import matches, read_declared
from ragsieve.errors import ConfigError
from ragsieve.records import Provenance

NEUTRAL_TRUST = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class SourceRule:
    """Documents whose declared origin fits every pattern given have this trust.

    :param trust: in [0, 1].
    :param source: pattern over the declared source, as ``author`` and ``tenant``; at least one
        of the three. ``*`` stops at a slash, ``**`` does not.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    trust: float
    source: str | None = None
    author: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.trust <= 1:
            raise ConfigError(f"trust must be in [0, 1], found {self.trust}")
        if not self._patterns():
            raise ConfigError("a rule needs a non-empty pattern for source, author or tenant")

    def fits(self, origin: Provenance) -> bool:
        """Whether a declared origin fits every pattern of this rule."""
        return all(matches(one, getattr(origin, field)) for field, one in self._patterns())

    def _patterns(self) -> list[tuple[str, str]]:
        named = ((field, getattr(self, field)) for field in ("source", "author", "tenant"))
        return [(field, pattern) for field, pattern in named if pattern]


@dataclasses.dataclass(frozen=True, slots=True)
class ProvenancePolicy:
    """From declared origins to trust; the first rule that fits decides.

    Nothing else about a document (id, title, text, file) is looked at. Origins are declared,
    not verified: a policy is worth as much as the control over who may set them.

    :param rules: in order of precedence.
    :param neutral: trust of an origin no rule speaks of, in [0, 1].
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    rules: tuple[SourceRule, ...] = ()
    neutral: float = NEUTRAL_TRUST

    def __post_init__(self) -> None:
        if not 0 <= self.neutral <= 1:
            raise ConfigError(f"neutral must be in [0, 1], found {self.neutral}")

    def trust(self, origin: Provenance) -> float:
        """Trust in a declared origin, in [0, 1]."""
        place = self.rule_of(origin)
        return self.neutral if place is None else self.rules[place - 1].trust

    def rule_of(self, origin: Provenance) -> int | None:
        """Which rule decides, from 1; None when none fits."""
        places = enumerate(self.rules, start=1)
        return next((place for place, rule in places if rule.fits(origin)), None)


def read_provenance_policy(path: Path | str) -> ProvenancePolicy:
    """The policy of a TOML file: ``neutral``, and ``[[rules]]`` with patterns and ``trust``.

    :raises ConfigError: for an unreadable file, an unknown key or an impossible value.
    """
    return read_declared(path, ProvenancePolicy)
