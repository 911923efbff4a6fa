"""Render summaries as one self-contained HTML page and as Markdown; computes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from ragsieve._atomic import write_text
from ragsieve._extras import require
from ragsieve.display import visible
from ragsieve.lab.experiments import measures
from ragsieve.lab.experiments.figures import CellSummary, Figure, Summary
from ragsieve.lab.experiments.plots import plots_of

HTML, MARKDOWN = "report.html", "report.md"
WORDS: Mapping[str, str] = MappingProxyType(
    {
        measures.AUROC: "AUROC",
        measures.DETECTED: "detected at 5%",
        measures.REMOVED: "poison removed",
        measures.CLEAN_REMOVED: "clean removed",
        measures.BYSTANDERS_REMOVED: "bystanders removed",
        measures.CLEAN_REMOVED_UNPOISONED: "clean removed, nothing planted",
        measures.UNDECIDED: "undecided",
        measures.POISON_BEFORE: "poison in the context, undefended",
        measures.POISON_AFTER: "poison in the context, defended",
        measures.HIT_BEFORE: "targets hit, undefended",
        measures.HIT_AFTER: "targets hit, defended",
        measures.JOINT: "retrieved and unflagged",
        measures.PLACES_REMOVED: "clean places removed",
        measures.RECALL: "Recall@5, clean index",
        measures.ASR: "ASR",
        measures.ASR_UNDEFENDED: "ASR, undefended",
        measures.POISONED_ACCURACY: "accuracy, poisoned",
        measures.ACCURACY: "accuracy, unpoisoned",
        measures.ASR_AGREED: "ASR, were answers without agreement withheld",
        measures.ACCURACY_AGREED: "accuracy, unpoisoned, were answers without agreement withheld",
        measures.UNANSWERED: "no answer, unpoisoned",
        measures.ANSWER_SECONDS: "seconds a question, replies, summed over models",
        measures.STAGE_SECONDS: "seconds a question, stages",
        measures.ANSWER_CALLS: "replies asked a question",
        measures.ANSWER_TOKENS: "tokens a question, prompts and replies",
        measures.F1: "F1, poisoned",
        measures.EM: "EM, poisoned",
        measures.CLEAN_F1: "F1, unpoisoned",
        measures.CLEAN_EM: "EM, unpoisoned",
        measures.MEAN_SECONDS: "seconds, mean",
        measures.P95_SECONDS: "seconds, P95",
        measures.ATTACK_SECONDS: "seconds to attack a target",
    }
)
"""What metrics are called."""
_SECONDS = (
    measures.MEAN_SECONDS, measures.P95_SECONDS, measures.ATTACK_SECONDS, measures.ANSWER_SECONDS,
    measures.STAGE_SECONDS,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """One metric: methods down, what they were tried on across."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """One of our figures beside a published one, in words."""

    place: str
    method: str
    metric: str
    ours: str
    published: str
    difference: str
    source: str
    reasons: str


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """One experiment, laid out.

    :param times: what each cell took; None where none was run.
    :param plots: title and base64 SVG.
    """

    summary: Summary
    tables: tuple[Table, ...]
    times: Table | None
    plots: tuple[tuple[str, str], ...]
    comparisons: tuple[Comparison, ...]
    remarks: tuple[tuple[str, str], ...]
    problems: tuple[tuple[str, str, str], ...]


def write_report(
    folder: Path, summaries: Sequence[Summary], notes: Sequence[str] = ()
) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md``; no document's text is in either.

    :param notes: lines at the top, such as the command, the machine and the commit.
    :raises MissingExtraError: without the extra ``lab``.
    :raises OutputError: when they cannot be written.
    """
    sections = [section_of(summary) for summary in summaries]
    page, plain = folder / HTML, folder / MARKDOWN
    write_text(page, _rendered("report.html.j2", sections, notes, escape=True))
    write_text(plain, _rendered("report.md.j2", sections, notes, escape=False))
    return page, plain


def section_of(summary: Summary) -> Section:
    """An experiment's tables, plots and remarks."""
    words = [(metric, WORDS.get(metric, metric)) for metric in summary.metrics]
    return Section(
        summary=summary,
        tables=tuple(
            table
            for metric, title in words
            if (table := table_of(summary, metric, title)) is not None
        ),
        times=_time_table(summary),
        plots=tuple(
            plots_of(summary, [(metric, titled(summary, metric, title)) for metric, title in words])
        ),
        comparisons=tuple(_comparisons(summary)),
        remarks=tuple(_remarks(summary)),
        problems=tuple(
            (f"{cell.place} {cell.method}".strip(), cell.status, cell.reason or "")
            for cell in summary.problems
        ),
    )


