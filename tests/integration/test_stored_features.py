"""Detectors in front of a store that holds everything: no model is loaded, no text is read."""

from __future__ import annotations

import pytest

from builders import ranking
from ragsieve import assembly
from ragsieve.backends import causal, tokens
from ragsieve.detectors import readings
from ragsieve.featurestore import texts as stored_texts
from ragsieve.settings import load_settings
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder

WORDS = ["bridge", "toll", "crown", "river", "stone", "ferry", "Δv", "词", "who"]
TEXTS = [
    f"{WORDS[row % 9]} {WORDS[row * 4 % 9]} stood {row}? The {WORDS[row * 7 % 9]} of it."
    for row in range(40)
]


@pytest.fixture(autouse=True)
def forgetful():
    readings.forget_texts()
    yield
    readings.forget_texts()


def judged(settings, query="who built the bridge"):
    readings.forget_texts()
    store = assembly.feature_store(settings)
    detector = assembly.query_detector(settings, store=store)
    (verdicts,) = detector.score_many([ranking(TEXTS, query=query)])
    (rulings,) = detector.decide_many([ranking(TEXTS, query=query)])
    return verdicts, rulings


@pytest.mark.parametrize("profile", ["paper", "default"])
def test_verdicts_are_those_without_a_store_and_texts_are_read_once(profile, tmp_path, monkeypatch):
    monkeypatch.setattr(assembly, "_hub_scorer", lambda _: FakeCausalScorer())
    monkeypatch.setattr(assembly, "_hub_encoder", lambda _: FakeTokenEncoder())
    expected = judged(load_settings(profile=profile))
    stored = load_settings(profile=profile, features={"store": tmp_path / "f.sqlite"})
    assert judged(stored) == expected

    def read(self, texts):
        raise AssertionError("a stored text was read again")

    for kind in (stored_texts.PaperReading, stored_texts.DefaultReading):
        monkeypatch.setattr(kind, "read", read)
    monkeypatch.setattr(readings.PAPER, "_read", read)
    monkeypatch.setattr(readings.DEFAULT, "_read", read)
    assert judged(stored) == expected


def test_no_model_is_loaded_for_what_is_stored(tmp_path, monkeypatch, models_dir):
    settings = load_settings(
        profile="paper", models_dir=models_dir, features={"store": tmp_path / "f.sqlite"}
    )
    contents = ["The bridge was built by the crown.", "Who pays the toll?"]
    with assembly.feature_store(settings) as store:
        for part in assembly.stored_features(settings, store):
            part.ensure(contents)

    def load(*_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(causal, "load_causal", load)
    monkeypatch.setattr(tokens, "load_encoder", load)
    losses = assembly.causal_scorer(settings).losses(contents)
    states = assembly.token_encoder(settings).states(contents, max_tokens=256)
    assert [one.ndim for one in (*losses, *states)] == [1, 1, 2, 2]
    assert assembly.query_detector(settings).fingerprint
