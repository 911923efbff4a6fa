"""RSG of profile ``default``: neighbour gap, alien run, script mixing, hidden characters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.corpus_details import gap_detail, run_detail, run_span
from ragsieve.detectors.rules import Measurement, fingerprint
from ragsieve.errors import BackendError, ConfigError
from ragsieve.evidence.concentration import OriginDetail
from ragsieve.evidence.hidden import hidden_text
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.surprisal import peak_surprisal
from ragsieve.evidence.tails import above_half
from ragsieve.evidence.writing import MixingDetail, mixed_tokens
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.learning import BulkCeilings, learn_corpus
from ragsieve.features.origins import origin_of_group
from ragsieve.features.pairs import MEMORY_BYTES
from ragsieve.features.statistics import CorpusStatistics, TokenCounts
from ragsieve.features.text import TextFeatures, text_features
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.ports import CausalScorer
from ragsieve.records import (
    Detail,
    Document,
    Evidence,
    EvidenceColumn,
    Level,
    NeighborGraph,
    Provenance,
    Scan,
    Surroundings,
)

NEIGHBOR_GAP = "neighbor_gap"
ALIEN_RUN = "alien_run"
SCRIPT_MIXING = "script_mixing"
HIDDEN_TEXT = "hidden_text"
PROVENANCE = "provenance"
CONFIRMATION = "peak_surprisal_share"

# A model reads a text's beginning; a run further down is shown to it with this much before it.
_LEAD_CHARACTERS = 400
_READ_CHARACTERS = 1200


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultCorpusConfig:
    """Constants of the ingest rule.

    :param neighbors: per document.
    :param gap_spread: threshold of the gap, in distances from the corpus's median to its 90%
        quantile.
    :param pair_weight: weight of a single neighbour that stands out; .95 finds more pairs of
        planted documents, at the price of more clean ones.
    :param run_spread: the same for the alien run, without a language model.
    :param screen_spread: the same where a language model confirms.
    :param confirmed_share: peak surprisal over ln V at which a run is confirmed.
    :param scripts: ``unicode`` for this profile's rule, ``paper`` for the published one.
    :param threshold: flagged at or above.
    :param quarantine_score: level ``quarantine`` at or above, unconfirmed runs left out.
    :param pair_memory_bytes: bound on the table of token pairs.
    :param max_characters: of a document examined.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    neighbors: int = 24
    gap_spread: float = 2.0
    gap_ceiling: float = 0.6
    gap_floor: float = 0.30
    pair_weight: float = 0.85
    run_spread: float = 2.75
    screen_spread: float = 1.5
    run_ceiling_nats: float = 15.0
    run_floor_nats: float = 7.0
    confirmed_share: float = 0.72
    script_evidence: float = 0.5
    scripts: Literal["unicode", "paper"] = "unicode"
    threshold: float = 1.0
    quarantine_score: float = 1.35
    pair_memory_bytes: int = MEMORY_BYTES
    max_characters: int = 1_000_000

    def __post_init__(self) -> None:
        if self.neighbors < 1 or self.max_characters < 1:
            raise ConfigError("corpus: neighbors and max_characters must be at least 1")
        if min(self.gap_floor, self.run_floor_nats, self.threshold) <= 0:
            raise ConfigError("corpus: floors and threshold must be above 0")
        if self.quarantine_score < self.threshold:
            raise ConfigError(
                f"corpus: quarantine_score ({self.quarantine_score}) must not lie below the "
                f"threshold ({self.threshold})"
            )
        if self.scripts not in {"unicode", "paper"}:
            raise ConfigError(f"corpus: scripts must be unicode or paper, found {self.scripts!r}")


