"""Let one method judge one poisoned index and the unpoisoned one; no label is in reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar, cast

from ragsieve.defense.pipeline import Stage
from ragsieve.defense.policy import FilterPolicy
from ragsieve.defense.serial import Quarantine, Sieve, serial_defense
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.rules import CorpusRule, QueryRule
from ragsieve.lab.comparators.base import ControlPoint, Declaration
from ragsieve.lab.corpora.records import Dataset
from ragsieve.lab.experiments.materials import Case
from ragsieve.lab.experiments.needs import Judging, Parts, Surrounds
from ragsieve.lab.experiments.outcome import (
    Condition,
    Context,
    Facts,
    Judged,
    Score,
    UnavailableError,
)
from ragsieve.lab.experiments.pipelines import plan_of
from ragsieve.lab.experiments.spec import Experiment, Kind, Method, MethodKind, PipelineName
from ragsieve.lab.experiments.variants import recombined
from ragsieve.ports import FeatureSource
from ragsieve.records import FloatArray, Scan, Verdict

_Result = TypeVar("_Result")
SIEVING = Method(MethodKind.SERIAL, MethodKind.SERIAL, "default")
"""What sieves in a pipeline that answers."""
_REFERENCE = Method(MethodKind.RSG, MethodKind.RSG, "default")
_REMEMBERED = 12  # scans and verdicts of the last indexes


class Judges:
    """Judges cells; verdicts of a method stay at hand for its ablations.

    :param dataset: the clean corpus, for comparators that calibrate on it.
    """

    def __init__(
        self, experiment: Experiment, parts: Parts, dataset: Dataset, clean_rows: FloatArray
    ) -> None:
        self._experiment = experiment
        self._parts = parts
        self._dataset = dataset
        self._clean_rows = clean_rows
        self._kept: dict[tuple[object, ...], object] = {}

    def judge(
        self, method: Method, poisoned: Case, unpoisoned: Case, targets: Sequence[str]
    ) -> Judged:
        """Scores and contexts under both conditions.

        :param targets: questions under attack: known to whoever runs an experiment, used only to
            keep calibration apart from them.
        :raises UnavailableError: when the method cannot run here.
        """
        cases = ((Condition.POISONED, poisoned), (Condition.UNPOISONED, unpoisoned))
        if method.kind is MethodKind.NONE:
            return Judged(
                Facts("context", "none"),
                contexts=tuple(_contexts(cases, lambda _, __: (), self._experiment.context)),
            )
        if method.kind is MethodKind.PIPELINE:
            plan = plan_of(PipelineName(method.name), self._experiment)
            # Its contexts are known once it has answered: a retry changes them.
            return Judged(Facts("context", plan.fingerprint()))
        if method.kind is MethodKind.SERIAL:
            return self._serial(method, cases)
        if method.kind is MethodKind.RSQ:
            rule = self._parts.query_rule(method.base, self._experiment.models, fresh=self._timed)
            return self._query(method, rule, cases, Facts("query", rule.fingerprint()))
        if method.kind is MethodKind.RSG:
            scanning = self._parts.corpus_rule(
                method.base, self._experiment.models, fresh=self._timed
            )
            return self._corpus(
                method, [scanning, scanning], cases, Facts("corpus", scanning.fingerprint())
            )
        return self._comparator(method, cases, targets)

    @property
    def _timed(self) -> bool:
        return self._experiment.kind is Kind.COST

    def _comparator(
        self, method: Method, cases: Sequence[tuple[Condition, Case]], targets: Sequence[str]
    ) -> Judged:
        said = self._parts.declaration(method.name)
        if said.control_point is ControlPoint.GENERATION:
            if self._experiment.kind is not Kind.END_TO_END:
                raise UnavailableError(
                    f"{method.name} answers itself; it belongs in an end-to-end experiment"
                )
            return Judged(facts_of(said, "context", ""))
        built = self._built(method, cases[0][1], targets)
        if hasattr(built, "candidates"):
            asking = cast(QueryRule, built)
            facts = facts_of(said, "query", asking.fingerprint())
            return self._query(method, asking, cases, facts)
        # A corpus comparator may hold the rows of the index it was built for.
        rules = [cast(CorpusRule, built)]
        rules += [cast(CorpusRule, self._built(method, case, targets)) for _, case in cases[1:]]
        return self._corpus(method, rules, cases, facts_of(said, "corpus", rules[0].fingerprint()))

    def _built(self, method: Method, case: Case, targets: Sequence[str]) -> Judging:
        around = Surrounds(
            dataset=self._dataset,
            clean_rows=self._clean_rows,
            documents=case.documents,
            rows=case.rows,
            targets=frozenset(targets),
            retriever=self._experiment.retriever,
            fresh=self._timed,
        )
        return self._parts.comparator(method.name, around, self._experiment.models)

    def _query(
        self,
        method: Method,
        rule: QueryRule,
        cases: Sequence[tuple[Condition, Case]],
        facts: Facts,
    ) -> Judged:
        scores: list[Score] = []
        flagged: dict[tuple[Condition, str], set[str]] = {}
        seconds: list[float] = []
        for condition, case in cases:
            judged = self._verdicts(rule, case, seconds)
            for query, verdicts in zip(case.queries, judged, strict=True):
                own = (
                    [recombined(one, rule, method) for one in verdicts]
                    if method.derived
                    else verdicts
                )
                scores.extend(Score.of(one, condition, query.id) for one in own)
                flagged[condition, query.id] = {one.document_id for one in own if one.flagged}
        contexts = _contexts(
            cases, lambda condition, name: flagged[condition, name], self._experiment.context
        )
        return Judged(facts, tuple(scores), tuple(contexts), seconds=tuple(seconds))

    def _verdicts(
        self, rule: QueryRule, case: Case, seconds: list[float]
    ) -> list[tuple[Verdict, ...]]:
        features = self._features(case) if rule.profile == "default" else None
        detector = QueryDetector(rule, features=features)
        if not self._timed:
            return self._once(
                ("verdicts", rule.fingerprint(), case),
                lambda: detector.score_many(case.rankings),
            )
        found: list[tuple[Verdict, ...]] = []
        for _ in range(self._experiment.repeats):
            found = []
            for ranking in case.rankings:
                start = time.perf_counter()
                found.append(detector.score(ranking))
                seconds.append(time.perf_counter() - start)
        return found

    def _corpus(
        self,
        method: Method,
        rules: Sequence[CorpusRule],
        cases: Sequence[tuple[Condition, Case]],
        facts: Facts,
    ) -> Judged:
        scores: list[Score] = []
        removed: dict[Condition, set[str]] = {}
        seconds: list[float] = []
        notes: list[str] = []
        at = FilterPolicy().quarantine_at
        for (condition, case), rule in zip(cases, rules, strict=True):
            scan = self._scan(rule, case, seconds)
            notes += [note for note in scan.notes if note not in notes]
            verdicts = [recombined(one, rule, method) if method.derived else one for one in scan]
            scores.extend(Score.of(one, condition) for one in verdicts)
            removed[condition] = {
                one.document_id for one in verdicts if one.flagged and one.level.reaches(at)
            }
        contexts = _contexts(
            cases, lambda condition, _: removed[condition], self._experiment.context
        )
        return Judged(
            facts, tuple(scores), tuple(contexts), seconds=tuple(seconds), notes=tuple(notes)
        )

    def _scan(self, rule: CorpusRule, case: Case, seconds: list[float]) -> Scan:
        detector = CorpusDetector(rule)

        def scanned() -> Scan:
            return detector.scan_graph(case.documents, case.graph(rule.neighbors))

        if not self._timed:
            return self._once(("scan", rule.fingerprint(), case), scanned)
        for _ in range(self._experiment.repeats):
            # The search for neighbours is part of what a scan costs.
            start = time.perf_counter()
            scan = scanned()
            seconds.append(time.perf_counter() - start)
        return scan

    def _serial(self, method: Method, cases: Sequence[tuple[Condition, Case]]) -> Judged:
        models = self._experiment.models
        rule = self._parts.query_rule(method, models)
        scanning = self._parts.corpus_rule(method, models)
        contexts: list[Context] = []
        for condition, case in cases:
            features = self._features(case) if rule.profile == "default" else None
            scan = self._scan(scanning, case, [])
            pipeline = serial_defense(QueryDetector(rule, features=features), scan=scan)
            for outcome in pipeline.run_many(case.rankings):
                first = outcome.ranking.documents[: self._experiment.context]
                before = tuple(document.id for document in first)
                after = tuple(entry.document.id for entry in outcome.kept)
                contexts.append(Context(condition, outcome.ranking.query_id, before, after))
        fingerprint = f"{scanning.fingerprint()}+{rule.fingerprint()}"
        return Judged(Facts("context", fingerprint), contexts=tuple(contexts))

    def sieving(self, case: Case) -> tuple[Stage, Stage]:
        """Quarantine and sieve of an index, as ``ragsieve ask`` builds them, for a pipeline."""
        rule = self._parts.query_rule(SIEVING, self._experiment.models)
        scan = self._scan(self._parts.corpus_rule(SIEVING, self._experiment.models), case, [])
        policy, detector = FilterPolicy(), QueryDetector(rule, features=self._features(case))
        quarantine = Quarantine(
            scan.flagged_at(policy.quarantine_at),
            scanned_ids=scan.document_ids,
            on_unavailable=policy.on_unavailable,
            needed=detector.fewest_documents,
        )
        return quarantine, Sieve(detector, policy)

    def _features(self, case: Case) -> FeatureSource:
        rule = self._parts.corpus_rule(_REFERENCE, self._experiment.models)
        return self._once(
            ("features", rule.fingerprint(), case),
            lambda: self._parts.features(self._scan(rule, case, []), case.rows),
        )

    def _once(self, key: tuple[object, ...], make: Callable[[], _Result]) -> _Result:
        """The result made for ``key`` before; the oldest are forgotten."""
        if key not in self._kept:
            self._kept[key] = make()
            while len(self._kept) > _REMEMBERED:
                del self._kept[next(iter(self._kept))]
        return cast(_Result, self._kept[key])


def facts_of(said: Declaration, scope: str, fingerprint: str) -> Facts:
    """What a comparator declares, for whoever reads its figures."""
    return Facts(
        scope=scope,
        fingerprint=fingerprint,
        binary=said.binary,
        decides=said.decides,
        fidelity=str(said.fidelity),
        native_rule=said.native_rule,
        source=said.source,
        control_point=str(said.control_point),
    )


def _contexts(
    cases: Sequence[tuple[Condition, Case]],
    removed: Callable[[Condition, str], Collection[str]],
    size: int,
) -> Iterator[Context]:
    """The published action: what is removed goes, the same saved ranking moves up, once."""
    for condition, case in cases:
        for ranking in case.rankings:
            gone = removed(condition, ranking.query_id)
            kept = [one.id for one in ranking.documents if one.id not in gone]
            before = tuple(one.id for one in ranking.documents[:size])
            yield Context(condition, ranking.query_id, before, tuple(kept[:size]))
