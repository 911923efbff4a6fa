"""Cells: run once, resumed, recorded when they fail; labels far from every score."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest

from ragsieve.errors import ConfigError
from ragsieve.lab.experiments import identity, materials
from ragsieve.lab.experiments.outcome import Condition, Status
from ragsieve.lab.experiments.run import Progress, run_experiment
from ragsieve.lab.experiments.spec import (
    Answers,
    Attack,
    Kind,
    Method,
    MethodKind,
    Part,
    Unpoisoned,
    cells_of,
)
from ragsieve.lab.experiments.store import Store
from unit.lab.experiments.fakes import (
    NONE,
    RSG,
    RSQ,
    SERIAL,
    FakeChat,
    FakeParts,
    comparator,
    experiment,
    world,
)


def store_of(folder):
    return Store(folder / "trial")


def planned(folder):
    return [one["fingerprint"] for one in store_of(folder).plan()["cells"]]


def test_a_finished_cell_is_never_run_again(tmp_path):
    parts = FakeParts()
    first = run_experiment(experiment(), parts, tmp_path)
    built = len(parts.built)
    seen = []
    second = run_experiment(experiment(), parts, tmp_path, Progress(seen.append))
    assert (first.done, first.reused, first.complete) == (4, 0, True)
    assert (second.done, second.reused, second.complete) == (0, 4, True)
    assert "longest" not in parts.built[built:]
    assert seen == []


def test_killed_between_cells_it_goes_on_where_it_was(tmp_path):
    stops = experiment(methods=(RSG, comparator("stop"), comparator("crowded")))
    with pytest.raises(KeyboardInterrupt):
        run_experiment(stops, FakeParts(stopping="stop"), tmp_path)
    store = store_of(tmp_path)
    assert [store.status(name) for name in planned(tmp_path)] == [Status.DONE, None, None]
    parts = FakeParts(breaking="stop")
    again = run_experiment(stops, parts, tmp_path)
    assert (again.reused, again.done, again.failed) == (1, 1, 1)


def test_killed_inside_a_cell_it_starts_that_cell_again(tmp_path, monkeypatch):
    one = experiment(methods=(RSG,))
    # The process dies after the rows are written and before the folder is moved.
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.rename", interrupted)
        patch.setattr("ragsieve.lab.experiments.store.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(one, FakeParts(), tmp_path)
    cells = tmp_path / "trial" / "cells"
    assert [path.suffix for path in cells.iterdir()] == [".part"]
    report = run_experiment(one, FakeParts(), tmp_path)
    assert (report.done, report.reused) == (1, 0)
    assert [path.suffix for path in cells.iterdir()] == [""]


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_failed_cell_is_recorded_and_the_rest_goes_on(tmp_path):
    tried = experiment(methods=(comparator("bad"), comparator("crowded")))
    report = run_experiment(tried, FakeParts(breaking="bad"), tmp_path)
    assert (report.done, report.failed) == (1, 1)
    assert "ZeroDivisionError('it broke')" in report.problems[0][1]
    record = store_of(tmp_path).record(planned(tmp_path)[0])
    assert (record["status"], record["reason"]) == ("failed", report.problems[0][1])
    # It is tried again, and this time it works.
    parts = FakeParts(stopping="bad")
    parts.stopping, parts.breaking = None, None
    parts.declaration = lambda name: FakeParts(breaking="bad").declaration(name)
    assert run_experiment(tried, parts, tmp_path).done == 1


def test_what_is_missing_is_unavailable_with_its_reason(tmp_path):
    tried = experiment(
        attacks=(Attack("missing-model"), Attack("echo", file="echo")), methods=(RSG,)
    )
    report = run_experiment(tried, FakeParts(), tmp_path)
    assert (report.done, report.unavailable, report.failed) == (1, 1, 0)
    assert report.problems[0][1] == "needs a model that is not here"
    share = experiment(kind=Kind.POISON_SHARE, shares=(0.9,), methods=(RSG,))
    assert "needs 108 targets" in run_experiment(share, FakeParts(), tmp_path).problems[0][1]


def test_unknown_names_stop_the_run(tmp_path):
    for wrong in (experiment(dataset="x"), experiment(methods=(comparator("x"),))):
        with pytest.raises(ConfigError, match="unknown"):
            run_experiment(wrong, FakeParts(), tmp_path)


def fingerprints(parts=None, tmp_path=None, **changes):
    run_experiment(experiment(methods=(RSQ,), **changes), parts or FakeParts(), tmp_path)
    return planned(tmp_path)


def test_fingerprints_change_when_they_must_and_only_then(tmp_path, monkeypatch):
    def made(parts=None, **changes):
        return fingerprints(parts, tmp_path, **changes)[0]

    base = made()
    assert made(claim="Another claim.") == base
    assert made(attacks=(Attack("echo", file="echo", published="PR-B"),)) == base
    others = [
        made(depth=41),
        made(context=4),
        made(targets=3),
        made(part=Part.FIRST_HALF),
        made(unpoisoned=Unpoisoned.ALL),
        made(seeds=(1,)),
        made(attacks=(Attack("echo", (3,), file="echo"),)),
        made(attacks=(Attack("echo"),)),
    ]
    encoder, attack, model, data = FakeParts(), FakeParts(), FakeParts(), FakeParts(world(61))
    encoder.identity, attack.attack_version, model.model_version = "other", "2", "other"
    others += [made(encoder), made(attack), made(model), made(data)]
    answers = world()
    others.append(made(FakeParts(dataclasses.replace(answers, answers={"q0": ("x",)}))))
    monkeypatch.setattr("ragsieve.lab.experiments.run.code_version", lambda: "other")
    others.append(made())
    assert len({base, *others}) == len(others) + 1


def test_a_constant_of_a_method_is_part_of_its_fingerprint(tmp_path):
    swept = tuple(
        Method(MethodKind.RSG, "rsg", "default", overrides=(("gap_spread", value),))
        for value in (1.0, 2.0)
    )
    run_experiment(experiment(methods=swept), FakeParts(), tmp_path)
    assert len(set(planned(tmp_path))) == 2


def test_the_code_version_ignores_what_computes_no_score():
    assert identity._silent("cli/lab.py")
    assert identity._silent("lab/experiments/report.html.j2")
    assert not identity._silent("lab/experiments/judging.py")
    assert not identity._silent("evidence/knn.py")


def rows(folder):
    store = store_of(folder)
    return [
        (store.scores(name), store.contexts(name), store.answers(name)) for name in planned(folder)
    ]


ALL = (NONE, RSQ, RSG, SERIAL, comparator("longest"), comparator("crowded"))


def test_no_score_knows_a_label(tmp_path, monkeypatch):
    run_experiment(experiment(methods=ALL), FakeParts(), tmp_path / "with")
    staged = materials.Materials.staged

    def without(self, cell):
        return dataclasses.replace(staged(self, cell), labels={})

    monkeypatch.setattr(materials.Materials, "staged", without)
    run_experiment(experiment(methods=ALL), FakeParts(), tmp_path / "without")
    assert rows(tmp_path / "with") == rows(tmp_path / "without")
    assert store_of(tmp_path / "without").labels(planned(tmp_path / "without")[0]) == {}


def test_deleting_the_label_files_changes_no_score(tmp_path):
    run_experiment(experiment(methods=ALL), FakeParts(), tmp_path)
    before = rows(tmp_path)
    shutil.rmtree(tmp_path / "trial" / "labels")
    for path in (tmp_path / "trial" / "cells").iterdir():
        shutil.rmtree(path)
    run_experiment(experiment(methods=ALL), FakeParts(), tmp_path)
    assert rows(tmp_path) == before
    for name in planned(tmp_path):
        kept = (tmp_path / "trial" / "cells" / name / "cell.json").read_text("utf-8")
        assert "n0" not in json.loads(kept)["targets"]


def test_contexts_refill_from_the_same_ranking(tmp_path):
    run_experiment(experiment(methods=(NONE, comparator("longest"))), FakeParts(), tmp_path)
    store = store_of(tmp_path)
    undefended, defended = (store.contexts(name) for name in planned(tmp_path))
    flagged = {
        (one.condition, one.query_id, one.document_id)
        for one in store.scores(planned(tmp_path)[1])
        if one.decision == "flagged"
    }
    assert flagged
    for before, after in zip(undefended, defended, strict=True):
        assert before.before == before.after == after.before
        assert len(after.after) == 5
        gone = {name for c, q, name in flagged if (c, q) == (after.condition, after.query_id)}
        assert not gone & set(after.after)


def test_counts_beyond_what_was_written_repeat_it_under_new_ids(tmp_path):
    run_experiment(
        experiment(attacks=(Attack("echo", (7,), file="echo"),), methods=(NONE,)),
        FakeParts(),
        tmp_path,
    )
    labels = store_of(tmp_path).labels(planned(tmp_path)[0])
    assert len(labels) == 4 * 7
    assert {name for name in labels if "again" in name} == {
        f"n{row}:again1" for row in (0, 1, 5, 6, 10, 11, 15, 16)
    }


def test_parts_and_limits_choose_targets(tmp_path):
    def attacked(**changes):
        run_experiment(experiment(methods=(NONE,), **changes), FakeParts(), tmp_path)
        return {one.query_id for one in store_of(tmp_path).labels(planned(tmp_path)[0]).values()}

    assert attacked(part=Part.SECOND_HALF) == {"q2", "q3"}
    assert attacked(part=Part.SECOND_HALF, attacks=(Attack("echo", write=3),)) == {"q2", "q3"}
    assert attacked(part=Part.FIRST_HALF, targets=1) == {"q0"}
    assert attacked(kind=Kind.POISON_SHARE, shares=(0.15,)) == {"q0", "q1"}


def test_answers_are_asked_and_marked(tmp_path):
    chat = FakeChat()
    asked = experiment(
        kind=Kind.END_TO_END, methods=(NONE, comparator("longest")), answers=Answers("fake")
    )
    report = run_experiment(asked, FakeParts(chat=chat), tmp_path)
    assert report.complete
    assert chat.calls == 2 * 2 * 4
    assert all("[document 5 begins " in asked for asked in chat.asked)
    undefended = store_of(tmp_path).answers(planned(tmp_path)[0])
    marks = {(one.condition, one.target_supported, one.exact) for one in undefended}
    assert marks == {(Condition.POISONED, True, False), (Condition.UNPOISONED, False, True)}
    without = run_experiment(asked, FakeParts(), tmp_path / "none")
    assert (without.unavailable, without.problems[0][1]) == (2, "no chat model")


def test_cost_takes_time_for_every_question_and_pass(tmp_path):
    timed = experiment(kind=Kind.COST, repeats=2, methods=(RSQ, RSG))
    run_experiment(timed, FakeParts(), tmp_path)
    store = store_of(tmp_path)
    times = [store.record(name)["times"] for name in planned(tmp_path)]
    assert [len(one) for one in times] == [2 * 2 * 4, 2 * 2]
    assert all(second > 0 for one in times for second in one)


def test_cells_of_one_index_stand_together():
    kinds = [(cell.attack.name, cell.method) for cell in cells_of(experiment())]
    assert kinds == [("echo", method) for method in experiment().methods]
