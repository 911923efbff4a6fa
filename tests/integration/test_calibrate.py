"""`ragsieve calibrate` end to end: traffic in, a policy and its record out."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from builders import clustered, sentence, write_jsonl
from ragsieve.calibration.record import read_record
from ragsieve.cases import Measure, Place, Standing
from ragsieve.cli.main import run
from ragsieve.errors import InputError
from ragsieve.files.contexts import Carried
from ragsieve.files.predictions import query_fields, read_predictions, verdict_fields
from ragsieve.policy.file import read_policy
from ragsieve.policy.rules import Subject
from ragsieve.records import Decision, Evidence, Level, Verdict

NO_MODELS = ["--profile", "paper", "--causal-model", "none", "--token-model", "none"]


def verdict(name, score, **more):
    fields = {
        "document_id": name,
        "score": score,
        "threshold": 1.0,
        "decision": Decision.FLAGGED if score >= 1 else Decision.CLEAR,
        "level": Level.INFO,
        "evidences": (Evidence("alien_run", score),),
        "profile": "default",
        "fingerprint": "f" * 8,
    }
    return Verdict(**(fields | more))


def predictions(path, scores, *, per_query=1, dataset=None, prefix="d"):
    rows = []
    for place, score in enumerate(scores):
        one = verdict(f"{prefix}{place}", float(score), rank=place % per_query + 1)
        query = f"q{place // per_query}"
        rows.append(query_fields(one, query, Carried(dataset=dataset), removed=False))
    return write_jsonl(path, rows)


def calibrate(folder, *more, output="policy.toml"):
    return run(["calibrate", "--output", str(folder / output), *map(str, more)])


@pytest.fixture
def contexts(tmp_path):
    """Rankings of two tenants, and the same questions with planted answers on top."""
    rng = np.random.default_rng(12)
    texts = [sentence(rng, 14) for _ in range(60)]

    def entry(row, rank):
        tenant = "red" if row % 2 else "blue"
        return {"id": f"d{row}", "rank": rank, "text": texts[row], "metadata": {"tenant": tenant}}

    clean, attacked, truth = [], [], []
    for number in range(30):
        order = rng.permutation(60)[:25].tolist()
        asked = {"query_id": f"q{number}", "query": sentence(rng, 6), "dataset": "wiki"}
        clean.append(
            asked
            | {"condition": "clean", "documents": [entry(r, k) for k, r in enumerate(order, 1)]}
        )
        planted = [
            {"id": f"p{number}-{member}", "rank": member, "text": f"{asked['query']} it is pаypal"}
            for member in (1, 2)
        ]
        rest = [entry(r, k) for k, r in enumerate(order[:23], 3)]
        attacked.append(asked | {"condition": "PR-B", "documents": planted + rest})
        truth += [
            {"document_id": one["id"], "poison": True, "query_id": f"q{number}", "attack": "PR-B"}
            for one in planted
        ]
    truth += [{"document_id": f"d{row}", "poison": False} for row in range(60)]
    write_jsonl(tmp_path / "labels.jsonl", truth)
    write_jsonl(tmp_path / "both.jsonl", clean + attacked)
    return write_jsonl(tmp_path / "contexts.jsonl", clean)


def test_contexts_in_policy_out(contexts, capsys):
    folder = contexts.parent
    fresh = ["--alarm-rate", 0.2, *NO_MODELS, "--json"]
    replay = ["--replayed", folder / "both.jsonl", "--labels", folder / "labels.jsonl"]
    assert calibrate(folder, "--contexts", contexts, *fresh, *replay) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "promotion" in shown["meaning"]
    policy, record = (
        read_policy(folder / "policy.toml"),
        read_record(folder / "policy.calibration.json"),
    )
    assert record.policy_sha256 == policy.sha256
    assert {one.role for one in record.sources} == {"contexts", "replayed", "labels"}
    (source,) = [one for one in record.sources if one.role == "contexts"]
    assert source.sha256 == hashlib.sha256(contexts.read_bytes()).hexdigest()
    assert {one.slice.tenant for one in record.slices} == {"red", "blue"}
    assert {one.slice.dataset for one in record.slices} == {"wiki"}
    assert len(policy.declared.thresholds) == 2
    assert sum(one.documents for one in record.slices) == 30 * 5
    for one in record.slices:
        assert one.threshold is not None
        assert one.rate is not None
        assert one.rate.value <= 0.2
        assert one.recall is not None
        assert one.recall.documents.of == 60
        assert [size.size for size in one.recall.by_size] == [2]
        assert "surprisal" in one.missing
    # Scores of the filter command, taken from its file, give the same thresholds.
    saved = folder / "saved.jsonl"
    run(["filter", "--input", str(contexts), "--output", str(saved), *NO_MODELS])
    capsys.readouterr()
    assert calibrate(folder, "--scores", saved, "--alarm-rate", 0.2, output="saved.toml") == 0
    (pooled,) = read_record(folder / "saved.calibration.json").slices
    assert pooled.documents == 150
    assert pooled.missing == record.slices[0].missing


def test_benign_traffic_that_is_planted_is_refused(contexts, capsys):
    folder = contexts.parent
    both = folder / "both.jsonl"
    more = [
        "--replayed",
        both,
        "--labels",
        folder / "labels.jsonl",
        "--alarm-rate",
        0.3,
        *NO_MODELS,
    ]
    assert calibrate(folder, "--contexts", both, *more) == 2
    assert "--condition" in capsys.readouterr().err
    assert not (folder / "policy.toml").exists()
    assert calibrate(folder, "--contexts", both, "--condition", "clean", *more) == 0


def test_a_corpus_scan_is_calibrated(tmp_path, capsys):
    texts, rows = clustered(np.random.default_rng(5), 60, spread=0.3)
    write_jsonl(tmp_path / "c.jsonl", [{"id": f"d{i}", "text": t} for i, t in enumerate(texts)])
    np.save(tmp_path / "e.npy", rows.astype(np.float32))
    corpus = ["--documents", tmp_path / "c.jsonl", "--embeddings", tmp_path / "e.npy"]
    named = ["--dataset", "chroma:///data/**", "--retriever", "m@1", "--tenant", "acme"]
    code = calibrate(tmp_path, *corpus, *named, "--alarm-rate", 0.1, "--profile", "paper", "--json")
    shown = json.loads(capsys.readouterr().out)
    (one,) = shown["slices"]
    assert one["slice"] == {
        "profile": "paper",
        "kind": "scan",
        "dataset": "chroma:///data/**",
        "retriever": "m@1",
        "tenant": "acme",
    }
    assert one["documents"] == one["effective"] == 60
    assert one["queries"] is None
    assert code == (3 if one["threshold"] is None else 0)


def test_thresholds_decide_and_the_operators_words_stay(tmp_path, capsys):
    rng = np.random.default_rng(1)
    rules = tmp_path / "ours.toml"
    rules.write_text(
        '# keep this remark\nversion = 1\n\n[[rules]]\nname = "all"  # and this\nmeasure = '
        '"quarantine"\nreason = "we are careful"\nscore_at_least = 0.0\n'
    )
    first = predictions(tmp_path / "a.jsonl", rng.random(500), dataset="docs")
    second = predictions(tmp_path / "b.jsonl", 4 * rng.random(500), dataset="mail")
    assert calibrate(tmp_path, "--scores", first, "--scores", second, "--policy", rules) == 0
    text = (tmp_path / "policy.toml").read_text()
    assert "# keep this remark" in text
    assert 'name = "all"  # and this' in text
    policy = read_policy(tmp_path / "policy.toml")

    def measure(store, score):
        subject = Subject(verdict("d", score), Place(store, "d"), Standing(), "filter")
        return policy.decide(subject).measure

    assert measure("docs", 1.2) is Measure.QUARANTINE
    assert measure("mail", 1.2) is Measure.RECORD
    assert measure("mail", 4.0) is Measure.QUARANTINE
    assert measure("elsewhere", 1.2) is Measure.QUARANTINE
    shown = capsys.readouterr().out
    # Traffic that alarms under the profile is listed for review, not called clean.
    assert "review" in shown
    (mail,) = [
        one
        for one in read_record(tmp_path / "policy.calibration.json").slices
        if one.slice.dataset == "mail"
    ]
    assert len(mail.review) == mail.at_profile.count > 300


def test_too_few_keep_the_profiles_threshold_and_say_so(tmp_path, capsys):
    few = predictions(tmp_path / "a.jsonl", np.random.default_rng(2).random(200))
    assert calibrate(tmp_path, "--scores", few) == 3
    shown = capsys.readouterr().out
    assert "too few: 200 benign documents; a rate of 0.01 needs 368" in shown
    assert "the profile's threshold 1 stays" in shown
    assert read_policy(tmp_path / "policy.toml").declared.thresholds == ()
    (one,) = read_record(tmp_path / "policy.calibration.json").slices
    assert one.threshold is None
    assert one.rate is None
    # An earlier calibrated threshold is not thrown away either.
    rng = np.random.default_rng(3)
    many = predictions(tmp_path / "b.jsonl", rng.random(900))
    assert calibrate(tmp_path, "--scores", many, output="second.toml") == 0
    against = ["--against", tmp_path / "second.toml"]
    assert calibrate(tmp_path, "--scores", few, *against, output="third.toml") == 3
    assert "the policy's earlier threshold 0.98" in capsys.readouterr().out
    kept = [read_policy(tmp_path / f"{name}.toml").declared for name in ("second", "third")]
    assert kept[0] == kept[1]


def test_drift_is_an_exit_code(tmp_path, capsys):
    rng = np.random.default_rng(9)
    first = predictions(tmp_path / "a.jsonl", rng.random(800), per_query=2)
    assert calibrate(tmp_path, "--scores", first, output="one.toml") == 0
    same = predictions(tmp_path / "b.jsonl", rng.random(800), per_query=2)
    moved = predictions(tmp_path / "c.jsonl", 1.3 * rng.random(800), per_query=2)
    for place in ("one.calibration.json", "one.toml"):
        against = ["--against", tmp_path / place]
        assert calibrate(tmp_path, "--scores", same, *against, output="two.toml") == 0
        assert (
            calibrate(
                tmp_path,
                "--scores",
                moved,
                *against,
                output="two.toml",
            )
            == 1
        )
    shown = capsys.readouterr().out
    assert "drift: alarms at" in shown
    assert "drift: the distribution moved" in shown
    # What cannot be compared is said, and the calibration is not called complete.
    against = ["--against", tmp_path / "one.toml"]
    assert calibrate(tmp_path, "--scores", same, *against, "--per-query", output="two.toml") == 3
    assert "drift unavailable" in capsys.readouterr().out
    other = predictions(tmp_path / "d.jsonl", rng.random(900), dataset="new")
    assert calibrate(tmp_path, "--scores", other, *against, output="two.toml") == 3
    assert "without traffic now" in capsys.readouterr().out


def test_an_edited_policy_is_compared_by_its_record(tmp_path, capsys):
    rng = np.random.default_rng(9)
    first = predictions(tmp_path / "a.jsonl", rng.random(800))
    assert calibrate(tmp_path, "--scores", first, output="one.toml") == 0
    with (tmp_path / "one.toml").open("a") as handle:
        handle.write("# looked at by Ada\n")
    assert calibrate(tmp_path, "--scores", first, "--against", tmp_path / "one.toml") == 0
    assert "was changed after" in capsys.readouterr().err
    assert "# looked at by Ada" in (tmp_path / "policy.toml").read_text()


def test_bounds_are_no_scores(tmp_path, capsys):
    row = query_fields(verdict("d", 0.5, rank=1), "q", Carried(), removed=False)
    bounds = {name: value for name, value in row.items() if name != "score"}
    write_jsonl(tmp_path / "a.jsonl", [bounds | {"score_at_least": 0.1, "score_at_most": None}])
    assert calibrate(tmp_path, "--scores", tmp_path / "a.jsonl") == 2
    assert "--mode full" in capsys.readouterr().err
    assert not (tmp_path / "policy.toml").exists()


def test_scan_predictions_have_no_query(tmp_path):
    rows = [verdict_fields(verdict(f"d{i}", i / 500)) for i in range(500)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    assert all(one.query_id is None for one in read_predictions(path))
    assert calibrate(tmp_path, "--scores", path) == 0
    (one,) = read_policy(tmp_path / "policy.toml").declared.thresholds
    assert one.kind == "scan"
    assert one.threshold == 0.988001


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected benign traffic"),
        (["--scores", "a.jsonl", "--contexts", "a.jsonl"], "leave the traffic out"),
        (["--scores", "a.jsonl", "--replayed", "a.jsonl"], "needs --labels"),
        (["--scores", "a.jsonl", "--labels", "a.jsonl"], "needs --labels"),
        (["--documents", "a.jsonl"], "--embeddings together"),
        (["--scores", "a.jsonl", "--alarm-rate", "0"], "alarm_rate"),
        (["--scores", "a.jsonl", "--trim", "0.5"], "trim"),
        (["--scores", "a.jsonl", "--policy", "policy.toml"], "is an input"),
        (["--scores", "a.jsonl", "--config", "policy.toml"], "is an input"),
        (["--scores", "a.jsonl", "--condition", "clean"], "chooses among --contexts"),
        (["--scores", "a.jsonl", "--against", "none.json"], "record of a calibration"),
        (["--scores", "star.jsonl"], "--dataset"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    predictions(tmp_path / "a.jsonl", [0.5])
    predictions(tmp_path / "star.jsonl", [0.5], dataset="a*")
    (tmp_path / "policy.toml").write_text("version = 1\n")
    assert calibrate(tmp_path, *arguments) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "policy.toml").read_text() == "version = 1\n"


def test_a_damaged_record_is_refused(tmp_path):
    path = predictions(tmp_path / "a.jsonl", np.random.default_rng(1).random(400))
    assert calibrate(tmp_path, "--scores", path) == 0
    record = tmp_path / "policy.calibration.json"
    whole = json.loads(record.read_text())
    assert read_record(record).slices[0].units == 400

    def broken(change):
        fields = json.loads(json.dumps(whole))
        change(fields)
        record.write_text(json.dumps(fields))
        with pytest.raises(InputError, match=r"policy\.calibration\.json"):
            read_record(record)

    broken(lambda fields: fields.update(extra=1))
    broken(lambda fields: fields.update(format=2))
    broken(lambda fields: fields["slices"][0]["sketch"].update(scores=[float("nan")]))
    broken(lambda fields: fields["slices"][0]["sketch"]["upto"].reverse())
    broken(lambda fields: fields["slices"][0]["in_force"].update(threshold=float("inf")))
    broken(lambda fields: fields["slices"][0]["in_force"].update(of=0))
    record.write_text("{")
    with pytest.raises(InputError):
        read_record(record)


def test_the_documented_commands_run(contexts, monkeypatch):
    monkeypatch.chdir(contexts.parent)
    texts, rows = clustered(np.random.default_rng(5), 60, spread=0.3)
    write_jsonl(Path("corpus.jsonl"), [{"id": f"d{i}", "text": t} for i, t in enumerate(texts)])
    np.save("corpus.npy", rows.astype(np.float32))
    corpus = ["--documents", "corpus.jsonl", "--embeddings", "corpus.npy"]
    run(["scan", *corpus, "--output", "scan.jsonl", "--state", "state"])
    predictions(Path("predictions.jsonl"), np.random.default_rng(6).random(400), dataset="docs")
    Path("lab").mkdir()
    Path("both.jsonl").rename("lab/contexts.jsonl")
    Path("labels.jsonl").rename("lab/labels.jsonl")
    page = (Path(__file__).parents[2] / "docs" / "calibrate.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("ragsieve calibrate --")]
    assert len(lines) == 5
    assert [run(shlex.split(line)[1:]) for line in lines] == [3, 3, 0, 3, 0]
    assert read_policy("next.toml").declared.thresholds


def test_replayed_predictions_give_recall_in_their_own_slice(tmp_path, capsys):
    rng = np.random.default_rng(7)
    benign = predictions(tmp_path / "a.jsonl", rng.random(400), dataset="docs")
    planted = predictions(tmp_path / "b.jsonl", [3.0, 3.0, 0.1], dataset="docs", prefix="p")
    truth = [{"document_id": f"p{row}", "poison": True} for row in range(5)]
    labels = write_jsonl(
        tmp_path / "labels.jsonl", [*truth, {"document_id": "d1", "poison": False}]
    )
    replay = ["--replayed-scores", planted, "--labels", labels]
    assert calibrate(tmp_path, "--scores", benign, *replay) == 0
    (one,) = read_record(tmp_path / "policy.calibration.json").slices
    assert one.recall is not None
    assert (one.recall.documents.found, one.recall.documents.of) == (2, 3)
    assert one.recall.not_judged == 2
    assert [size.size for size in one.recall.by_size] == [None]
    elsewhere = predictions(tmp_path / "c.jsonl", [3.0], dataset="mail", prefix="p")
    replay = ["--replayed-scores", elsewhere, "--labels", labels]
    assert calibrate(tmp_path, "--scores", benign, *replay, output="other.toml") == 0
    assert "recall unavailable: nothing was replayed in this slice" in capsys.readouterr().out
    (one,) = read_record(tmp_path / "other.calibration.json").slices
    assert one.recall is None
    unplanted = predictions(tmp_path / "d.jsonl", [3.0], dataset="docs", prefix="x")
    replay = ["--replayed-scores", unplanted, "--labels", labels]
    assert calibrate(tmp_path, "--scores", benign, *replay, output="other.toml") == 2
