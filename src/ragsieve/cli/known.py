"""What is known about retrieved documents: from a state, from a corpus, or from both."""

from __future__ import annotations

from pathlib import Path

from ragsieve.errors import InputError
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import read_embeddings
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
    from ragsieve.assembly import corpus_detector, ingest_gate

    gate = ingest_gate(settings)
    if documents is None or embeddings is None:
        return None if state is None else gate.features(read_state(state))
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    if state is not None:
        return gate.features(read_state(state), corpus, rows)
    return gate.features(gate.snapshot(corpus_detector(settings).scan(corpus, rows), rows))
