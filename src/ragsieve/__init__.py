"""Find documents planted to steer retrieval-augmented generation.

Without labels and without a trusted corpus. A score is evidence that a document is
promoted into retrieval; it is never a verdict on truth.
"""

from ragsieve.defense.pipeline import Pipeline
from ragsieve.defense.policy import FilterPolicy, Resort
from ragsieve.defense.serial import Quarantine, Sieve, serial_defense
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import Mode, QueryDetector
from ragsieve.errors import (
    BackendError,
    ConfigError,
    EmbeddingError,
    InputError,
    MissingExtraError,
    ModelFilesError,
    OutputError,
    RagsieveError,
    RankingError,
    RecordError,
)
from ragsieve.explain import explain_verdict
from ragsieve.outcomes import Action, Bounds, Outcome, Ruling, Step
from ragsieve.ports import CausalScorer, ChatModel, Retriever, TextEmbedder, TokenEncoder
from ragsieve.records import (
    Decision,
    Document,
    Evidence,
    Level,
    NeighborGraph,
    Provenance,
    Query,
    RankedDocument,
    Ranking,
    Scan,
    Verdict,
)

__version__ = "0.1.0"

__all__ = [
    "Action",
    "BackendError",
    "Bounds",
    "CausalScorer",
    "ChatModel",
    "ConfigError",
    "CorpusDetector",
    "Decision",
    "Document",
    "EmbeddingError",
    "Evidence",
    "FilterPolicy",
    "InputError",
    "Level",
    "MissingExtraError",
    "Mode",
    "ModelFilesError",
    "NeighborGraph",
    "Outcome",
    "OutputError",
    "Pipeline",
    "Provenance",
    "Quarantine",
    "Query",
    "QueryDetector",
    "RagsieveError",
    "RankedDocument",
    "Ranking",
    "RankingError",
    "RecordError",
    "Resort",
    "Retriever",
    "Ruling",
    "Scan",
    "Sieve",
    "Step",
    "TextEmbedder",
    "TokenEncoder",
    "Verdict",
    "explain_verdict",
    "serial_defense",
]
