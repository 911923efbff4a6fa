"""A live index on disk: versions, damage, one writer, a writer that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from builders import clustered, documents
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusConfig, PaperCorpusRule
from ragsieve.errors import InputError, OutputError
from ragsieve.files.segments import Segment, SegmentFolder
from ragsieve.live import store as stores
from ragsieve.live.index import LiveIndex
from ragsieve.live.store import LiveStore
from ragsieve.records import Document, Provenance

RULES = {"paper": PaperCorpusRule, "default": DefaultCorpusRule}


def batch(seed, size, prefix="d"):
    rng = np.random.default_rng(seed)
    texts, rows = clustered(rng, size)
    texts = [
        f"{text} r{rng.integers(40)} r{rng.integers(40)} r{rng.integers(40)}" for text in texts
    ]
    made = [
        Document(one.id, one.text, provenance=Provenance(source=f"s{i % 3}", created="2024-05-01"))
        for i, one in enumerate(documents(texts, prefix=prefix))
    ]
    return made, rows


def seen(index):
    """Everything a scan says, in one comparable value."""
    scan = index.scan()
    columns = [
        (column.name, column.values.tobytes(), [(n, c.tobytes()) for n, c in column.components])
        for column in scan.evidences
    ]
    runs = None if scan.knowledge is None else scan.knowledge.runs
    graph = scan.graph.indices.tobytes(), scan.graph.similarities.tobytes()
    notes = (scan.notes, index.drift, index.changed)
    return (
        scan.document_ids,
        scan.scores.tobytes(),
        scan.decisions,
        scan.levels,
        columns,
        graph,
        runs,
        notes,
    )


def history(folder, profile):
    """A store with some versions, and what the index in memory said at each."""
    store = LiveStore.create(folder, RULES[profile]())
    said = {}
    with store.writer(drift_share=0.3) as live:
        for change in (
            lambda: live.add(*batch(1, 60)),
            lambda: live.add(*batch(2, 9, "e")),
            lambda: live.remove(["d33", "e1", "d17"]),
            lambda: live.update(*batch(3, 4)),
        ):
            change()
            said[live.version] = seen(live.index)
    with store.writer() as live:
        assert seen(live.index) == said[4]
        live.add(*batch(4, 30, "f"))
        said[live.version] = seen(live.index)
        live.remove([f"d{i}" for i in range(20, 56) if i != 33])
        said[live.version] = seen(live.index)
    return store, said


@pytest.mark.parametrize("profile", RULES)
def test_every_version_can_be_read_back(tmp_path, profile):
    store, said = history(tmp_path / "live", profile)
    assert [info.number for info in store.versions()] == [1, 2, 3, 4, 5, 6]
    assert [info.facts["documents"] for info in store.versions()] == [60, 69, 66, 66, 96, 61]
    # The first is whole, and so is one that gave places back.
    assert [info.number for info in store.versions() if info.parent is None] == [1, 6]
    for number, expected in said.items():
        assert seen(store.open(number)) == expected, number
    assert seen(store.open()) == said[6]


def test_what_is_read_back_can_be_changed_in_memory_and_the_folder_stays(tmp_path):
    store, said = history(tmp_path / "live", "default")
    old = store.open(2)
    old.add(*batch(9, 3, "z"))
    assert "z0" in old
    assert "z0" not in store.open(2)
    assert seen(store.open(2)) == said[2]


@pytest.mark.parametrize("profile", RULES)
def test_compaction_changes_no_version_and_shortens_the_chain(tmp_path, profile):
    store, said = history(tmp_path / "live", profile)
    with store.writer() as live:
        live.add(*batch(5, 2, "g"))
        live.remove(["d0", "d1"])
        before = seen(live.index)
        info = live.compact()
        assert (info.number, info.parent) == (8, None)
        assert seen(live.index) == before
        live.add(*batch(6, 2, "h"))
        after = seen(live.index)
    assert seen(store.open(8)) == before
    assert seen(store.open(7))
    assert seen(store.open()) == after
    for number, expected in said.items():
        assert seen(store.open(number)) == expected


def test_a_long_chain_ends_in_a_whole_version(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "LONGEST_CHAIN", 3)
    store = LiveStore.create(tmp_path / "live", PaperCorpusRule())
    with store.writer() as live:
        for number in range(9):
            live.add(*batch(number, 5, f"n{number}-"))
        last = seen(live.index)
    assert [info.depth for info in store.versions()] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert seen(store.open()) == last


def test_words_of_a_document_that_left_are_gone_from_a_compacted_version(tmp_path):
    for profile, rule in RULES.items():
        store = LiveStore.create(tmp_path / profile, rule())
        items, rows = batch(1, 12)
        items[5] = Document("d5", items[5].text + " unmistakable")
        with store.writer() as live:
            live.add(items, rows)
            live.remove(["d5"])
            live.compact()
            live.prune(1)
        held = b"".join(
            file.read_bytes() for file in (tmp_path / profile).rglob("*") if file.is_file()
        )
        assert b"unmistakable" not in held
        assert b"bridge" in held


def test_pruning_keeps_what_the_last_versions_build_on(tmp_path):
    store, said = history(tmp_path / "live", "paper")
    (tmp_path / "live" / "segments" / "000000000099-whole.npz").write_bytes(b"left by a writer")
    with store.writer() as live:
        assert live.prune(2) == ()
        live.add(*batch(5, 2, "g"))
        assert live.prune(2) == (1, 2, 3, 4, 5)
    assert [info.number for info in store.versions()] == [6, 7]
    assert seen(store.open(6)) == said[6]
    assert len(list((tmp_path / "live" / "segments").iterdir())) == 2
    with pytest.raises(InputError, match="there is no version 3"):
        store.open(3)


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path):
    store, said = history(tmp_path / "live", "paper")
    with store.writer() as live:
        with pytest.raises(OutputError, match="another process is writing"), store.writer():
            pass
        code = f"""
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.live.store import LiveStore
store = LiveStore({str(tmp_path / "live")!r}, PaperCorpusRule())
assert len(store.open()) == {len(live.index)}
with store.writer():
    pass
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "another process is writing to this live index" in done.stderr
        assert seen(store.open(4)) == said[4]
    with store.writer() as live:
        assert live.version == 6


