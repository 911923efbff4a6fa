"""Every comparator by name, and what each must be given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from ragsieve.errors import ConfigError
from ragsieve.lab.comparators import (
    cleanbase,
    duplicates,
    ecosafe,
    generation,
    gmtp,
    hubness,
    outliers,
    overlap,
    perplexity,
    ragmask,
    raguard,
    robustrag,
    trustrag,
    trustrag_answer,
)
from ragsieve.lab.comparators.base import (
    CleanPair,
    CorpusComparator,
    Declaration,
    GenerationDefense,
    QueryComparator,
)
from ragsieve.lab.comparators.masked import TransformersMaskedModel
from ragsieve.lab.poison.base import GradientEncoder
from ragsieve.ports import CausalScorer, ChatModel, TextEmbedder
from ragsieve.records import FloatArray, Ranking

Built = TypeVar("Built")
Given = TypeVar("Given")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ComparatorNeeds:
    """What is at hand to build comparators with.

    :param embedder: the encoder of the index.
    :param rows: the corpus's vectors, one a document.
    :param calibration: clean questions with a passage that answers each; of other targets.
    :param chat: for generation-time defences, which are handed it again with each question.
    :param masked: folder or cached name of a masked language model.
    :param retrieve: ranks the corpus for a text.
    :param rewrites: paraphrases made earlier, by question.
    """

    embedder: TextEmbedder | None = None
    causal: CausalScorer | None = None
    rows: FloatArray | None = None
    calibration: Sequence[CleanPair] | None = None
    chat: ChatModel | None = None
    gradients: GradientEncoder | None = None
    masked: str | None = None
    retrieve: Callable[[str], Ranking] | None = None
    rewrites: Mapping[str, Sequence[str]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry(Generic[Built]):
    declaration: Declaration
    fields: tuple[str, ...]
    build: Callable[[ComparatorNeeds], Built]


def declarations() -> tuple[Declaration, ...]:
    """What every comparator says about itself, by control point and name."""
    found = [
        *(entry.declaration for entry in _QUERY),
        *(entry.declaration for entry in _CORPUS),
        *(entry.declaration for entry in _GENERATION),
    ]
    return tuple(sorted(found, key=lambda one: (one.control_point.value, one.name)))


def required(name: str) -> tuple[str, ...]:
    """The fields of :class:`ComparatorNeeds` that a comparator cannot be built without.

    :raises ConfigError: for an unknown name.
    """
    fields = {
        **{entry.declaration.name: entry.fields for entry in _QUERY},
        **{entry.declaration.name: entry.fields for entry in _CORPUS},
        **{entry.declaration.name: entry.fields for entry in _GENERATION},
    }
    if name not in fields:
        raise ConfigError(
            f"comparator: expected one of {', '.join(sorted(fields))}, found {name!r}"
        )
    return fields[name]


def query_comparator(name: str, needs: ComparatorNeeds) -> QueryComparator:
    """A retrieval comparator, for ``QueryDetector(rule)``.

    :raises ConfigError: for a name that is none, or when something it needs is missing.
    :raises BackendError: when a model fails while clean passages are measured.
    """
    return _built(name, needs, _QUERY)


def corpus_comparator(name: str, needs: ComparatorNeeds) -> CorpusComparator:
    """An index comparator, for ``CorpusDetector(rule)``.

    :raises ConfigError: for a name that is none, or when something it needs is missing.
    """
    return _built(name, needs, _CORPUS)


def generation_defense(name: str, needs: ComparatorNeeds) -> GenerationDefense:
    """A generation-time defence.

    :raises ConfigError: for a name that is none, or when something it needs is missing.
    :raises MissingExtraError: when a library it is made of is not installed.
    """
    return _built(name, needs, _GENERATION)


def _built(name: str, needs: ComparatorNeeds, entries: Sequence[_Entry[Built]]) -> Built:
    found = {entry.declaration.name: entry for entry in entries}
    if name not in found:
        raise ConfigError(f"comparator: expected one of {', '.join(sorted(found))}, found {name!r}")
    entry = found[name]
    missing = [field for field in entry.fields if getattr(needs, field) is None]
    if missing:
        raise ConfigError(f"comparator {name}: needs {' and '.join(missing)}, found none")
    return entry.build(needs)


def _given(value: Given | None) -> Given:
    # ``fields`` was checked before; this says the same to the type checker.
    if value is None:
        raise ConfigError("comparator: something it needs is missing")
    return value


def _raguard(needs: ComparatorNeeds) -> QueryComparator:
    causal, embedder = _given(needs.causal), _given(needs.embedder)
    reference = raguard.RaguardReference.of(_given(needs.calibration), causal, embedder)
    return raguard.Raguard(reference, causal, embedder)


def _gmtp(needs: ComparatorNeeds) -> QueryComparator:
    model = TransformersMaskedModel(_given(needs.masked))
    return _gmtp_of(gmtp.GmtpParts(_given(needs.gradients), model), needs)


def _gmtp_variant(needs: ComparatorNeeds) -> QueryComparator:
    model = gmtp.CausalLeftModel(_given(needs.causal))
    parts = gmtp.GmtpParts(_given(needs.gradients), model, gmtp.CAUSAL_DECLARATION)
    return _gmtp_of(parts, needs)


def _gmtp_of(parts: gmtp.GmtpParts, needs: ComparatorNeeds) -> QueryComparator:
    return gmtp.Gmtp(parts, gmtp.reference_probability(_given(needs.calibration), parts))


def _paraphrasing(needs: ComparatorNeeds) -> GenerationDefense:
    return generation.Paraphrasing(_given(needs.retrieve), rewrites=needs.rewrites)


_QUERY: tuple[_Entry[QueryComparator], ...] = (
    _Entry(raguard.DECLARATION, ("causal", "embedder", "calibration"), _raguard),
    _Entry(gmtp.DECLARATION, ("gradients", "masked", "calibration"), _gmtp),
    _Entry(gmtp.CAUSAL_DECLARATION, ("gradients", "causal", "calibration"), _gmtp_variant),
    _Entry(ecosafe.DECLARATION, ("embedder",), lambda n: ecosafe.EcoSafe(_given(n.embedder))),
    _Entry(trustrag.DECLARATION, ("embedder",), lambda n: trustrag.TrustRag(n.embedder)),
    _Entry(ragmask.DECLARATION, ("embedder",), lambda n: ragmask.RagMask(_given(n.embedder))),
    _Entry(overlap.DECLARATION, (), lambda _: overlap.QueryOverlap()),
    _Entry(
        perplexity.QUERY_DECLARATION,
        ("causal",),
        lambda n: perplexity.Perplexity(_given(n.causal)),
    ),
)
_CORPUS: tuple[_Entry[CorpusComparator], ...] = (
    _Entry(cleanbase.CLIQUE_DECLARATION, (), lambda _: cleanbase.CleanBase()),
    _Entry(cleanbase.TRIANGLE_DECLARATION, (), lambda _: cleanbase.CleanBaseTriangle()),
    _Entry(hubness.DECLARATION, ("rows",), lambda n: hubness.Hubness(_given(n.rows))),
    _Entry(
        outliers.FOREST_DECLARATION, ("rows",), lambda n: outliers.IsolationForest(_given(n.rows))
    ),
    _Entry(outliers.DISTANCE_DECLARATION, (), lambda _: outliers.NeighborDistance()),
    _Entry(outliers.FACTOR_DECLARATION, (), lambda _: outliers.LocalOutlierFactor()),
    _Entry(duplicates.EXACT_DECLARATION, (), lambda _: duplicates.ExactDuplicates()),
    _Entry(duplicates.MINHASH_DECLARATION, (), lambda _: duplicates.MinHashDuplicates()),
    _Entry(
        perplexity.INDEX_DECLARATION,
        ("causal",),
        lambda n: perplexity.PerplexityIndex(_given(n.causal)),
    ),
)
_GENERATION: tuple[_Entry[GenerationDefense], ...] = (
    _Entry(trustrag_answer.DECLARATION, ("chat",), lambda _: trustrag_answer.TrustRagAnswer()),
    _Entry(
        robustrag.DECLARATION,
        ("chat",),
        lambda _: robustrag.RobustRagKeyword(*robustrag.load_tagger()),
    ),
    _Entry(generation.VOTE_DECLARATION, ("chat",), lambda _: generation.DivideAndVote()),
    _Entry(generation.PARAPHRASE_DECLARATION, ("chat", "retrieve"), _paraphrasing),
    _Entry(generation.EXPANSION_DECLARATION, ("chat",), lambda _: generation.KnowledgeExpansion()),
)
