"""A scanned corpus on disk: complete or not at all, and never trusted blindly."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from builders import clustered, documents
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.errors import InputError, OutputError
from ragsieve.files import state as state_module
from ragsieve.files.state import FORMAT, check_state_target, read_state, write_state


def snapshot_of(size=40, **config):
    texts, rows = clustered(np.random.default_rng(3), size)
    # More words than the hundred everyday ones, so that some stand in an alien stretch.
    rare = " ".join(f"z{number}" for number in range(200))
    texts[0] = f"Ein Straßenname? \ud800 {rare} {' '.join([texts[0]] * 40)}"
    texts[-1] = ""
    rule = DefaultCorpusRule(DefaultCorpusConfig(**config))
    items = documents(texts, prefix="d\u202e")
    scan = CorpusDetector(rule).scan(items, rows)
    return IngestGate(rule).snapshot(scan, rows, "an encoder, r1")


def leaves(thing, path="snapshot"):
    if dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from leaves(getattr(thing, field.name), f"{path}.{field.name}")
    elif hasattr(thing, "arrays"):
        yield f"{path}.memory_bytes", thing.memory_bytes
        for name, array in thing.arrays().items():
            yield f"{path}.{name}", array
    else:
        yield path, thing


def assert_same(one, other):
    seen, wanted = dict(leaves(one)), dict(leaves(other))
    assert seen.keys() == wanted.keys()
    for path, value in wanted.items():
        if isinstance(value, np.ndarray):
            assert seen[path].dtype == value.dtype, path
            assert np.array_equal(seen[path], value, equal_nan=value.dtype.kind == "f"), path
        else:
            assert seen[path] == value, path


@pytest.mark.parametrize("size", [40, 2, 1])
def test_every_field_comes_back(tmp_path, size):
    snapshot = snapshot_of(size)
    write_state(tmp_path / "state", snapshot)
    assert_same(read_state(tmp_path / "state"), snapshot)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_peaks_that_were_measured_come_back(tmp_path):
    plain = snapshot_of()
    peaks = np.where(np.arange(40) % 3 == 0, 0.8, np.nan)
    snapshot = dataclasses.replace(
        plain, knowledge=dataclasses.replace(plain.knowledge, peaks=peaks)
    )
    write_state(tmp_path / "state", snapshot)
    assert_same(read_state(tmp_path / "state"), snapshot)


def test_a_sketch_comes_back(tmp_path):
    snapshot = snapshot_of(pair_memory_bytes=256)
    assert not snapshot.knowledge.statistics.counts.pairs.exact
    write_state(tmp_path / "state", snapshot)
    assert_same(read_state(tmp_path / "state"), snapshot)


def test_a_state_that_was_read_judges_and_grows_as_the_one_in_memory(tmp_path):
    snapshot = snapshot_of()
    write_state(tmp_path / "state", snapshot)
    stored = read_state(tmp_path / "state")
    texts, rows = clustered(np.random.default_rng(4), 6)
    new, gate = documents(texts, prefix="n"), IngestGate(DefaultCorpusRule())
    assert (
        gate.judge(stored, new, rows).scores.tolist()
        == gate.judge(snapshot, new, rows).scores.tolist()
    )
    _, grown = gate.extend(stored, new, rows)
    # The grown one replaces the folder whose arrays it was made from.
    write_state(tmp_path / "state", grown)
    assert_same(read_state(tmp_path / "state"), gate.extend(snapshot, new, rows)[1])


def test_a_table_that_became_a_sketch_leaves_no_exact_counts_behind(tmp_path):
    write_state(tmp_path / "state", snapshot_of())
    sketched = snapshot_of(pair_memory_bytes=256)
    write_state(tmp_path / "state", sketched)
    assert_same(read_state(tmp_path / "state"), sketched)


def fails_at(real, number, error):
    calls = []

    def wrapped(*arguments, **options):
        calls.append(arguments)
        if len(calls) == number:
            raise error
        return real(*arguments, **options)

    return wrapped


def no_space():
    return OSError(28, "No space left on device")


@pytest.mark.parametrize("number", [1, 7])
def test_failing_half_way_leaves_the_earlier_state(tmp_path, monkeypatch, number):
    earlier = snapshot_of(30)
    write_state(tmp_path / "state", earlier)
    monkeypatch.setattr(state_module.np, "save", fails_at(np.save, number, no_space()))
    with pytest.raises(OutputError, match="No space left on device"):
        write_state(tmp_path / "state", snapshot_of(40))
    assert_same(read_state(tmp_path / "state"), earlier)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_an_interrupt_half_way_leaves_the_earlier_state(tmp_path, monkeypatch):
    earlier = snapshot_of(30)
    write_state(tmp_path / "state", earlier)
    monkeypatch.setattr(state_module.np, "save", fails_at(np.save, 5, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        write_state(tmp_path / "state", snapshot_of(40))
    assert_same(read_state(tmp_path / "state"), earlier)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("number", [1, 2])
def test_failing_while_the_folders_change_places_brings_the_earlier_one_back(
    tmp_path, monkeypatch, number
):
    earlier = snapshot_of(30)
    write_state(tmp_path / "state", earlier)
    monkeypatch.setattr(Path, "rename", fails_at(Path.rename, number, OSError(5, "I/O error")))
    with pytest.raises(OutputError, match="I/O error"):
        write_state(tmp_path / "state", snapshot_of(40))
    assert_same(read_state(tmp_path / "state"), earlier)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_failing_in_the_first_state_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module.np, "save", fails_at(np.save, 3, no_space()))
    with pytest.raises(OutputError, match="No space left"):
        write_state(tmp_path / "state", snapshot_of())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_state_is_refused_and_stays_as_it_is(tmp_path):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    for attempt in (check_state_target, lambda path: write_state(path, snapshot_of(2))):
        with pytest.raises(OutputError, match="is no state"):
            attempt(folder)
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(OutputError, match="is no state"):
        check_state_target(file)
    with pytest.raises(OutputError, match="does not exist; create it first"):
        check_state_target(tmp_path / "absent" / "state")
    assert file.read_text() == "x"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("states") / "state"
    write_state(path, snapshot_of())
    return path


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "state"))


def names_of(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_missing_file_is_named(original, tmp_path):
    names = names_of(original)
    assert len(names) > 20
    for name in names:
        damaged = Path(shutil.copytree(original, tmp_path / f"without-{name}"))
        (damaged / name).unlink()
        with pytest.raises(InputError, match=r"expected a state|damaged") as caught:
            read_state(damaged)
        assert str(damaged) in str(caught.value)
        # A pair table without one of its arrays is named by what it still holds.
        assert name in str(caught.value) or name.startswith("pairs_")


@pytest.mark.parametrize("left", [0, 20, 100])
def test_a_truncated_file_is_refused(original, tmp_path, left):
    for name in names_of(original):
        content = (original / name).read_bytes()
        if len(content) <= left:
            continue
        damaged = Path(shutil.copytree(original, tmp_path / f"cut-{name}"))
        (damaged / name).write_bytes(content[:left])
        with pytest.raises(InputError, match=r"expected a state|damaged|field 'format'") as caught:
            read_state(damaged)
        assert str(damaged) in str(caught.value)


def rewrite(folder, **fields):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | fields))


def test_another_format_asks_for_another_scan(folder):
    rewrite(folder, format=FORMAT + 1)
    with pytest.raises(InputError, match=rf"manifest.json: field 'format': .*found {FORMAT + 1}"):
        read_state(folder)


@pytest.mark.parametrize("content", ["[]", "3", "{}", "{", "[" * 100_000, "\x00"])
def test_a_manifest_that_is_none_is_refused(folder, content):
    (folder / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="state"):
        read_state(folder)


@pytest.mark.parametrize(
    "fields",
    [
        {"documents": 41},
        {"documents": "many"},
        {"gap": {"middle": 0.1}},
        {"gap": None},
        {"alien_share": "x"},
        {"pair_memory_bytes": 0},
        {"counted_documents": None},
    ],
)
def test_an_impossible_field_is_refused(folder, fields):
    rewrite(folder, **fields)
    with pytest.raises(InputError, match="damaged"):
        read_state(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("embeddings", lambda array: array[:-1]),
        ("neighbors", lambda array: array[:-1]),
        ("token_offsets", lambda array: array[:-1]),
        ("word_offsets", lambda array: array[1:]),
        ("gaps_gap", lambda array: array[:-1]),
        ("peaks", lambda array: array[:-1]),
        ("run_start", lambda array: array[:-1]),
        ("run_ratio_nats", lambda array: array[:-1]),
    ],
)
def test_an_array_of_the_wrong_size_is_refused(folder, name, change):
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    with pytest.raises(InputError, match="damaged"):
        read_state(folder)


def test_a_pickle_is_never_opened(folder):
    np.save(folder / "peaks.npy", np.array([print] * 40, dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="damaged"):
        read_state(folder)


def test_no_state_at_all(tmp_path):
    with pytest.raises(InputError, match="expected a state written by `ragsieve scan --state`"):
        read_state(tmp_path / "absent")


def test_an_interrupt_while_the_folders_change_places_brings_the_earlier_one_back(
    tmp_path, monkeypatch
):
    earlier = snapshot_of(30)
    write_state(tmp_path / "state", earlier)
    monkeypatch.setattr(Path, "rename", fails_at(Path.rename, 2, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        write_state(tmp_path / "state", snapshot_of(40))
    assert_same(read_state(tmp_path / "state"), earlier)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_state_behind_a_link_is_replaced_where_it_is(tmp_path):
    (tmp_path / "real").mkdir()
    write_state(tmp_path / "real" / "state", snapshot_of(30))
    (tmp_path / "link").symlink_to(tmp_path / "real" / "state")
    write_state(tmp_path / "link", snapshot_of(20))
    assert (tmp_path / "link").is_symlink()
    assert len(read_state(tmp_path / "real" / "state")) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


@pytest.mark.parametrize(
    "name",
    [
        "questions",
        "mixing",
        "hidden",
        "frequencies",
        "similarities",
        "tokens",
        "words",
        "gaps_mean",
        "gaps_group",
    ],
)
def test_more_arrays_of_the_wrong_size_are_refused(tmp_path, name):
    write_state(tmp_path / "state", snapshot_of())
    path = tmp_path / "state" / f"{name}.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(InputError, match="damaged"):
        read_state(tmp_path / "state")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("neighbors", lambda a: a + 1000),
        ("neighbors", lambda a: a[:, :-1]),
        ("tokens", lambda a: a + 10**6),
        ("token_offsets", lambda a: a[::-1].copy()),
        ("embeddings", lambda a: a[:, 0].copy()),
    ],
)
def test_arrays_that_point_nowhere_are_refused(tmp_path, name, change):
    write_state(tmp_path / "state", snapshot_of())
    path = tmp_path / "state" / f"{name}.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises(InputError, match="damaged"):
        read_state(tmp_path / "state")


@pytest.mark.parametrize("content", ['["a"]', "[" + ", ".join(['"a"'] * 300) + "]"])
def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path, content):
    write_state(tmp_path / "state", snapshot_of())
    (tmp_path / "state" / "vocabulary.json").write_text(content)
    with pytest.raises(InputError, match="damaged"):
        read_state(tmp_path / "state")
