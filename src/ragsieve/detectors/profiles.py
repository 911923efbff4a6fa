"""Profiles by name."""

from __future__ import annotations

from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.default_query import DefaultQueryConfig, DefaultQueryRule
from ragsieve.detectors.paper_corpus import PaperCorpusConfig, PaperCorpusRule
from ragsieve.detectors.paper_query import PaperQueryConfig, PaperQueryRule
from ragsieve.detectors.rules import CorpusRule, QueryRule
from ragsieve.errors import ConfigError
from ragsieve.ports import CausalScorer, TokenEncoder

PROFILES = ("default", "paper")
DEFAULT_PROFILE = "default"


def query_rule(
    profile: str,
    *,
    default: DefaultQueryConfig | None = None,
    paper: PaperQueryConfig | None = None,
    causal: CausalScorer | None = None,
    encoder: TokenEncoder | None = None,
) -> QueryRule:
    """The query rule of a named profile.

    :param default: constants of profile ``default``; as measured when None.
    :param paper: constants of profile ``paper``; the published ones when None.
    :param encoder: used by profile ``paper`` alone.
    :raises ConfigError: for an unknown name.
    """
    if profile == "default":
        return DefaultQueryRule(default, causal=causal)
    if profile == "paper":
        return PaperQueryRule(paper, causal=causal, encoder=encoder)
    raise unknown_profile(profile)


def corpus_rule(
    profile: str,
    *,
    default: DefaultCorpusConfig | None = None,
    paper: PaperCorpusConfig | None = None,
    causal: CausalScorer | None = None,
) -> CorpusRule:
    """The corpus rule of a named profile.

    :param default: constants of profile ``default``; as measured when None.
    :param paper: constants of profile ``paper``; the published ones when None.
    :param causal: confirms alien runs in profile ``default``; not used by ``paper``.
    :raises ConfigError: for an unknown name.
    """
    if profile == "default":
        return DefaultCorpusRule(default, causal=causal)
    if profile == "paper":
        return PaperCorpusRule(paper)
    raise unknown_profile(profile)


def unknown_profile(profile: str) -> ConfigError:
    """The error for a name that is no profile."""
    return ConfigError(f"unknown profile {profile!r}; expected one of {', '.join(PROFILES)}")
