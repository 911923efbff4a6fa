"""A real Ray cluster of two workers on this machine: the same graph, a killed worker, resuming."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from builders import clustered
from ragsieve.cluster.on_ray import ray_executor
from ragsieve.cluster.plan import Block, SearchPlan
from ragsieve.cluster.search import search
from ragsieve.cluster.shards import survey
from ragsieve.cluster.texts import learned_texts
from ragsieve.detectors.corpus import CorpusDetector, judged
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.errors import BackendError, ConfigError, EmbeddingError
from ragsieve.evidence.knn import cosine_knn
from ragsieve.files.graph import read_graph
from ragsieve.records import Document

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed: pip install 'ragsieve[ray]'",
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def workers():
    """Two workers; this process stays connected while the tests run."""
    ray = importlib.import_module("ray")
    with pytest.MonkeyPatch.context() as patch:
        # Nothing is reported to anybody.
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        with ray_executor("local", local_workers=2) as executor:
            assert ray.cluster_resources()["CPU"] == 2
            yield executor
        assert not ray.is_initialized()


@pytest.fixture
def corpus(tmp_path):
    texts, rows = clustered(np.random.default_rng(6), 90)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(np.split(rows, [40])):
        np.save(tmp_path / "shards" / f"{number}.npy", part)
    return texts, rows


@pytest.fixture
def plan(tmp_path, corpus):
    return SearchPlan(survey(tmp_path / "shards"), 7, block_rows=15, part_rows=35)


def assert_same(graph, rows, k=7):
    expected = cosine_knn(rows, k)
    assert np.array_equal(graph.indices, expected.indices)
    assert np.array_equal(graph.similarities, expected.similarities)


class Through:
    """An executor that wraps every task; Ray carries functions made here to its workers."""

    def __init__(self, executor, wrapped):
        self.executor, self.wrapped = executor, wrapped

    def run(self, task, items):
        return self.executor.run(self.wrapped(task), items)


def dying_once(marker, victim):
    def wrapped(task):
        def inner(item):
            if item == victim and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            with marker.with_name("done").open("a") as handle:
                handle.write(f"{item.start}\n")
            return task(item)

        return inner

    return wrapped


def stopping_after(executor, blocks):
    class Stopping:
        def run(self, task, items):
            for done, found in enumerate(executor.run(task, items)):
                if done == blocks:
                    raise KeyboardInterrupt
                yield found

    return Stopping()


def test_the_graph_is_that_of_one_machine(workers, plan, corpus):
    report = search(plan, workers)
    assert (report.computed, report.reused) == (6, 0)
    assert_same(report.graph, corpus[1])


def test_a_worker_killed_in_the_middle_costs_its_block(workers, plan, corpus, tmp_path):
    marker = tmp_path / "killed"
    executor = Through(workers, dying_once(marker, Block(30, 45)))
    report = search(plan, executor, checkpoints=tmp_path / "kept")
    assert marker.exists()
    assert_same(report.graph, corpus[1])
    # Each block once: the killed one died before it counted, no other was run again.
    done = sorted(int(line) for line in (tmp_path / "done").read_text().split())
    assert done == [0, 15, 30, 45, 60, 75]


def test_a_stopped_run_goes_on_from_its_checkpoints(workers, plan, corpus, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        search(plan, stopping_after(workers, 2), checkpoints=tmp_path / "kept")
    first = sorted((tmp_path / "kept").rglob("*.block"))
    assert len(first) >= 2
    first[0].write_bytes(b"damaged")
    report = search(plan, workers, checkpoints=tmp_path / "kept")
    assert report.reused >= len(first) - 1 >= 1
    assert report.damaged == (first[0].name,)
    assert_same(report.graph, corpus[1])


def test_a_scan_of_shards_is_the_scan(workers, corpus, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, rows = corpus
    documents = [Document(f"d{row}", text) for row, text in enumerate(texts)]
    (tmp_path / "parquet").mkdir()
    for number, part in enumerate((slice(0, 50), slice(50, 90))):
        table = {
            "id": [one.id for one in documents[part]],
            "text": [one.text for one in documents[part]],
            "embedding": pa.array(list(rows[part]), pa.list_(pa.float64())),
        }
        pq.write_table(pa.table(table), tmp_path / "parquet" / f"{number}.parquet")
    shards = survey(tmp_path / "parquet", executor=workers)
    rule = DefaultCorpusRule()
    graph = search(SearchPlan(shards, rule.neighbors, 30), workers).graph
    found = learned_texts(
        shards,
        rule.read,
        workers,
        max_characters=rule.max_characters,
        pair_memory_bytes=rule.config.pair_memory_bytes,
    )
    knowledge = rule.learn(found.features, found.counts, graph)
    measured = rule.judge([one.content for one in documents], knowledge)
    scan = judged(rule, found.document_ids, graph, measured, found.truncated_characters)
    expected = CorpusDetector(rule).scan(documents, rows)
    assert scan.decisions == expected.decisions
    assert np.array_equal(scan.scores, expected.scores)


def test_errors_come_through_as_they_are(workers, plan, tmp_path):
    (tmp_path / "shards" / "1.npy").write_bytes(b"another file")
    with pytest.raises(EmbeddingError, match="not the file the plan was made from"):
        search(plan, workers)

    def broken(item):
        raise ZeroDivisionError("no matter")

    with pytest.raises(BackendError, match="failed on a worker: no matter"):
        list(workers.run(broken, [1]))


def test_a_task_that_always_dies_ends_the_run(workers):
    def die(item):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(BackendError, match="lost 4 times"):
        list(workers.run(die, [1]))


def test_a_connection_that_was_there_is_used_and_kept(workers, plan, corpus):
    with ray_executor("auto") as executor:
        assert_same(search(plan, executor).graph, corpus[1])
    assert_same(search(plan, workers).graph, corpus[1])
    with pytest.raises(ConfigError, match="HOST:PORT"), ray_executor(""):
        pass


def test_the_command_joins_an_existing_cluster_by_address(workers, corpus, tmp_path):
    ray = importlib.import_module("ray")
    address = ray.get_runtime_context().gcs_address
    arguments = f"--embeddings {tmp_path}/shards --output {tmp_path}/g.npz --neighbors 7"
    cluster = f"--executor ray --ray-address {address} --block-rows 50 --json"
    command = [sys.executable, "-m", "ragsieve", "graph", *arguments.split(), *cluster.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["blocks_computed"] == 2
    assert_same(read_graph(tmp_path / "g.npz", rows=90), corpus[1])
    assert ray.cluster_resources()["CPU"] == 2


def test_an_address_where_nobody_listens_is_refused_at_once(tmp_path, corpus):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        arguments = f"--embeddings {tmp_path}/shards --output {tmp_path}/g.npz"
        command = [sys.executable, "-m", "ragsieve", "graph", *arguments.split()]
        done = subprocess.run(
            [*command, "--executor", "ray", "--ray-address", address],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert f"no Ray cluster at '{address}'" in done.stderr
    assert not (tmp_path / "g.npz").exists()
