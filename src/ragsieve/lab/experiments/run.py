"""Run an experiment cell by cell; what is done is never done again, what fails is written down."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragsieve.errors import ConfigError, MissingExtraError, ModelFilesError, RagsieveError
from ragsieve.lab.experiments.answered import Answering
from ragsieve.lab.experiments.identity import (
    cell_fingerprint,
    code_version,
    data_hash,
    dataset_hash,
)
from ragsieve.lab.experiments.judging import SIEVING, Judges
from ragsieve.lab.experiments.materials import Materials, Staged
from ragsieve.lab.experiments.needs import Parts
from ragsieve.lab.experiments.outcome import Judged, Status, UnavailableError
from ragsieve.lab.experiments.pipelines import plan_of
from ragsieve.lab.experiments.spec import (
    Cell,
    Experiment,
    Method,
    MethodKind,
    PipelineName,
    cells_of,
)
from ragsieve.lab.experiments.store import PlannedCell, Store

_MISSING = (UnavailableError, MissingExtraError, ModelFilesError)


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Who is told what.

    :param note: one line about a cell that begins or failed.
    :param advance: cells finished.
    """

    note: Callable[[str], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None


@dataclasses.dataclass(frozen=True, slots=True)
class RunReport:
    """How the cells of one run ended.

    :param reused: done by an earlier run.
    :param problems: cell and reason, of those that failed or are unavailable.
    """

    done: int
    reused: int
    failed: int
    unavailable: int
    problems: tuple[tuple[str, str], ...]

    @property
    def complete(self) -> bool:
        """Whether every cell has its figures."""
        return not self.failed and not self.unavailable


def run_experiment(
    experiment: Experiment, parts: Parts, output: Path, progress: Progress | None = None
) -> RunReport:
    """Run what is not done yet; results are kept below ``output`` in a folder of its name.

    :raises ConfigError: for a dataset or a comparator that nobody knows.
    :raises InputError: when the dataset's files cannot be used.
    :raises OutputError: when results cannot be written.
    """
    for method in experiment.methods:
        if method.kind is MethodKind.COMPARATOR:
            parts.declaration(method.name)
    store = Store(output / experiment.name)
    store.open()
    return _Run(experiment, parts, store, progress or Progress()).run()


class _Run:
    def __init__(
        self, experiment: Experiment, parts: Parts, store: Store, progress: Progress
    ) -> None:
        self._experiment = experiment
        self._parts = parts
        self._store = store
        self._progress = progress
        self._materials = Materials(experiment, parts, progress.note)
        self._judges: Judges | None = None
        self._answering: Answering | None = None
        self._data = dataset_hash(self._materials.dataset)
        self._methods: dict[Method, str] = {}

    def run(self) -> RunReport:
        planned = [
            (cell, PlannedCell(self._fingerprint(cell), cell.title))
            for cell in cells_of(self._experiment)
        ]
        self._store.keep_plan(self._described(), [plan for _, plan in planned])
        counts = dict.fromkeys(Status, 0)
        reused = 0
        problems = []
        for cell, plan in planned:
            if self._store.status(plan.fingerprint) is Status.DONE:
                reused += 1
            else:
                status, reason = self._cell(cell, plan)
                counts[status] += 1
                if reason is not None:
                    problems.append((plan.title, reason))
                    self._progress.note(f"{plan.title}: {status}: {reason}")
            self._progress.advance(1)
        return RunReport(
            done=counts[Status.DONE],
            reused=reused,
            failed=counts[Status.FAILED],
            unavailable=counts[Status.UNAVAILABLE],
            problems=tuple(problems),
        )

    def _cell(self, cell: Cell, plan: PlannedCell) -> tuple[Status, str | None]:
        self._progress.note(plan.title)
        start = time.perf_counter()
        staged: Staged | None = None
        judged: Judged | None = None
        reason: str | None = None
        try:
            staged = self._materials.staged(cell)
            judged = self._judged(cell, staged)
            status = Status.DONE
        except (*_MISSING, ConfigError) as error:
            status, reason = Status.UNAVAILABLE, str(error)
        except Exception as error:  # noqa: BLE001 -- one broken cell must not stop the others
            status = Status.FAILED
            # A package error says all; of a foreign one the kind is needed too.
            words = str(error) if isinstance(error, RagsieveError) else repr(error)
            reason = words or type(error).__name__
        seconds = time.perf_counter() - start
        if staged is not None:
            self._store.keep_labels(plan.fingerprint, staged.labels)
        self._store.keep(
            plan.fingerprint,
            {
                "status": status,
                "reason": reason,
                "seconds": seconds,
                "cell": dataclasses.asdict(cell),
                "method_title": cell.method.title,
                "data": self._data,
                "code": code_version(),
                **({} if staged is None else self._staged_fields(staged)),
                **({} if judged is None else _judged_fields(judged)),
            },
            judged,
        )
        return status, reason

    def _judged(self, cell: Cell, staged: Staged) -> Judged:
        if self._judges is None or self._answering is None:
            self._judges = Judges(
                self._experiment, self._parts, self._materials.dataset, self._materials.rows
            )
            self._answering = Answering(
                self._experiment, self._parts, self._materials, self._judges
            )
        judged = self._judges.judge(cell.method, staged.poisoned, staged.unpoisoned, staged.targets)
        return self._answering.answered(cell, staged, judged)

    def _fingerprint(self, cell: Cell) -> str:
        attack = self._parts.attack_fingerprint(
            self._experiment.dataset, cell.attack.name, cell.attack.file
        )
        encoder = self._tried(lambda: self._parts.encoder_identity(self._experiment.retriever))
        return cell_fingerprint(
            self._experiment,
            cell,
            data=data_hash(self._data, attack, encoder),
            method=self._method(cell.method),
            code=code_version(),
        )

    def _method(self, method: Method) -> str:
        """Fingerprint of a detector's rule; comparators are built for an index, later."""
        if method not in self._methods:
            models, parts = self._experiment.models, self._parts
            found, base, kind = method.name, method.base, method.kind
            if kind is MethodKind.PIPELINE:
                plan = plan_of(PipelineName(method.name), self._experiment)
                found += plan.fingerprint()
                if plan.name.sieves:
                    base = SIEVING
                    kind = base.kind
            if kind in {MethodKind.RSQ, MethodKind.SERIAL}:
                found += self._tried(lambda: parts.query_rule(base, models).fingerprint())
            if kind in {MethodKind.RSG, MethodKind.SERIAL}:
                found += self._tried(lambda: parts.corpus_rule(base, models).fingerprint())
            self._methods[method] = found
        return self._methods[method]

    def _tried(self, make: Callable[[], str]) -> str:
        try:
            return make()
        except (*_MISSING, ConfigError) as error:
            # The cell will say so; once the model is there the fingerprint is another.
            return f"unavailable: {type(error).__name__}"

    def _described(self) -> Mapping[str, Any]:
        experiment, dataset = self._experiment, self._materials.dataset
        answers = experiment.answers
        asked = {} if answers is None else {"by": answers.names, "tokens": answers.answer_tokens}
        return {
            "experiment": {
                "name": experiment.name,
                "claim": experiment.claim,
                "kind": experiment.kind,
                "dataset": experiment.dataset,
                "retriever": experiment.retriever,
                "depth": experiment.depth,
                "context": experiment.context,
                "unpoisoned": experiment.unpoisoned,
                "part": experiment.part,
                "models": dataclasses.asdict(experiment.models),
                "answers": asked,
            },
            "dataset": dataset.name,
            "documents": len(dataset.documents),
            "queries": len(dataset.queries),
            "encoder": self._tried(lambda: self._parts.encoder_identity(experiment.retriever)),
        }

    def _staged_fields(self, staged: Staged) -> Mapping[str, Any]:
        written = staged.written
        recalls = self._materials.recalls(staged.unpoisoned)
        return {
            "targets": list(staged.targets),
            "planted": len(staged.labels),
            "recall_at_5": recalls,
            "written": {
                "fidelity": written.fidelity,
                "reduced": written.reduced,
                "seconds": list(written.seconds),
                "figures": dict(written.figures),
                "failed": list(written.failed),
            },
        }


def _judged_fields(judged: Judged) -> Mapping[str, Any]:
    return {
        "facts": dataclasses.asdict(judged.facts),
        "times": list(judged.seconds),
        "judge": judged.judge,
        "notes": list(judged.notes),
    }
