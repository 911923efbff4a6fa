"""From settings to ready objects; the only module that knows concrete classes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
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
from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.journal import ReplyJournal
from ragsieve.chat.openai_chat import OpenAIChat
from ragsieve.detectors import readings
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.detectors.profiles import corpus_rule, query_rule
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import ConfigError, ModelFilesError, OutputError
from ragsieve.features.text import TOKENS_EXAMINED
from ragsieve.featurestore.models import StoredCausalScorer, StoredTokenEncoder
from ragsieve.featurestore.reader import StoredReader
from ragsieve.featurestore.recall import StoredFeatures
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore
from ragsieve.featurestore.texts import DefaultReading, PaperReading
from ragsieve.ports import CausalScorer, FeatureSource, TextEmbedder, TokenEncoder
from ragsieve.settings import Settings, api_key


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


def feature_store(
    settings: Settings, *, note: Callable[[str], None] | None = None
) -> FeatureStore | None:
    """The feature store that the settings name; None when they name none.

    :param note: called once with each line about what goes wrong with it.
    :raises ConfigError: when the file is no feature store.
    :raises OutputError: when its folder does not exist.
    """
    chosen = settings.features
    if chosen.store is None:
        return None
    return FeatureStore(
        chosen.store, max_bytes=chosen.max_bytes, states_share=chosen.states_share, note=note
    )


def causal_scorer(settings: Settings, *, store: FeatureStore | None = None) -> CausalScorer | None:
    """The causal language model; None when there is none to use.

    :param store: keeps its losses; the one the settings name when None.
    :raises ModelFilesError: when one is asked for by name and its files are not here.
    """
    scorer: CausalScorer | None = _hub_scorer(settings)
    if scorer is None:
        return None
    store = store or feature_store(settings)
    if store is not None:
        scorer = StoredCausalScorer(scorer, store)
    return MemoCausalScorer(scorer)


def token_encoder(settings: Settings, *, store: FeatureStore | None = None) -> TokenEncoder | None:
    """The token encoder; None when there is none to use.

    :param store: keeps its document states; the one the settings name when None.
    :raises ModelFilesError: when one is asked for by name and its files are not here.
    :raises ConfigError: when a model is named without its layer.
    """
    encoder: TokenEncoder | None = _hub_encoder(settings)
    if encoder is None:
        return None
    store = store or feature_store(settings)
    if store is not None:
        encoder = _stored_encoder(settings, encoder, store)
    return MemoTokenEncoder(encoder)


def stored_features(settings: Settings, store: FeatureStore) -> tuple[StoredFeatures, ...]:
    """What the profile needs to know about documents and can be computed ahead.

    :raises ModelFilesError: when a model is asked for by name and its files are not here.
    """
    paper = settings.profile == "paper"
    found: list[StoredFeatures] = [
        StoredReader(PaperReading(), store)
        if paper
        else StoredReader(DefaultReading(TOKENS_EXAMINED), store)
    ]
    scorer = _hub_scorer(settings) if paper or settings.models.causal != "auto" else None
    if scorer is not None:
        found.append(StoredCausalScorer(scorer, store))
    encoder = _hub_encoder(settings) if paper else None
    if encoder is not None:
        found.append(_stored_encoder(settings, encoder, store))
    return tuple(found)


def feature_spaces(settings: Settings) -> tuple[Space, ...]:
    """What the settings would compute now: models of their profile, readings of every profile.

    :raises ModelFilesError: when a model is asked for by name and its files are not here.
    """
    store = feature_store(settings)
    if store is None:
        return ()
    with store:
        readings: tuple[StoredFeatures, ...] = (
            StoredReader(PaperReading(), store),
            StoredReader(DefaultReading(TOKENS_EXAMINED), store),
        )
        found = [one.space for one in (*readings, *stored_features(settings, store))]
    return tuple(dict.fromkeys(found))


def query_detector(
    settings: Settings,
    features: FeatureSource | None = None,
    *,
    store: FeatureStore | None = None,
) -> QueryDetector:
    """RSQ as configured, with the models that can be used.

    :param features: what an ingest scan knows about the documents that are retrieved.
    :param store: keeps what models say about documents; the one the settings name when None.
    """
    paper = settings.profile == "paper"
    store = store or feature_store(settings)
    rule = query_rule(
        settings.profile,
        default=settings.query,
        paper=settings.paper.query,
        causal=causal_scorer(settings, store=store)
        if paper
        else confirming_scorer(settings, store=store),
        encoder=token_encoder(settings, store=store) if paper else None,
    )
    recall = None if store is None else _stored_readings(settings, store)
    return QueryDetector(rule, features=features, recall=recall)


def corpus_detector(settings: Settings, *, store: FeatureStore | None = None) -> CorpusDetector:
    """RSG as configured.

    :param store: as in :func:`query_detector`.
    """
    rule = corpus_rule(
        settings.profile,
        default=settings.corpus,
        paper=settings.paper.corpus,
        causal=None if settings.profile == "paper" else confirming_scorer(settings, store=store),
    )
    return CorpusDetector(rule)


def ingest_gate(
    settings: Settings, *, confirm: bool = True, store: FeatureStore | None = None
) -> IngestGate:
    """The gate of profile ``default`` as configured.

    :param confirm: whether it asks the language model; features and snapshots never need one.
    :param store: as in :func:`query_detector`.
    :raises ConfigError: for a profile that keeps no state.
    """
    if settings.profile != "default":
        raise ConfigError(f"profile {settings.profile!r} keeps no state; use profile default")
    causal = confirming_scorer(settings, store=store) if confirm else None
    return IngestGate(DefaultCorpusRule(settings.corpus, causal=causal))


def confirming_scorer(
    settings: Settings, *, store: FeatureStore | None = None
) -> CausalScorer | None:
    """The language model of profile ``default``, which needs none: only one asked for by name.

    :param store: as in :func:`causal_scorer`.
    :raises ModelFilesError: when its files are not here.
    """
    return None if settings.models.causal == "auto" else causal_scorer(settings, store=store)


def chat_member(settings: Settings, name: str | None = None) -> ChatEndpoint:
    """The member called ``name``; without a name the one the settings choose, or the only one.

    :raises ConfigError: when there is no such member, or none is chosen among several.
    """
    members = settings.chat.members
    names = ", ".join(sorted(members)) or "none"
    chosen = name or settings.chat.model or (next(iter(members)) if len(members) == 1 else None)
    if chosen is None:
        raise ConfigError(f"chat.model: expected a member ({names}), found nothing; choose one")
    if chosen not in members:
        raise ConfigError(
            f"chat.members: expected one of {names}, found {chosen!r}; "
            "add its table, or give its address"
        )
    return members[chosen]


def chat_model(member: ChatEndpoint) -> OpenAIChat:
    """A member that can be asked, with its key from the environment.

    :raises ConfigError: when its key is not there.
    :raises MissingExtraError: when extra ``chat`` is not installed.
    """
    return OpenAIChat(member, key=api_key(member))


def reply_journal(path: Path) -> ReplyJournal:
    """The journal of a file, whose folder is made.

    :raises OutputError: when it cannot be written.
    :raises MissingExtraError: when extra ``chat`` is not installed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot be created ({error.strerror})") from error
    return ReplyJournal(path)


