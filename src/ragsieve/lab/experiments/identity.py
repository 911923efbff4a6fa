"""Fingerprints: what a cell's numbers depend on, and nothing else."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import ragsieve
from ragsieve.lab.corpora.records import Dataset
from ragsieve.lab.experiments.spec import Cell, Experiment

# Parts of the package that read, show or plan, and compute no score.
_SILENT = (
    "cli", "display.py", "explain.py", "testing.py", "lab/demo/report.py", "lab/demo/run.py",
    "lab/demo/report.html.j2", "lab/evaluation.py", "lab/intervals.py", "lab/prepare.py",
)  # fmt: skip
_SILENT_LAB = (
    "figures", "measures", "plots", "published", "reading", "report", "run", "store", "summary",
)  # fmt: skip


def cell_fingerprint(
    experiment: Experiment, cell: Cell, *, data: str, method: str, code: str
) -> str:
    """Hash of a cell's configuration, its data and the code.

    The experiment's name, claim and other cells change nothing.

    :param data: of the dataset, the planted documents and the encoder.
    :param method: of the rule and its models.
    """
    shared = {
        "dataset": experiment.dataset,
        "retriever": experiment.retriever,
        "depth": experiment.depth,
        "context": experiment.context,
        "payloads": experiment.payloads,
        "targets": experiment.targets,
        "part": experiment.part,
        "unpoisoned": experiment.unpoisoned,
        "models": dataclasses.asdict(experiment.models),
        "answers": None if experiment.answers is None else dataclasses.asdict(experiment.answers),
        # Times are kept by kind ``cost`` alone.
        "timed": experiment.repeats if experiment.kind == "cost" else 0,
    }
    own = dataclasses.asdict(cell)
    # What it is set beside is no part of the work.
    del own["attack"]["published"]
    return _hash({"cell": own, "shared": shared, "data": data, "method": method, "code": code})


def dataset_hash(dataset: Dataset) -> str:
    """Hash of documents, questions, targets, answers and judgements."""
    digest = hashlib.sha256()
    for document in dataset.documents:
        _feed(digest, document.id, document.content, repr(document.provenance))
    for query in dataset.queries:
        _feed(digest, query.id, query.text)
    for target in dataset.targets:
        _feed(digest, target.query.id, target.query.text, target.target_answer)
        _feed(digest, *target.correct_answers, "\0", *target.payloads)
    for name, answers in sorted(dataset.answers.items()):
        _feed(digest, name, *answers)
    for name, relevant in sorted(dataset.relevant.items()):
        _feed(digest, name, *sorted(relevant))
    return digest.hexdigest()[:16]


def data_hash(*parts: str) -> str:
    """One hash of several."""
    return _hash(list(parts))


@functools.cache
def code_version() -> str:
    """Hash of the sources that scores depend on."""
    root = Path(ragsieve.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and path.suffix != ".pyc" and not _silent(name):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _silent(name: str) -> bool:
    if any(name == part or name.startswith(f"{part}/") for part in _SILENT):
        return True
    place, _, file = name.rpartition("/")
    return place == "lab/experiments" and file.partition(".")[0] in _SILENT_LAB


def _feed(digest: hashlib._Hash, *parts: str) -> None:
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)


def _hash(value: Mapping[str, object] | list[str]) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