def table_of(summary: Summary, metric: str, title: str) -> Table | None:
    """A metric's table with the mean over attacks last; None without a figure.

    Who judged stands in the title of what a judge decides.
    """
    cells = [cell for cell in summary.cells if cell.figure(metric) is not None]
    if not cells:
        return None
    places = tuple(dict.fromkeys(cell.place for cell in cells))
    settings = tuple(
        dict.fromkeys(
            mean.setting
            for mean in summary.means
            if any(figure.metric == metric for figure in mean.figures)
        )
    )
    rows = []
    for method in dict.fromkeys(cell.method for cell in cells):
        shown = [
            _among(cell for cell in cells if (cell.method, cell.place) == (method, place))
            for place in places
        ]
        averaged = [
            next(
                (
                    figure
                    for mean in summary.means
                    if (mean.method, mean.setting) == (method, setting)
                    for figure in mean.figures
                    if figure.metric == metric
                ),
                None,
            )
            for setting in settings
        ]
        texts = [*(_seeds(found, metric) for found in shown), *(_shown(one) for one in averaged)]
        rows.append((method, tuple(texts)))
    columns = (*places, *(f"mean {setting}".strip() for setting in settings))
    return Table(titled(summary, metric, title), columns, tuple(rows))


def titled(summary: Summary, metric: str, title: str) -> str:
    """The title with who judged, for what a judge decides."""
    judges = dict.fromkeys(cell.judge for cell in summary.cells if cell.judge)
    if metric not in measures.JUDGED or not judges:
        return title
    return f"{title} (judge: {visible('; '.join(judges))})"


def _time_table(summary: Summary) -> Table | None:
    """What each cell took, with what it was the first to need: an index, losses, documents."""
    if not any(cell.figures for cell in summary.cells):
        return None
    places = tuple(dict.fromkeys(cell.place for cell in summary.cells))
    rows = []
    for method in dict.fromkeys(cell.method for cell in summary.cells):
        own = [cell for cell in summary.cells if cell.method == method]
        shown = ["; ".join(f"{c.seconds:.3g}" for c in own if c.place == place) for place in places]
        rows.append((method, tuple(text or "-" for text in shown)))
    return Table("seconds a cell took, unpoisoned half included", places, tuple(rows))


def _among(cells: Iterable[CellSummary]) -> list[CellSummary]:
    return list(cells)


def _seeds(cells: Sequence[CellSummary], metric: str) -> str:
    """One figure a seed."""
    return "; ".join(_cell_text(cell, metric) for cell in cells) or "-"


def _cell_text(cell: CellSummary, metric: str) -> str:
    text = _shown(cell.figure(metric))
    empty = metric in measures.JUDGED and not cell.informative
    return f"{text} (not informative)" if empty else text


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    value = _number(figure.metric, figure.value)
    if figure.low is None or figure.high is None:
        return value
    return f"{value} [{_number(figure.metric, figure.low)}, {_number(figure.metric, figure.high)}]"


def _number(metric: str, value: float) -> str:
    if metric in _SECONDS:
        return f"{value:.3g} s"
    if metric == measures.ANSWER_TOKENS:
        return f"{value:,.0f}"
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if text.startswith("0.") else text


def _comparisons(summary: Summary) -> Iterable[Comparison]:
    groups = [(cell.place, cell.method, cell.figures) for cell in summary.cells]
    groups += [(f"mean {one.setting}".strip(), one.method, one.figures) for one in summary.means]
    for place, method, figures in groups:
        for figure in figures:
            if figure.beside is None:
                continue
            yield Comparison(
                place=place,
                method=method,
                metric=WORDS.get(figure.metric, figure.metric),
                ours=_shown(figure),
                published=_number(figure.metric, figure.beside.value),
                difference=f"{figure.beside.difference:+.3f}",
                source=f"{figure.beside.source}; {figure.beside.scope}",
                reasons="; ".join(figure.beside.reasons),
            )


def _remarks(summary: Summary) -> Iterable[tuple[str, str]]:
    """Each remark once, with the cells it is about."""
    about: dict[str, dict[str, None]] = {}
    for cell in summary.cells:
        for remark in cell.remarks:
            about.setdefault(remark, {})[cell.method] = None
    for remark, methods in about.items():
        yield remark, ", ".join(methods)


def _rendered(name: str, sections: Sequence[Section], notes: Sequence[str], *, escape: bool) -> str:
    jinja2 = require("jinja2", extra="lab")
    environment = jinja2.Environment(
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["visible"] = visible
    environment.filters["cell"] = _markdown_cell
    source = files("ragsieve.lab.experiments").joinpath(name).read_text("utf-8")
    text: str = environment.from_string(source).render(sections=sections, notes=notes)
    return text


def _markdown_cell(text: str) -> str:
    """Words of a file, such as a model's name or an error, as one cell of a table."""
    plain = visible(text).replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")
    return " ".join(plain.replace("<", "&lt;").split())
