"""A scan that is kept, batches against it, filters with it: the commands end to end."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from builders import write_jsonl
from ragsieve.cli.main import run
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import write_embeddings
from ragsieve.files.state import read_state

DIMENSION = 20
QUERY = "which river crosses the old harbour town of the north"


def rows_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def texts_of(rng, size):
    """A hundred everyday words, and rare ones scattered among them."""
    texts = []
    for row in range(size):
        mixed = [f"e{(row * 7 + step) % 100}" for step in range(30)]
        mixed += [f"r{rng.integers(10**6)}" for _ in range(int(rng.integers(4, 14)))]
        rng.shuffle(mixed)
        texts.append(" ".join(mixed))
    return texts


def background(rng, size):
    centres = np.random.default_rng(0).normal(size=(10, DIMENSION))
    return centres[rng.integers(10, size=size)] + 0.8 * rng.normal(size=(size, DIMENSION))


def planted(rng):
    """Five documents about the query, close to each other and to nothing else."""
    rows = rng.normal(size=DIMENSION) + 0.12 * rng.normal(size=(5, DIMENSION))
    return [f"{QUERY} zanzibar {text}" for text in texts_of(rng, 5)], rows


def write_corpus(folder, name, texts, rows, *, prefix="d", encoder="an encoder"):
    entries = [{"id": f"{prefix}{i}", "text": text} for i, text in enumerate(texts)]
    path = write_jsonl(folder / f"{name}.jsonl", entries)
    write_embeddings(folder / f"{name}.npy", rows.astype(np.float32), read_corpus(path), encoder)
    return path


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A corpus of 120 ordinary documents and its state, and a batch of 10, the last five planted."""
    folder = tmp_path_factory.mktemp("originals")
    rng = np.random.default_rng(7)
    write_corpus(folder, "old", texts_of(rng, 120), background(rng, 120))
    texts, rows = planted(rng)
    ordinary = texts_of(rng, 5)
    write_corpus(
        folder, "new", [*ordinary, *texts], np.vstack([background(rng, 5), rows]), prefix="n"
    )
    assert scan(folder, "old", "--state", f"{folder}/state") in {0, 1}
    assert scan(folder, "old", "--state", f"{folder}/grown") in {0, 1}
    assert scan(folder, "new", "--against", f"{folder}/grown", "--update") == 1
    (folder / "scan.jsonl").unlink()
    return folder


@pytest.fixture
def kept(originals, tmp_path):
    """The corpora, and the state of the older one."""
    for name in ("old", "new"):
        for ending in ("jsonl", "npy", "manifest.json"):
            shutil.copy(originals / f"{name}.{ending}", tmp_path)
    shutil.copytree(originals / "state", tmp_path / "state")
    return tmp_path


def scan(folder, name, *more, output="scan.jsonl"):
    files = ["--documents", f"{folder}/{name}.jsonl", "--embeddings", f"{folder}/{name}.npy"]
    return run(["scan", *files, "--output", f"{folder}/{output}", *more])


def flagged(folder, output="scan.jsonl"):
    return [row["document_id"] for row in rows_of(folder / output) if row["flagged"]]


PLANTED = ["n5", "n6", "n7", "n8", "n9"]


def test_a_scan_is_kept_and_says_the_same(kept, capsys):
    assert scan(kept, "old", output="plain.jsonl") in {0, 1}
    code = scan(kept, "old", "--state", f"{kept}/fresh", "--json")
    assert code == int(bool(flagged(kept)))
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["judged_against"] is None
    assert (kept / "scan.jsonl").read_text() == (kept / "plain.jsonl").read_text()
    state = read_state(kept / "fresh")
    assert len(state) == 120
    assert state.encoder == "an encoder"
    assert not [path for path in kept.iterdir() if path.name.startswith(".")]


def test_a_batch_against_a_state(kept, capsys):
    before = sorted((path.name, path.read_bytes()) for path in (kept / "state").iterdir())
    capsys.readouterr()
    assert scan(kept, "new", "--against", f"{kept}/state", "--json") == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["documents"] == 10
    assert summary["judged_against"] == 120
    assert flagged(kept) == PLANTED
    (group,) = summary["campaigns"]
    assert sorted(group["documents"]) == PLANTED
    assert [row["campaign"] for row in rows_of(kept / "scan.jsonl")] == [None] * 5 + [1] * 5
    # Judging takes nothing in.
    assert before == sorted((path.name, path.read_bytes()) for path in (kept / "state").iterdir())
    assert scan(kept, "new", "--against", f"{kept}/state", output="again.jsonl") == 1
    assert (kept / "again.jsonl").read_text() == (kept / "scan.jsonl").read_text()


