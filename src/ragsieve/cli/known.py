"""What is known about retrieved documents: from a state, from a corpus, or from both."""

from __future__ import annotations

from pathlib import Path

from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.errors import EmbeddingError, InputError
from ragsieve.features.knowledge import Snapshot
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import encoder_of, read_embeddings
from ragsieve.files.state import read_state
from ragsieve.ports import FeatureSource
from ragsieve.settings import Settings


def feature_source(
    settings: Settings, state: Path | None, documents: Path | None, embeddings: Path | None
) -> FeatureSource | None:
    """The features that the query rule of profile ``default`` reads; None for other profiles.

    A corpus alone is scanned for the occasion; beside a state, documents that the state does
    not hold are judged against it.

    :raises InputError: for documents without embeddings or the reverse, or a state that does
        not fit the configuration.
    """
    if (documents is None) != (embeddings is None):
        raise InputError("expected --documents and --embeddings together")
    if settings.profile != "default" or (state is None and documents is None):
        return None
    from ragsieve.assembly import ingest_gate

    # Features are what a scan measures before any model confirms it.
    gate = ingest_gate(settings, confirm=False)
    if documents is None or embeddings is None:
        return None if state is None else gate.features(read_state(state))
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    if state is not None:
        snapshot = read_state(state)
        check_encoder(embeddings, state, snapshot)
        return gate.features(snapshot, corpus, rows)
    scan = CorpusDetector(DefaultCorpusRule(settings.corpus)).scan(corpus, rows)
    return gate.features(gate.snapshot(scan, rows))


def check_encoder(embeddings: Path, state: Path, snapshot: Snapshot) -> None:
    """New rows must come from the encoder of the state, where both name theirs.

    :raises EmbeddingError: when they do not.
    """
    encoder = encoder_of(embeddings)
    if encoder and snapshot.encoder and encoder != snapshot.encoder:
        raise EmbeddingError(
            f"{embeddings}: made by {encoder}, the state {state} by {snapshot.encoder}; use one "
            "encoder"
        )
