"""From settings to the parts of a service; models are built here and nowhere else."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from ragsieve.assembly import (
    causal_scorer,
    confirming_scorer,
    feature_store,
    ingest_gate,
    text_embedder,
    token_encoder,
)
from ragsieve.connectors.address import parse_address
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.detectors.profiles import query_rule
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.rules import QueryRule
from ragsieve.errors import ConfigError
from ragsieve.features.knowledge import Snapshot
from ragsieve.featurestore.store import FeatureStore
from ragsieve.files.corpus import read_corpus
from ragsieve.files.predictions import read_predictions
from ragsieve.files.state import MANIFEST, read_state
from ragsieve.policy.file import read_policy
from ragsieve.ports import TextEmbedder
from ragsieve.service.access import is_loopback
from ragsieve.service.gates import LiveGate, StateGate
from ragsieve.service.holdings import BARE, Collection, Gate, Holdings, nothing_withheld
from ragsieve.service.keys import KeyFile
from ragsieve.service.remembering import with_ledger
from ragsieve.service.runtime import Parts
from ragsieve.settings import CollectionSettings, Settings
from ragsieve.trishield.provenance_policy import read_provenance_policy


def load_parts(settings: Settings, *, note: Callable[[str], None] = lambda _line: None) -> Parts:
    """Everything that the settings name, read and checked before the first request.

    :param note: called with each line that the operator should see.
    :raises ConfigError: when the service could be reached from elsewhere and has no key, or a
        store's address is none.
    :raises InputError: for a file that cannot be used.
    :raises StoreError: when the ledger cannot be opened.
    """
    service = settings.service
    keys = KeyFile(service.keys)
    check_reach(service.host, keys)
    store = feature_store(settings, note=note)
    rule = _query_rule(settings, store)
    embedder = (
        text_embedder(settings) if any(c.embed for c in service.collections.values()) else None
    )
    members = [
        _collection(settings, name, one, rule, embedder)
        for name, one in service.collections.items()
    ]
    bare = Collection(BARE, QueryDetector(rule), settings.filter)
    secure = service.secure_cookies
    trusted = settings.trishield.provenance
    parts = Parts(
        holdings=Holdings(bare, members),
        settings=service,
        profile=settings.profile,
        keys=keys,
        policy=read_policy(service.policy or settings.ledger.policy),
        trust=None if trusted is None else read_provenance_policy(trusted),
        on_stop=() if store is None else (store.close,),
        secure_cookies=not is_loopback(service.host) if secure is None else secure,
    )
    return with_ledger(parts, settings, store) if service.ledger else parts


def check_reach(host: str, keys: KeyFile) -> None:
    """Refuse to be reached from elsewhere without a key.

    :raises ConfigError: when that would be so.
    """
    if not is_loopback(host) and not keys.any_active():
        raise ConfigError(
            f"service.host: {host} is reached from other machines, and {keys.path} holds no "
            "active key; make one with `ragsieve keys add NAME`, or listen on 127.0.0.1"
        )


def _query_rule(settings: Settings, store: FeatureStore | None) -> QueryRule:
    paper = settings.profile == "paper"
    return query_rule(
        settings.profile,
        default=settings.query,
        paper=settings.paper.query,
        causal=(causal_scorer if paper else confirming_scorer)(settings, store=store),
        encoder=token_encoder(settings, store=store) if paper else None,
    )


def _collection(
    settings: Settings,
    name: str,
    one: CollectionSettings,
    rule: QueryRule,
    embedder: TextEmbedder | None,
) -> Collection:
    documents = () if one.corpus is None else read_corpus(one.corpus)
    snapshot = None if one.state is None else read_state(one.state)
    features = None
    if snapshot is not None and settings.profile == "default":
        features = ingest_gate(settings, confirm=False).features(snapshot)
    gate = _gate(settings, one, snapshot)
    if one.embed:
        if gate is None:
            raise ConfigError(f"service.collections.{name}.embed: needs a state or a live index")
        if embedder is not None and gate.encoder and gate.encoder != embedder.identity:
            raise ConfigError(
                f"service.collections.{name}.embed: the state was embedded by {gate.encoder}, the "
                f"settings name {embedder.identity}; use one encoder"
            )
    withheld, scanned, suspects = _findings(settings, one.predictions)
    return Collection(
        name=name,
        detector=QueryDetector(rule, features=features),
        policy=settings.filter,
        tenant=one.tenant,
        documents={document.id: document for document in documents},
        withheld=(lambda: withheld) if withheld else nothing_withheld,
        scanned=scanned,
        known=None if snapshot is None else len(snapshot),
        made=None if one.state is None else _written_at(one.state / MANIFEST),
        suspects=suspects,
        gate=gate,
        embedder=embedder if one.embed else None,
        store=None if one.store is None else parse_address(one.store.get_secret_value()).public,
        vectors_by=one.vectors_by or (gate.encoder or None if gate is not None else None),
    )


def _gate(settings: Settings, one: CollectionSettings, snapshot: Snapshot | None) -> Gate | None:
    if one.live is not None:
        paper = settings.profile == "paper"
        rule = (
            PaperCorpusRule(settings.paper.corpus) if paper else DefaultCorpusRule(settings.corpus)
        )
        return LiveGate(one.live, rule)
    if snapshot is None:
        return None
    # Raises where the profile keeps no state.
    return StateGate(ingest_gate(settings), snapshot)


def _findings(
    settings: Settings, predictions: Path | None
) -> tuple[frozenset[str], frozenset[str] | None, frozenset[str]]:
    """What a scan takes out, what it saw, and what it flagged at any level."""
    if predictions is None:
        return frozenset(), None, frozenset()
    rows = list(read_predictions(predictions))
    at = settings.filter.quarantine_at
    flagged = [row for row in rows if row.flagged]
    return (
        frozenset(row.document_id for row in flagged if row.level.reaches(at)),
        frozenset(row.document_id for row in rows),
        frozenset(row.document_id for row in flagged),
    )


def _written_at(path: Path) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
