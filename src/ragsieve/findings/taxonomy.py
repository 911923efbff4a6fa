"""Which public taxonomy entries an evidence is filed under; the ids come from a data file."""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from ragsieve.display import visible

_SLUG_CHARACTERS = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a taxonomy."""

    id: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """A published taxonomy, as far as it is used here.

    :param version: of the published list the ids come from.
    """

    name: str
    version: str
    organization: str
    entries: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """How findings that rest on one evidence are called.

    :param id: stable, as other tools match on it.
    :param statistical: a deviation from the corpus; False for a fact of the text itself.
    :param text: what is measured, one or two sentences.
    :param techniques: ATLAS ids, those of every finding included.
    :param risks: OWASP ids.
    """

    id: str
    title: str
    text: str
    statistical: bool
    techniques: tuple[str, ...]
    risks: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Taxonomy:
    """Everything the data file says.

    :param evidences: rules by the name of their evidence.
    :param nothing: of a finding without any evidence that stands out.
    :param unknown: what the rule of an unknown evidence is made from; its id is a prefix.
    """

    atlas: Catalogue
    owasp: Catalogue
    evidences: tuple[tuple[str, Rule], ...]
    nothing: Rule
    unknown: Rule

    def rule(self, evidence: str | None) -> Rule:
        """The rule of an evidence; one under the primary technique for an unknown name.

        :param evidence: its name; None for a finding that rests on none.
        """
        if evidence is None:
            return self.nothing
        for name, rule in self.evidences:
            if name == evidence:
                return rule
        slug = re.sub(r"[^A-Z0-9]+", "-", evidence.upper())[:_SLUG_CHARACTERS].strip("-")
        return dataclasses.replace(
            self.unknown,
            id=self.unknown.id + (slug or "UNNAMED"),
            title=f"{self.unknown.title}: {visible(evidence, limit=_SLUG_CHARACTERS)}",
        )

    def techniques(self, rules: Iterable[Rule]) -> tuple[Entry, ...]:
        """ATLAS entries of some rules, each once, in the order of the file."""
        wanted = {one for rule in rules for one in rule.techniques}
        return tuple(one for one in self.atlas.entries if one.id in wanted)

    def risks(self, rules: Iterable[Rule]) -> tuple[Entry, ...]:
        """OWASP entries of some rules, each once, in the order of the file."""
        wanted = {one for rule in rules for one in rule.risks}
        return tuple(one for one in self.owasp.entries if one.id in wanted)


@functools.cache
def taxonomy() -> Taxonomy:
    """The taxonomy this package carries."""
    source = files("ragsieve.findings").joinpath("taxonomy.toml")
    fields = tomllib.loads(source.read_text("utf-8"))
    primary = fields["primary"]
    return Taxonomy(
        atlas=_catalogue(fields["atlas"]),
        owasp=_catalogue(fields["owasp"]),
        evidences=tuple((one["name"], _rule(one, primary)) for one in fields["evidences"]),
        nothing=_rule(fields["nothing"], primary),
        unknown=_rule(fields["unknown"], primary),
    )


def _catalogue(fields: dict[str, Any]) -> Catalogue:
    entries = tuple(Entry(**one) for one in fields["entries"])
    return Catalogue(fields["name"], fields["version"], fields["organization"], entries)


def _rule(fields: dict[str, Any], primary: dict[str, list[str]]) -> Rule:
    return Rule(
        id=fields["rule"],
        title=fields["title"],
        text=fields["text"],
        statistical=fields.get("kind", "statistical") == "statistical",
        techniques=(*primary["techniques"], *fields.get("techniques", ())),
        risks=(*primary["risks"], *fields.get("risks", ())),
    )
