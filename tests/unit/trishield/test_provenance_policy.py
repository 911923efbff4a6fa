"""Declared trust: patterns, precedence, files, and what no policy may look at."""

from __future__ import annotations

import pytest

from ragsieve import ConfigError, Provenance
from ragsieve.declared import matches
from ragsieve.trishield.provenance_policy import (
    ProvenancePolicy,
    SourceRule,
    read_provenance_policy,
)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("https://*.gov/*", "https://www.health.gov/page", True),
        ("https://*.gov/*", "HTTPS://WWW.HEALTH.GOV/page", True),
        ("https://*.gov/*", "https://elsewhere.example/a.gov/b", False),
        ("https://*.gov/*", "https://health.gov.elsewhere.example/a", False),
        ("https://*.gov/*", "https://health.gov/a/b", False),
        ("https://*.gov/**", "https://health.gov/a/b", True),
        ("wiki", "wiki", True),
        ("wiki", "wiki2", False),
        ("wik?", "wiki", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("**", "any\nthing/at all", True),
        ("*", None, False),
        ("**", "x" * 5_000, False),
    ],
)
def test_patterns(pattern, name, fits):
    assert matches(pattern, name) is fits


def test_the_first_rule_that_fits_decides():
    policy = ProvenancePolicy(
        (
            SourceRule(0.1, source="wiki/*", author="bot-*"),
            SourceRule(0.8, source="wiki/*"),
            SourceRule(0.3, tenant="guest"),
        ),
        neutral=0.4,
    )
    asked = [
        (Provenance("wiki/a", "bot-7"), 0.1, 1),
        (Provenance("wiki/a", "ann"), 0.8, 2),
        (Provenance("wiki/a"), 0.8, 2),
        (Provenance("blog", tenant="guest"), 0.3, 3),
        (Provenance("blog"), 0.4, None),
        (Provenance(), 0.4, None),
    ]
    for origin, trust, rule in asked:
        assert (policy.trust(origin), policy.rule_of(origin)) == (trust, rule)


def test_without_rules_everything_is_neutral():
    assert ProvenancePolicy().trust(Provenance("anything")) == 0.5


def test_a_file(tmp_path):
    path = tmp_path / "trust.toml"
    path.write_text('neutral = 0.6\n[[rules]]\nsource = "wiki/**"\ntrust = 1\n')
    policy = read_provenance_policy(path)
    assert policy.neutral == 0.6
    assert policy.trust(Provenance("wiki/a/b")) == 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("neutral = 1.5", "neutral must be in"),
        ("neutral = nan", "neutral must be in"),
        ("neutral = true", "'neutral'"),
        ("neutral = '0.5'", "'neutral'"),
        ("other = 1", "field 'other': unknown key"),
        ("[[rules]]\nsource = 'a'\ntrust = 0.5\nid = 'x'", "field 'rules.0.id': unknown key"),
        ("[[rules]]\nsource = 'a'", "field 'rules.0.trust'"),
        ("[[rules]]\ntrust = 0.5", "needs a non-empty pattern"),
        ("[[rules]]\nsource = ''\ntrust = 0.5", "needs a non-empty pattern"),
        ("[[rules]]\nsource = 'a'\ntrust = -0.1", "trust must be in"),
        ("rules = 3", "'rules'"),
        ("neutral = ", "expected TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path, text, words):
    path = tmp_path / "trust.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"trust\.toml") as caught:
        read_provenance_policy(path)
    assert words in str(caught.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_provenance_policy(tmp_path / "none.toml")
