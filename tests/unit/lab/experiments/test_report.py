"""Summaries, published figures and the report."""

from __future__ import annotations

import json

import pytest

from ragsieve.errors import InputError
from ragsieve.lab.experiments import measures
from ragsieve.lab.experiments.figures import SUMMARY, read_summary
from ragsieve.lab.experiments.published import Place, beside, published_figures
from ragsieve.lab.experiments.report import WORDS, section_of, table_of, write_report
from ragsieve.lab.experiments.run import run_experiment
from ragsieve.lab.experiments.spec import Answers, Attack, Kind, Method, MethodKind
from ragsieve.lab.experiments.summary import summarize
from ragsieve.lab.metrics import auroc
from unit.lab.experiments.fakes import (
    MARK,
    NONE,
    RSG,
    RSQ,
    FakeChat,
    FakeParts,
    comparator,
    experiment,
    pipeline,
    world,
)

ATTACKS = (Attack("echo", (2, 5), file="echo", published="PR-B"),)


def summary_of(folder, parts=None, **changes):
    run_experiment(experiment(**changes), parts or FakeParts(), folder)
    return summarize(folder / "trial")


def test_a_scan_is_measured_against_the_clean_documents_of_its_index(tmp_path):
    import numpy as np

    from ragsieve.lab.experiments.store import Store

    summary = summary_of(tmp_path, methods=(RSG, comparator("crowded")))
    store = Store(tmp_path / "trial")
    for cell, plan in zip(summary.cells, store.plan()["cells"], strict=True):
        labels = store.labels(plan["fingerprint"])
        scores = [one for one in store.scores(plan["fingerprint"]) if one.condition == "poisoned"]
        bad = np.array([one.score for one in scores if one.document_id in labels])
        good = np.array([one.score for one in scores if one.document_id not in labels])
        assert (bad.size, good.size) == (20, 60)
        figure = cell.figure(measures.AUROC)
        assert figure.value == pytest.approx(auroc(bad, good))
        assert figure.low <= figure.value <= figure.high


def test_a_binary_method_has_its_operating_point_alone(tmp_path):
    summary = summary_of(tmp_path, methods=(comparator("longest"),))
    (cell,) = summary.cells
    assert cell.figure(measures.AUROC) is None
    assert cell.figure(measures.DETECTED) is None
    assert cell.figure(measures.REMOVED).value == 1.0
    assert cell.figure(measures.POISON_BEFORE).value > 0
    assert cell.figure(measures.HIT_AFTER).value == 0.0
    assert any("operating point" in remark for remark in cell.remarks)


def test_a_summary_survives_its_file(tmp_path):
    summary = summary_of(tmp_path, attacks=ATTACKS)
    assert read_summary(tmp_path / "trial" / SUMMARY) == summary
    assert summary.means == ()
    with pytest.raises(InputError, match="run the experiment"):
        read_summary(tmp_path / "nothing.json")


def test_means_need_every_cell(tmp_path):
    attacks = (Attack("echo", file="echo"), Attack("second", file="x"), Attack("missing-model"))
    summary = summary_of(tmp_path, attacks=attacks[:2], methods=(RSG,))
    (mean,) = summary.means
    values = [cell.figure(measures.AUROC).value for cell in summary.cells]
    assert mean.figures[0].value == pytest.approx(sum(values) / 2)
    partial = summary_of(tmp_path, attacks=attacks, methods=(RSG,))
    assert partial.means == ()
    assert [cell.reason for cell in partial.problems] == ["needs a model that is not here"]


def test_cells_an_interrupted_run_never_reached_are_named(tmp_path):
    cut = {"methods": (RSG, comparator("stop"), RSQ)}
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(**cut), FakeParts(stopping="stop"), tmp_path)
    summary = summarize(tmp_path / "trial")
    assert [cell.status for cell in summary.cells] == ["done", "not run", "not run"]
    assert "echo x5, stop" in write_report(tmp_path, [summary])[1].read_text("utf-8")


def test_answers_give_rates(tmp_path):
    summary = summary_of(
        tmp_path,
        FakeParts(chat=FakeChat()),
        kind=Kind.END_TO_END,
        methods=(NONE, comparator("longest")),
        answers=Answers("fake"),
    )
    undefended, defended = summary.cells
    assert undefended.figure(measures.ASR).value == 1.0
    assert defended.figure(measures.ASR).value == 0.0
    assert defended.figure(measures.CLEAN_EM).value == 1.0
    assert any("no model" in remark for remark in undefended.remarks)


def test_the_report_shows_figures_and_no_text_of_any_document(tmp_path):
    dataset = world()
    summary = summary_of(tmp_path, FakeParts(dataset), attacks=ATTACKS, claim="<b>bold</b> | claim")
    page, plain = write_report(tmp_path, [summary])
    for path in (page, plain):
        text = path.read_text("utf-8")
        assert MARK not in text
        assert "the thief" not in text
        assert not any(document.text in text for document in dataset.documents)
        assert not any(query.text in text for query in dataset.queries)
        assert "<b>bold" not in text
        assert "AUROC" in text
        assert "RAGSieve, arXiv 2608.13010 v1" in text
        assert "profile default is not the published rule" in text
    html = page.read_text("utf-8")
    assert "http" not in html.replace("http-equiv", "")
    assert "<script" not in html
    assert "data:image/svg+xml;base64," in html


