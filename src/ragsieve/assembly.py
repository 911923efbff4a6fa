"""From settings to ready objects; the only module that knows concrete classes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.installed import model_path
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.memo import MemoCausalScorer, MemoTokenEncoder
from ragsieve.backends.onnx import OnnxTextEmbedder
from ragsieve.backends.presets import (
    EMBEDDED_CAUSAL,
    EMBEDDED_LIGHT,
    EMBEDDED_RETRIEVER,
    EMBEDDED_TOKENS,
    PAPER_CAUSAL,
    PAPER_TOKENS,
    retriever_preset,
)
from ragsieve.backends.retriever import HubTextEmbedder
from ragsieve.backends.tokens import HubTokenEncoder
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.detectors.profiles import corpus_rule, query_rule
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import ConfigError, ModelFilesError
from ragsieve.ports import CausalScorer, FeatureSource, TextEmbedder, TokenEncoder
from ragsieve.settings import Settings


def text_embedder(
    settings: Settings, *, progress: Callable[[int], None] | None = None
) -> TextEmbedder:
    """The retriever's encoder.

    :param progress: called after each batch with the number of texts finished.
    :raises ModelFilesError: when its files are not here; nothing is downloaded.
    :raises MissingExtraError: when what runs it is not installed.
    :raises ConfigError: for an unknown preset.
    """
    chosen = settings.models
    name = _resolved_retriever(settings)
    if name == "light":
        folder = chosen.retriever_path or model_path(settings.models_dir, EMBEDDED_LIGHT.model)
        return OnnxTextEmbedder(Path(folder), EMBEDDED_LIGHT, progress=progress)
    if name == "embedded":
        preset = EMBEDDED_RETRIEVER
        place = chosen.retriever_path or str(model_path(settings.models_dir, preset.model))
    else:
        preset = retriever_preset(name)
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


def query_detector(settings: Settings, features: FeatureSource | None = None) -> QueryDetector:
    """RSQ as configured, with the models that can be used.

    :param features: what an ingest scan knows about the documents that are retrieved.
    """
    paper = settings.profile == "paper"
    rule = query_rule(
        settings.profile,
        default=settings.query,
        paper=settings.paper.query,
        causal=causal_scorer(settings) if paper else confirming_scorer(settings),
        encoder=token_encoder(settings) if paper else None,
    )
    return QueryDetector(rule, features=features)


def corpus_detector(settings: Settings) -> CorpusDetector:
    """RSG as configured."""
    rule = corpus_rule(
        settings.profile,
        default=settings.corpus,
        paper=settings.paper.corpus,
        causal=None if settings.profile == "paper" else confirming_scorer(settings),
    )
    return CorpusDetector(rule)


def ingest_gate(settings: Settings, *, confirm: bool = True) -> IngestGate:
    """The gate of profile ``default`` as configured.

    :param confirm: whether it asks the language model; features and snapshots never need one.
    :raises ConfigError: for a profile that keeps no state.
    """
    if settings.profile != "default":
        raise ConfigError(f"profile {settings.profile!r} keeps no state; use profile default")
    causal = confirming_scorer(settings) if confirm else None
    return IngestGate(DefaultCorpusRule(settings.corpus, causal=causal))


def confirming_scorer(settings: Settings) -> CausalScorer | None:
    """The language model of profile ``default``, which needs none: only one asked for by name.

    :raises ModelFilesError: when its files are not here.
    """
    return None if settings.models.causal == "auto" else causal_scorer(settings)


def _resolved(settings: Settings, choice: str, embedded: str) -> str | None:
    if choice == "none":
        return None
    if choice != "auto":
        return choice
    # "auto" must never fail: it takes the embedded model exactly when it could run.
    return "embedded" if _usable(settings, embedded, "torch", "transformers") else None


def _resolved_retriever(settings: Settings) -> str:
    chosen = settings.models
    if chosen.retriever != "auto":
        return chosen.retriever
    light = chosen.retriever_path is None and _usable(
        settings, EMBEDDED_LIGHT.model, "onnxruntime", "tokenizers"
    )
    return "light" if light else "embedded"


def _usable(settings: Settings, model: str, *packages: str) -> bool:
    """Whether the packages are installed and the embedded model was pulled."""
    if any(importlib.util.find_spec(package) is None for package in packages):
        return False
    try:
        model_path(settings.models_dir, model)
    except ModelFilesError:
        return False
    return True


def _options(settings: Settings) -> LoadOptions:
    chosen = settings.models
    return LoadOptions(
        device=chosen.device, dtype=chosen.dtype, allow_download=chosen.allow_download
    )
