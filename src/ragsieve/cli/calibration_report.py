"""What `calibrate` shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ragsieve.calibration.intervals import Interval
from ragsieve.calibration.record import CalibrationRecord, SliceRecord
from ragsieve.cli.console import Console

_SIZES = 5
_SHOWN = 10


def report(console: Console, record: CalibrationRecord, output: Path, gone: Sequence[str]) -> None:
    """Show a calibration: a table, then what a person should know about each slice.

    :param gone: slices of the last calibration that have no traffic now.
    """
    columns = ("slice", "benign", "threshold", "alarms", "at profile's", "recall", "drift")
    console.table("Calibration", columns, [_row(one) for one in record.slices])
    lines = [
        line for one in record.slices for line in _lines(one, unit=record.unit, trim=record.trim)
    ]
    lines += [f"{name}: in the last calibration, without traffic now." for name in gone]
    lines.append(
        f"{sum(one.threshold is not None for one in record.slices)} of {len(record.slices)} "
        f"thresholds set for {record.alarm_rate:g} alarms a benign {record.unit}: {output}"
    )
    fields = dataclasses.asdict(record) | {"output": str(output), "without_traffic": list(gone)}
    console.result(fields, [*lines, record.meaning])


def _row(one: SliceRecord) -> list[str]:
    worth = "" if one.effective == one.units else f", worth {one.effective:,}"
    drift = "-" if one.drift is None else "yes" if one.drift.drifted else "no"
    return [
        str(one.slice),
        f"{one.units:,}{worth}",
        "stays" if one.threshold is None else _figures(one.threshold, "{:.4g}"),
        "-" if one.rate is None else _figures(one.rate, "{:.2%}"),
        f"{one.at_profile.count:,} at {one.at_profile.threshold:g}",
        "-" if one.recall is None else _figures(one.recall.documents.share, "{:.1%}"),
        drift,
    ]


def _lines(one: SliceRecord, *, unit: str, trim: float) -> list[str]:
    said = []
    if one.reason is not None:
        said.append(f"no new threshold: {one.reason}.")
    if one.missing:
        said.append(f"scored without {', '.join(one.missing)}: holds for runs that lack the same.")
    if one.left_out:
        said.append(f"judgements left out, since other evidence was missing: {one.left_out:,}.")
    if trim:
        said.append(f"{unit} scores trimmed: {one.trimmed:,}; they count in the upper end.")
    if one.review:
        more = len(one.review) - _SHOWN
        said.append(
            f"documents at or above the profile's threshold: {len(one.review):,}; review them, they "
            f"may be planted: {', '.join(one.review[:_SHOWN])}"
            + (f" and {more:,} more in the record" if more > 0 else "")
        )
    if one.recall is not None:
        said.append(
            f"replayed: {one.recall.documents.found:,} of {one.recall.documents.of:,} documents "
            f"found at {one.recall.threshold:g}, {one.recall.not_judged:,} never judged"
        )
        said += [
            f"  campaigns of {size.size or 'unknown size'}: "
            f"{size.campaigns.found:,} of {size.campaigns.of:,} found, documents "
            f"{_figures(size.documents.share, '{:.1%}')}"
            for size in one.recall.by_size[:_SIZES]
        ]
    elif one.no_recall != "nothing was replayed":
        said.append(f"recall unavailable: {one.no_recall}.")
    if one.drift is not None:
        said += [f"drift: {reason}." for reason in one.drift.reasons]
        said.append(
            f"alarms at {one.drift.threshold:g} changed by {_figures(one.drift.change, '{:+.2%}')}"
        )
    elif one.no_drift != "there is no earlier calibration":
        said.append(f"drift unavailable: {one.no_drift}.")
    return [f"{one.slice}: {line}" for line in said]


def _figures(one: Interval, form: str) -> str:
    return f"{form.format(one.value)} [{form.format(one.low)}, {form.format(one.high)}]"
