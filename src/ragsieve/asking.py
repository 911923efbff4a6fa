"""From settings to a pipeline that answers: which stages stand around it, who is asked."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragsieve.assembly import corpus_detector, ingest_gate, query_detector
from ragsieve.defense.pipeline import Stage
from ragsieve.defense.serial import Quarantine, Sieve
from ragsieve.errors import ConfigError
from ragsieve.features.rows import RowFeatures
from ragsieve.files.predictions import read_predictions
from ragsieve.files.state import read_state
from ragsieve.ports import ChatModel, FeatureSource, Retriever
from ragsieve.records import Document, FloatArray
from ragsieve.settings import Settings
from ragsieve.trishield.authorisation import read_answer_policy
from ragsieve.trishield.consensus import Member, Panel
from ragsieve.trishield.ingest_guard import IngestGuard, IngestGuardStage
from ragsieve.trishield.orchestrator import Shield
from ragsieve.trishield.policy import Gate
from ragsieve.trishield.provenance_policy import ProvenancePolicy, read_provenance_policy
from ragsieve.trishield.retrieval_scorer import RetrievalScorer


class Defense(enum.StrEnum):
    """What stands between a question and its answer."""

    NONE = "none"
    SIEVE = "sieve"
    TRISHIELD = "trishield"
    ALL = "all"

    @property
    def sieves(self) -> bool:
        """Whether RSG and RSQ run."""
        return self in {Defense.SIEVE, Defense.ALL}

    @property
    def rings(self) -> bool:
        """Whether the three rings run."""
        return self in {Defense.TRISHIELD, Defense.ALL}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The corpus that is asked.

    :param rows: shape (len(documents), d), unit rows.
    :param state: what ``scan --state`` kept; the corpus is scanned for the occasion when None.
    :param predictions: of that scan; what it flagged is quarantined.
    """

    documents: Sequence[Document]
    rows: FloatArray
    state: Path | None = None
    predictions: Path | None = None


def shield(
    settings: Settings,
    defense: Defense,
    index: Index,
    retriever: Retriever,
    models: Mapping[str, ChatModel],
) -> Shield:
    """The pipeline that answers questions about an index.

    :param models: the panel by name, the one that answers alone first.
    :raises ConfigError: for settings that do not fit, or without a model.
    :raises InputError: for a state or predictions that cannot be read.
    """
    chosen = settings.trishield
    policy = None if chosen.answers is None else read_answer_policy(chosen.answers)
    return Shield(
        retriever,
        stages(settings, defense, index),
        panel(settings, defense, models),
        chosen.shield,
        answer_policy=policy,
    )


def stages(settings: Settings, defense: Defense, index: Index) -> list[Stage]:
    """Quarantine, ring 1, sieve and ring 2, as far as the defence has them.

    What a whole-index scan found goes first, ring 2 last: it compares what the others left.
    """
    chosen = settings.trishield
    features: FeatureSource | None = None
    found: list[Stage] = []
    if defense.sieves:
        features, quarantine = _known(settings, index)
        found += [] if quarantine is None else [quarantine]
    if defense.rings:
        guard = IngestGuard(chosen.guard).fit(index.rows)
        found.append(IngestGuardStage(guard, RowFeatures(index.documents, index.rows)))
    if defense.sieves:
        found.append(Sieve(query_detector(settings, features), settings.filter))
    if defense.rings:
        policy = (
            ProvenancePolicy()
            if chosen.provenance is None
            else read_provenance_policy(chosen.provenance)
        )
        found.append(RetrievalScorer(chosen.scorer, policy))
    return found


def panel(settings: Settings, defense: Defense, models: Mapping[str, ChatModel]) -> Panel:
    """Ring 3 where the defence has rings; else the first model alone.

    :raises ConfigError: for a weight of nobody, or without a model.
    """
    chosen = settings.trishield
    strangers = sorted(set(chosen.weights) - set(models))
    if strangers:
        raise ConfigError(
            f"trishield.weights: expected names of members ({', '.join(models) or 'none'}), "
            f"found {', '.join(strangers)}"
        )
    members = [Member(name, model, chosen.weights.get(name, 1.0)) for name, model in models.items()]
    consensus = chosen.consensus
    if not defense.rings:
        members, consensus = members[:1], dataclasses.replace(consensus, gate=Gate.NEVER)
    return Panel(members, consensus)


def _known(settings: Settings, index: Index) -> tuple[FeatureSource | None, Quarantine | None]:
    """What the query rule reads about documents, and the stage that keeps findings out."""
    at = settings.filter.quarantine_at
    default = settings.profile == "default"
    if index.state is None and index.predictions is None:
        scan = corpus_detector(settings).scan(index.documents, index.rows)
        flagged, seen = scan.flagged_at(at), scan.document_ids
        features = None
        if default:
            gate = ingest_gate(settings, confirm=False)
            features = gate.features(gate.snapshot(scan, index.rows))
        return features, _quarantine(settings, flagged, seen)
    features = None
    if index.state is not None:
        gate = ingest_gate(settings, confirm=False)
        features = gate.features(read_state(index.state))
    if index.predictions is None:
        return features, None
    rows = list(read_predictions(index.predictions))
    flagged = tuple(row.document_id for row in rows if row.flagged and row.level.reaches(at))
    return features, _quarantine(settings, flagged, tuple(row.document_id for row in rows))


def _quarantine(settings: Settings, flagged: Sequence[str], seen: Sequence[str]) -> Quarantine:
    return Quarantine(
        flagged,
        scanned_ids=seen,
        on_unavailable=settings.filter.on_unavailable,
        needed=settings.query.fewest_documents,
    )
