"""The layout of the published artifact: one folder a dataset.

``corpus.jsonl``, ``queries.jsonl`` with answers; optional ``qrels.jsonl`` (a row with a
``score`` of 0 is a distractor), ``targets.jsonl``, ``counterfactuals.jsonl``, one
``subset*.json`` of attacked questions, and attack files in ``attacks/`` or ``attacks.jsonl``.

A counterfactual's answer, which was checked to contradict the reference, goes before the
one in ``targets.jsonl``, which is another question's answer.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from ragsieve._jsonl import read_jsonl
from ragsieve.errors import InputError
from ragsieve.files.corpus import read_corpus
from ragsieve.lab.corpora._questions import read_questions
from ragsieve.lab.corpora._rows import answer_of, read_object
from ragsieve.lab.corpora.bench import ATTACKS, attacks_of
from ragsieve.lab.corpora.records import AttackSet, Dataset, Loaded, Target
from ragsieve.records import Query


@dataclasses.dataclass(frozen=True, slots=True)
class _Lie:
    answer: str
    payloads: tuple[str, ...] = ()


def read_artifact(folder: Path | str) -> Loaded:
    """The dataset with its targets, and whatever attacks lie beside it.

    Attacked are the questions of the subset file; without one those with a counterfactual,
    and without any those of ``targets.jsonl``.

    :raises InputError: when a file is missing, cannot be read or is empty, or there are
        several subset files.
    :raises RecordError: for a row that breaks the layout or names what is not there.
    """
    root = Path(folder)
    documents = read_corpus(root / "corpus.jsonl")
    queries, answers = read_questions(root / "queries.jsonl")
    asked = {query.id: query for query in queries}
    names = {document.id for document in documents}
    lies, chosen = _lies(root, asked)
    targets = {
        name: Target(asked[name], answers[name], lies[name].answer, lies[name].payloads)
        for name in chosen
    }
    files = sorted((root / ATTACKS).glob("*.jsonl"))
    single = root / f"{ATTACKS}.jsonl"
    attacks = attacks_of([single, *files] if single.exists() else files, answers, documents)
    dataset = Dataset(
        name=root.resolve().name,
        documents=documents,
        queries=queries,
        targets=tuple(targets.values()),
        answers=answers,
        relevant=_relevant(root / "qrels.jsonl", asked, names),
    )
    return Loaded(dataset, {name: _filled(one, targets) for name, one in attacks.items()})


def _lies(root: Path, asked: Mapping[str, Query]) -> tuple[Mapping[str, _Lie], tuple[str, ...]]:
    """False answers by query id, and the ids of the attacked questions."""
    targets = _lies_of(root / "targets.jsonl", asked)
    checked = _lies_of(root / "counterfactuals.jsonl", asked)
    lies = targets | checked
    subsets = sorted(root.glob("subset*.json"))
    if not subsets:
        return lies, tuple(checked or targets)
    if len(subsets) > 1:
        found = ", ".join(path.name for path in subsets)
        raise InputError(f"{root}: expected one subset file, found {found}; keep one")
    row = read_object(subsets[0])
    chosen = row.strings("query_ids")
    if not chosen:
        raise row.error("query_ids", "expected a list of query ids, found none")
    for name in chosen:
        if name not in asked:
            raise row.error("query_ids", f"no question has the id {name!r}")
        if name not in lies:
            raise row.error("query_ids", f"no target answer for the question {name!r}")
    return lies, tuple(dict.fromkeys(chosen))


def _lies_of(path: Path, asked: Collection[str]) -> dict[str, _Lie]:
    """A released counterfactual has no passages; ``payloads`` is read where somebody adds them."""
    if not path.exists():
        return {}
    lies: dict[str, _Lie] = {}
    for row in read_jsonl(path):
        name = row.identifier("query_id")
        if name not in asked:
            raise row.error("query_id", f"no question has the id {name!r}")
        if name in lies:
            raise row.error("query_id", f"{name!r} stands twice; ids are unique")
        lies[name] = _Lie(answer_of(row, "target_answer"), row.strings("payloads"))
    return lies


def _relevant(
    path: Path, asked: Collection[str], names: Collection[str]
) -> Mapping[str, frozenset[str]]:
    if not path.exists():
        return {}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in read_jsonl(path):
        query, document = row.identifier("query_id"), row.identifier("document_id")
        if query not in asked:
            raise row.error("query_id", f"no question has the id {query!r}")
        if document not in names:
            raise row.error("document_id", f"no document has the id {document!r}")
        score = row.number("score")
        if score is None or score > 0:
            found[query].add(document)
    return {query: frozenset(documents) for query, documents in found.items()}


def _filled(attack: AttackSet, targets: Mapping[str, Target]) -> AttackSet:
    """An attack file knows the lie of its rows, the dataset the payloads."""
    filled = tuple(
        dataclasses.replace(one, payloads=targets[one.query.id].payloads)
        if one.query.id in targets and not one.payloads
        else one
        for one in attack.targets
    )
    return dataclasses.replace(attack, targets=filled)
