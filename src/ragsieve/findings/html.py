"""Findings as one page of HTML that needs nothing else and runs nothing."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from importlib.resources import files

from ragsieve._extras import require
from ragsieve.cases import Incident
from ragsieve.findings.plain import MEANING, check_finite, rules_of, shown, utc
from ragsieve.findings.taxonomy import Taxonomy, taxonomy
from ragsieve.records import Evidence, Verdict

BAR_PIXELS = 160
"""Width of a bar; the threshold stands in its middle."""

_EXCERPT_CHARACTERS = 600


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One evidence against the threshold.

    :param rule: what findings that rest on it are called.
    :param value: None where it could not be measured, for ``reason``.
    :param pixels: of the bar, from 0 to `BAR_PIXELS`; cut at twice the threshold.
    """

    name: str
    rule: str
    title: str
    value: float | None
    reason: str | None
    pixels: float


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One finding as the page shows it.

    :param ids: taxonomy entries with their names.
    """

    incident: Incident
    title: str
    bars: tuple[Bar, ...]
    ids: tuple[str, ...]
    decided: str


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Findings of one campaign, strongest first.

    :param campaign: None for those that stand alone.
    """

    campaign: str | None
    entries: tuple[Entry, ...]


def write_page(incidents: Sequence[Incident]) -> Iterator[str]:
    """The page, in pieces: findings by campaign, each evidence against its threshold.

    No script, nothing from elsewhere; corpus text is escaped and made visible.

    :raises InputError: for a number that is not finite.
    :raises MissingExtraError: without the extra ``ledger``.
    """
    check_finite(incidents)
    jinja2 = require("jinja2", extra="ledger")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shown"] = shown
    source = files("ragsieve.findings").joinpath("report.html.j2").read_text("utf-8")
    known = taxonomy()
    pieces: Iterator[str] = environment.from_string(source).generate(
        groups=_groups(incidents, known),
        count=len(incidents),
        meaning=MEANING,
        catalogues=(known.atlas, known.owasp),
        bar=BAR_PIXELS,
        excerpt=_EXCERPT_CHARACTERS,
    )
    return pieces


def _groups(incidents: Sequence[Incident], known: Taxonomy) -> tuple[Group, ...]:
    gathered: dict[str | None, list[Incident]] = collections.defaultdict(list)
    for one in incidents:
        gathered[one.campaign].append(one)
    groups = [
        Group(campaign, tuple(_entry(one, known) for one in sorted(members, key=_strength)))
        for campaign, members in gathered.items()
    ]
    # Those that stand alone come last: they are no group.
    return tuple(
        sorted(groups, key=lambda one: (one.campaign is None, _strength(one.entries[0].incident)))
    )


def _strength(incident: Incident) -> tuple[float, str]:
    return (-incident.verdict.score, incident.id)


def _entry(incident: Incident, known: Taxonomy) -> Entry:
    rules = rules_of(incident.verdict, known)
    named = (*known.techniques(rules), *known.risks(rules))
    return Entry(
        incident=incident,
        title=rules[0].title,
        bars=tuple(_bar(one, incident.verdict, known) for one in incident.verdict.evidences),
        ids=tuple(f"{one.id} {one.name}" for one in named),
        decided=f"{utc(incident.decided_at):%Y-%m-%d %H:%M:%S} UTC",
    )


def _bar(evidence: Evidence, verdict: Verdict, known: Taxonomy) -> Bar:
    rule = known.rule(evidence.name)
    return Bar(
        name=evidence.name,
        rule=rule.id,
        title=rule.title,
        value=evidence.value,
        reason=evidence.reason,
        pixels=_pixels(evidence.value or 0.0, verdict.threshold),
    )


def _pixels(value: float, threshold: float) -> float:
    if threshold <= 0.0:
        return float(BAR_PIXELS) if value > 0.0 else 0.0
    return round(BAR_PIXELS * min(max(value / threshold, 0.0), 2.0) / 2.0, 1)
