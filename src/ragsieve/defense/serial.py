"""The published deployment: RSG quarantine, renumbering, RSQ on the survivors, one refill."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence

from ragsieve.defense.pipeline import Flow, Pipeline, Stage
from ragsieve.defense.policy import FilterPolicy, Resort
from ragsieve.detectors.query import Mode, QueryDetector, repeated_ids
from ragsieve.errors import RankingError
from ragsieve.outcomes import Action, Ruling, Step
from ragsieve.records import Decision, RankedDocument, Scan, Verdict


class Quarantine:
    """Takes the documents a corpus scan flagged out of a ranking and renumbers the rest.

    :param flagged_ids: documents to take out.
    :param scanned_ids: every document the scan saw; None when that is not known.
    :param needed: survivors that a later judgement needs, noted when there are fewer.
    """

    name = "quarantine"

    def __init__(
        self,
        flagged_ids: Collection[str],
        *,
        scanned_ids: Collection[str] | None = None,
        on_unavailable: Resort = Resort.KEEP,
        needed: int = 20,
    ) -> None:
        self._flagged = frozenset(flagged_ids)
        self._scanned = None if scanned_ids is None else frozenset(scanned_ids)
        self._on_unavailable = on_unavailable
        self._needed = needed

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        """Quarantine in each ranking.

        :raises RankingError: for a document the scan never saw, when the policy says raise.
        """
        return [self._run(flow) for flow in flows]

    def _run(self, flow: Flow) -> Flow:
        survivors, taken, steps = [], [], []
        partial = False
        for entry in flow.ranking.entries:
            name = entry.document.id
            flagged = name in self._flagged
            unseen = self._scanned is not None and name not in self._scanned
            reason = "flagged by the corpus scan" if flagged else "not in the corpus scan"
            if unseen and not flagged:
                partial = True
                if self._on_unavailable is Resort.RAISE:
                    raise RankingError(
                        f"query {flow.ranking.query_id!r}: document {name!r} is not in the "
                        "corpus scan; scan the corpus as it is now, or choose keep or remove"
                    )
            if flagged or (unseen and self._on_unavailable is Resort.REMOVE):
                taken.append(name)
                steps.append(Step(self.name, Action.REMOVED, reason, name, entry.rank))
                continue
            if unseen:
                steps.append(Step(self.name, Action.NOTED, reason, name, entry.rank))
            survivors.append(entry)
        if len(survivors) < self._needed:
            partial = True
            problem = f"{len(survivors)} survivors, judging the retrieval needs {self._needed}"
            steps.append(Step(self.name, Action.NOTED, problem))
        moved = dataclasses.replace(
            flow,
            ranking=flow.ranking.renumbered(survivors),
            quarantined_ids=flow.quarantined_ids + tuple(taken),
        )
        return moved.noted(*steps, partial=partial)


class Sieve:
    """Judges the candidates of each ranking and takes the flagged ones out.

    Replacements move up from the same ranking and are not judged again.

    :param progress: called with the number of rankings judged in each batch.
    :param mode: in decision mode the same documents go, and the outcome has rulings in place of
        verdicts.
    """

    name = "sieve"

    def __init__(
        self,
        detector: QueryDetector,
        policy: FilterPolicy | None = None,
        *,
        progress: Callable[[int], None] | None = None,
        mode: Mode = Mode.FULL,
    ) -> None:
        self._detector = detector
        self._policy = policy or FilterPolicy()
        self._progress = progress
        self._mode = Mode(mode)

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        """Judge and filter each ranking.

        :raises RankingError: when one cannot be judged and the policy says raise.
        """
        ready = [self._admit(flow) for flow in flows]
        rankings = [flow.ranking for flow in ready]
        if self._mode is Mode.DECISION:
            rulings = self._detector.decide_many(rankings, progress=self._progress)
            return [
                dataclasses.replace(self._apply(flow, own), rulings=flow.rulings + own)
                for flow, own in zip(ready, rulings, strict=True)
            ]
        verdicts = self._detector.score_many(rankings, progress=self._progress)
        return [
            dataclasses.replace(self._apply(flow, own), verdicts=flow.verdicts + own)
            for flow, own in zip(ready, verdicts, strict=True)
        ]

    def _admit(self, flow: Flow) -> Flow:
        repeats = repeated_ids(flow.ranking.entries)
        if repeats:
            flow = self._without_repeats(flow, repeats)
        problem = self._detector.problem(flow.ranking)
        if problem is None:
            reduced = self._detector.reduced(flow.ranking)
            return flow.noted(Step(self.name, Action.NOTED, reduced)) if reduced else flow
        fewest = self._detector.fewest_documents
        if self._policy.on_short is Resort.RAISE and len(flow.ranking) < fewest:
            raise RankingError(f"query {flow.ranking.query_id!r}: {problem}")
        return flow.noted(Step(self.name, Action.NOTED, problem), partial=True)

    def _without_repeats(self, flow: Flow, repeats: tuple[str, ...]) -> Flow:
        named = ", ".join(repr(name) for name in repeats[:3])
        if self._policy.on_duplicates is Resort.RAISE:
            raise RankingError(
                f"query {flow.ranking.query_id!r}: {named} stand more than once in the ranking; "
                "retrieve distinct documents, or choose keep or remove"
            )
        if self._policy.on_duplicates is Resort.KEEP:
            return flow
        seen: set[str] = set()
        first: list[RankedDocument] = []
        steps = []
        for entry in flow.ranking.entries:
            if entry.document.id in seen:
                reason = "repeats an id that stands higher in the ranking"
                steps.append(Step(self.name, Action.REMOVED, reason, entry.document.id, entry.rank))
            else:
                first.append(entry)
                seen.add(entry.document.id)
        return dataclasses.replace(flow, ranking=flow.ranking.renumbered(first)).noted(*steps)

    def _apply(self, flow: Flow, judged: Sequence[Verdict | Ruling]) -> Flow:
        short = len(flow.ranking) < self._detector.fewest_documents
        removed: list[int] = []
        steps, partial = [], False
        for place, one in enumerate(judged):
            partial |= one.decision is Decision.UNDECIDED
            remove, reason = self._judge(flow, one, short=short)
            if remove:
                removed.append(place)
            action = Action.REMOVED if remove else Action.NOTED
            steps.append(Step(self.name, action, reason, one.document_id, one.rank))
        # By id, so that a repeat further down cannot bring a removed document back.
        gone = {judged[place].document_id for place in removed}
        survivors = [entry for entry in flow.ranking.entries if entry.document.id not in gone]
        moved = dataclasses.replace(
            flow,
            ranking=flow.ranking.renumbered(survivors),
            removed_ids=flow.removed_ids + tuple(judged[place].document_id for place in removed),
        )
        return moved.noted(*steps, partial=partial)

    def _judge(self, flow: Flow, judged: Verdict | Ruling, *, short: bool) -> tuple[bool, str]:
        figures = f"{_score(judged)}, threshold {judged.threshold:g}"
        if judged.decision is Decision.FLAGGED:
            return True, f"flagged: {figures}"
        if judged.decision is Decision.CLEAR:
            return False, f"clear: {figures}"
        missing = ", ".join(one.name for one in judged.evidences if not one.measured)
        reason = f"undecided: {figures}, unavailable: {missing}"
        resort = self._policy.on_short if short else self._policy.on_unavailable
        if resort is Resort.RAISE:
            raise RankingError(
                f"query {flow.ranking.query_id!r}, document {judged.document_id!r}: {reason}; "
                "configure what is missing, or choose keep or remove"
            )
        return resort is Resort.REMOVE, reason


def _score(judged: Verdict | Ruling) -> str:
    if isinstance(judged, Verdict):
        return f"score {judged.score:.3f}"
    bounds = judged.bounds
    if bounds.exact:
        return f"score {bounds.lower:.3f}"
    if math.isinf(bounds.upper):
        return f"score at least {bounds.lower:.3f}"
    return f"score {bounds.lower:.3f} to {bounds.upper:.3f}"


def serial_defense(
    detector: QueryDetector,
    *,
    scan: Scan | None = None,
    policy: FilterPolicy | None = None,
    progress: Callable[[int], None] | None = None,
    mode: Mode = Mode.FULL,
) -> Pipeline:
    """RSG quarantine (when a scan is given), then RSQ on the survivors, then one refill.

    :param mode: of RSQ; see :class:`Sieve`.
    """
    chosen = policy or FilterPolicy()
    stages: list[Stage] = [Sieve(detector, chosen, progress=progress, mode=mode)]
    if scan is not None:
        quarantine = Quarantine(
            scan.flagged_at(chosen.quarantine_at),
            scanned_ids=scan.document_ids,
            on_unavailable=chosen.on_unavailable,
            needed=detector.fewest_documents,
        )
        stages.insert(0, quarantine)
    return Pipeline(
        stages,
        context_size=detector.candidates,
        on_few_survivors=chosen.on_few_survivors,
    )
