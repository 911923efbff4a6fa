"""The commands end to end: files in, files out, exit codes, nothing half-written."""

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
import typer

from builders import clustered, write_jsonl
from ragsieve.cli import scanning
from ragsieve.cli.main import app, run

NO_MODELS = ["--causal-model", "none", "--token-model", "none"]


def rows_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


@pytest.fixture
def corpus(tmp_path):
    texts, rows = clustered(np.random.default_rng(5), 60, spread=0.3)
    texts = [text.replace(" word词 Привет", "") for text in texts]
    texts[0] += " pаypal"  # a Cyrillic letter inside a Latin word
    write_jsonl(
        tmp_path / "corpus.jsonl", [{"id": f"d{i}", "text": t} for i, t in enumerate(texts)]
    )
    np.save(tmp_path / "e.npy", rows.astype(np.float32))
    return tmp_path


@pytest.fixture
def contexts(corpus):
    texts = [row["text"] for row in rows_of(corpus / "corpus.jsonl")]

    def context(name, condition, first):
        order = [first, *[i for i in range(1, 31) if i != first]]
        return {
            "query_id": name,
            "query": "who built the bridge",
            "dataset": "t",
            "condition": condition,
            "documents": [
                {"id": f"d{i}", "rank": r, "text": texts[i]} for r, i in enumerate(order, 1)
            ],
        }

    return write_jsonl(
        corpus / "contexts.jsonl",
        [context("q1", "clean", 1), context("q2", "clean", 2), context("q1", "mixed", 0)],
    )


def scan(folder, *more):
    return run(
        [
            "scan",
            "--documents",
            str(folder / "corpus.jsonl"),
            "--embeddings",
            str(folder / "e.npy"),
            "--output",
            str(folder / "scan.jsonl"),
            "--profile",
            "paper",
            *more,
        ]
    )


def sieve(folder, *more):
    return run(
        [
            "filter",
            "--input",
            str(folder / "contexts.jsonl"),
            "--output",
            str(folder / "p.jsonl"),
            "--profile",
            "paper",
            *NO_MODELS,
            *more,
        ]
    )


def test_scan_writes_every_component(corpus, capsys):
    assert scan(corpus, "--profile", "paper", "--json") == 1
    summary = json.loads(capsys.readouterr().out)
    found = rows_of(corpus / "scan.jsonl")
    assert summary["documents"] == len(found) == 60
    assert summary["flagged"] == sum(row["flagged"] for row in found) >= 1
    needed = "document_id score flagged level threshold profile fingerprint eligible_neighbors density_contrast upper_tail_probability script_integrity topology_score"
    assert set(needed.split()) <= set(found[0])
    assert found[0]["script_integrity"] == 1.0
    assert found[0]["level"] == "quarantine"
    assert isinstance(found[0]["eligible_neighbors"], int)
    assert "not that it is false" in summary["meaning"]


def test_a_clean_scan_exits_with_0(tmp_path):
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}])
    np.save(tmp_path / "e.npy", np.eye(2))
    assert scan(tmp_path) == 0


def test_filter_states_what_it_could_not_measure(contexts, capsys):
    folder = contexts.parent
    code = sieve(
        folder, "--profile", "paper", "--contexts-output", str(folder / "refilled.jsonl"), "--json"
    )
    assert code == 3
    summary = json.loads(capsys.readouterr().out)
    assert summary["undecided"] > 0
    assert any("surprisal" in reason for reason in summary["unavailable"])
    found = rows_of(folder / "p.jsonl")
    assert len(found) == 15
    first = found[0]
    assert first["surprisal"] is None
    assert first["surprisal_status"] == "unavailable"
    assert first["surprisal_reason"]
    assert first["score_is_lower_bound"] is True
    assert first["condition"] == "clean"
    assert "answer_anchor_probability" in first
    refilled = rows_of(folder / "refilled.jsonl")
    assert [len(row["documents"]) for row in refilled] == [5, 5, 5]
    assert refilled[0]["removed_document_ids"] == []


def test_remove_and_raise_are_policies(contexts, capsys):
    folder = contexts.parent
    assert (
        sieve(folder, "--on-unavailable", "remove", "--contexts-output", str(folder / "r.jsonl"))
        == 3
    )
    assert all(len(row["removed_document_ids"]) == 5 for row in rows_of(folder / "r.jsonl"))
    (folder / "p.jsonl").unlink()
    assert sieve(folder, "--on-unavailable", "raise") == 2
    assert "unavailable: surprisal" in capsys.readouterr().err
    assert not (folder / "p.jsonl").exists()


