"""The documentation runs: its Python, its commands, its links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from builders import clustered, write_jsonl
from ragsieve.cli.main import run

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def test_the_readme_python_runs(capsys):
    (code,) = blocks(ROOT / "README.md", "python")
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 -- our own documentation
    out = capsys.readouterr().out
    assert "('d60', 'd61', 'd62')" in out
    assert "2 nearest documents stand out" in out


@pytest.mark.models
def test_the_readme_commands_run(tmp_path, monkeypatch, models_dir):
    monkeypatch.setenv("RAGSIEVE_MODELS_DIR", str(models_dir))
    monkeypatch.chdir(tmp_path)
    texts, _ = clustered(np.random.default_rng(4), 30)
    write_jsonl(
        Path("corpus.jsonl"), [{"id": f"d{i}", "text": f"{t} {i}"} for i, t in enumerate(texts)]
    )
    write_jsonl(Path("queries.jsonl"), [{"id": "q", "text": "who built the bridge"}])
    lines = [
        line
        for block in blocks(ROOT / "README.md", "")
        for line in block.splitlines()
        if line.startswith("ragsieve ")
    ]
    assert len(lines) == 8
    codes = [run(shlex.split(line.replace("DOC", "d1"))[1:]) for line in lines]
    assert all(code in {0, 1, 3} for code in codes), codes


def test_the_state_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, rows = clustered(np.random.default_rng(9), 60)
    documents = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    for name, part in (("corpus", slice(0, 50)), ("new", slice(50, 60))):
        write_jsonl(Path(f"{name}.jsonl"), documents[part])
        np.save(f"{name}.npy", rows[part])
    entries = [row | {"rank": rank} for rank, row in enumerate(documents[:40], 1)]
    asked = {"query_id": "q", "query": "who built the bridge", "documents": entries}
    write_jsonl(Path("contexts.jsonl"), [asked])
    write_jsonl(Path("queries.jsonl"), [{"id": "q", "text": "who built the bridge"}])
    found = [block for block in blocks(ROOT / "docs" / "cli.md", "") if "--state state" in block]
    lines = [line for block in found for line in block.strip().splitlines()]
    assert len(lines) == 5
    assert all(run(shlex.split(line)[1:]) in {0, 1} for line in lines)
    # Taken in: the state knows them now, and refuses to take them in twice.
    (update,) = [line for line in lines if "--update" in line]
    assert run(shlex.split(update)[1:]) == 2


def test_the_store_commands_run(tmp_path, monkeypatch, capsys):
    import faiss

    from ragsieve.ledger import open_ledger

    monkeypatch.chdir(tmp_path)
    texts, rows = clustered(np.random.default_rng(5), 60)
    texts[:3] = [f"built\u200b by Nоbоdy of {place}" for place in ("Arden", "Brook", "Corran")]
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("f4"))
    faiss.write_index(index, "docs.faiss")
    write_jsonl(Path("docs.jsonl"), [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)])
    (policy,) = [one for one in blocks(ROOT / "docs" / "policy.md", "toml") if "[[rules]]" in one]
    Path("policy.toml").write_text(policy)
    found = [one for one in blocks(ROOT / "docs" / "cli.md", "") if "ragsieve rollback SCAN" in one]
    lines = [line for block in found for line in block.strip().splitlines()]
    assert len(lines) == 7
    for line in lines:
        told = line.replace("/srv/", f"{tmp_path}/")
        if "SCAN" in line or " ID " in line:
            with open_ledger("ragsieve-ledger.sqlite", actor="reader") as ledger:
                newest = ledger.scans.all()[0].start.id
                first = ledger.incidents.queue().entries[0].incident.id
            told = told.replace("SCAN", newest).replace(" ID ", f" {first} ")
        assert run(shlex.split(told)[1:]) in {0, 1}, (line, capsys.readouterr().err)


def test_the_configuration_of_the_desk_is_one(tmp_path):
    from ragsieve.settings import load_settings

    (text,) = blocks(ROOT / "docs" / "desk.md", "toml")
    path = tmp_path / "ragsieve.toml"
    path.write_text(text)
    assert load_settings(path).service.collections["handbook"].tenant == "acme"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_command_is_documented():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    commands = "embed retrieve scan filter quarantine guard ask answer evaluate ablate explain lab "
    for command in (
        commands
        + "features models llm demo doctor live bench graph calibrate findings store rollback audit serve keys "
    ).split():
        assert f"ragsieve {command}" in text or f"`{command}`" in text, command
