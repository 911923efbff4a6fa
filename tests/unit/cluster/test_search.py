"""The graph of blocks and shards is the graph of one machine, to the last bit."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.cluster.checkpoints import Checkpoints
from ragsieve.cluster.executors import ProcessExecutor, SerialExecutor
from ragsieve.cluster.kernel import nearest_in
from ragsieve.cluster.plan import Block, SearchPlan
from ragsieve.cluster.search import search
from ragsieve.cluster.shards import survey
from ragsieve.errors import BackendError, ConfigError, EmbeddingError, OutputError
from ragsieve.evidence.knn import cosine_knn, nearest_rows, unit_rows


def corpus(size, dimension=8, seed=0, copies=0.2):
    """Rows in clusters; some are copies of others, some nearly."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, dimension))
    rows = centres[rng.integers(5, size=size)] + 0.3 * rng.normal(size=(size, dimension))
    for row in np.flatnonzero(rng.random(size) < copies):
        rows[row] = rows[rng.integers(size)]
    return rows.astype(np.float32)


def saved(folder, rows, cuts=()):
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.npy"):
        old.unlink()
    for number, part in enumerate(np.split(rows, list(cuts))):
        np.save(folder / f"{number:04d}.npy", part)
    return folder


def assert_same(found, expected):
    assert found.indices.dtype == np.int64
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.similarities, expected.similarities)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 40),
    dimension=st.integers(1, 6),
    k=st.integers(1, 9),
    seed=st.integers(0, 99),
    copies=st.sampled_from([0.0, 0.3, 1.0]),
    block_rows=st.integers(1, 45),
    part_rows=st.integers(1, 45),
    data=st.data(),
)
def test_any_cut_gives_the_same_graph(
    tmp_path_factory, size, dimension, k, seed, copies, block_rows, part_rows, data
):
    rows = corpus(size, dimension, seed, copies)
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=3)))
    shards = survey(saved(tmp_path_factory.getbasetemp() / "cut", rows, cuts))
    report = search(SearchPlan(shards, k, block_rows, part_rows), SerialExecutor())
    assert_same(report.graph, cosine_knn(rows, k))


@pytest.mark.parametrize("kind", [np.float16, np.float64, ">f4"])
def test_rows_of_any_float_type_do(tmp_path, kind):
    rows = (1e3 * corpus(60, seed=3)).astype(kind)
    plan = SearchPlan(survey(saved(tmp_path / "e", rows, [17])), 4, 16, 9)
    assert_same(search(plan, SerialExecutor()).graph, cosine_knn(rows, 4))


def test_rows_stored_by_column_are_read_by_row(tmp_path):
    rows = corpus(30)
    np.save(tmp_path / "e.npy", np.asfortranarray(rows))
    plan = SearchPlan(survey(tmp_path / "e.npy"), 4, 7, 1)
    assert_same(search(plan, SerialExecutor()).graph, cosine_knn(rows, 4))


def test_a_realistic_size_in_wide_rows(tmp_path):
    rows = corpus(900, 384, seed=5, copies=0.05)
    plan = SearchPlan(survey(saved(tmp_path / "e", rows, [200, 650])), 24, 250, 301)
    assert_same(search(plan, SerialExecutor()).graph, cosine_knn(rows, 24))


def test_copies_in_a_part_are_searched_once_and_put_back():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(12, 5))[rng.integers(12, size=300)]
    asked = rng.normal(size=(20, 5))
    found = nearest_in(unit_rows(asked), unit_rows(rows), 40)
    expected = nearest_rows(asked, rows, 40)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def test_progress_adds_up_to_all_rows(tmp_path):
    plan = SearchPlan(survey(saved(tmp_path / "e", corpus(25))), 3, 10)
    seen = []
    report = search(plan, SerialExecutor(), progress=seen.append)
    assert seen == [10, 10, 5]
    assert (report.computed, report.reused, report.damaged) == (3, 0, ())


def test_unusable_rows_are_named(tmp_path):
    rows = corpus(20)
    rows[13] = 0
    plan = SearchPlan(survey(saved(tmp_path / "e", rows)), 3, 10)
    with pytest.raises(EmbeddingError, match="from corpus row 10: embedding row 3"):
        search(dataclasses.replace(plan, part_rows=10), SerialExecutor())


def test_impossible_plans_are_refused(tmp_path):
    shards = survey(saved(tmp_path / "e", corpus(5)))
    for numbers in ((0,), (1, 0), (1, 1, 0)):
        with pytest.raises(ConfigError, match="at least 1"):
            SearchPlan(shards, *numbers)


def test_a_worker_that_rounds_otherwise_is_refused(tmp_path):
    plan = SearchPlan(survey(saved(tmp_path / "e", corpus(5))), 2)
    other = dataclasses.replace(plan, kernel="1 numpy-1.0 abacus")
    with pytest.raises(BackendError, match="abacus"):
        search(other, SerialExecutor())