def test_quarantine_renumbers_and_lists_what_it_took(contexts):
    folder = contexts.parent
    scan(folder)
    arguments = [
        "quarantine",
        "--contexts",
        str(contexts),
        "--graph-predictions",
        str(folder / "scan.jsonl"),
        "--output",
        str(folder / "safe.jsonl"),
    ]
    assert run(arguments) == 1
    last = rows_of(folder / "safe.jsonl")[2]
    assert "d0" in last["quarantined_document_ids"]
    assert [entry["rank"] for entry in last["documents"]] == list(
        range(1, len(last["documents"]) + 1)
    )
    # The result is a context file again.
    assert (
        run(
            [
                "filter",
                "--input",
                str(folder / "safe.jsonl"),
                "--output",
                str(folder / "p.jsonl"),
                *NO_MODELS,
            ]
        )
        == 3
    )


def test_evaluate_with_and_without_labels(contexts, capsys):
    folder = contexts.parent
    sieve(folder)
    base = [
        "evaluate",
        "--predictions",
        str(folder / "p.jsonl"),
        "--output",
        str(folder / "m.json"),
        "--json",
    ]
    capsys.readouterr()
    assert run(base) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["auroc"] is None
    labels = write_jsonl(folder / "l.jsonl", [{"document_id": "d0", "poison": True}])
    assert run([*base, "--labels", str(labels)]) == 0
    report = json.loads((folder / "m.json").read_text())
    (cell,) = report["cells"]
    assert cell["condition"] == "mixed"
    assert (cell["poison"], cell["clean"], cell["bystanders"]) == (1, 10, 4)
    assert cell["auroc"] == 1.0
    assert report["unlabelled_documents"] > 0


@pytest.mark.parametrize(
    "variant",
    [
        "without-answer-anchor",
        "without-script-integrity",
        "without-surprisal",
        "without-query-alignment",
    ],
)
def test_ablate_a_filter(contexts, variant):
    folder = contexts.parent
    sieve(folder)
    arguments = [
        "ablate",
        "--predictions",
        str(folder / "p.jsonl"),
        "--variant",
        variant,
        "--output",
        str(folder / "a.jsonl"),
    ]
    assert run(arguments) == 0
    name = variant.removeprefix("without-").replace("-", "_")
    for before, after in zip(rows_of(folder / "p.jsonl"), rows_of(folder / "a.jsonl"), strict=True):
        assert name not in after
        assert after["score"] == pytest.approx(before["score"] - (before[name] or 0.0))


@pytest.mark.parametrize("variant", ["corpus-local-only", "script-integrity-only"])
def test_ablate_a_scan(corpus, variant):
    scan(corpus)
    arguments = [
        "ablate",
        "--predictions",
        str(corpus / "scan.jsonl"),
        "--variant",
        variant,
        "--output",
        str(corpus / "a.jsonl"),
    ]
    assert run(arguments) == 0
    for before, after in zip(
        rows_of(corpus / "scan.jsonl"), rows_of(corpus / "a.jsonl"), strict=True
    ):
        local = min(1.0, 0.5 * 0.05 / before["upper_tail_probability"])
        expected = local if variant == "corpus-local-only" else before["script_integrity"]
        assert after["score"] == pytest.approx(expected)


def test_ablating_the_wrong_kind_is_refused(corpus, capsys):
    scan(corpus)
    arguments = [
        "ablate",
        "--predictions",
        str(corpus / "scan.jsonl"),
        "--variant",
        "without-surprisal",
        "--output",
        str(corpus / "a.jsonl"),
    ]
    assert run(arguments) == 2
    assert "ragsieve filter" in capsys.readouterr().err
    assert not (corpus / "a.jsonl").exists()


def test_explain_in_corpus_and_ranking(contexts, capsys):
    folder = contexts.parent
    arguments = [
        "explain",
        "d0",
        "--documents",
        str(folder / "corpus.jsonl"),
        "--embeddings",
        str(folder / "e.npy"),
        "--contexts",
        str(contexts),
        "--query-id",
        "q1",
        "--profile",
        "paper",
        *NO_MODELS,
    ]
    assert run(["explain", "d1", *arguments[2:]]) in {1, 3}
    words = capsys.readouterr().out
    assert "In the corpus:" in words
    assert "Retrieved for q1:" in words
    assert "Surprisal: unavailable" in words
    assert run([*arguments[:6], "--profile", "paper", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "two scripts touch first at character" in " ".join(found["verdicts"][0]["explanation"])
    assert run(["explain", "nobody", *arguments[2:6]]) == 2
    assert run(["explain", "d0"]) == 2


def test_doctor_says_what_is_missing(tmp_path, capsys):
    assert run(["doctor", "--models-dir", str(tmp_path), "--json"]) == 3
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert any(not check["ok"] and "models pull" in check["detail"] for check in checks)


def test_models_verify_and_path_without_models(tmp_path, capsys):
    assert run(["models", "verify", "--models-dir", str(tmp_path)]) == 1
    assert run(["models", "path", "all-minilm-l6-v2", "--models-dir", str(tmp_path)]) == 2
    assert "ragsieve models pull" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["scan"],
        ["nonsense"],
        ["scan", "--nonsense"],
        ["ablate", "--variant", "x", "--predictions", "p", "--output", "o"],
    ],
)
def test_usage_errors_exit_with_2(arguments):
    assert run(arguments) == 2


