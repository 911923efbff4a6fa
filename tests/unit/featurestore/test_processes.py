"""Several processes, threads and forks on one file; a process killed in the middle of writing."""

from __future__ import annotations

import multiprocessing
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FEWEST_BYTES, FeatureStore
from ragsieve.featurestore.upkeep import usage, verify

SPACE = Space("losses", "model")
COMMON = """
import hashlib, random, sys
from pathlib import Path
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore
SPACE = Space("losses", "model")
def value(text):
    size = 1000 + int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) % 30000
    return hashlib.sha256(text.encode()).digest() * (size // 32)
"""
HAMMER = (
    COMMON
    + """
store = FeatureStore(Path(sys.argv[1]), max_bytes=int(sys.argv[2]))
chosen = random.Random(int(sys.argv[3]))
for _ in range(60):
    texts = [f"text {chosen.randrange(120)}" for _ in range(8)]
    keys = SPACE.keys(texts)
    found = store.fetch(keys)
    for key, text in zip(keys, texts):
        assert found.get(key, value(text)) == value(text)
    store.keep(SPACE, {key: value(text) for key, text in zip(keys, texts)})
report = store.report()
store.close()
assert report.damaged == report.unkept == 0 and not report.notes, report
print(report.hits)
"""
)
ENDLESS = (
    COMMON
    + """
store = FeatureStore(Path(sys.argv[1]))
print("ready", flush=True)
for row in range(10**9):
    text = f"text {row}"
    store.keep(SPACE, {SPACE.keys([text])[0]: value(text)})
"""
)


NAMES = {}
exec(COMMON, NAMES)  # noqa: S102 -- the text above
value = NAMES["value"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "features.sqlite"


@pytest.mark.parametrize("max_bytes", [2**30, FEWEST_BYTES], ids=["roomy", "pruning"])
def test_processes_write_and_read_one_new_file_together(path, max_bytes):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, str(path), str(max_bytes), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(3)
    ]
    outputs = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0, 0, 0], outputs
    assert all(int(out) > 0 for out, _ in outputs)
    found = verify(path)
    assert found.sound
    assert found.entries == usage(path).entries > 10
    assert usage(path).stored_bytes <= max_bytes
    assert not list(path.parent.glob(".features*"))


def test_a_killed_writer_leaves_whole_entries_and_a_file_that_opens(path):
    seen = 0
    for round_ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(0.05 + 0.03 * round_)
            writer.send_signal(signal.SIGKILL)
        with FeatureStore(path) as store:
            keys = SPACE.keys([f"text {row}" for row in range(2000)])
            found = store.fetch(keys)
            assert store.report().notes == ()
            store.keep(SPACE, {b"k" * 32: b"written after it"})
        # In order and without a gap: whatever was written is there, whole.
        count = len([key for key in keys if key in found])
        assert all(found[key] == value(f"text {row}") for row, key in enumerate(keys[:count]))
        assert count >= seen
        seen = count
    assert seen > 10
    assert verify(path).sound


def test_threads_share_one_store(path):
    store = FeatureStore(path)
    problems = []

    def work(seed):
        chosen = random.Random(seed)  # noqa: S311
        for _ in range(40):
            texts = [f"text {chosen.randrange(50)}" for _ in range(4)]
            keys = dict(zip(SPACE.keys(texts), texts, strict=True))
            store.keep(SPACE, {key: text.encode() for key, text in keys.items()})
            found = store.fetch(list(keys))
            problems.extend(key for key, text in keys.items() if found.get(key) != text.encode())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert store.report().hits == store.report().kept
    assert verify(path).sound


def test_a_store_may_be_used_on_both_sides_of_a_fork(path):
    store = FeatureStore(path)
    first, second, third = SPACE.keys(["one", "two", "three"])
    store.keep(SPACE, {first: b"before"})
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def child():
        store.keep(SPACE, {second: b"in the child"})
        answers.put(store.fetch([first, second]))

    process = context.Process(target=child)
    process.start()
    store.keep(SPACE, {third: b"in the parent"})
    assert answers.get(timeout=30) == {first: b"before", second: b"in the child"}
    process.join()
    assert process.exitcode == 0
    assert len(store.fetch([first, second, third])) == 3
    assert store.report().notes == ()
    assert verify(path).sound