class StopAfter:
    """An executor whose run is stopped when some blocks are done."""

    def __init__(self, blocks):
        self.blocks = blocks

    def run(self, task, items):
        for number, item in enumerate(items):
            if number == self.blocks:
                raise KeyboardInterrupt
            yield number, task(item)


def stopped(plan, folder, blocks=2):
    with pytest.raises(KeyboardInterrupt):
        search(plan, StopAfter(blocks), checkpoints=folder)


@pytest.fixture
def plan(tmp_path):
    return SearchPlan(survey(saved(tmp_path / "e", corpus(50), [20])), 5, 10)


def finished(folder):
    return sorted(folder.rglob("*.block"))


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path, plan):
    stopped(plan, tmp_path / "kept")
    assert [one.name for one in finished(tmp_path / "kept")] == [
        "000000000000-000000000010.block",
        "000000000010-000000000020.block",
    ]
    report = search(plan, SerialExecutor(), checkpoints=tmp_path / "kept")
    assert (report.computed, report.reused, report.damaged) == (3, 2, ())
    assert_same(report.graph, cosine_knn(corpus(50), 5))
    whole = search(plan, SerialExecutor(), checkpoints=tmp_path / "kept")
    assert (whole.computed, whole.reused) == (0, 5)
    assert_same(whole.graph, report.graph)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1],
        lambda raw: b"",
        lambda raw: raw[:40] + bytes([raw[40] ^ 1]) + raw[41:],
        lambda raw: raw + b"\0",
    ],
    ids=["short", "empty", "flipped", "long"],
)
def test_damaged_checkpoints_are_computed_again_and_reported(tmp_path, plan, damage):
    stopped(plan, tmp_path / "kept", 3)
    victim = finished(tmp_path / "kept")[1]
    victim.write_bytes(damage(victim.read_bytes()))
    report = search(plan, SerialExecutor(), checkpoints=tmp_path / "kept")
    assert (report.computed, report.reused) == (3, 2)
    assert report.damaged == (victim.name,)
    assert_same(report.graph, cosine_knn(corpus(50), 5))
    assert search(plan, SerialExecutor(), checkpoints=tmp_path / "kept").damaged == ()


def test_a_block_under_another_name_is_not_believed(tmp_path, plan):
    stopped(plan, tmp_path / "kept", 2)
    first, second = finished(tmp_path / "kept")
    second.write_bytes(first.read_bytes())
    report = search(plan, SerialExecutor(), checkpoints=tmp_path / "kept")
    assert report.damaged == (second.name,)
    assert_same(report.graph, cosine_knn(corpus(50), 5))


@pytest.mark.parametrize(
    "change", [{"neighbors": 4}, {"kernel": "0"}, {"shards": ()}], ids=["k", "kernel", "rows"]
)
def test_checkpoints_of_another_plan_are_not_used(tmp_path, plan, change):
    if "shards" in change:
        change = {"shards": survey(saved(tmp_path / "other", corpus(50, seed=1), [20]))}
    stopped(plan, tmp_path / "kept", 2)
    other = dataclasses.replace(plan, **change)
    assert other.digest != plan.digest
    kept = Checkpoints.opened(tmp_path / "kept", other)
    assert all(kept.read(block) is None for block in other.blocks)


def test_other_blocks_and_parts_of_the_same_rows_may_share_checkpoints(tmp_path, plan):
    stopped(plan, tmp_path / "kept", 2)
    other = dataclasses.replace(plan, part_rows=7)
    report = search(other, SerialExecutor(), checkpoints=tmp_path / "kept")
    assert report.reused == 2
    wider = dataclasses.replace(plan, block_rows=25)
    report = search(wider, SerialExecutor(), checkpoints=tmp_path / "kept")
    assert (report.computed, report.reused) == (2, 0)
    assert_same(report.graph, cosine_knn(corpus(50), 5))


def test_a_folder_that_a_worker_does_not_see_is_refused(tmp_path, plan):
    kept = Checkpoints.opened(tmp_path / "kept", plan)
    (kept.folder / "plan.json").unlink()
    with pytest.raises(OutputError, match="storage that every worker sees"):
        kept.check_shared()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, plan):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be made"):
        search(plan, SerialExecutor(), checkpoints=tmp_path / "file")


class Dying:
    """An executor one of whose workers kills itself at one block."""

    def __init__(self, executor, tasks, victim, marker):
        self.executor, self.tasks, self.victim, self.marker = executor, tasks, victim, marker

    def run(self, task, items):
        return self.executor.run(self.tasks.DieOnce(task, self.victim, self.marker), items)


def test_a_process_killed_in_the_middle_costs_its_block(tmp_path, monkeypatch, plan):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    tasks = importlib.import_module("dying")
    executor = Dying(ProcessExecutor(2), tasks, Block(20, 30), tmp_path / "died")
    report = search(plan, executor, checkpoints=tmp_path / "kept")
    assert (tmp_path / "died").exists()
    assert_same(report.graph, cosine_knn(corpus(50), 5))
    assert len(finished(tmp_path / "kept")) == 5