def test_every_cell_states_its_time_and_notes_stand_on_top(tmp_path):
    summary = summary_of(tmp_path, attacks=ATTACKS)
    times = section_of(summary).times
    assert len(times.rows) == len({cell.method for cell in summary.cells})
    assert all(float(value) >= 0 for _, values in times.rows for value in values)
    for path in write_report(tmp_path, [summary], ["commit <b>abc"]):
        text = path.read_text("utf-8")
        assert "seconds a cell took" in text
        assert "commit &lt;b>abc" in text.replace("&gt;", ">")


def test_the_report_says_what_is_missing(tmp_path):
    summary = summary_of(tmp_path, attacks=(Attack("missing-model"),), methods=(RSG,))
    page, plain = write_report(tmp_path, [summary])
    for path in (page, plain):
        assert "needs a model that is not here" in path.read_text("utf-8")
    assert section_of(summary).tables == ()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.COST])
def test_every_kind_has_its_tables(tmp_path, kind):
    changes = {
        Kind.POISON_SHARE: {"shares": (0.1, 0.2)},
        Kind.APPROXIMATE: {"recalls": (1.0, 0.8)},
        Kind.END_TO_END: {
            "answers": Answers(members=("one", "two")),
            "methods": (pipeline("none"), pipeline("ring-3")),
        },
        Kind.SWEEP: {
            "methods": tuple(
                Method(MethodKind.RSG, "rsg", "default", overrides=(("gap_spread", value),))
                for value in (1.0, 2.0)
            )
        },
        Kind.ABLATION: {
            "methods": (RSQ, Method(MethodKind.RSQ, "rsq", "default", ("query_copy",)))
        },
        Kind.ADAPTIVE: {"attacks": (Attack("echo"),)},
    }.get(kind, {})
    summary = summary_of(tmp_path, FakeParts(chat=FakeChat()), kind=kind, **changes)
    assert summary.problems == ()
    section = section_of(summary)
    titles = [table.title.partition(" (judge: ")[0] for table in section.tables]
    assert titles == [WORDS[name] for name in summary.metrics]
    assert section.plots


def test_cost_is_shown_in_seconds(tmp_path):
    summary = summary_of(tmp_path, kind=Kind.COST, methods=(RSQ, RSG))
    table = table_of(summary, measures.MEAN_SECONDS, "time")
    assert all(value.endswith(" s") for _, values in table.rows for value in values)
    (first, *_) = summary.cells
    assert first.figure(measures.MEAN_SECONDS).beside.source.startswith("RAGSieve")


def test_published_figures_are_valid_and_named_once():
    figures = published_figures()
    keys = [
        (one.method, one.attack, one.metric, one.count, one.dataset, one.retriever)
        for one in figures
    ]
    assert len(set(keys)) == len(keys) > 200
    assert all(one.source and one.scope and one.value >= 0 for one in figures)
    known = set(WORDS)
    assert {one.metric for one in figures} <= known
    found = {key: one.value for key, one in zip(keys, figures, strict=True)}
    assert found["rsq", "PR-B", "auroc", 5, None, None] == 0.889
    assert found["rsg", "all", "detected", 5, None, None] == 0.798
    assert found["knn-distance", "CamoDocs", "auroc", 5, None, None] == 0.61
    assert found["rsg", "volume", "detected", 1, None, None] == 0.618


def test_means_over_attacks_agree_with_the_published_mean():
    figures = published_figures()
    whole = [one for one in figures if one.attack == "all" and one.dataset is None]
    checked = 0
    for mean in whole:
        parts = [
            one.value
            for one in figures
            if (one.method, one.metric, one.dataset) == (mean.method, mean.metric, None)
            and one.attack not in {"all", "volume", "cost"}
        ]
        if len(parts) == 6:
            checked += 1
            assert sum(parts) / 6 == pytest.approx(mean.value, abs=0.0011)
    assert checked >= 14


def test_the_closest_published_figure_is_chosen():
    def place(dataset, encoder, profile="paper"):
        return Place("rsq", profile, "PR-B", 5, dataset, encoder, 100)

    near = beside(place("hotpotqa", "all-MiniLM-L6-v2@x"), "auroc", 0.95)
    assert (near.value, near.difference) == (0.962, pytest.approx(-0.012))
    far = beside(place("other", "all-minilm-l6-v2"), "auroc", 0.95)
    assert far.value == 0.889
    assert "here: other" in far.reasons[0]
    assert beside(place("other", "x"), "removed", 0.5) is None
    assert "not the published rule" in beside(place("x", "y", "default"), "auroc", 1).reasons[-1]


def test_a_changed_method_is_set_beside_nothing(tmp_path):
    method = Method(MethodKind.RSQ, "rsq", "default", ("query_copy",))
    summary = summary_of(tmp_path, kind=Kind.ABLATION, attacks=ATTACKS, methods=(RSQ, method))
    shown = {
        cell.method: cell.figure(measures.AUROC).beside for cell in summary.cells if cell.count == 5
    }
    assert shown["rsq default"] is not None
    assert shown["rsq default without query_copy"] is None
    assert json.loads((tmp_path / "trial" / SUMMARY).read_text("utf-8"))["kind"] == "ablation"
