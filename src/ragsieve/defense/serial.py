"""The published deployment: RSG quarantine, renumbering, RSQ on the survivors, one refill."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from ragsieve.defense.pipeline import Flow, Pipeline, Stage
from ragsieve.defense.policy import FilterPolicy, Resort
from ragsieve.detectors.query import QueryDetector, repeated_ids
from ragsieve.errors import RankingError
from ragsieve.outcomes import Action, Step
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
    """

    name = "sieve"

    def __init__(
        self,
        detector: QueryDetector,
        policy: FilterPolicy | None = None,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._detector = detector
        self._policy = policy or FilterPolicy()
        self._progress = progress

    def run(self, flows: Sequence[Flow]) -> list[Flow]:
        """Judge and filter each ranking.

        :raises RankingError: when one cannot be judged and the policy says raise.
        """
        ready = [self._admit(flow) for flow in flows]
        verdicts = self._detector.score_many(
            [flow.ranking for flow in ready], progress=self._progress
        )
        return [self._apply(flow, own) for flow, own in zip(ready, verdicts, strict=True)]

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

    def _apply(self, flow: Flow, verdicts: tuple[Verdict, ...]) -> Flow:
        short = len(flow.ranking) < self._detector.fewest_documents
        removed: list[int] = []
        steps, partial = [], False
        for place, verdict in enumerate(verdicts):
            partial |= verdict.decision is Decision.UNDECIDED
            remove, reason = self._judge(flow, verdict, short=short)
            if remove:
                removed.append(place)
            action = Action.REMOVED if remove else Action.NOTED
            steps.append(Step(self.name, action, reason, verdict.document_id, verdict.rank))
        # By id, so that a repeat further down cannot bring a removed document back.
        gone = {verdicts[place].document_id for place in removed}
        survivors = [entry for entry in flow.ranking.entries if entry.document.id not in gone]
        moved = dataclasses.replace(
            flow,
            ranking=flow.ranking.renumbered(survivors),
            removed_ids=flow.removed_ids + tuple(verdicts[place].document_id for place in removed),
            verdicts=flow.verdicts + verdicts,
        )
        return moved.noted(*steps, partial=partial)

    def _judge(self, flow: Flow, verdict: Verdict, *, short: bool) -> tuple[bool, str]:
        figures = f"score {verdict.score:.3f}, threshold {verdict.threshold:g}"
        if verdict.decision is Decision.FLAGGED:
            return True, f"flagged: {figures}"
        if verdict.decision is Decision.CLEAR:
            return False, f"clear: {figures}"
        missing = ", ".join(one.name for one in verdict.evidences if not one.measured)
        reason = f"undecided: {figures}, unavailable: {missing}"
        resort = self._policy.on_short if short else self._policy.on_unavailable
        if resort is Resort.RAISE:
            raise RankingError(
                f"query {flow.ranking.query_id!r}, document {verdict.document_id!r}: {reason}; "
                "configure what is missing, or choose keep or remove"
            )
        return resort is Resort.REMOVE, reason


def serial_defense(
    detector: QueryDetector,
    *,
    scan: Scan | None = None,
    policy: FilterPolicy | None = None,
    progress: Callable[[int], None] | None = None,
) -> Pipeline:
    """RSG quarantine (when a scan is given), then RSQ on the survivors, then one refill."""
    chosen = policy or FilterPolicy()
    stages: list[Stage] = [Sieve(detector, chosen, progress=progress)]
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