KILLED = """
import sys
import numpy as np
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.live.store import LiveStore
from ragsieve.records import Document

store = LiveStore(sys.argv[1], PaperCorpusRule())
rng = np.random.default_rng(0)
with store.writer() as live:
    print("ready", flush=True)
    while True:
        first = live.version * 20
        made = [Document(f"k{first + i}", f"word {first + i} " * 50) for i in range(20)]
        live.add(made, rng.normal(size=(20, 32)))
"""


@pytest.mark.parametrize("delay", [0.05, 0.23, 0.4])
def test_a_killed_writer_leaves_the_last_version_readable(tmp_path, delay):
    store = LiveStore.create(tmp_path / "live", PaperCorpusRule())
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "live")], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout.readline() == "ready\n"
    while not store.versions():
        time.sleep(0.01)
    time.sleep(delay)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    versions = store.versions()
    assert [info.number for info in versions] == list(range(1, len(versions) + 1))
    for info in (versions[0], versions[-1]):
        index = store.open(info.number)
        assert index.document_ids == tuple(f"k{i}" for i in range(20 * info.number))
        assert len(index.scan()) == info.facts["documents"]
    # Its lock went with it, and what it left half-written is in nobody's way.
    with store.writer() as live:
        live.remove(["k0"])
        assert live.version == len(versions) + 1


def test_a_disk_that_fails_leaves_the_version_before(tmp_path, monkeypatch):
    store, said = history(tmp_path / "live", "paper")
    with store.writer() as live:

        def full(*_args, **_kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np, "savez", full)
        with pytest.raises(OutputError, match="No space left"):
            live.add(*batch(5, 2, "g"))
        monkeypatch.undo()
        with pytest.raises(InputError, match="open the live index again"):
            live.add(*batch(5, 2, "g"))
    assert seen(store.open()) == said[6]
    with store.writer() as live:
        live.add(*batch(5, 2, "g"))
        assert len(live.index) == 63


def test_a_refused_change_writes_nothing_and_the_writer_goes_on(tmp_path):
    store, said = history(tmp_path / "live", "default")
    with store.writer() as live:
        for change in (
            lambda: live.add(*batch(1, 3)),
            lambda: live.remove(["nobody"]),
            lambda: live.update(*batch(1, 3, "nobody")),
        ):
            with pytest.raises(InputError, match="in the index"):
                change()
        assert live.version == 6
        assert seen(live.index) == said[6]
        live.remove(["d0"])
        assert live.version == 7


