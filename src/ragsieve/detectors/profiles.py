"""Profiles by name."""

from __future__ import annotations

from ragsieve.detectors.paper_corpus import PaperCorpusConfig, PaperCorpusRule
from ragsieve.detectors.paper_query import PaperQueryConfig, PaperQueryRule
from ragsieve.detectors.rules import CorpusRule, QueryRule
from ragsieve.errors import ConfigError
from ragsieve.ports import CausalScorer, TokenEncoder

PROFILES = ("paper",)
DEFAULT_PROFILE = "paper"


def query_rule(
    profile: str,
    *,
    paper: PaperQueryConfig | None = None,
    causal: CausalScorer | None = None,
    encoder: TokenEncoder | None = None,
) -> QueryRule:
    """The query rule of a named profile.

    :param paper: constants of profile ``paper``; the published ones when None.

    :raises ConfigError: for an unknown name.
    """
    if profile == "paper":
        return PaperQueryRule(paper, causal=causal, encoder=encoder)
    raise unknown_profile(profile)


def corpus_rule(profile: str, *, paper: PaperCorpusConfig | None = None) -> CorpusRule:
    """The corpus rule of a named profile.

    :param paper: constants of profile ``paper``; the published ones when None.

    :raises ConfigError: for an unknown name.
    """
    if profile == "paper":
        return PaperCorpusRule(paper)
    raise unknown_profile(profile)


def unknown_profile(profile: str) -> ConfigError:
    """The error for a name that is no profile."""
    return ConfigError(f"unknown profile {profile!r}; expected one of {', '.join(PROFILES)}")
