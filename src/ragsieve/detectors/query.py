"""RSQ: judge each candidate of a retrieval against the tail of the same ranking."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from ragsieve.detectors.cascade import StagedRule, Standing, settle, standing_of
from ragsieve.detectors.profiles import DEFAULT_PROFILE, query_rule
from ragsieve.detectors.rules import QueryRule, QueryView, decide, level_of
from ragsieve.outcomes import Ruling
from ragsieve.ports import CausalScorer, FeatureSource, TokenEncoder
from ragsieve.records import Annotation, Evidence, RankedDocument, Ranking, Surroundings, Verdict

_BATCH = 16


class Mode(enum.StrEnum):
    """How much of a judgement is wanted: all of it, or what it decides."""

    FULL = "full"
    DECISION = "decision"


class QueryDetector:
    """Scores the candidates of rankings; keeps nothing between calls.

    A score is evidence that a document was built to be retrieved, not that it is false.

    :param profile: a profile's name, or a rule of one's own.
    :param causal: causal language model, for profiles that use one.
    :param encoder: token encoder, for profiles that use one.
    :param features: what an ingest scan knows, for profiles that use it.
    :param recall: given the texts of each batch before they are judged; may hand what it knows
        of them to :mod:`ragsieve.detectors.readings`.
    :raises ConfigError: for an unknown profile.
    """

    def __init__(
        self,
        profile: str | QueryRule = DEFAULT_PROFILE,
        *,
        causal: CausalScorer | None = None,
        encoder: TokenEncoder | None = None,
        features: FeatureSource | None = None,
        recall: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._recall = recall
        self._rule: QueryRule
        if isinstance(profile, str):
            self._rule = query_rule(profile, causal=causal, encoder=encoder)
        else:
            self._rule = profile
        self._staged = self._rule if isinstance(self._rule, StagedRule) else None
        self._features = features
        self.fingerprint = self._rule.fingerprint()

    @property
    def profile(self) -> str:
        """The rule's name."""
        return self._rule.profile

    @property
    def candidates(self) -> int:
        """Candidates per ranking, k."""
        return self._rule.candidates

    @property
    def documents(self) -> int:
        """Documents of a ranking that are looked at, n."""
        return self._rule.documents

    @property
    def fewest_documents(self) -> int:
        """Depth below which there is no usable tail."""
        return self._rule.fewest_documents

    @property
    def threshold(self) -> float:
        """Flagged at or above."""
        return self._rule.threshold

    def problem(self, ranking: Ranking) -> str | None:
        """Why evidence against the tail cannot be measured on ``ranking``; None when it can."""
        if len(ranking) <= self.candidates:
            return (
                f"missing tail: the ranking holds {len(ranking)} documents and the first "
                f"{self.candidates} are candidates; retrieve {self.documents}"
            )
        if len(ranking) < self.fewest_documents:
            return (
                f"insufficient tail: the ranking holds {len(ranking)} documents, "
                f"{self.fewest_documents} are needed"
            )
        if repeated_ids(ranking.entries[: self.documents]):
            return "a document stands more than once in the ranking"
        return None

    def reduced(self, ranking: Ranking) -> str | None:
        """How a ranking of less than the full depth is judged; None at full depth."""
        if self.fewest_documents <= len(ranking) < self.documents:
            return (
                f"reduced form: {len(ranking)} documents retrieved, the full rule looks at "
                f"{self.documents}"
            )
        return None

    def score(self, ranking: Ranking) -> tuple[Verdict, ...]:
        """One verdict for each of the first k documents, in rank order.

        A ranking shorter than n, or with a repeated id, leaves the evidence that needs a
        tail unavailable; what the document alone shows is still measured.
        """
        return self.score_many([ranking])[0]

    def score_many(
        self, rankings: Sequence[Ranking], *, progress: Callable[[int], None] | None = None
    ) -> list[tuple[Verdict, ...]]:
        """Verdicts for each ranking; models are called in batches over several rankings.

        :param progress: called with the number of rankings finished in each batch.
        """
        results: list[tuple[Verdict, ...]] = []
        for batch, views in self._batches(rankings, progress):
            measured = self._rule.measure(views)
            for ranking, view, evidences in zip(batch, views, measured, strict=True):
                judged = zip(ranking.entries, evidences, self._rule.annotate(view), strict=False)
                results.append(tuple(self._verdict(*one) for one in judged))
        return results

    def decide(self, ranking: Ranking) -> tuple[Ruling, ...]:
        """Decision mode: what :meth:`score` decides, with as little evidence as that takes.

        Decisions and levels are those of the verdicts; scores are known within bounds, there
        are no remarks and no details. Models are asked about candidates whose decision still
        depends on them, and one that is not asked cannot be found to fail. A rule that cannot
        stop early is measured in full.
        """
        return self.decide_many([ranking])[0]

    def decide_many(
        self, rankings: Sequence[Ranking], *, progress: Callable[[int], None] | None = None
    ) -> list[tuple[Ruling, ...]]:
        """Decision mode for several rankings; models are called in batches over several.

        :param progress: called with the number of rankings finished in each batch.
        """
        results: list[tuple[Ruling, ...]] = []
        for batch, views in self._batches(rankings, progress):
            if self._staged is not None:
                settled = settle(self._staged, views)
            else:
                settled = [
                    tuple(standing_of(self._rule, evidences) for evidences in own)
                    for own in self._rule.measure(views)
                ]
            results += [
                tuple(map(self._ruling, ranking.entries, standings))
                for ranking, standings in zip(batch, settled, strict=True)
            ]
        return results

    def _batches(
        self, rankings: Sequence[Ranking], progress: Callable[[int], None] | None
    ) -> Iterator[tuple[Sequence[Ranking], list[QueryView]]]:
        for start in range(0, len(rankings), _BATCH):
            batch = rankings[start : start + _BATCH]
            views = [self._view(ranking) for ranking in batch]
            if self._recall is not None:
                self._recall([text for view in views for text in view.candidates + view.tail])
            yield batch, views
            if progress is not None:
                progress(len(batch))

    def _view(self, ranking: Ranking) -> QueryView:
        limit = self._rule.max_characters
        seen = ranking.entries[: self.documents]
        texts = tuple(entry.document.content[:limit] for entry in seen)
        known = self._features
        return QueryView(
            query=ranking.query,
            candidates=texts[: self.candidates],
            tail=texts[self.candidates :],
            problem=self.problem(ranking),
            features=None
            if known is None
            else known.features([entry.document.id for entry in seen]),
            surroundings=Surroundings() if known is None else known.surroundings,
        )

    def _verdict(
        self,
        entry: RankedDocument,
        evidences: tuple[Evidence, ...],
        annotations: tuple[Annotation, ...],
    ) -> Verdict:
        values = [one.value for one in evidences if one.value is not None]
        score = self._rule.combine(values)
        decision = decide(
            score, self.threshold, complete=all(one.measured or one.optional for one in evidences)
        )
        return Verdict(
            document_id=entry.document.id,
            score=score,
            threshold=self.threshold,
            decision=decision,
            level=level_of(decision, self._rule.level, evidences, score),
            evidences=evidences,
            profile=self.profile,
            fingerprint=self.fingerprint,
            rank=entry.rank,
            truncated_characters=self._truncated(entry),
            annotations=annotations,
        )

    def _ruling(self, entry: RankedDocument, standing: Standing) -> Ruling:
        return Ruling(
            document_id=entry.document.id,
            rank=entry.rank,
            bounds=standing.bounds,
            threshold=self.threshold,
            decision=standing.decision,
            level=standing.level,
            evidences=standing.evidences,
            skipped=standing.skipped,
            profile=self.profile,
            fingerprint=self.fingerprint,
            truncated_characters=self._truncated(entry),
        )

    def _truncated(self, entry: RankedDocument) -> int:
        limit, document = self._rule.max_characters, entry.document
        # Two characters stand between a title and its text.
        if len(document.title) + 2 + len(document.text) <= limit:
            return 0
        return max(0, len(document.content) - limit)


def repeated_ids(entries: Sequence[RankedDocument]) -> tuple[str, ...]:
    """Ids that stand more than once, in order of their first repeat."""
    if len({entry.document.id for entry in entries}) == len(entries):
        return ()
    seen: set[str] = set()
    repeats: dict[str, None] = {}
    for entry in entries:
        if entry.document.id in seen:
            repeats[entry.document.id] = None
        seen.add(entry.document.id)
    return tuple(repeats)
