"""Figures of a report as SVG; draws what a summary holds."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from ragsieve._extras import require
from ragsieve.lab.experiments.figures import CellSummary, Summary

_COLORS = (
    "#4c78a8", "#d62728", "#54a24b", "#b279a2", "#f58518", "#72b7b2", "#9d755d", "#bab0ac",
)  # fmt: skip
_MARKERS = "osD^v<>P"


def plots_of(summary: Summary, words: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Title and base64 SVG of each plot; none for a metric without figures.

    :param words: metrics to draw with what they are called.
    """
    drawn = []
    for metric, title in words[:2]:
        cells = [cell for cell in summary.cells if cell.figure(metric) is not None]
        if not cells:
            continue
        along = summary.axis and all(cell.axis is not None for cell in cells)
        image = _lines(cells, metric, title, summary.axis) if along else _dots(cells, metric, title)
        drawn.append((title, image))
    return drawn


def _lines(cells: Sequence[CellSummary], metric: str, title: str, axis: str) -> str:
    figure, axes = _figure(3.2)
    series: dict[str, list[CellSummary]] = {}
    for cell in cells:
        series.setdefault(f"{cell.attack}: {_series(cell)}", []).append(cell)
    for place, (name, found) in enumerate(series.items()):
        own = sorted(found, key=lambda cell: cell.axis or 0.0)
        points = [(cell.axis, cell.figure(metric)) for cell in own]
        known = [(x, one) for x, one in points if one is not None]
        style = {"color": _COLORS[place % len(_COLORS)], "marker": _MARKERS[place % len(_MARKERS)]}
        axes.plot([x for x, _ in known], [one.value for _, one in known], label=name, **style)
        banded = [(x, one.low, one.high) for x, one in known if one.low is not None]
        axes.fill_between(
            [x for x, _, _ in banded],
            [low for _, low, _ in banded],
            [high for _, _, high in banded],
            color=style["color"],
            alpha=0.12,
            linewidth=0,
        )
    axes.set_xlabel(axis)
    axes.set_ylabel(title)
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _encoded(figure)


def _series(cell: CellSummary) -> str:
    """The method, without the value that the axis shows."""
    return cell.method.rpartition("=")[0] or cell.method


def _dots(cells: Sequence[CellSummary], metric: str, title: str) -> str:
    methods = list(dict.fromkeys(cell.method for cell in cells))
    places = list(dict.fromkeys(cell.place for cell in cells))
    figure, axes = _figure(1.2 + 0.28 * len(methods))
    for row, place in enumerate(places):
        shift = (row - (len(places) - 1) / 2) * 0.6 / max(1, len(places))
        for cell in cells:
            one = cell.figure(metric)
            if cell.place != place or one is None:
                continue
            height = methods.index(cell.method) + shift
            color = _COLORS[row % len(_COLORS)]
            if one.low is not None:
                axes.plot([one.low, one.high], [height, height], color=color, linewidth=1.5)
            axes.plot(
                [one.value], [height], _MARKERS[row % len(_MARKERS)], color=color, markersize=5
            )
        axes.plot(
            [], [], _MARKERS[row % len(_MARKERS)], color=_COLORS[row % len(_COLORS)], label=place
        )
    axes.set_yticks(range(len(methods)), methods)
    axes.invert_yaxis()
    axes.set_xlabel(title)
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _encoded(figure)


def _figure(height: float) -> tuple[Any, Any]:
    # The object interface leaves the global plotting state and its backend alone.
    figures = require("matplotlib.figure", extra="lab")
    figure = figures.Figure(figsize=(8, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def _encoded(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return base64.b64encode(buffer.getvalue()).decode("ascii")
