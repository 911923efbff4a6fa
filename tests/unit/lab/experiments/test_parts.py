"""The adapter to the lab, as far as it goes without models; losses kept on disk."""

from __future__ import annotations

import numpy as np
import pytest

from builders import write_jsonl
from ragsieve.errors import ConfigError, MissingExtraError, ModelFilesError
from ragsieve.lab.comparators.registry import declarations
from ragsieve.lab.experiments.losses import KeptCausalScorer
from ragsieve.lab.experiments.needs import Surrounds
from ragsieve.lab.experiments.outcome import UnavailableError
from ragsieve.lab.experiments.parts import LabParts
from ragsieve.lab.experiments.run import run_experiment
from ragsieve.lab.experiments.spec import Answers, Attack, Method, MethodKind, Models
from ragsieve.testing import FakeCausalScorer, FakeTextEmbedder
from unit.lab.experiments.fakes import experiment, world


@pytest.fixture
def parts(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ragsieve.lab.experiments.parts.assembly.text_embedder", lambda *_, **__: FakeTextEmbedder()
    )
    return LabParts(bench=bench(tmp_path), models_dir=tmp_path / "none", cache=tmp_path / "cache")


def bench(folder):
    place = folder / "small"
    (place / "attacks").mkdir(parents=True)
    dataset = world()
    rows = [{"id": one.id, "text": one.text} for one in dataset.documents]
    write_jsonl(place / "corpus.jsonl", rows)
    rows = [{"id": one.id, "text": one.text, "answers": ["the warden"]} for one in dataset.queries]
    write_jsonl(place / "queries.jsonl", rows)
    rows = [
        {
            "query_id": one.query.id,
            "query": one.query.text,
            "attack": "natural",
            "target_answer": one.target_answer,
            "correct_answers": ["the warden"],
            "documents": [
                {
                    "id": f"p{one.query.id}{row}",
                    "text": f"{row} says the thief keeps it, note {row}",
                }
                for row in range(5)
            ],
        }
        for one in dataset.targets
    ]
    write_jsonl(place / "attacks" / "natural.jsonl", rows)
    return place


def around(dataset):
    rows = FakeTextEmbedder().embed_documents([one.content for one in dataset.documents])
    return Surrounds(dataset, rows, dataset.documents, rows, frozenset({"q0"}), "auto")


def test_payloads_of_a_bench_folder_are_an_attacks_documents(parts):
    dataset = parts.dataset("bench", "natural")
    assert [len(target.payloads) for target in dataset.targets] == [5] * 4
    assert dataset.targets[0].correct_answers == ("the warden",)
    assert len(parts.file_attack("bench", "natural").poisoning.documents) == 20
    with pytest.raises(ConfigError, match="expected one of the attacks natural"):
        parts.file_attack("bench", "other")
    with pytest.raises(ConfigError, match="--bench"):
        LabParts(bench=None, models_dir=None, cache=parts._cache).dataset("bench", None)


def test_a_construction_and_comparators_of_the_lab_run(parts, tmp_path):
    methods = tuple(
        Method(MethodKind.COMPARATOR, name) for name in ("query-overlap", "knn-distance", "lof")
    )
    tried = experiment(
        dataset="bench",
        payloads="natural",
        attacks=(Attack("PR-B"), Attack("natural", file="natural")),
        methods=(Method(MethodKind.RSG, "rsg", "paper"), *methods),
    )
    report = run_experiment(tried, parts, tmp_path / "out")
    assert report.problems == ()
    assert report.done == 8
    assert list((tmp_path / "cache" / "journals").iterdir())


def test_every_comparator_is_built_or_says_what_is_missing(parts):
    dataset = world()
    built, missing = [], {}
    for said in declarations():
        try:
            built.append(parts.comparator(said.name, around(dataset), Models(causal="none")))
        except (UnavailableError, ModelFilesError, MissingExtraError) as error:
            missing[said.name] = str(error)
    assert {"query-overlap", "trustrag", "ahd", "lof"} <= {one.declaration.name for one in built}
    assert all(one.fingerprint() for one in built)
    assert "causal" in missing["perplexity"]
    assert len(built) + len(missing) == len(declarations())
    with pytest.raises(UnavailableError, match="gmtp needs masked"):
        parts.comparator("gmtp", around(dataset), Models())


def test_a_masked_model_is_one_the_experiment_names(parts, monkeypatch, tmp_path):
    monkeypatch.setattr(parts, "gradients", lambda _: object())
    monkeypatch.setattr(parts, "_calibration", lambda _: ())
    with pytest.raises(ModelFilesError, match="expected a masked language model"):
        parts.comparator("gmtp", around(world()), Models(masked=str(tmp_path)))


def test_calibration_leaves_targets_out(parts):
    pairs = parts._calibration(around(world()))
    assert pairs is None or all("harbour" not in pair.query for pair in pairs)


def test_constants_go_to_the_table_of_their_own_detector(parts):
    def rule(kind, profile, key, value):
        method = Method(kind, kind, profile, overrides=((key, value),))
        make = parts.query_rule if kind is MethodKind.RSQ else parts.corpus_rule
        return make(method, Models(causal="none", encoder="none")).config

    assert rule(MethodKind.RSG, "default", "gap_spread", 1.5).gap_spread == 1.5
    assert rule(MethodKind.RSG, "paper", "alert_budget", 0.1).alert_budget == 0.1
    assert rule(MethodKind.RSQ, "paper", "threshold", 0.8).threshold == 0.8
    with pytest.raises(ConfigError, match="gap_sprad"):
        rule(MethodKind.RSG, "default", "gap_sprad", 1.5)


def test_chat_models_are_given_or_unavailable(parts):
    with pytest.raises(UnavailableError, match="for small, large"):
        parts.members(Answers(members=("small", "large")))


def test_chat_models_are_made_once_for_what_an_experiment_names(tmp_path):
    made = []

    def give(answers):
        made.append(answers)
        return dict.fromkeys(answers.names, object())

    parts = LabParts(bench=None, models_dir=None, cache=tmp_path, chat=give)
    both = Answers(local=("a", "b"))
    assert parts.members(both) is parts.members(Answers(local=("a", "b")))
    assert list(parts.members(both)) == ["a", "b"]
    assert parts.members(Answers("a")) is not parts.members(Answers("a", base_url="http://x/v1"))
    assert made == [both, Answers("a"), Answers("a", base_url="http://x/v1")]


def test_losses_are_read_from_disk_the_second_time(tmp_path):
    scorer = FakeCausalScorer()
    kept = KeptCausalScorer(scorer, tmp_path)
    first = kept.losses(["a b c", "d e"])
    again = KeptCausalScorer(scorer, tmp_path).losses(["d e", "a b c", "a b c", "f g"])
    assert np.array_equal(again[1], first[0])
    assert np.array_equal(again[0], first[1])
    assert len(again) == 4
    assert scorer.calls == [("a b c", "d e"), ("f g",)]
    (tmp_path / "features.sqlite").write_bytes(b"damaged")
    assert np.array_equal(KeptCausalScorer(scorer, tmp_path).losses(["d e"])[0], first[1])
