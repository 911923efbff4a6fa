"""The commands about the feature store, as a user types them."""

from __future__ import annotations

import json

import pytest

from builders import write_jsonl
from ragsieve import assembly
from ragsieve.cli.main import run
from ragsieve.featurestore.store import FeatureStore
from ragsieve.settings import load_settings
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder

TEXTS = ["The bridge was built by the crown.", "Who pays the toll?", "Δv and word词", "x" * 50]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"d{row}", "text": text, "title": "Bridges"} for row, text in enumerate(TEXTS)]
    write_jsonl(tmp_path / "corpus.jsonl", [*rows, rows[0] | {"id": "twice"}])
    return tmp_path / "corpus.jsonl"


@pytest.fixture
def fakes(monkeypatch):
    scorer, encoder = FakeCausalScorer(), FakeTokenEncoder()
    monkeypatch.setattr(assembly, "_hub_scorer", lambda _: scorer)
    monkeypatch.setattr(assembly, "_hub_encoder", lambda _: encoder)
    return scorer, encoder


def call(capsys, *arguments):
    code = run([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


def build(capsys, *more):
    return call(
        capsys, "features", "build", "--documents", "corpus.jsonl", "--store", "f.sqlite", *more
    )


def parts(found):
    return {one["kind"]: (one["computed"], one["present"], one["absent"]) for one in found["parts"]}


def test_building_for_paper_computes_everything_once(corpus, fakes, capsys):
    code, found = build(capsys, "--profile", "paper")
    assert code == 0
    assert parts(found) == {"text": (4, 0, 0), "losses": (4, 0, 0), "states": (4, 0, 0)}
    scorer, encoder = fakes
    assert len(scorer.calls) == len(encoder.calls) == 1
    code, found = build(capsys, "--profile", "paper")
    assert (code, found["notes"]) == (0, [])
    assert parts(found) == {"text": (0, 4, 0), "losses": (0, 4, 0), "states": (0, 4, 0)}
    assert len(scorer.calls) == len(encoder.calls) == 1


def test_detectors_find_what_was_built(corpus, fakes, capsys):
    build(capsys, "--profile", "paper")
    settings = load_settings(profile="paper", features={"store": "f.sqlite"})
    scorer, encoder = fakes
    contents = [f"Bridges\n\n{text}" for text in TEXTS]
    expected = FakeCausalScorer().losses(contents)
    with assembly.feature_store(settings) as store:
        warm = assembly.causal_scorer(settings, store=store).losses(contents)
        states = assembly.token_encoder(settings, store=store).states(contents, max_tokens=256)
        assert store.report().misses == 0
    assert [one.tolist() for one in warm] == [one.tolist() for one in expected]
    assert [one.shape for one in states][:2] == [(8, 32), (5, 32)]
    assert len(scorer.calls) == len(encoder.calls) == 1
    # The settings alone are enough for everything that is put together from them.
    assert assembly.causal_scorer(settings).losses(contents)[0].tolist() == expected[0].tolist()
    assert len(scorer.calls) == 1


def test_profile_default_needs_no_model_unless_one_is_named(corpus, fakes, capsys):
    code, found = build(capsys)
    assert (code, found["profile"]) == (0, "default")
    assert parts(found) == {"text": (4, 0, 0)}
    _, found = build(capsys, "--causal-model", "embedded")
    assert parts(found) == {"text": (0, 4, 0), "losses": (4, 0, 0)}


def test_stats_and_pruning_by_fingerprint_and_staleness(corpus, fakes, capsys):
    build(capsys)
    build(capsys, "--profile", "paper")
    code, found = call(capsys, "features", "stats", "--store", "f.sqlite")
    assert (code, found["entries"], found["damaged"], found["set_aside"]) == (0, 16, 0, None)
    assert sorted(one["kind"] for one in found["spaces"]) == ["losses", "states", "text", "text"]
    mark = next(one["fingerprint"] for one in found["spaces"] if one["kind"] == "states")
    code, gone = call(capsys, "features", "prune", "--store", "f.sqlite", "--fingerprint", mark)
    assert (code, gone["entries"]) == (0, 4)
    fakes[0].identity = "fake-causal@2"
    stale = ("features", "prune", "--store", "f.sqlite", "--stale")
    # Profile default names no model: whether losses are stale is not for it to say.
    assert call(capsys, *stale)[1]["entries"] == 0
    assert call(capsys, *stale, "--profile", "paper")[1]["entries"] == 4
    _, found = call(capsys, "features", "stats", "--store", "f.sqlite")
    assert [one["kind"] for one in found["spaces"]] == ["text", "text"]
    assert call(capsys, "features", "prune", "--store", "f.sqlite", "--max-bytes", 0)[0] == 0
    assert call(capsys, "features", "stats", "--store", "f.sqlite")[1]["entries"] == 0


def test_verify_finds_and_removes_damage_and_build_makes_it_good(corpus, fakes, capsys):
    build(capsys, "--profile", "paper")
    place = corpus.with_name("f.sqlite")
    raw = bytearray(place.read_bytes())
    losses = FakeCausalScorer().losses([f"Bridges\n\n{TEXTS[0]}"])[0].tobytes()
    raw[raw.index(losses) + 5] ^= 1
    place.write_bytes(raw)
    verify = ("features", "verify", "--store", "f.sqlite")
    code, found = call(capsys, *verify)
    assert (code, found["entries"], found["damaged"], found["repaired"]) == (1, 12, 1, False)
    assert call(capsys, *verify, "--repair")[0] == 1
    assert call(capsys, *verify)[0] == 0
    assert parts(build(capsys, "--profile", "paper")[1])["losses"] == (1, 3, 0)


def test_words_are_for_people(corpus, fakes, capsys):
    arguments = ["--documents", "corpus.jsonl", "--store", "f.sqlite", "--profile", "paper"]
    assert run(["features", "build", *arguments]) == 0
    assert "losses: 4 computed, 0 were there (fake-causal codec=array/1)" in capsys.readouterr().out
    assert run(["features", "stats", "--store", "f.sqlite"]) == 0
    out = capsys.readouterr().out
    assert "12 entries" in out
    assert "states" in out
    assert run(["features", "verify", "--store", "f.sqlite"]) == 0
    assert "12 entries read, 0 damaged" in capsys.readouterr().out


def test_a_store_too_small_for_the_corpus_is_said_and_partial(tmp_path, fakes, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(row), "text": f"{'word ' * 250} {row}"} for row in range(40)]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    (tmp_path / "small.toml").write_text("[features]\nmax_bytes = 1048576\n")
    code, found = build(capsys, "--profile", "paper", "--config", "small.toml")
    assert code == 3
    assert found["pruned"] > 0
    assert parts(found)["states"][2] > 0


def test_nothing_is_written_unless_a_store_is_named(corpus, fakes, capsys, monkeypatch):
    for command in ("stats", "verify", "prune"):
        code, error = call(capsys, "features", command)
        assert code == 2
        assert "give --store" in error
    assert call(capsys, "features", "build", "--documents", "corpus.jsonl")[0] == 2
    assert assembly.feature_store(load_settings()) is None
    assembly.causal_scorer(load_settings()).losses(["a b"])
    assert [one.name for one in corpus.parent.iterdir()] == ["corpus.jsonl"]
    monkeypatch.setenv("RAGSIEVE_FEATURES__STORE", "named.sqlite")
    assert call(capsys, "features", "build", "--documents", "corpus.jsonl")[0] == 0
    assert FeatureStore(corpus.with_name("named.sqlite")).path.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "--store", "none.sqlite"),
        ("verify", "--store", "none.sqlite"),
        ("prune", "--store", "none.sqlite", "--stale"),
        ("prune", "--store", "corpus.jsonl", "--max-bytes", "0"),
        ("build", "--documents", "none.jsonl", "--store", "f.sqlite"),
        ("build", "--documents", "corpus.jsonl", "--store", "no/f.sqlite"),
    ],
)
def test_bad_input_is_said_and_makes_nothing(corpus, fakes, capsys, arguments):
    before = corpus.read_bytes()
    code, error = call(capsys, "features", *arguments)
    assert code == 2
    assert error.startswith("ragsieve: ")
    assert len(error.strip().splitlines()) == 1
    assert [one.name for one in corpus.parent.iterdir()] == ["corpus.jsonl"]
    assert corpus.read_bytes() == before


@pytest.mark.parametrize(
    "table", ["store_path = 'x.sqlite'", "max_bytes = 5", "states_share = 1.5", "max_bytes = 'x'"]
)
def test_settings_are_checked(tmp_path, table):
    (tmp_path / "c.toml").write_text(f"[features]\n{table}\n")
    with pytest.raises(ValueError, match=f"features.{table.split(' ')[0]}"):
        load_settings(tmp_path / "c.toml")