def _hub_scorer(settings: Settings) -> HubCausalScorer | None:
    name = _resolved(settings, settings.models.causal, EMBEDDED_CAUSAL.model)
    if name is None:
        return None
    if name == "embedded":
        source = ModelSource(str(model_path(settings.models_dir, EMBEDDED_CAUSAL.model)))
    else:
        source = ModelSource(PAPER_CAUSAL.model if name == "paper" else name)
    return HubCausalScorer(source, options=_options(settings))


def _hub_encoder(settings: Settings) -> HubTokenEncoder | None:
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
    return HubTokenEncoder(source, layer=layer, options=_options(settings))


def _stored_readings(settings: Settings, store: FeatureStore) -> Callable[[Sequence[str]], None]:
    """Hands the query rules what the store knows of texts, and keeps what it does not."""
    if settings.profile == "paper":
        paper = StoredReader(PaperReading(), store, memory_texts=0)

        def recall_paper(texts: Sequence[str]) -> None:
            wanted = readings.PAPER.missing(texts)
            found = zip(wanted, paper.read(wanted), strict=True)
            readings.PAPER.keep(
                {text: readings.PaperReading(one.words, one.scripts) for text, one in found}
            )

        return recall_paper
    default = StoredReader(DefaultReading(TOKENS_EXAMINED), store, memory_texts=0)

    def recall_default(texts: Sequence[str]) -> None:
        wanted = readings.DEFAULT.missing(texts)
        found = zip(wanted, default.read(wanted), strict=True)
        readings.DEFAULT.keep(
            {
                text: readings.default_reading(
                    one.tokens,
                    one.words,
                    question=one.question,
                    script_share=one.minority_share,
                )
                for text, one in found
            }
        )

    return recall_default


def _stored_encoder(
    settings: Settings, encoder: TokenEncoder, store: FeatureStore
) -> StoredTokenEncoder:
    tokens = settings.paper.query.document_tokens
    return StoredTokenEncoder(encoder, store, document_tokens=tokens)


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
