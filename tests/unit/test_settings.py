"""Defaults, file, environment, arguments, in that order; unknown keys are errors."""

from __future__ import annotations

import pytest

from ragsieve.errors import ConfigError
from ragsieve.settings import load_settings


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("RAGSIEVE_MODELS_DIR", "RAGSIEVE_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_precedence(tmp_path, monkeypatch):
    path = tmp_path / "c.toml"
    path.write_text('[query]\nthreshold = 0.7\ncandidates = 3\n[filter]\non_short = "remove"\n')
    assert load_settings().query.threshold == 1.0
    assert load_settings(path).query.threshold == 0.7
    monkeypatch.setenv("RAGSIEVE_QUERY__THRESHOLD", "0.8")
    assert load_settings(path).query.threshold == 0.8
    assert load_settings(path).query.candidates == 3
    chosen = load_settings(path, filter={"on_short": "raise", "on_duplicates": None})
    assert chosen.filter.on_short == "raise"
    assert chosen.filter.on_duplicates == "remove"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("surprise = 1", "surprise: unknown key"),
        ("[query]\nnope = 1", "query.nope: unknown key"),
        ("[models]\nnope = 1", "models.nope: unknown key"),
        ("[query]\nthreshold = -1", "threshold must be above 0"),
        ("[paper.corpus]\nalert_budget = 2", "alert_budget"),
        ('[filter]\non_short = "maybe"', "filter.on_short"),
        ("not toml", "expected TOML"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path, text, words):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file():
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(__import__("pathlib").Path("absent.toml"))
