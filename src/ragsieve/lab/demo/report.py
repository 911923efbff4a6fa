"""Render the demo's result as one self-contained HTML page; computes nothing."""

from __future__ import annotations

import base64
import dataclasses
import io
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._atomic import write_text
from ragsieve._extras import require
from ragsieve.display import visible
from ragsieve.explain import MEANING
from ragsieve.lab.demo.result import DemoResult

_CLEAN, _PLANTED = "#4c78a8", "#d62728"


@dataclasses.dataclass(frozen=True, slots=True)
class PlotData:
    """Scores behind the plots, with the lab's knowledge of what was planted."""

    corpus_scores: npt.NDArray[np.float64]
    corpus_planted: npt.NDArray[np.bool_]
    corpus_threshold: float
    query_scores: npt.NDArray[np.float64]
    query_planted: npt.NDArray[np.bool_]
    query_threshold: float


def write_report(path: Path, result: DemoResult, data: PlotData) -> None:
    """Write the page: no script, no outside resource, hostile text escaped and made visible.

    :raises MissingExtraError: without the extra ``lab``.
    :raises OutputError: when it cannot be written.
    """
    jinja2 = require("jinja2", extra="demo")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["visible"] = visible
    source = files("ragsieve.lab.demo").joinpath("report.html.j2").read_text("utf-8")
    plots = [
        ("Poison left in the contexts", _bars(result)),
        (
            "RSG scan: scores of the whole index",
            _scores(data.corpus_scores, data.corpus_planted, data.corpus_threshold),
        ),
        (
            "RSQ filter alone: scores of all candidates",
            _scores(data.query_scores, data.query_planted, data.query_threshold),
        ),
    ]
    write_text(path, environment.from_string(source).render(r=result, plots=plots, meaning=MEANING))


def _bars(result: DemoResult) -> str:
    figure, axes = _figure()
    names = [row.defense for row in result.rows]
    left = np.zeros(len(names))
    for attack in result.planted_by_attack:
        counts = np.array([row.by_attack.get(attack, 0) for row in result.rows])
        axes.barh(names, counts, left=left, label=attack)
        left += counts
    axes.invert_yaxis()
    axes.set_xlabel("poison documents in the top 5 of the targets")
    axes.legend(frameon=False, fontsize=8)
    return _encoded(figure)


def _scores(
    scores: npt.NDArray[np.float64], planted: npt.NDArray[np.bool_], threshold: float
) -> str:
    figure, axes = _figure()
    top = float(max(scores.max(initial=0.0), threshold)) * 1.05
    bins = np.linspace(0.0, top, 40)
    axes.hist(scores[~planted], bins=bins, color=_CLEAN, label="clean", log=True)
    axes.hist(scores[planted], bins=bins, color=_PLANTED, alpha=0.75, label="planted", log=True)
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1, label="threshold")
    axes.set_xlabel("score")
    axes.set_ylabel("documents (log)")
    axes.legend(frameon=False, fontsize=8)
    return _encoded(figure)


def _figure() -> tuple[Any, Any]:
    # The object interface leaves the global plotting state and its backend alone.
    figures = require("matplotlib.figure", extra="demo")
    figure = figures.Figure(figsize=(7, 2.8), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _encoded(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return base64.b64encode(buffer.getvalue()).decode("ascii")
