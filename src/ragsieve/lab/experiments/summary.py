"""Compute everything a report shows from the scores on disk; the labels enter here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsieve.lab.experiments import measures
from ragsieve.lab.experiments.figures import (
    SUMMARY,
    CellSummary,
    Figure,
    Mean,
    Summary,
    write_summary,
)
from ragsieve.lab.experiments.outcome import Facts, Status
from ragsieve.lab.experiments.published import Place, beside
from ragsieve.lab.experiments.spec import Kind, MethodKind
from ragsieve.lab.experiments.store import Store
from ragsieve.lab.intervals import macro

_SHOWN = {
    Kind.DETECTION: (measures.AUROC, measures.DETECTED, measures.REMOVED, measures.CLEAN_REMOVED),
    Kind.VOLUME: (measures.DETECTED, measures.AUROC, measures.REMOVED, measures.POISON_AFTER),
    Kind.ABLATION: (measures.AUROC, measures.DETECTED, measures.REMOVED, measures.CLEAN_REMOVED),
    Kind.SWEEP: (measures.REMOVED, measures.CLEAN_REMOVED, measures.AUROC, measures.DETECTED),
    Kind.ADAPTIVE: (
        measures.HIT_BEFORE,
        measures.DETECTED,
        measures.JOINT,
        measures.ATTACK_SECONDS,
    ),
    Kind.COST: (measures.MEAN_SECONDS, measures.P95_SECONDS),
    Kind.POISON_SHARE: (measures.REMOVED, measures.DETECTED, measures.CLEAN_REMOVED),
    Kind.RETRIEVAL: (
        measures.POISON_BEFORE,
        measures.POISON_AFTER,
        measures.HIT_AFTER,
        measures.PLACES_REMOVED,
    ),
    Kind.APPROXIMATE: (measures.AUROC, measures.DETECTED, measures.REMOVED),
    Kind.END_TO_END: (
        measures.ASR,
        measures.ACCURACY,
        measures.ASR_UNDEFENDED,
        measures.POISONED_ACCURACY,
        measures.ASR_AGREED,
        measures.ACCURACY_AGREED,
        measures.PLACES_REMOVED,
        measures.POISON_AFTER,
        measures.UNANSWERED,
        measures.F1,
        measures.EM,
        measures.CLEAN_F1,
        measures.CLEAN_EM,
        measures.ANSWER_SECONDS,
        measures.STAGE_SECONDS,
        measures.ANSWER_CALLS,
        measures.ANSWER_TOKENS,
    ),
}
_AXES = {
    Kind.VOLUME: "documents a target",
    Kind.POISON_SHARE: "share of the index that is poison",
    Kind.APPROXIMATE: "recall of the search",
    Kind.SWEEP: "value",
}
_AVERAGED = (Kind.DETECTION, Kind.END_TO_END)
_SIX = {"PR-B", "PR-W", "CEM-C", "CEM-D", "CPA-RAG", "CamoDocs"}
_PAPER_MODELS = "other models than Qwen3-0.6B-Base and bert-base-uncased"


def summarize(folder: Path) -> Summary:
    """Summarise an experiment's results and keep the summary beside them.

    :param folder: the experiment's, below the output folder.
    :raises InputError: when results are missing or damaged.
    :raises OutputError: when the summary cannot be written.
    """
    store = Store(folder)
    plan = store.plan()
    described = plan["experiment"]
    kind = Kind(described["kind"])
    cells = _beside_undefended(
        [_cell(store, plan, kind, one["fingerprint"], one["title"]) for one in plan["cells"]]
    )
    summary = Summary(
        name=described["name"],
        claim=described["claim"],
        kind=kind,
        dataset=plan["dataset"],
        documents=plan["documents"],
        encoder=plan["encoder"],
        facts=tuple(_facts(plan)),
        axis=_AXES.get(kind, ""),
        metrics=tuple(dict.fromkeys(_SHOWN[kind])),
        cells=cells,
        means=tuple(_means(plan, kind, cells)),
    )
    write_summary(folder / SUMMARY, summary)
    return summary


def _facts(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    described = plan["experiment"]
    yield "dataset", f"{plan['dataset']}, {plan['documents']:,} documents"
    yield "retriever", str(plan["encoder"])
    yield "retrieved", f"{described['depth']} documents, {described['context']} handed over"
    yield (
        "models",
        f"causal {described['models']['causal']}, tokens {described['models']['encoder']}",
    )
    if asked := described.get("answers"):
        first, *others = asked["by"]
        words = f"{first}, replies of at most {asked['tokens']} tokens"
        yield "answers", f"{words}; with it in the panel: {', '.join(others)}" if others else words
    if described["part"] != "all":
        yield "targets", f"{described['part']} of the dataset's targets"


def _cell(
    store: Store, plan: Mapping[str, Any], kind: Kind, fingerprint: str, title: str
) -> CellSummary:
    record = store.record(fingerprint)
    if record is None:
        return _blank(title, "not run", "the run ended before this cell")
    cell = record["cell"]
    found = CellSummary(
        attack=cell["attack"]["name"],
        count=cell["count"],
        method=record["method_title"],
        place=f"{cell['attack']['name']} {_setting(cell, _written(record))}",
        setting=_setting(cell),
        status=record["status"],
        seconds=record["seconds"],
        seed=cell["seed"],
        axis=_axis(kind, cell),
        share=cell["share"],
        recall=cell["recall"],
        column=_column(kind, cell),
        reason=record["reason"],
        planted=record.get("planted"),
        targets=len(record["targets"]) if "targets" in record else None,
    )
    if record["status"] != Status.DONE:
        return found
    remarks = tuple(_remarks(record))
    where = Place(
        method=cell["method"]["name"],
        profile=cell["method"]["profile"],
        attack=_column(kind, cell),
        count=cell["count"],
        dataset=plan["dataset"],
        encoder=plan["encoder"],
        documents=plan["documents"],
        remarks=remarks,
    )
    figures = measures.figures_of(_rows(store, fingerprint, record))
    changed = cell["method"]["without"] or cell["method"]["alone"] or cell["method"]["overrides"]
    if not changed:
        figures = tuple(_compared(one, where) for one in figures)
    empty = _uninformative(figures)
    return dataclasses.replace(
        found,
        figures=figures,
        remarks=remarks if empty is None else (empty, *remarks),
        judge=record["judge"],
        informative=empty is None,
    )


def _beside_undefended(cells: Sequence[CellSummary]) -> tuple[CellSummary, ...]:
    """Every cell with answers, and beside its rate that of the same attack without a defence."""

    def about(cell: CellSummary) -> tuple[object, ...]:
        return (cell.attack, cell.count, cell.seed, cell.share, cell.recall)

    rates = {
        about(cell): cell.figure(measures.ASR) for cell in cells if cell.method == MethodKind.NONE
    }
    found = []
    for cell in cells:
        rate = rates.get(about(cell)) if cell.figure(measures.ASR) is not None else None
        if rate is not None:
            beside_it = dataclasses.replace(rate, metric=measures.ASR_UNDEFENDED, beside=None)
            cell = dataclasses.replace(cell, figures=(*cell.figures, beside_it))  # noqa: PLW2901
        found.append(cell)
    return tuple(found)


def _uninformative(figures: Sequence[Figure]) -> str | None:
    """The remark where answers to unpoisoned questions are mostly wrong."""
    found = next((one for one in figures if one.metric == measures.ACCURACY), None)
    if found is None or found.value >= measures.INFORMATIVE:
        return None
    return (
        f"not informative: {found.value:.0%} of the unpoisoned questions are answered correctly, "
        f"fewer than {measures.INFORMATIVE:.0%}"
    )


def _rows(store: Store, fingerprint: str, record: Mapping[str, Any]) -> measures.Rows:
    return measures.Rows(
        facts=Facts(**record["facts"]),
        scores=store.scores(fingerprint),
        contexts=store.contexts(fingerprint),
        answers=store.answers(fingerprint),
        seconds=record["times"],
        labels=store.labels(fingerprint),
        targets=record["targets"],
        recalls=record["recall_at_5"],
        attack_seconds=record["written"]["seconds"],
    )


def _compared(figure: Figure, where: Place) -> Figure:
    return dataclasses.replace(figure, beside=beside(where, figure.metric, figure.value))


def _remarks(record: Mapping[str, Any]) -> Iterator[str]:
    """What a figure must be read with, in the order of its weight."""
    method, facts, written = record["cell"]["method"], record["facts"], record["written"]
    if method["profile"] == "paper" and method["kind"] in {"rsq", "serial"}:
        yield _PAPER_MODELS
    if facts["fidelity"] and facts["fidelity"] != "exact":
        yield f"{method['name']} is {_article(facts['fidelity'])}"
    if facts["binary"]:
        yield "decides without a usable score: its own operating point only"
    if not facts["decides"]:
        yield "publishes no cut-off: it ranks and removes nothing"
    if written["fidelity"] and written["fidelity"] != "exact":
        yield f"{record['cell']['attack']['name']} is {_article(written['fidelity'])}"
    if written["reduced"]:
        yield "a smaller attack budget than the published one"
    if written["failed"]:
        yield f"{len(written['failed'])} targets without valid documents are left out"
    if record["judge"]:
        yield f"judge: {record['judge']}"
    yield from record["notes"]


def _article(fidelity: str) -> str:
    return "a variant" if fidelity == "variant" else "a reconstruction"


def _column(kind: Kind, cell: Mapping[str, Any]) -> str | None:
    """The published column a cell is set beside."""
    if kind is Kind.COST:
        return "cost"
    published = cell["attack"]["published"]
    # Approximate search and thinned attacks have no published counterpart.
    plain = cell["share"] is None and cell["recall"] in {None, 1.0}
    return str(published) if published and plain else None


def _written(record: Mapping[str, Any]) -> float | None:
    """Documents a target, where a construction wrote fewer than it was asked for."""
    return record["planted"] / len(record["targets"]) if record.get("targets") else None


def _setting(cell: Mapping[str, Any], count: float | None = None) -> str:
    """What cells that are averaged have in common beside the method."""
    words = f"x{cell['count'] if count is None else count:.3g}"
    if cell["share"] is not None:
        words += f", {cell['share']:.1%} poison"
    if cell["recall"] is not None:
        words += f", recall {cell['recall']:g}"
    return words


def _axis(kind: Kind, cell: Mapping[str, Any]) -> float | None:
    if kind is Kind.VOLUME:
        return float(cell["count"])
    swept = {Kind.POISON_SHARE: "share", Kind.APPROXIMATE: "recall"}.get(kind)
    if swept is not None:
        return None if cell[swept] is None else float(cell[swept])
    values = [value for _, value in cell["method"]["overrides"]]
    numeric = len(values) == 1 and isinstance(values[0], int | float)
    return float(values[0]) if kind is Kind.SWEEP and numeric else None


def _means(plan: Mapping[str, Any], kind: Kind, cells: Sequence[CellSummary]) -> Iterator[Mean]:
    """Equal weight to every attack, as published; only where every cell has the figure."""
    groups: dict[tuple[str, str], list[CellSummary]] = {}
    for cell in cells:
        if cell.status != "not run":
            groups.setdefault((cell.method, cell.setting), []).append(cell)
    for (method, setting), own in groups.items():
        if len(own) < 2:  # noqa: PLR2004 -- one cell is its own mean
            continue
        metrics = dict.fromkeys(figure.metric for cell in own for figure in cell.figures)
        found = []
        for metric in metrics:
            values = [cell.figure(metric) for cell in own]
            mean = macro([None if one is None else one.value for one in values])
            if mean is not None:
                found.append(_mean(plan, kind, own, Figure(metric, mean, count=len(own))))
        if found:
            yield Mean(method, setting, len(own), tuple(found))


def _mean(
    plan: Mapping[str, Any], kind: Kind, own: Sequence[CellSummary], figure: Figure
) -> Figure:
    """A mean beside the published mean over the six attacks, or of the volume study."""
    name, _, profile = own[0].method.partition(" ")
    columns = {cell.column for cell in own}
    # A mean over other attacks than the published ones stands alone.
    comparable = kind is Kind.VOLUME or (kind in _AVERAGED and columns == _SIX)
    if " " in profile or not comparable:
        return figure
    attacks = ", ".join(dict.fromkeys(cell.attack for cell in own))
    remarks = dict.fromkeys(remark for cell in own for remark in cell.remarks)
    where = Place(
        method=name,
        profile=profile,
        attack="volume" if kind is Kind.VOLUME else "all",
        count=own[0].count,
        dataset=plan["dataset"],
        encoder=plan["encoder"],
        documents=plan["documents"],
        remarks=(f"mean over {attacks}", *remarks),
    )
    return _compared(figure, where)


def _blank(title: str, status: str, reason: str) -> CellSummary:
    return CellSummary(
        attack="",
        count=0,
        method=title,
        place="",
        setting="",
        status=status,
        seconds=0.0,
        seed=0,
        reason=reason,
    )