def damage(path, how):
    versions, segments = path / "versions", path / "segments"
    file = sorted(segments.iterdir())[-1]
    info = versions / "000000000006.json"
    if how == "cut":
        file.write_bytes(file.read_bytes()[:-200])
    elif how == "bit":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif how == "missing":
        file.unlink()
    elif how == "json":
        info.write_text("{")
    elif how == "list":
        info.write_text("[]")
    elif how == "format":
        info.write_text(info.read_text().replace('"format": 1', '"format": 9'))
    elif how == "parent":
        info.write_text(info.read_text().replace('"parent": null', '"parent": 6'))
    elif how == "path":
        info.write_text(info.read_text().replace(file.name, f"../segments/{file.name}"))


@pytest.mark.parametrize(
    "how", ["cut", "bit", "missing", "json", "list", "format", "parent", "path"]
)
def test_damage_is_reported_with_its_place_and_other_versions_are_read(tmp_path, how):
    store, said = history(tmp_path / "live", "paper")
    damage(tmp_path / "live", how)
    with pytest.raises(InputError, match=r"live.*(damaged|expected an earlier version)"):
        store.open(6)
    assert seen(store.open(5)) == said[5]


def test_arrays_that_do_not_fit_are_damage(tmp_path):
    history(tmp_path / "live", "default")
    folder = SegmentFolder(tmp_path / "live")
    segment = folder.chain(6)[0]
    for name, array in (
        ("near", segment.arrays["near"] + 10**6),
        ("judge.tokens", segment.arrays["judge.tokens"] + 10**6),
    ):
        folder.append(Segment(segment.fields, segment.arrays | {name: array}), whole=True, facts={})
        with pytest.raises(InputError, match="is damaged"):
            LiveStore(tmp_path / "live", DefaultCorpusRule()).open()
    folder.append(Segment(segment.fields, {}), whole=True, facts={})
    with pytest.raises(InputError, match="is damaged"):
        LiveStore(tmp_path / "live", DefaultCorpusRule()).open()


def test_another_rule_is_refused(tmp_path):
    history(tmp_path / "live", "paper")
    for rule in (DefaultCorpusRule(), PaperCorpusRule(PaperCorpusConfig(alert_budget=0.1))):
        with pytest.raises(InputError, match="use its configuration"):
            LiveStore(tmp_path / "live", rule).open()
    history(tmp_path / "other", "default")
    rule = DefaultCorpusRule(DefaultCorpusConfig(gap_spread=3.0))
    with pytest.raises(InputError, match="use its configuration"):
        LiveStore(tmp_path / "other", rule).open()


def test_folders_that_are_none(tmp_path):
    with pytest.raises(InputError, match="expected a folder of versions"):
        LiveStore(tmp_path / "nothing", PaperCorpusRule())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    with pytest.raises(OutputError, match="is not empty"):
        LiveStore.create(tmp_path / "full", PaperCorpusRule())
    with pytest.raises(OutputError, match="choose an existing parent"):
        LiveStore.create(tmp_path / "no" / "parent", PaperCorpusRule())
    store = LiveStore.create(tmp_path / "empty", PaperCorpusRule())
    assert store.versions() == ()
    with pytest.raises(InputError, match="no version yet"):
        store.open()


def test_a_version_is_described_without_reading_its_segment(tmp_path):
    store, _ = history(tmp_path / "live", "default")
    facts = [info.facts for info in store.versions()]
    assert [(one["added"], one["removed"]) for one in facts] == [
        (60, 0),
        (9, 0),
        (0, 3),
        (4, 4),
        (30, 0),
        (0, 35),
    ]
    assert facts[-1]["estimate"] == store.open().statistics.estimate > 1
    text = (Path(tmp_path) / "live" / "versions" / "000000000002.json").read_text()
    assert json.loads(text)["parent"] == 1


def test_an_index_in_memory_needs_no_folder():
    index = LiveIndex(PaperCorpusRule())
    index.add(*batch(1, 10))
    assert len(list(index.verdicts)) == 10
