"""From settings to ready objects; the only module that knows concrete classes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.installed import model_path
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.memo import MemoCausalScorer, MemoTokenEncoder
from ragsieve.backends.presets import (
    EMBEDDED_CAUSAL,
    EMBEDDED_RETRIEVER,
    EMBEDDED_TOKENS,
    PAPER_CAUSAL,
    PAPER_TOKENS,
    retriever_preset,
)
from ragsieve.backends.retriever import HubTextEmbedder
from ragsieve.backends.tokens import HubTokenEncoder
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.profiles import corpus_rule, query_rule
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import ConfigError, ModelFilesError
from ragsieve.ports import CausalScorer, TextEmbedder, TokenEncoder
from ragsieve.settings import Settings


def text_embedder(
    settings: Settings, *, progress: Callable[[int], None] | None = None
) -> TextEmbedder:
    """The retriever's encoder.

    :param progress: called after each batch with the number of texts finished.
    :raises ModelFilesError: when its files are not here; nothing is downloaded.
    :raises ConfigError: for an unknown preset.
    """
    chosen = settings.models
    if chosen.retriever == "embedded":
        preset = EMBEDDED_RETRIEVER
        place = chosen.retriever_path or str(model_path(settings.models_dir, preset.model))
    else:
        preset = retriever_preset(chosen.retriever)
        place = chosen.retriever_path or preset.model
    return HubTextEmbedder(
        ModelSource(place), preset, options=_options(settings), progress=progress
    )


def causal_scorer(settings: Settings) -> CausalScorer | None:
    """The causal language model; None when there is none to use.

    :raises ModelFilesError: when one is asked for by name and its files are not here.
    """
    name = _resolved(settings, settings.models.causal, EMBEDDED_CAUSAL.model)
    if name is None:
        return None
    if name == "embedded":
        source = ModelSource(str(model_path(settings.models_dir, EMBEDDED_CAUSAL.model)))
    else:
        source = ModelSource(PAPER_CAUSAL.model if name == "paper" else name)
    return MemoCausalScorer(HubCausalScorer(source, options=_options(settings)))


def token_encoder(settings: Settings) -> TokenEncoder | None:
    """The token encoder; None when there is none to use.

    :raises ModelFilesError: when one is asked for by name and its files are not here.
    :raises ConfigError: when a model is named without its layer.
    """
    name = _resolved(settings, settings.models.encoder, EMBEDDED_TOKENS.model)
    if name is None:
        return None
    layer = settings.models.encoder_layer
    if name == "embedded":
        source = ModelSource(str(model_path(settings.models_dir, EMBEDDED_TOKENS.model)))
        layer = EMBEDDED_TOKENS.layer if layer is None else layer
    elif name == "paper":
        source = ModelSource(PAPER_TOKENS.model)
        layer = PAPER_TOKENS.layer if layer is None else layer
    else:
        source = ModelSource(name)
    if layer is None:
        raise ConfigError(f"models.encoder_layer: expected the hidden layer to take from {name!r}")
    return MemoTokenEncoder(HubTokenEncoder(source, layer=layer, options=_options(settings)))


def query_detector(settings: Settings) -> QueryDetector:
    """RSQ as configured, with the models that can be used."""
    rule = query_rule(
        settings.profile,
        paper=settings.query,
        causal=causal_scorer(settings),
        encoder=token_encoder(settings),
    )
    return QueryDetector(rule)


def corpus_detector(settings: Settings) -> CorpusDetector:
    """RSG as configured."""
    return CorpusDetector(corpus_rule(settings.profile, paper=settings.corpus))


def _resolved(settings: Settings, choice: str, embedded: str) -> str | None:
    if choice == "none":
        return None
    if choice != "auto":
        return choice
    # "auto" must never fail: it takes the embedded model exactly when it could run.
    if (
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None
    ):
        return None
    try:
        model_path(settings.models_dir, embedded)
    except ModelFilesError:
        return None
    return "embedded"


def _options(settings: Settings) -> LoadOptions:
    chosen = settings.models
    return LoadOptions(
        device=chosen.device, dtype=chosen.dtype, allow_download=chosen.allow_download
    )
