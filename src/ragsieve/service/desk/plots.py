"""Evidence against its threshold, as numbers that a small drawing is made of."""

from __future__ import annotations

import dataclasses

from ragsieve.findings.taxonomy import taxonomy
from ragsieve.records import Verdict

WIDTH = 240
"""Of a bar in pixels; the threshold stands in its middle."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One evidence.

    :param value: in units of the threshold; None where it could not be measured, for ``reason``.
    :param pixels: of the bar, at most `WIDTH`, which is twice the threshold.
    :param components: further numbers behind it.
    """

    name: str
    title: str
    text: str
    value: float | None
    probability: float | None
    reason: str | None
    optional: bool
    reaches: bool
    pixels: float
    components: tuple[tuple[str, float | int], ...]

    @property
    def beyond(self) -> bool:
        """Whether the drawing ends before the value does."""
        return self.pixels >= WIDTH


def bars(verdict: Verdict) -> tuple[Bar, ...]:
    """Every evidence of a verdict, measured ones first and the strongest of them first."""
    known = taxonomy()
    found = []
    for one in verdict.evidences:
        rule = known.rule(one.name)
        found.append(
            Bar(
                one.name,
                rule.title,
                rule.text,
                one.value,
                one.probability,
                one.reason,
                one.optional,
                one.value is not None and one.value >= verdict.threshold,
                pixels(one.value, verdict.threshold),
                one.components,
            )
        )
    return tuple(sorted(found, key=lambda bar: (bar.value is None, -(bar.value or 0.0))))


def pixels(value: float | None, threshold: float) -> float:
    """How long the bar of a value is; the middle is the threshold."""
    if value is None or value <= 0:
        return 0.0
    if threshold <= 0:
        return float(WIDTH)
    return round(WIDTH / 2 * min(value / threshold, 2.0), 1)
