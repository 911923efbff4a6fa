"""Commands of the lab: evaluate, ablate."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from ragsieve._atomic import check_writable, write_text
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.files.predictions import prediction_fields, read_predictions
from ragsieve.lab.ablation import Variant
from ragsieve.lab.ablation import ablate as ablate_predictions

Predictions = Annotated[Path, typer.Option(help="Predictions of `scan` or `filter`.")]


def evaluate(
    predictions: Predictions,
    output: options.Output,
    labels: Annotated[
        Path | None, typer.Option(help="Rows of document_id and poison; without them no AUROC.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Score saved predictions by the published protocol."""
    from ragsieve.lab.evaluation import evaluate as evaluate_predictions
    from ragsieve.lab.labels import read_labels

    console = Console(as_json=as_json)
    check_writable(output)
    known = None if labels is None else read_labels(labels)
    report = evaluate_predictions(read_predictions(predictions), known)
    fields = dataclasses.asdict(report)
    write_text(output, json.dumps(fields, indent=2, allow_nan=False) + "\n")
    rows = [
        [
            "/".join(filter(None, (cell.dataset, cell.encoder, cell.condition))) or "all",
            str(cell.poison),
            str(cell.clean),
            *map(_figure, (cell.auroc, cell.detected_at_5pct, cell.removed, cell.clean_removed)),
        ]
        for cell in report.cells
    ]
    header = ("cell", "poison", "clean", "AUROC", "found at 5%", "removed", "clean removed")
    console.table("Evaluation", header, rows)
    lines = [
        f"{report.flagged:,} of {report.predictions:,} flagged, {report.undecided:,} undecided"
    ]
    if known is None:
        lines.append(
            "No labels: AUROC and detection are unavailable, removal counts all documents."
        )
    console.result(fields, lines)


def ablate(
    predictions: Predictions,
    variant: Annotated[Variant, typer.Option(help="What to leave out, or to leave alone.")],
    output: options.Output,
    as_json: options.AsJson = False,
) -> None:
    """Decide again from saved evidence without one of its parts."""
    console = Console(as_json=as_json)
    check_writable(output)
    rows = ablate_predictions(read_predictions(predictions), variant)
    count = write_jsonl(output, (prediction_fields(row) for row in rows))
    console.result({"predictions": count, "variant": variant.value}, [f"{count:,} predictions"])


def _figure(value: float | None) -> str:
    return "unavailable" if value is None else f"{value:.3f}"
