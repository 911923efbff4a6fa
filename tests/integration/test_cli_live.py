"""The commands about a live index, as a user types them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from builders import clustered, write_jsonl
from ragsieve.cli.main import run
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.live.store import LiveStore

SIZE = 60


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    """One corpus in parts: a (d0 to d49), b (d50 to d59), and all of it."""
    monkeypatch.chdir(tmp_path)
    texts, rows = clustered(np.random.default_rng(9), SIZE)
    documents = [{"id": f"d{row}", "text": f"{text} {row}"} for row, text in enumerate(texts)]
    for name, part in (("all", slice(None)), ("a", slice(0, 50)), ("b", slice(50, SIZE))):
        keep(name, documents[part], rows[part])
    return documents, rows


def keep(name, documents, rows):
    write_jsonl(Path(f"{name}.jsonl"), documents)
    np.save(f"{name}.npy", rows)


def call(capsys, *arguments):
    code = run([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


def change(capsys, command, part, *more):
    files = ("--documents", f"{part}.jsonl", "--embeddings", f"{part}.npy")
    return call(capsys, "live", command, "live", *files, *more)


def predictions(name):
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def scanned(capsys, part, *more):
    files = ("--documents", f"{part}.jsonl", "--embeddings", f"{part}.npy")
    found = call(capsys, "scan", *files, "--output", "scan.jsonl", *more)
    return *found, predictions("scan.jsonl")


def live_scanned(capsys, *more):
    found = call(capsys, "live", "scan", "live", "--output", "live.jsonl", *more)
    return *found, predictions("live.jsonl")


@pytest.mark.parametrize("profile", ["paper", "default"])
def test_what_was_added_is_judged_as_a_scan_of_all_judges_it(profile, capsys):
    own = ("--profile", profile)
    code, made = change(capsys, "create", "a", *own)
    assert (code, made["version"], made["documents"], made["profile"]) == (0, 1, 50, profile)
    assert made["causal_model"] is None
    code, added = change(capsys, "add", "b", *own)
    assert (code, added["version"], added["documents"], added["added"]) == (0, 2, 60, 10)
    code, found, rows = live_scanned(capsys, *own)
    expected_code, expected, expected_rows = scanned(capsys, "all", *own)
    assert (code, found["version"], rows) == (expected_code, 2, expected_rows)
    skipped = {"version", "notes"}
    assert {k: v for k, v in found.items() if k not in skipped} == {
        k: v for k, v in expected.items() if k not in skipped
    }


def test_scans_with_and_without_findings_differ_in_their_exit_code(capsys):
    change(capsys, "create", "a")
    code, found, _ = live_scanned(capsys)
    assert (code, found["flagged"] > 0) == (1, True)
    Path("strict.toml").write_text("[corpus]\nthreshold = 50.0\nquarantine_score = 60.0\n")
    files = ("--documents", "a.jsonl", "--embeddings", "a.npy", "--config", "strict.toml")
    call(capsys, "live", "create", "strict", *files)
    out = ("--output", "strict.jsonl", "--config", "strict.toml")
    code, found = call(capsys, "live", "scan", "strict", *out)
    assert (code, found["flagged"]) == (0, 0)
    # Constants are part of the index: without its configuration it is not read.
    code, error = call(capsys, "live", "scan", "strict", "--output", "other.jsonl")
    assert code == 2
    assert "constants" in error
    assert not Path("other.jsonl").exists()


def test_documents_go_and_are_replaced(capsys, corpus):
    documents, rows = corpus
    change(capsys, "create", "all")
    Path("ids.txt").write_bytes("\ufeffd1\r\nd2\n\n".encode())
    names = ("--ids", "d0", "--ids-file", "ids.txt")
    code, removed = call(capsys, "live", "remove", "live", *names)
    assert (code, removed["removed"], removed["documents"]) == (0, 3, 57)
    keep("new", [{"id": "d5", "text": "rewritten from scratch"}], rows[7:8])
    code, updated = change(capsys, "update", "new")
    assert (code, updated["added"], updated["removed"], updated["version"]) == (0, 1, 1, 3)
    left = [*documents[3:5], *documents[6:], {"id": "d5", "text": "rewritten from scratch"}]
    keep("left", left, np.concatenate([rows[3:5], rows[6:], rows[7:8]]))
    assert live_scanned(capsys)[2] == scanned(capsys, "left")[2]


def test_earlier_versions_are_read_until_they_are_pruned(capsys):
    change(capsys, "create", "a")
    before = live_scanned(capsys)[2]
    change(capsys, "add", "b")
    assert len(live_scanned(capsys)[2]) == 60
    assert live_scanned(capsys, "--version", 1)[2] == before
    code, listed = call(capsys, "live", "versions", "live")
    assert code == 0
    assert [(one["version"], one["documents"], one["builds_on"]) for one in listed["versions"]] == [
        (1, 50, None),
        (2, 60, 1),
    ]
    assert call(capsys, "live", "prune", "live", "--keep", 1)[1] == {
        "deleted": [],
        "versions": [1, 2],
    }
    assert call(capsys, "live", "compact", "live") == (0, {"version": 2, "documents": 60})
    after = live_scanned(capsys)[2]
    assert call(capsys, "live", "prune", "live", "--keep", 1) == (
        0,
        {"deleted": [1], "versions": [2]},
    )
    assert live_scanned(capsys)[2] == after
    code, error = call(capsys, "live", "scan", "live", "--output", "no.jsonl", "--version", 1)
    assert code == 2
    assert "no version 1" in error


def test_a_second_writer_is_refused_and_readers_are_not(capsys):
    change(capsys, "create", "a")
    with LiveStore("live", DefaultCorpusRule()).writer():
        for command in (
            ("add", "live", "--documents", "b.jsonl", "--embeddings", "b.npy"),
            ("remove", "live", "--ids", "d1"),
            ("compact", "live"),
            ("prune", "live", "--keep", "1"),
        ):
            code, error = call(capsys, "live", *command)
            assert code == 2, command
            assert "another process is writing to this live index" in error
        assert len(live_scanned(capsys)[2]) == 50
    assert change(capsys, "add", "b")[0] == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("add", "live", "--documents", "a.jsonl", "--embeddings", "a.npy"), "already"),
        (("update", "live", "--documents", "b.jsonl", "--embeddings", "b.npy"), "not in the index"),
        (("remove", "live"), "--ids"),
        (("remove", "live", "--ids-file", "nowhere.txt"), "one a line"),
        (("remove", "live", "--ids", "\x1b[31m"), "not in the index"),
        (("create", "live", "--documents", "a.jsonl", "--embeddings", "a.npy"), "not empty"),
        (("versions", "nowhere"), "folder of versions"),
        (("prune", "live", "--keep", "0"), "--keep"),
        (("scan", "live", "--output", "o.jsonl", "--profile", "paper"), "profile 'default'"),
        (("scan", "live", "--output", "o.jsonl", "--profile", "other"), "unknown profile"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(command, says, capsys):
    change(capsys, "create", "a")
    code, error = call(capsys, "live", *command)
    assert code == 2
    assert says in error
    assert "\x1b" not in error
    (only,) = call(capsys, "live", "versions", "live")[1]["versions"]
    assert only["version"] == 1


def test_rows_that_are_refused_leave_no_folder_behind(capsys, corpus):
    documents, rows = corpus
    keep("bad", documents, np.where(np.arange(SIZE)[:, None] == 3, np.nan, rows))
    code, error = change(capsys, "create", "bad")
    assert code == 2
    assert "row 3" in error
    assert not Path("live").exists()
    assert change(capsys, "create", "all")[0] == 0


def test_a_causal_model_of_the_settings_is_said_not_to_be_used(capsys):
    Path("causal.toml").write_text('[models]\ncausal = "embedded"\n')
    files = ("--documents", "a.jsonl", "--embeddings", "a.npy", "--config", "causal.toml")
    assert run(["live", "create", "live", *files]) == 0
    shown = capsys.readouterr()
    assert "models.causal is not used here" in shown.err
    assert "Version 1: 50 documents" in shown.out


def test_the_documented_commands_run(corpus, capsys):
    documents, rows = corpus
    keep("corpus", documents[:50], rows[:50])
    keep("new", documents[50:], rows[50:])
    page = Path(__file__).parents[2] / "docs" / "live.md"
    lines = [one for one in page.read_text("utf-8").splitlines() if one.startswith("ragsieve live")]
    assert len(lines) == 8
    codes = [run(shlex.split(line)[1:]) for line in lines]
    assert codes == [0, 0, 0, 1, 1, 0, 0, 0], capsys.readouterr().err