class DefaultCorpusRule:
    """Measures a corpus by contrast with itself.

    :param causal: language model that confirms alien runs; without one they stay unconfirmed
        and ask for review at most.
    """

    profile = "default"

    def __init__(
        self, config: DefaultCorpusConfig | None = None, *, causal: CausalScorer | None = None
    ) -> None:
        self.config = config or DefaultCorpusConfig()
        self._causal = causal

    @property
    def neighbors(self) -> int:
        """Neighbours per document."""
        return self.config.neighbors

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        return self.config.threshold

    @property
    def max_characters(self) -> int:
        """Characters of a document that are examined."""
        return self.config.max_characters

    @property
    def confirms(self) -> bool:
        """Whether a language model is asked about alien runs."""
        return self._causal is not None

    def fingerprint(self) -> str:
        """Hash of the constants and of the confirming model."""
        causal = self._causal.identity if self._causal else None
        return fingerprint(self.profile, self.config, causal)

    def constants(self) -> str:
        """Hash of what the statistics of a corpus depend on: the constants, no model."""
        return fingerprint(self.profile, self.config)

    def combine(self, values: Sequence[float]) -> float:
        """``S = sqrt(sum of squares)``."""
        return math.sqrt(math.fsum(value * value for value in values))

    def level(self, evidences: Sequence[Evidence], score: float) -> Level:  # noqa: ARG002
        """Quarantine for strength that no unconfirmed alien run lends, else review.

        A run is confirmed by the language model, or by evidence about characters beside it.
        """
        values = {one.name: one.value or 0.0 for one in evidences}
        run = next((one for one in evidences if one.name == ALIEN_RUN), None)
        confirmed = run is not None and CONFIRMATION in dict(run.components)
        if not (confirmed or values.get(SCRIPT_MIXING) or values.get(HIDDEN_TEXT)):
            values.pop(ALIEN_RUN, None)
        strong = self.combine(list(values.values())) >= self.config.quarantine_score
        return Level.QUARANTINE if strong else Level.REVIEW

    def measure(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,
        declared: Sequence[Provenance],
        held: CorpusStatistics | None = None,
    ) -> Measurement:
        """Learn the corpus, then judge every document of it.

        :param held: an earlier estimate of the statistics to judge by; None estimates afresh.
        """
        vocabulary = Vocabulary()
        features = self.read(contents, vocabulary, declared)
        counts = TokenCounts.empty(self.config.pair_memory_bytes)
        counts = counts.extended(vocabulary.tokens, features.tokens)
        return self.judge(contents, self.learn(features, counts, graph, held))

    def read(
        self, contents: Sequence[str], vocabulary: Vocabulary, declared: Sequence[Provenance]
    ) -> TextFeatures:
        """What each document shows on its own."""
        paper = self.config.scripts == "paper"
        mixes: Callable[[str], bool] = _mixes_as_published if paper else _mixes
        return text_features(
            contents, vocabulary, declared, mixes=mixes, hides=_hides_nothing if paper else _hides
        )

    def learn(
        self,
        features: TextFeatures,
        counts: TokenCounts,
        graph: NeighborGraph,
        held: CorpusStatistics | None = None,
    ) -> CorpusKnowledge:
        """Statistics of a whole corpus, and each document against them.

        :param counts: of exactly these documents.
        :param held: an earlier estimate to judge by; None estimates afresh.
        """
        return learn_corpus(
            features,
            counts,
            graph,
            ceilings=self.ceilings,
            pair_weight=self.config.pair_weight,
            held=held,
        )

    @property
    def ceilings(self) -> BulkCeilings:
        """What is no part of the bulk."""
        return BulkCeilings(self.config.gap_ceiling, self.config.run_ceiling_nats)

    def judge(self, contents: Sequence[str], knowledge: CorpusKnowledge) -> Measurement:
        """Evidence on the documents that were measured.

        :param contents: their texts.
        :param knowledge: what was measured, and the statistics to judge by.
        """
        config, statistics = self.config, knowledge.statistics
        ratios = np.array([run.ratio_nats for run in knowledge.runs], dtype=np.float64)
        gap = above_half(knowledge.gaps.gap, self.gap_threshold(statistics))
        run = above_half(ratios, self.run_threshold(statistics))
        mixing = config.script_evidence * knowledge.features.mixing[knowledge.first :].astype(
            np.float64
        )
        hidden = knowledge.features.hidden[knowledge.first :]
        asked, peaks, notes = self._confirm(contents, knowledge, gap, run, mixing, hidden)
        # Where the model gave no answer the threshold that needs none holds.
        plain = above_half(ratios, self._run_threshold(statistics, config.run_spread))
        run = np.where(asked & np.isnan(peaks), plain, run)
        run = np.where(peaks < config.confirmed_share, 0.0, run)
        columns = [
            EvidenceColumn(
                NEIGHBOR_GAP,
                gap,
                components=(
                    ("gap", knowledge.gaps.gap),
                    ("gap_group", knowledge.gaps.group),
                    ("gap_floor", knowledge.gaps.floor),
                ),
            ),
            EvidenceColumn(
                ALIEN_RUN, run, components=(("alien_run_nats", ratios), (CONFIRMATION, peaks))
            ),
            EvidenceColumn(SCRIPT_MIXING, mixing),
        ]
        if config.scripts == "unicode":
            columns.append(EvidenceColumn(HIDDEN_TEXT, hidden))
        columns.append(self._provenance(knowledge, gap))
        if not statistics.counts.pairs.exact:
            notes += ("token pairs are counted in a sketch: some alien runs may be missed",)
        return Measurement(tuple(columns), dataclasses.replace(knowledge, peaks=peaks), notes)

    def gap_threshold(self, statistics: CorpusStatistics) -> float:
        """t_g."""
        return statistics.gap.threshold(self.config.gap_spread, self.config.gap_floor)

    def run_threshold(self, statistics: CorpusStatistics) -> float:
        """t_l, in nats; lower where a language model confirms."""
        spread = self.config.screen_spread if self._causal else self.config.run_spread
        return self._run_threshold(statistics, spread)

    def _run_threshold(self, statistics: CorpusStatistics, spread: float) -> float:
        return statistics.run_nats.threshold(spread, self.config.run_floor_nats)

    def surroundings(self, statistics: CorpusStatistics) -> Surroundings:
        """What the query rule wants to know about the corpus."""
        return Surroundings(self.gap_threshold(statistics), statistics.question_share)

    def details(
        self, documents: Sequence[Document], scan: Scan, row: int
    ) -> tuple[Detail | None, ...]:
        """The facts behind one document's evidences."""
        knowledge = scan.knowledge
        if not isinstance(knowledge, CorpusKnowledge):
            return (None,) * len(scan.evidences)
        text = documents[row].content[: self.max_characters]
        statistics = knowledge.statistics
        paper = self.config.scripts == "paper"
        found: list[Detail | None] = [
            gap_detail(scan, knowledge, row, self.gap_threshold(statistics)),
            run_detail(text, knowledge, row, self.run_threshold(statistics)),
            script_profile(text) if paper else MixingDetail(mixed_tokens(text)),
        ]
        if not paper:
            found.append(hidden_text(text))
        origin = _origin(knowledge, row)
        found.append(None if origin is None else origin[1])
        return tuple(found)

    def _confirm(
        self,
        contents: Sequence[str],
        knowledge: CorpusKnowledge,
        gap: npt.NDArray[np.float64],
        run: npt.NDArray[np.float64],
        *others: npt.NDArray[np.float64],
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64], tuple[str, ...]]:
        """Ask the language model about each document whose flag hangs on its alien run.

        :returns: who was asked about, the peaks (NaN without an answer), and notes.
        """
        peaks = np.full(len(contents), np.nan)
        without = np.sqrt(gap**2 + sum(one**2 for one in others))
        hangs = (np.hypot(without, run) >= self.threshold) & (without < self.threshold)
        if self._causal is None:
            return np.zeros_like(hangs), peaks, ()
        rows = np.flatnonzero(hangs).tolist()
        if not rows:
            return hangs, peaks, ()
        texts = [self._shown(contents[row], knowledge, row) for row in rows]
        try:
            traces = self._causal.losses(texts)
        except BackendError as error:
            return (
                hangs,
                peaks,
                (f"alien runs are not confirmed: causal language model failed: {error}",),
            )
        for row, losses in zip(rows, traces, strict=True):
            if bool(np.isfinite(losses).all()):
                peaks[row] = peak_surprisal(losses, self._causal.vocabulary_size).share
        return hangs, peaks, ()

    @staticmethod
    def _provenance(knowledge: CorpusKnowledge, gap: npt.NDArray[np.float64]) -> EvidenceColumn:
        values = np.full(len(knowledge.runs), np.nan)
        # A document that declares nothing has no origin to compare.
        declared = knowledge.features.origins.declared()[knowledge.first :]
        for row in np.flatnonzero(declared).tolist():
            origin = _origin(knowledge, row)
            if origin is not None:
                # One hand behind documents that do not stand out is what authors are.
                values[row] = origin[0] if gap[row] > 0 else 0.0
        reason = "no source, author or time is declared for this document and its neighbours"
        return EvidenceColumn(PROVENANCE, values, reason=reason, optional=True)

    @staticmethod
    def _shown(text: str, knowledge: CorpusKnowledge, row: int) -> str:
        run = knowledge.runs[row]
        span = run_span(text, run.start, run.stop)
        if span is None or span.stop <= _READ_CHARACTERS:
            return text
        return text[max(0, span.start - _LEAD_CHARACTERS) :]


def _origin(knowledge: CorpusKnowledge, row: int) -> tuple[float, OriginDetail] | None:
    return origin_of_group(
        knowledge.features.origins,
        knowledge.first + row,
        knowledge.groups[row].tolist(),
        knowledge.statistics.habits,
    )


def _mixes_as_published(text: str) -> bool:
    return script_profile(text).violates_integrity


def _mixes(text: str) -> bool:
    return bool(mixed_tokens(text))


def _hides(text: str) -> float:
    return hidden_text(text).value


def _hides_nothing(text: str) -> float:  # noqa: ARG001 -- the published rule does not look
    return 0.0
