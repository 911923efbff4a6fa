"""Evaluate saved predictions by the published protocol, cell by cell."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from ragsieve.errors import InputError
from ragsieve.files.contexts import Carried
from ragsieve.files.predictions import Prediction
from ragsieve.lab.labels import Labels
from ragsieve.lab.metrics import auroc, detected_at
from ragsieve.records import Decision

CLEAN_CONDITION = "clean"


@dataclasses.dataclass(frozen=True, slots=True)
class CellReport:
    """One dataset x retriever x attack cell. Shares lie in [0, 1]; None: cannot be computed.

    :param poison: poison documents scored.
    :param clean: clean documents scored, the negatives.
    :param bystanders: clean documents of attacked rankings; never among the negatives of a
        cell that has unpoisoned rankings.
    :param detected_at_5pct: share of poison above the threshold that costs 5% of the clean.
    :param removed: share of poison removed by the fixed rule.
    :param clean_removed: share of the negatives removed by the fixed rule.
    :param undecided: predictions below the threshold with evidence missing.
    """

    dataset: str | None
    encoder: str | None
    condition: str | None
    poison: int
    clean: int
    bystanders: int
    auroc: float | None
    detected_at_5pct: float | None
    removed: float | None
    clean_removed: float | None
    bystanders_removed: float | None
    undecided: int


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluationReport:
    """All cells, and their equal-weight mean where every cell has the figure.

    :param labelled: whether labels were given; without them only removal shares exist.
    :param unlabelled_documents: predictions about documents the labels do not name; they
        count as clean.
    """

    cells: tuple[CellReport, ...]
    macro_auroc: float | None
    macro_detected_at_5pct: float | None
    macro_removed: float | None
    macro_clean_removed: float | None
    predictions: int
    flagged: int
    undecided: int
    labelled: bool
    unlabelled_documents: int


def evaluate(predictions: Iterable[Prediction], labels: Labels | None) -> EvaluationReport:
    """Score predictions against labels.

    Negatives are the candidates of rankings with condition ``clean``, of the same dataset
    and encoder; where no ranking has that condition, the documents not labelled poison.

    :param labels: None when there are none; nothing is then called poison.
    :raises InputError: when there is no prediction.
    """
    rows = list(predictions)
    if not rows:
        raise InputError("expected at least one prediction, found none")
    known = labels or {}
    groups: dict[Carried, list[Prediction]] = collections.defaultdict(list)
    for row in rows:
        groups[row.carried].append(row)
    cells = tuple(
        _cell(carried, group, groups.get(_clean_of(carried)), known)
        for carried, group in groups.items()
        if carried.condition != CLEAN_CONDITION or _only_clean(carried, groups)
    )
    return EvaluationReport(
        cells=cells,
        macro_auroc=_macro([cell.auroc for cell in cells]),
        macro_detected_at_5pct=_macro([cell.detected_at_5pct for cell in cells]),
        macro_removed=_macro([cell.removed for cell in cells]),
        macro_clean_removed=_macro([cell.clean_removed for cell in cells]),
        predictions=len(rows),
        flagged=sum(row.flagged for row in rows),
        undecided=sum(row.decision is Decision.UNDECIDED for row in rows),
        labelled=labels is not None,
        unlabelled_documents=len({row.document_id for row in rows} - set(known)),
    )


def _clean_of(carried: Carried) -> Carried:
    return dataclasses.replace(carried, condition=CLEAN_CONDITION)


def _only_clean(carried: Carried, groups: dict[Carried, list[Prediction]]) -> bool:
    return not any(
        other != carried and dataclasses.replace(other, condition=CLEAN_CONDITION) == carried
        for other in groups
    )


def _cell(
    carried: Carried,
    group: Sequence[Prediction],
    unpoisoned: Sequence[Prediction] | None,
    labels: Labels,
) -> CellReport:
    poison = [row for row in group if labels.get(row.document_id, False)]
    others = [row for row in group if not labels.get(row.document_id, False)]
    clean = others if unpoisoned is None or unpoisoned is group else unpoisoned
    bystanders = [] if clean is others else others
    measurable = bool(poison) and bool(clean)
    scores = np.array([row.score for row in poison]), np.array([row.score for row in clean])
    return CellReport(
        dataset=carried.dataset,
        encoder=carried.encoder,
        condition=carried.condition,
        poison=len(poison),
        clean=len(clean),
        bystanders=len(bystanders),
        auroc=auroc(*scores) if measurable else None,
        detected_at_5pct=detected_at(*scores) if measurable else None,
        removed=_removed(poison),
        clean_removed=_removed(clean),
        bystanders_removed=_removed(bystanders),
        undecided=sum(row.decision is Decision.UNDECIDED for row in group),
    )


def _removed(rows: Sequence[Prediction]) -> float | None:
    if not rows:
        return None
    taken = [row.flagged if row.removed is None else row.removed for row in rows]
    return float(np.mean(taken))


def _macro(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
