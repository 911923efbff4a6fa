"""What a report shows: figures with intervals, the published ones beside them, all numbers final."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsieve._atomic import write_text
from ragsieve.errors import InputError

SUMMARY = "summary.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """A published figure.

    :param difference: ours minus theirs.
    :param reasons: why the two need not agree.
    """

    value: float
    difference: float
    source: str
    scope: str
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One number. Shares lie in [0, 1], times are seconds.

    :param low: of the 95% interval over targets; None, as ``high``, where there is none.
    :param count: what it was counted over.
    """

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    count: int | None = None
    beside: Beside | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CellSummary:
    """One cell with its figures.

    :param place: what it is about beside the method, as columns show it.
    :param setting: the same without the attack.
    :param axis: the number that a sweep varies; None where nothing is swept.
    :param column: the published attack it is set beside; None where there is none.
    :param reason: why there are no figures; None where there are.
    :param remarks: what its figures must be read with.
    :param judge: who judged its answers; None without answers.
    :param informative: False where so few unpoisoned questions are answered correctly that its
        answers say nothing about a defence.
    """

    attack: str
    count: int
    method: str
    place: str
    setting: str
    status: str
    seconds: float
    seed: int
    axis: float | None = None
    share: float | None = None
    recall: float | None = None
    column: str | None = None
    reason: str | None = None
    planted: int | None = None
    targets: int | None = None
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()
    judge: str | None = None
    informative: bool = True

    def figure(self, metric: str) -> Figure | None:
        """The figure of a metric, if there is one."""
        return next((one for one in self.figures if one.metric == metric), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Mean:
    """A method's equal-weight mean over the attacks of one setting.

    :param setting: what the cells have in common beside the method.
    :param cells: how many were averaged.
    """

    method: str
    setting: str
    cells: int
    figures: tuple[Figure, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """One experiment, ready to be shown.

    :param axis: name of what a sweep varies; empty where nothing is swept.
    :param metrics: those its claim is about, most important first.
    """

    name: str
    claim: str
    kind: str
    dataset: str
    documents: int
    encoder: str
    facts: tuple[tuple[str, str], ...]
    axis: str
    metrics: tuple[str, ...]
    cells: tuple[CellSummary, ...]
    means: tuple[Mean, ...]

    @property
    def problems(self) -> tuple[CellSummary, ...]:
        """Cells without figures."""
        return tuple(cell for cell in self.cells if cell.reason is not None)


def write_summary(path: Path, summary: Summary) -> None:
    """Keep a summary.

    :raises OutputError: when it cannot be written.
    """
    text = json.dumps(dataclasses.asdict(summary), indent=1, allow_nan=False)
    write_text(path, text + "\n")


def read_summary(path: Path) -> Summary:
    """A summary that was kept.

    :raises InputError: when it cannot be read.
    """
    try:
        fields = json.loads(path.read_text("utf-8"))
        return Summary(
            **{
                **fields,
                "facts": tuple((name, value) for name, value in fields["facts"]),
                "metrics": tuple(fields["metrics"]),
                "cells": tuple(_cell(one) for one in fields["cells"]),
                "means": tuple(
                    Mean(**{**one, "figures": _figures(one["figures"])}) for one in fields["means"]
                ),
            }
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the experiment again") from error


def _cell(fields: Mapping[str, Any]) -> CellSummary:
    own = {"figures": _figures(fields["figures"]), "remarks": tuple(fields["remarks"])}
    return CellSummary(**{**fields, **own})


def _figures(rows: list[dict[str, Any]]) -> tuple[Figure, ...]:
    return tuple(
        Figure(**{**row, "beside": None if row["beside"] is None else _beside(row["beside"])})
        for row in rows
    )


def _beside(fields: Mapping[str, Any]) -> Beside:
    return Beside(**{**fields, "reasons": tuple(fields["reasons"])})