def test_a_batch_without_findings_exits_with_0(kept):
    rng = np.random.default_rng(3)
    write_corpus(kept, "calm", texts_of(rng, 4), background(rng, 4), prefix="c")
    assert scan(kept, "calm", "--against", f"{kept}/state") == 0
    assert flagged(kept) == []


def test_update_takes_the_batch_in_once(kept, capsys):
    state = ["--against", f"{kept}/state", "--update"]
    assert scan(kept, "new", *state) == 1
    assert set(PLANTED) <= set(flagged(kept))
    grown = read_state(kept / "state")
    assert len(grown) == 130
    assert grown.document_ids[-1] == "n9"
    capsys.readouterr()
    (kept / "scan.jsonl").write_text("before")
    assert scan(kept, "new", *state) == 2
    assert "'n0' is in the state already (10 of the batch are)" in capsys.readouterr().err
    assert (kept / "scan.jsonl").read_text() == "before"
    assert len(read_state(kept / "state")) == 130


def test_arriving_one_by_one_with_updates_is_found_once_there_is_company(kept):
    texts = [row["text"] for row in rows_of(kept / "new.jsonl")]
    rows = np.load(kept / "new.npy")
    levels = []
    for place in range(5, 10):
        write_corpus(
            kept, "one", texts[place : place + 1], rows[place : place + 1], prefix=f"p{place}-"
        )
        assert scan(kept, "one", "--against", f"{kept}/state", "--update") in {0, 1}
        (row,) = rows_of(kept / "scan.jsonl")
        levels.append((row["level"], row["gap"] > 0.6))
    # The first one's strange words may be reviewed; that it is promoted shows from company on.
    assert levels[0] in {("info", False), ("review", False)}
    assert levels[-3:] == [("quarantine", True)] * 3
    assert len(read_state(kept / "state")) == 125


def test_a_budget_cuts_the_findings(kept, capsys):
    arguments = ["--against", f"{kept}/state", "--budget", "2"]
    assert scan(kept, "new", *arguments, "--json") == 1
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["budget"], summary["beyond_budget"], summary["flagged"]) == (2, 3, 5)
    found = rows_of(kept / "scan.jsonl")
    within = [row for row in found if row["within_budget"]]
    assert len(within) == 2
    # The budget goes to the strongest, and takes no flag away.
    weakest = min(row["score"] for row in within)
    assert all(row["score"] <= weakest for row in found if not row["within_budget"])
    assert flagged(kept) == PLANTED
    assert scan(kept, "new", *arguments) == 1
    assert "3 findings lie beyond the budget of 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--update"], "--update: expected --against"),
        (["--state", "{0}/s2", "--against", "{0}/state"], "--state keeps a whole scan"),
        (
            ["--against", "{0}/absent"],
            "absent: expected a state written by `ragsieve scan --state`",
        ),
        (["--against", "{0}"], "expected a state"),
        (["--state", "{0}/precious"], "precious: exists and is no state"),
        (["--state", "{0}/absent/state"], "does not exist; create it first"),
        (["--state", "{0}/s2", "--profile", "paper"], "profile 'paper' keeps no state"),
        (["--against", "{0}/state", "--profile", "paper"], "profile 'paper' keeps no state"),
        (["--against", "{0}/state", "--config", "{0}/c.toml"], "other constants"),
        (["--budget", "0"], "--budget"),
    ],
)
def test_errors_say_what_was_expected_and_leave_everything_alone(kept, arguments, words, capsys):
    (kept / "c.toml").write_text("[corpus]\ngap_spread = 2.5\n")
    (kept / "precious").mkdir()
    (kept / "precious" / "thesis.txt").write_text("x")
    (kept / "scan.jsonl").write_text("before")
    before = sorted(kept.rglob("*"))
    capsys.readouterr()
    assert scan(kept, "new", *(one.format(kept) for one in arguments)) == 2
    assert words in capsys.readouterr().err
    assert (kept / "scan.jsonl").read_text() == "before"
    assert sorted(kept.rglob("*")) == before