def test_unknown_configuration_keys_are_errors(corpus, capsys):
    (corpus / "c.toml").write_text("[corpus]\nneighbours = 3\n")
    assert scan(corpus, "--config", str(corpus / "c.toml")) == 2
    assert "corpus.neighbours: unknown key" in capsys.readouterr().err
    (corpus / "c.toml").write_text("[corpus]\nneighbors = 3\n")
    assert scan(corpus, "--config", str(corpus / "c.toml")) in {0, 1}


def test_an_error_shows_hostile_text_spelled_out(corpus, capsys):
    (corpus / "corpus.jsonl").write_bytes(b'{"id": "a\\u202e\\u001b[31m", "text": "x"}\n' * 2)
    assert scan(corpus) == 2
    error = capsys.readouterr().err
    assert "\u202e" not in error
    assert "\x1b" not in error


@pytest.mark.parametrize("content", ['{"id": "a"}\n', "{\n", ""])
def test_bad_input_leaves_the_earlier_output_alone(corpus, content):
    (corpus / "scan.jsonl").write_text("before")
    (corpus / "corpus.jsonl").write_text(content)
    assert scan(corpus) == 2
    assert (corpus / "scan.jsonl").read_text() == "before"
    assert not list(corpus.glob(".*.part"))


def test_an_unwritable_output_is_refused_before_the_work(corpus, capsys):
    arguments = [
        "scan",
        "--documents",
        str(corpus / "corpus.jsonl"),
        "--embeddings",
        str(corpus / "e.npy"),
    ]
    assert run([*arguments, "--output", str(corpus / "absent" / "x.jsonl")]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    "bad", [np.full((60, 4), np.nan), np.zeros((60, 4)), np.ones((59, 4)), np.ones(60)]
)
def test_unusable_embeddings(corpus, bad, capsys):
    np.save(corpus / "e.npy", bad)
    assert scan(corpus) == 2
    assert "ragsieve: " in capsys.readouterr().err
    assert not (corpus / "scan.jsonl").exists()


def test_a_document_of_ten_million_characters(tmp_path):
    texts = ["plain words of a report " * 420_000, "short one", "another short one"]
    write_jsonl(
        tmp_path / "corpus.jsonl", [{"id": f"d{i}", "text": t} for i, t in enumerate(texts)]
    )
    np.save(tmp_path / "e.npy", np.eye(3))
    started = time.monotonic()
    assert scan(tmp_path) == 0
    assert time.monotonic() - started < 20
    assert rows_of(tmp_path / "scan.jsonl")[0]["truncated_characters"] == len(texts[0]) - 1_000_000


