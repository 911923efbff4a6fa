"""Executors: every item once, errors as they are, workers that die."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ragsieve.cluster.executors import ProcessExecutor, SerialExecutor
from ragsieve.errors import BackendError, EmbeddingError


@pytest.fixture
def tasks(monkeypatch):
    """Importable in worker processes, which get this process's search path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("dying")


@pytest.fixture(params=[SerialExecutor(), ProcessExecutor(2)], ids=["serial", "processes"])
def executor(request):
    return request.param


def test_every_item_is_done_once(executor, tasks):
    assert sorted(executor.run(tasks.double, [5, 6, 7])) == [(0, 10), (1, 12), (2, 14)]
    assert list(executor.run(tasks.double, [])) == []


def test_errors_come_through_as_they_are(executor, tasks):
    with pytest.raises(EmbeddingError, match="all zeros"):
        list(executor.run(tasks.fail, [1]))


def test_a_worker_that_dies_costs_what_it_was_doing(tasks, tmp_path):
    task = tasks.DieOnce(tasks.double, 6, tmp_path / "died")
    found = sorted(ProcessExecutor(2).run(task, [5, 6, 7]))
    assert found == [(0, 10), (1, 12), (2, 14)]
    assert (tmp_path / "died").exists()


def test_workers_that_always_die_end_the_run(tasks):
    with pytest.raises(BackendError, match="died 3 times"):
        list(ProcessExecutor(1).run(tasks.die, [1]))


def test_no_workers_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        ProcessExecutor(0)