def test_rows_of_another_encoder_are_refused(kept, capsys):
    rng = np.random.default_rng(3)
    write_corpus(kept, "other", texts_of(rng, 3), background(rng, 3), prefix="o", encoder="another")
    write_corpus(kept, "narrow", texts_of(rng, 3), np.ones((3, 7)), prefix="o")
    capsys.readouterr()
    assert scan(kept, "other", "--against", f"{kept}/state") == 2
    assert "made by another, the state" in capsys.readouterr().err
    assert scan(kept, "narrow", "--against", f"{kept}/state") == 2
    assert "dimension 7, those of the state 20" in capsys.readouterr().err


def test_a_damaged_state_is_refused_by_every_command_that_reads_one(kept, capsys):
    contexts = write_contexts(kept, [f"d{i}" for i in range(40)])
    (kept / "state" / "tokens.npy").write_bytes(b"\x93NUMPY")
    capsys.readouterr()
    assert scan(kept, "new", "--against", f"{kept}/state") == 2
    assert sieve(kept, contexts, "--state", f"{kept}/state") == 2
    assert explain(kept, contexts, "d0", "--state", f"{kept}/state") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len([line for line in errors if "state: the state is damaged" in line]) == 3


@pytest.mark.parametrize("name", ["new.jsonl", "new.npy"])
def test_an_output_that_is_an_input_is_refused(kept, name, capsys):
    before = (kept / name).read_bytes()
    assert scan(kept, "new", "--against", f"{kept}/state", output=name) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert (kept / name).read_bytes() == before


def test_an_output_that_links_to_an_input_is_refused_and_one_that_links_elsewhere_stays_a_link(
    kept, capsys
):
    before = (kept / "new.jsonl").read_bytes()
    (kept / "link").symlink_to(kept / "new.jsonl")
    assert scan(kept, "new", output="link") == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert (kept / "new.jsonl").read_bytes() == before
    (kept / "elsewhere").mkdir()
    (kept / "elsewhere" / "scan.jsonl").write_text("before")
    (kept / "scan-link").symlink_to(kept / "elsewhere" / "scan.jsonl")
    assert scan(kept, "new", "--against", f"{kept}/state", output="scan-link") == 1
    assert (kept / "scan-link").is_symlink()
    assert flagged(kept / "elsewhere") == PLANTED


def context(folder, ids, query_id="q1"):
    texts = {
        row["id"]: row["text"]
        for name in ("old", "new")
        for row in rows_of(folder / f"{name}.jsonl")
    }
    entries = [{"id": name, "rank": i, "text": texts[name]} for i, name in enumerate(ids, 1)]
    return {"query_id": query_id, "query": QUERY, "documents": entries}


def write_contexts(folder, *rankings):
    rows = [context(folder, ids, f"q{i}") for i, ids in enumerate(rankings, 1)]
    return write_jsonl(folder / "contexts.jsonl", rows)


def sieve(folder, contexts, *more):
    return run(["filter", "--input", str(contexts), "--output", f"{folder}/p.jsonl", *more])


def explain(folder, contexts, name, *more):
    return run(["explain", name, "--contexts", str(contexts), "--query-id", "q1", *more])


ORDINARY = [f"d{i}" for i in range(40)]
ATTACKED = [*PLANTED, *ORDINARY[:35]]


@pytest.fixture
def grown(originals, kept):
    """The state has taken the batch in."""
    shutil.rmtree(kept / "state")
    shutil.copytree(originals / "grown", kept / "state")
    write_contexts(kept, ORDINARY, ATTACKED)
    return kept


def test_filter_with_a_state_measures_everything(grown, capsys):
    contexts = grown / "contexts.jsonl"
    refilled = grown / "refilled.jsonl"
    capsys.readouterr()
    state = ["--state", f"{grown}/state"]
    assert sieve(grown, contexts, *state, "--contexts-output", str(refilled), "--json") == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["unavailable"] == []
    assert (summary["undecided"], summary["partial"]) == (0, 0)
    assert summary["query_copy"]["mode"] == "strict"
    assert "0.0% of the corpus's documents" in summary["query_copy"]["reason"]
    found = rows_of(grown / "p.jsonl")
    assert [row["document_id"] for row in found if row["removed"]] == PLANTED
    assert all(row["neighbor_gap"] is not None for row in found)
    first, second = rows_of(refilled)
    assert [one["id"] for one in first["documents"]] == ORDINARY[:5]
    assert [one["id"] for one in second["documents"]] == ORDINARY[:5]
    write_contexts(grown, ORDINARY)
    assert sieve(grown, contexts, *state) == 0