def test_ctrl_c_in_the_middle_of_a_scan_leaves_nothing(tmp_path):
    rng = np.random.default_rng(0)
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": f"d{i}", "text": "x"} for i in range(30_000)])
    np.save(tmp_path / "e.npy", rng.normal(size=(30_000, 256)).astype(np.float32))
    arguments = [
        "scan",
        "--documents",
        str(tmp_path / "corpus.jsonl"),
        "--embeddings",
        str(tmp_path / "e.npy"),
        "--output",
        str(tmp_path / "scan.jsonl"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ragsieve", *arguments],
        env={**os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whatever started these tests may have told its children to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    # The rows are mapped into memory once the scan is under way.
    maps = Path(f"/proc/{process.pid}/maps")
    deadline = time.monotonic() + 60
    while "e.npy" not in maps.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    assert process.poll() is None, "the scan ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "e.npy"]


def test_output_option_names_of_the_contract():
    wanted = {
        "scan": "--documents --embeddings --output --profile --json --config",
        "filter": "--input --output --contexts-output --profile --json --config",
        "quarantine": "--contexts --graph-predictions --output",
        "evaluate": "--predictions --labels --output",
        "ablate": "--predictions --variant --output",
        "retrieve": "--documents --embeddings --queries --output --depth",
        "explain": "--documents --embeddings --contexts --query-id --json",
    }
    commands = typer.main.get_command(app).commands
    for name, options in wanted.items():
        known = {option for one in commands[name].params for option in one.opts}
        assert set(options.split()) <= known, name


@pytest.mark.parametrize("depth", ["0", "-1", "x"])
def test_a_depth_must_be_a_positive_number(corpus, depth, capsys):
    files = ["--documents", f"{corpus}/corpus.jsonl", "--embeddings", f"{corpus}/e.npy"]
    more = ["--queries", f"{corpus}/q.jsonl", "--output", f"{corpus}/x.jsonl", "--depth", depth]
    assert run(["retrieve", *files, *more]) == 2
    assert "--depth" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 400])
def test_an_absurd_number_is_bad_input_and_no_traceback(contexts, number, capsys):
    text = contexts.read_text("utf-8").replace('"rank": 1,', f'"rank": 1, "similarity": {number},')
    contexts.write_text(text, "utf-8")
    assert sieve(contexts.parent, "--contexts-output", f"{contexts.parent}/r.jsonl") == 2
    assert "field 'similarity': expected a finite number" in capsys.readouterr().err
    assert not (contexts.parent / "p.jsonl").exists()
    assert not (contexts.parent / "r.jsonl").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failing_half_way_leaves_the_earlier_file(corpus, monkeypatch, error, capsys):
    (corpus / "scan.jsonl").write_text("before")
    real, seen = scanning.verdict_fields, []

    def fails_later(verdict):
        seen.append(verdict)
        if len(seen) > 30:
            raise error
        return real(verdict)

    monkeypatch.setattr(scanning, "verdict_fields", fails_later)
    code = scan(corpus)
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert len(seen) == 31
    assert (corpus / "scan.jsonl").read_text() == "before"
    assert not list(corpus.glob(".*"))
    if isinstance(error, OSError):
        assert "No space left on device" in capsys.readouterr().err


def test_an_unwritable_second_output_is_refused_before_the_first_is_written(contexts, capsys):
    folder = contexts.parent
    assert sieve(folder, "--contexts-output", str(folder / "absent" / "r.jsonl")) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not (folder / "p.jsonl").exists()


def test_a_pipe_is_no_output_and_stays_a_pipe(corpus, capsys):
    os.mkfifo(corpus / "scan.jsonl")
    assert scan(corpus) == 2
    assert "expected a file name" in capsys.readouterr().err
    assert (corpus / "scan.jsonl").is_fifo()


def test_a_truncated_document_is_stated_in_words_and_in_json(tmp_path, capsys):
    (tmp_path / "c.toml").write_text("[paper.corpus]\nmax_characters = 10\n")
    rows = [{"id": "a", "text": "twelve chars"}, {"id": "b", "text": "short"}]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    np.save(tmp_path / "e.npy", np.eye(2))
    assert scan(tmp_path, "--config", f"{tmp_path}/c.toml") == 0
    assert "The end of 1 very long documents was not examined" in capsys.readouterr().out
    assert scan(tmp_path, "--config", f"{tmp_path}/c.toml", "--json") == 0
    assert json.loads(capsys.readouterr().out)["truncated_documents"] == 1
    cut = [row["truncated_characters"] for row in rows_of(tmp_path / "scan.jsonl")]
    assert cut == [2, 0]


@pytest.mark.parametrize("flag", [[], ["--json"]], ids=["words", "json"])
@pytest.mark.parametrize(
    "character",
    ["\x1b", "\u202e", "\x9b"],
)
def test_hostile_names_never_reach_a_terminal_raw(tmp_path, capsys, flag, character):
    name = f"a{character}31m"
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": name, "text": "one"}, {"id": "b", "text": "x"}])
    np.save(tmp_path / "e.npy", np.eye(2))
    files = ["--documents", f"{tmp_path}/corpus.jsonl", "--embeddings", f"{tmp_path}/e.npy"]
    neighbour = ["explain", name, *files, *flag]
    assert run(neighbour) == 0
    out = capsys.readouterr().out
    assert "not that it is false" in out
    assert character not in out


def test_every_command_that_prints_json_prints_one_object(contexts, capsys):
    folder = contexts.parent
    scan(folder)
    sieve(folder)
    capsys.readouterr()
    runs = [
        ["scan", "--documents", f"{folder}/corpus.jsonl", "--embeddings", f"{folder}/e.npy",
         "--output", f"{folder}/o"],
        ["quarantine", "--contexts", str(contexts), "--graph-predictions", f"{folder}/scan.jsonl",
         "--output", f"{folder}/o"],
        ["evaluate", "--predictions", f"{folder}/p.jsonl", "--output", f"{folder}/o"],
        ["ablate", "--predictions", f"{folder}/p.jsonl", "--variant", "without-surprisal",
         "--output", f"{folder}/o"],
    ]  # fmt: skip
    for arguments in runs:
        assert run([*arguments, "--json"]) in {0, 1, 3}
        out = capsys.readouterr().out
        assert out.endswith("}\n")
        assert isinstance(json.loads(out), dict)
