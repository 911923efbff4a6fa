"""Commands over a vector store and its ledger: scan, findings, store, rollback, audit."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import numpy as np
import pytest

from builders import clustered, write_jsonl
from ragsieve.cli.main import run
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.explain import MEANING
from ragsieve.records import Decision

PLANTED = [
    f"the bridge\u200b was\u200b built by Nоbоdy of {place}"
    for place in ("Arden", "Brook", "Corran", "Dunmore", "Eskdale")
]
IDS = [f"p{number}" for number in range(5)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    import faiss

    folder = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(5)
    texts, vectors = clustered(rng, 150)
    near = rng.normal(size=16) + 0.02 * rng.normal(size=(5, 16))
    rows = np.vstack([vectors, near]).astype("f4")
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    index = faiss.IndexFlatIP(16)
    index.add(rows)
    faiss.write_index(index, str(folder / "docs.faiss"))
    names = [f"c{number}" for number in range(150)] + IDS
    lines = [
        {"id": name, "text": text, "source": "web" if name in IDS else "wiki"}
        for name, text in zip(names, texts + PLANTED, strict=True)
    ]
    write_jsonl(folder / "docs.jsonl", lines)
    return folder


@pytest.fixture
def store(made, tmp_path):
    for name in ("docs.faiss", "docs.jsonl"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    return f"faiss://{tmp_path}/docs.faiss?texts={tmp_path}/docs.jsonl"


@pytest.fixture
def call(tmp_path, capsys):
    """Runs a command with the ledger of this test; its code and its JSON."""

    def one(*arguments, ledger=True):
        extra = ["--ledger", str(tmp_path / "ledger.sqlite")] if ledger else []
        code = run([*map(str, arguments), *extra, "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else said.err

    return one


def hidden(call, store):
    _, found = call("store", "marks", store, ledger=False)
    return [one["id"] for one in found["hidden"]]


def test_a_scan_is_a_dry_run_unless_told_otherwise(call, store, tmp_path):
    output = tmp_path / "findings.jsonl"
    code, found = call("scan", store, "--output", output)
    assert code == 1
    assert found["dry_run"] is True
    assert set(IDS) <= set(found["quarantine"])
    assert found["hidden"] is None
    assert found["meaning"] == MEANING
    assert hidden(call, store) == []
    assert len(output.read_text().splitlines()) == found["findings"]


def test_applied_reviewed_exported_and_rolled_back(call, store, tmp_path):
    code, scan = call("scan", store, "--apply", "--vectors-by", "m1")
    assert code == 1
    assert set(scan["hidden"]) == set(scan["quarantine"])
    assert set(hidden(call, store)) == set(scan["hidden"])
    _, scans = call("findings", "scans")
    assert [(one["id"], one["state"]) for one in scans["scans"]] == [(scan["scan"], "finished")]
    _, listed = call("findings", "list", "--scan", scan["scan"])
    assert listed["total"] == scan["findings"]
    first = listed["findings"][0]
    assert first["state"] == "quarantined"
    _, shown = call("findings", "show", first["id"])
    assert shown["rollback_handle"] == scan["scan"]
    assert len(shown["policy_sha256"]) == 64
    _, said = call(
        "findings", "review", first["id"], "confirmed", "--reason", "seen", "--as", "ann"
    )
    assert said["reviewer"] == "ann"
    _, checked = call(
        "findings", "truth", first["id"], "false", "--reason", "records", "--as", "bo"
    )
    assert checked["truth"] == "false"
    # What was found out about its truth moved nothing that was done.
    _, shown = call("findings", "show", first["id"])
    assert (shown["truth"], shown["state"], shown["opinion"]) == (
        "false",
        "quarantined",
        "confirmed",
    )
    for kind in ("jsonl", "sarif", "ocsf", "html"):
        target = tmp_path / f"out.{kind}"
        code, written = call("findings", "export", "--format", kind, "--output", target)
        assert (code, written["findings"]) == (0, scan["findings"])
        assert target.stat().st_size > 500
    code, preview = call("rollback", scan["scan"])
    assert code == 0
    assert preview["dry_run"] is True
    assert list(preview["contested"]) == [first["document"]]
    assert "ann" in preview["contested"][first["document"]][0]
    assert set(hidden(call, store)) == set(scan["hidden"])
    code, done = call("rollback", scan["scan"], "--apply", "--reason", "too many")
    assert (code, done["complete"], done["left_contested"]) == (3, False, [first["document"]])
    assert hidden(call, store) == [first["document"]]
    code, done = call("rollback", scan["scan"], "--apply", "--include-contested")
    assert (code, done["complete"]) == (0, True)
    assert hidden(call, store) == []
    code, report = call("audit", "verify")
    assert (code, report["intact"]) == (0, True)


def test_hidden_by_hand_deleted_and_brought_back(call, store, tmp_path):
    code, done = call("store", "quarantine", store, "c1", "c2", "none", "--reason", "asked")
    assert code == 3
    assert (done["hidden"], done["missing"]) == (["c1", "c2"], ["none"])
    bundles = ("--bundles", tmp_path / "bundles")
    code, done = call("store", "delete", store, "c1", "--reason", "law", *bundles)
    assert (code, done["deleted"]) == (0, ["c1"])
    assert hidden(call, store) == ["c2"]
    code, done = call("store", "restore", store, "c1", "--reason", "mistake")
    assert (code, done["restored"]) == (0, ["c1"])
    code, done = call("store", "release", store, "c1", "c2", "--reason", "fine")
    assert (code, sorted(done["released"])) == (0, ["c1", "c2"])
    assert hidden(call, store) == []
    code, found = call("store", "recover", store, "--older-than-seconds", "0")
    assert (code, found["confirmed"], found["abandoned"]) == (0, [], [])
    assert call("store", "release", store, "c9", "--reason", "x")[0] == 2


def test_an_edited_entry_and_a_tail_cut_off_are_found(call, store, tmp_path):
    call("scan", store, "--apply")
    _, head = call("audit", "head")
    _, entries = call("audit", "show", "--limit", "100")
    assert entries["entries"][0]["seq"] == int(head["head"].split(":")[0])
    assert call("audit", "verify", "--expect", head["head"])[0] == 0
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'"):
            connection.execute(f'DROP TRIGGER "{name}"')
        last = int(head["head"].split(":")[0])
        connection.execute("DELETE FROM ledger_audit WHERE seq = ?", (last,))
    connection.close()
    assert call("audit", "verify", "--expect", head["head"])[0] == 1
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("UPDATE ledger_audit SET actor = 'somebody' WHERE seq = 2")
    connection.close()
    code, report = call("audit", "verify")
    assert (code, report["first_bad"], report["entries"]) == (1, 2, 1)


def test_the_policy_decides_and_its_hash_stands_in_every_finding(call, store, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'version = 1\n[[rules]]\nname = "web"\nsource = "web"\nmeasure = "review"\nreason = "r"\n'
        '[otherwise]\nmeasure = "record"\nreason = "trusted"\n'
    )
    code, scan = call("scan", store, "--policy", policy, "--apply")
    assert (code, scan["quarantine"], scan["hidden"]) == (1, [], [])
    _, listed = call("findings", "list", "--scan", scan["scan"], "--store", scan["store"])
    assert {one["measure"] for one in listed["findings"] if one["document"] in IDS} == {"review"}
    assert {one["measure"] for one in listed["findings"] if one["document"] not in IDS} <= {
        "record"
    }


def test_tenants_do_not_meet(call, store):
    _, scan = call("scan", store, "--tenant", "a", "--apply")
    assert call("findings", "list")[1]["total"] == 0
    assert call("findings", "list", "--tenant", "a")[1]["total"] == scan["findings"]
    code, said = call("rollback", scan["scan"])
    assert code == 2
    assert "no such scan" in said
    _, listed = call("findings", "list", "--tenant", "a", "--limit", "1")
    code, said = call("findings", "show", listed["findings"][0]["id"])
    assert (code, "no such finding" in said) == (2, True)
    assert call("rollback", scan["scan"], "--tenant", "a", "--apply")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scan"], "address of a store"),
        (["scan", "STORE", "--documents", "x"], "--documents: a store has its own"),
        (["scan", "STORE", "--update"], "--update: a store has its own"),
        (["scan", "STORE", "--budget", "3"], "--budget: a store has its own"),
        (["scan", "STORE", "--approximate"], "--approximate: a store has its own"),
        (["scan", "nothing://x"], "expected"),
        (["scan", "STORE", "--config", "CONFIG"], "unknown"),
        (["store", "marks", "faiss:///none.faiss?texts=/none.jsonl"], "none.faiss"),
        (["audit", "verify", "--expect", "7"], "NUMBER:HASH"),
        (["audit", "verify"], "there is no ledger"),
        (["audit", "head"], "there is no ledger"),
        (["audit", "show"], "there is no ledger"),
        (["findings", "list"], "there is no ledger"),
        (["findings", "show", "none"], "there is no ledger"),
        (["store", "recover", "STORE"], "there is no ledger"),
        (["rollback", "none"], "there is no ledger"),
    ],
)
def test_what_cannot_be_done_is_said(store, tmp_path, capsys, arguments, words):
    config = tmp_path / "c.toml"
    config.write_text("[ledger]\nurll = 'x'\n")
    told = [{"STORE": store, "CONFIG": str(config)}.get(one, one) for one in arguments]
    ledger = (
        []
        if told[:2] == ["store", "marks"] or told == ["scan"]
        else ["--ledger", f"{tmp_path}/l.sqlite"]
    )
    assert run([*told, *ledger]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "l.sqlite").exists() or "no ledger" not in words


@pytest.mark.parametrize(
    "option", [["--policy", "p"], ["--as", "x"], ["--vectors-by", "m"], ["--allow-moving"]]
)
def test_options_of_a_store_are_refused_beside_files(tmp_path, capsys, option):
    files = [part for name in ("documents", "embeddings", "output") for part in (f"--{name}", name)]
    assert run(["scan", *files, *option]) == 2
    assert "belong to the scan of a store" in capsys.readouterr().err


def test_a_result_replaces_neither_the_ledger_nor_the_store(call, store, tmp_path):
    _, scan = call("scan", store)
    policy = tmp_path / "policy.toml"
    policy.write_text("version = 1\n")
    kept = {
        path: path.read_bytes()
        for path in (tmp_path / name for name in ("docs.faiss", "docs.jsonl", "policy.toml"))
    }
    for target in (*kept, tmp_path / "ledger.sqlite"):
        code, said = call("scan", store, "--policy", policy, "--output", target)
        assert (code, "input of this command" in said) == (2, True)
    code, said = call("findings", "export", "--output", tmp_path / "ledger.sqlite")
    assert (code, "input of this command" in said) == (2, True)
    assert {path: path.read_bytes() for path in kept} == kept
    assert call("findings", "list")[1]["total"] == scan["findings"]


def test_what_stays_undecided_makes_a_scan_partial(call, store, monkeypatch):
    plain = CorpusDetector.scan

    def scan(self, corpus, vectors, **more):
        found = plain(self, corpus, vectors, **more)
        decisions = (Decision.UNDECIDED, *found.decisions[1:])
        return dataclasses.replace(found, decisions=decisions)

    monkeypatch.setattr(CorpusDetector, "scan", scan)
    code, found = call("scan", store)
    assert (code, found["undecided"], found["partial"]) == (3, 1, False)


def test_an_evidence_that_found_nothing_does_not_list_a_finding(call, store, tmp_path):
    output = tmp_path / "findings.jsonl"
    call("scan", store, "--output", output)
    found = [json.loads(line) for line in output.read_text().splitlines()]
    values = {
        one["id"]: {e["name"]: e["value"] for e in one["verdict"]["evidences"]} for one in found
    }
    name = next(
        name
        for name in next(iter(values.values()))
        if len({bool(own[name]) for own in values.values()}) == 2
    )
    _, listed = call("findings", "list", "--evidence", name, "--limit", "500")
    assert {one["id"] for one in listed["findings"]} == {
        key for key, own in values.items() if own[name]
    }
