"""Count what each defence leaves of the planted poison, and what it costs clean documents."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.explain import explain_evidence, strongest
from ragsieve.lab.demo.poison import PoisonLabel
from ragsieve.lab.demo.questions import Question
from ragsieve.lab.demo.result import Catch, DefenseRow, Miss
from ragsieve.outcomes import Outcome
from ragsieve.records import Document, RankedDocument, Scan, Verdict

_EXCERPT = 150
CATCHES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Staging:
    """What was planted, for which questions, and the questions left alone."""

    documents: tuple[Document, ...]
    labels: Mapping[str, PoisonLabel]
    targets: tuple[Question, ...]
    unpoisoned: tuple[Question, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """All outcomes of one defence, in the order of the questions: targets, then the rest."""

    defense: str
    outcomes: tuple[Outcome, ...]


def defense_row(trial: Trial, staging: Staging, context_size: int) -> DefenseRow:
    """The figures of one defence."""
    attacked = trial.outcomes[: len(staging.targets)]
    untouched = trial.outcomes[len(staging.targets) :]
    hits = [poison_in(outcome.kept, staging.labels) for outcome in attacked]
    by_attack = collections.Counter(
        str(staging.labels[name].attack) for names in hits for name in names
    )
    removed, candidates = 0, 0
    for outcome in untouched:
        gone = {*outcome.quarantined_ids, *outcome.removed_ids}
        first = [entry.document.id for entry in outcome.ranking.entries[:context_size]]
        clean = [name for name in first if name not in staging.labels]
        candidates += len(clean)
        removed += sum(name in gone for name in clean)
    return DefenseRow(
        defense=trial.defense,
        poison_in_context=sum(map(len, hits)),
        targets_hit=sum(bool(names) for names in hits),
        by_attack=dict(by_attack),
        clean_removed=removed,
        clean_candidates=candidates,
        partial=sum(outcome.partial for outcome in trial.outcomes),
    )


def poison_in(entries: Sequence[RankedDocument], labels: Mapping[str, PoisonLabel]) -> list[str]:
    """Ids of the planted documents among ``entries``."""
    return [entry.document.id for entry in entries if entry.document.id in labels]


def find_catches(
    detector: CorpusDetector,
    scan: Scan,
    documents: Sequence[Document],
    both: Trial,
    staging: Staging,
) -> tuple[Catch, ...]:
    """Flagged poison with its strongest evidence in words: each detector and attack in turn."""
    rows = {name: row for row, name in enumerate(scan.document_ids)}
    by_scan = [name for name in scan.flagged_ids if name in staging.labels]
    by_scan.sort(key=lambda name: -scan.scores[rows[name]])
    found = [
        _catch(
            "the RSG scan", detector.explain(documents, scan, rows[name]), documents, rows, staging
        )
        for name in _one_an_attack(by_scan, staging.labels)
    ]
    verdicts = {
        verdict.document_id: verdict
        for outcome in both.outcomes
        for verdict in outcome.verdicts
        if verdict.flagged and verdict.document_id in staging.labels
    }
    by_filter = sorted(verdicts, key=lambda name: -verdicts[name].score)
    filtered = [
        _catch("the RSQ filter", verdicts[name], documents, rows, staging)
        for name in _one_an_attack(by_filter, staging.labels)
    ]
    # The filter sees only what the scan let through: show one of its catches when there is one.
    chosen = found[: CATCHES - min(1, len(filtered))]
    return tuple((chosen + filtered)[:CATCHES])


def find_misses(
    both: Trial, scan: Scan, documents: Sequence[Document], staging: Staging
) -> tuple[Miss, ...]:
    """Planted documents that both detectors left in a context."""
    rows = {name: row for row, name in enumerate(scan.document_ids)}
    misses = []
    for outcome in both.outcomes[: len(staging.targets)]:
        scored = {verdict.document_id: verdict.score for verdict in outcome.verdicts}
        misses += [
            Miss(
                name,
                str(staging.labels[name].attack),
                outcome.ranking.query,
                documents[rows[name]].content[:_EXCERPT],
                float(scan.scores[rows[name]]),
                scored.get(name),
            )
            for name in poison_in(outcome.kept, staging.labels)
        ]
    return tuple(misses)


def _one_an_attack(names: Sequence[str], labels: Mapping[str, PoisonLabel]) -> list[str]:
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(str(labels[name].attack), name)
    return list(first.values())


def _catch(
    detector: str,
    verdict: Verdict,
    documents: Sequence[Document],
    rows: Mapping[str, int],
    staging: Staging,
) -> Catch:
    label = staging.labels[verdict.document_id]
    question = next(one.question for one in staging.targets if one.id == label.query_id)
    evidence = strongest(verdict)
    return Catch(
        verdict.document_id,
        str(label.attack),
        question,
        documents[rows[verdict.document_id]].content[:_EXCERPT],
        detector,
        verdict.score,
        verdict.threshold,
        "no evidence was measured" if evidence is None else explain_evidence(evidence),
    )