def test_filter_with_a_corpus_says_the_same_as_with_its_state(kept, capsys):
    contexts = write_contexts(kept, ORDINARY)
    corpus = ["--documents", f"{kept}/old.jsonl", "--embeddings", f"{kept}/old.npy"]
    assert sieve(kept, contexts, *corpus) == 0
    by_corpus = (kept / "p.jsonl").read_text()
    assert sieve(kept, contexts, "--state", f"{kept}/state") == 0
    assert (kept / "p.jsonl").read_text() == by_corpus


def test_filter_judges_documents_that_the_state_does_not_hold_by_their_own_rows(kept, capsys):
    contexts = write_contexts(kept, ATTACKED)
    state = ["--state", f"{kept}/state"]
    new = ["--documents", f"{kept}/new.jsonl", "--embeddings", f"{kept}/new.npy"]
    assert sieve(kept, contexts, *state) == 1
    found = rows_of(kept / "p.jsonl")
    assert {row["neighbor_gap"] for row in found} == {None}
    assert "5 of 40 retrieved documents have no embedding" in found[0]["neighbor_gap_reason"]
    assert sieve(kept, contexts, *state, *new) == 1
    found = rows_of(kept / "p.jsonl")
    assert [row["document_id"] for row in found if row["removed"]] == PLANTED
    assert all(row["neighbor_gap"] is not None for row in found)


def test_filter_without_either_leaves_what_needs_them_unavailable(kept, capsys):
    contexts = write_contexts(kept, ORDINARY)
    assert sieve(kept, contexts, "--json") == 3
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert sorted(reason.split(":")[0] for reason in summary["unavailable"]) == [
        "alien_run",
        "neighbor_gap",
    ]
    assert summary["undecided"] == 5
    assert "no ingest scan" in summary["query_copy"]["reason"]
    row = rows_of(kept / "p.jsonl")[0]
    assert row["neighbor_gap"] is None
    assert row["query_copy"] is not None
    assert row["score_is_lower_bound"] is True


@pytest.mark.parametrize(
    ("mode", "cap", "code"), [("strict", 1.2, 1), ("faq-safe", 0.95, 0), ("auto", 1.2, 1)]
)
def test_a_copied_query_removes_alone_only_where_it_may(kept, capsys, mode, cap, code):
    entry = context(kept, ORDINARY)
    # d0 is as the state knows it; what was retrieved under its name repeats the query.
    entry["documents"][0]["text"] = f"{QUERY} {entry['documents'][0]['text']}"
    contexts = write_jsonl(kept / "contexts.jsonl", [entry])
    assert sieve(kept, contexts, "--state", f"{kept}/state", "--query-copy", mode) == code
    assert f"Copied queries: {'faq-safe' if cap < 1 else 'strict'}, " in capsys.readouterr().out
    first, *others = rows_of(kept / "p.jsonl")
    assert first["query_copy"] == first["query_copy_cap"] == cap
    assert first["removed"] is (cap > 1)
    assert first["level"] == ("review" if cap > 1 else "info")
    assert not any(row["flagged"] for row in others)


def test_a_short_retrieval_is_judged_in_the_reduced_form_and_a_shorter_one_is_partial(kept, capsys):
    contexts = write_contexts(kept, ORDINARY[:25])
    assert sieve(kept, contexts, "--state", f"{kept}/state") == 0
    assert "reduced form: 25 documents retrieved" in capsys.readouterr().out
    contexts = write_contexts(kept, ORDINARY[:15])
    assert sieve(kept, contexts, "--state", f"{kept}/state") == 3
    assert "insufficient tail" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--documents", "{0}/old.jsonl"], "--documents and --embeddings together"),
        (["--embeddings", "{0}/old.npy"], "--documents and --embeddings together"),
        (["--state", "{0}/absent"], "expected a state"),
        (["--state", "{0}/state", "--config", "{0}/c.toml"], "other constants"),
        (["--query-copy", "loose"], "--query-copy"),
        (["--output", "{0}/contexts.jsonl"], "is an input of this command"),
        (["--contexts-output", "{0}/contexts.jsonl"], "is an input of this command"),
        (["--contexts-output", "{0}/p.jsonl"], "two results would be written there"),
    ],
)
def test_errors_of_filter(kept, arguments, words, capsys):
    contexts = write_contexts(kept, ORDINARY)
    before = contexts.read_text()
    (kept / "c.toml").write_text("[corpus]\ngap_spread = 2.5\n")
    capsys.readouterr()
    assert sieve(kept, contexts, *(one.format(kept) for one in arguments)) == 2
    assert words in capsys.readouterr().err
    assert contexts.read_text() == before
    assert not (kept / "p.jsonl").exists()


def test_explain_with_a_state(grown, capsys):
    contexts = write_contexts(grown, ATTACKED)
    capsys.readouterr()
    assert explain(grown, contexts, "n5", "--state", f"{grown}/state") == 1
    words = capsys.readouterr().out
    assert "Retrieved for q1:" in words
    assert "nearest documents stand out: rank " in words
    assert f"repeat {len(QUERY.split())} of the query's" in words
    assert "unavailable" not in words
    assert explain(grown, contexts, "d0", "--state", f"{grown}/state") == 2
    # Rank 6 was no candidate, so there is nothing to explain.
    assert "not among the first 5" in capsys.readouterr().err
    assert explain(grown, contexts, "n5") == 3
    assert "Neighbor gap: unavailable" in capsys.readouterr().out


def test_quarantine_takes_what_is_certain_or_what_waits_for_review_too(kept, capsys):
    old = [row["text"] for row in rows_of(kept / "old.jsonl")]
    strange = " ".join(f"z{number}" for number in range(18))
    old[3] = f"{strange} {old[3]}"
    rows = np.load(kept / "old.npy")
    write_corpus(kept, "old", old, rows)
    assert scan(kept, "old") == 1
    levels = {row["document_id"]: row["level"] for row in rows_of(kept / "scan.jsonl")}
    assert levels["d3"] == "review"
    contexts = write_contexts(kept, ORDINARY)
    arguments = [
        "quarantine", "--contexts", str(contexts), "--graph-predictions", f"{kept}/scan.jsonl",
        "--output", f"{kept}/safe.jsonl",
    ]  # fmt: skip
    assert run(arguments) in {0, 1}
    (row,) = rows_of(kept / "safe.jsonl")
    assert "d3" in [one["id"] for one in row["documents"]]
    assert run([*arguments, "--at", "quarantine"]) in {0, 1}
    assert rows_of(kept / "safe.jsonl") == [row]
    assert run([*arguments, "--at", "review"]) == 1
    (row,) = rows_of(kept / "safe.jsonl")
    assert "d3" in row["quarantined_document_ids"]
    assert "d3" not in [one["id"] for one in row["documents"]]
    assert [one["rank"] for one in row["documents"]] == list(range(1, len(row["documents"]) + 1))
    capsys.readouterr()
    assert run([*arguments, "--at", "info"]) == 2
    assert "quarantine_at must be review or quarantine" in capsys.readouterr().err


def test_an_output_inside_the_state_is_refused(tmp_path):
    rng = np.random.default_rng(7)
    write_corpus(tmp_path, "old", texts_of(rng, 60), background(rng, 60))
    assert scan(tmp_path, "old", "--state", f"{tmp_path}/state") in {0, 1}
    assert scan(tmp_path, "old", "--state", f"{tmp_path}/state", output="state/scan.jsonl") == 2


def test_an_output_that_is_the_state_is_refused_before_anything_is_written(tmp_path):
    rng = np.random.default_rng(7)
    write_corpus(tmp_path, "old", texts_of(rng, 60), background(rng, 60))
    assert scan(tmp_path, "old", "--state", f"{tmp_path}/x", output="x") == 2
    assert not (tmp_path / "x").exists()


def test_rows_of_another_encoder_are_refused_beside_a_state(tmp_path, capsys):
    rng = np.random.default_rng(7)
    write_corpus(tmp_path, "old", texts_of(rng, 60), background(rng, 60))
    manifest = json.loads((tmp_path / "old.manifest.json").read_text())
    assert scan(tmp_path, "old", "--state", f"{tmp_path}/state") in {0, 1}
    (tmp_path / "old.manifest.json").write_text(json.dumps(manifest | {"encoder": "another"}))
    write_jsonl(tmp_path / "x.jsonl", [{"query_id": "q", "query": "?", "documents": []}])
    arguments = ["--input", f"{tmp_path}/x.jsonl", "--output", f"{tmp_path}/p.jsonl"]
    files = ["--documents", f"{tmp_path}/old.jsonl", "--embeddings", f"{tmp_path}/old.npy"]
    assert run(["filter", *arguments, *files, "--state", f"{tmp_path}/state"]) == 2
    assert "use one encoder" in capsys.readouterr().err
