"""Rank a dataset, plant documents in the rankings, write contexts; labels go to another file.

A planted document is aimed at one question and enters the ranking of that question alone,
at the place it has when the corpus is ranked with it: behind documents as similar as it is.

A cell, one dataset under one retriever, is a folder with ``contexts.jsonl``,
``labels.jsonl`` and ``cell.json``. A complete cell made from the same input is kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsieve import assembly
from ragsieve._atomic import write_text
from ragsieve._jsonl import to_json, write_jsonl
from ragsieve.errors import ConfigError, InputError, MissingExtraError, ModelFilesError, OutputError
from ragsieve.evidence.knn import nearest_rows
from ragsieve.files.contexts import Carried, ContextRow, context_fields, read_contexts
from ragsieve.lab.corpora.features import CachedEmbedder
from ragsieve.lab.corpora.records import Dataset, Poisoning
from ragsieve.lab.evaluation import CLEAN_CONDITION
from ragsieve.ports import TextEmbedder
from ragsieve.records import Document, FloatArray, Query, RankedDocument, Ranking
from ragsieve.retrieval import rank
from ragsieve.settings import Settings

CONTEXTS, LABELS, CELL = "contexts.jsonl", "labels.jsonl", "cell.json"
_FORMAT = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A dataset and what is planted in it.

    :param poisoning: for every retriever that ``by_retriever`` does not name.
    :param by_retriever: documents that were made for one retriever, by its name.
    """

    dataset: Dataset
    poisoning: Poisoning
    by_retriever: Mapping[str, Poisoning] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Retriever:
    """A retriever by name; ``build`` gives its encoder, or says that it is not here."""

    name: str
    build: Callable[[], TextEmbedder]


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A dataset under a retriever.

    :param folder: None when the retriever is unavailable.
    :param reason: why it is; None when it is not.
    :param kept: whether it was complete already.
    """

    dataset: str
    retriever: str
    folder: Path | None = None
    reason: str | None = None
    kept: bool = False


def prepare(
    dataset: Dataset,
    poisoning: Poisoning,
    embedder: TextEmbedder,
    cache: Path,
    depth: int,
    output: Path,
    *,
    encoder: str | None = None,
) -> Cell:
    """Write one cell: a clean context for every question, and one for each question and attack.

    ``condition`` is ``clean``, or the attack's name.

    :param cache: folder of embeddings, see :class:`ragsieve.lab.corpora.features.CachedEmbedder`.
    :param depth: documents in a ranking, >= 1.
    :param output: the cell's folder.
    :param encoder: how contexts call the retriever; the encoder's identity when None.
    :raises ConfigError: when depth < 1.
    :raises InputError: when the dataset has no documents or questions, or a planted document
        has no label, an id of the corpus, or an unknown question.
    :raises OutputError: when a file cannot be written.
    """
    if depth < 1:
        raise ConfigError(f"depth: expected at least 1, found {depth}")
    _check(dataset, poisoning)
    name = encoder or embedder.identity
    fingerprint = _fingerprint(dataset, poisoning, (embedder.identity, name, str(depth)))
    kept = _is_complete(output, fingerprint)
    if not kept:
        _make_folder(output)
        # A cell is complete when this file says so: it goes first and comes last.
        (output / CELL).unlink(missing_ok=True)
        kept_embedder = CachedEmbedder(embedder, cache)
        rows = _contexts(dataset, poisoning, kept_embedder, depth, name)
        write_jsonl(output / CONTEXTS, map(context_fields, rows))
    if not kept or not (output / LABELS).exists():
        write_jsonl(output / LABELS, _label_rows(poisoning, output / CONTEXTS))
    if not kept:
        facts = {
            "format": _FORMAT,
            "fingerprint": fingerprint,
            "contexts_sha256": _file_hash(output / CONTEXTS),
            "dataset": dataset.name,
            "encoder": name,
            "identity": embedder.identity,
            "depth": depth,
        }
        write_text(output / CELL, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return Cell(dataset.name, name, output, kept=kept)


def prepare_all(
    plans: Sequence[Plan],
    retrievers: Sequence[Retriever],
    cache: Path,
    depth: int,
    output: Path,
    *,
    note: Callable[[str], None] | None = None,
) -> tuple[Cell, ...]:
    """Every dataset under every retriever, in ``output/DATASET/RETRIEVER``.

    A retriever whose model is not here is reported and skipped.

    :param note: called with one line about each cell.
    :raises ConfigError: when a name cannot be that of a folder, or stands twice.
    """
    _check_names([plan.dataset.name for plan in plans])
    _check_names([retriever.name for retriever in retrievers])
    cells: list[Cell] = []
    # One model after the other: several at once may not fit.
    for retriever in retrievers:
        try:
            embedder = retriever.build()
        except (ModelFilesError, MissingExtraError) as error:
            fresh = [Cell(plan.dataset.name, retriever.name, reason=str(error)) for plan in plans]
            if note is not None:
                note(f"{retriever.name}: unavailable: {error}")
            cells.extend(fresh)
            continue
        for plan in plans:
            folder = output / plan.dataset.name / retriever.name
            poisoning = plan.by_retriever.get(retriever.name, plan.poisoning)
            cell = prepare(
                plan.dataset, poisoning, embedder, cache, depth, folder, encoder=retriever.name
            )
            if note is not None:
                note(f"{cell.dataset}, {cell.retriever}: {'kept' if cell.kept else 'written'}")
            cells.append(cell)
    return tuple(cells)


def retrievers_of(settings: Settings, names: Sequence[str]) -> tuple[Retriever, ...]:
    """Retrievers as ``models.retriever`` names them; what is not here is never downloaded.

    A hub name gives a retriever of the short name, which can be a folder's.
    """

    def builder(name: str) -> Callable[[], TextEmbedder]:
        own_path = name == settings.models.retriever
        models = settings.models.model_copy(
            update={
                "retriever": name,
                "retriever_path": settings.models.retriever_path if own_path else None,
                "allow_download": False,
            }
        )
        chosen = settings.model_copy(update={"models": models})
        return lambda: assembly.text_embedder(chosen)

    return tuple(Retriever(name.rpartition("/")[2].lower(), builder(name)) for name in names)


def injected(
    ranking: Ranking, planted: Sequence[Document], similarities: Sequence[float], depth: int
) -> Ranking:
    """A ranking with planted documents in it, equal to one of the joined corpus.

    :param ranking: of the clean corpus, at least ``depth`` deep or all of it.
    :param planted: in corpus order, which follows that of the clean documents.
    :param similarities: theirs to the query, computed like those of the ranking.
    """
    new = [
        RankedDocument(document, 0, similarity)
        for document, similarity in zip(planted, similarities, strict=True)
    ]
    # The sort is stable: equals stay in corpus order.
    merged = sorted((*ranking.entries, *new), key=lambda entry: -(entry.similarity or 0.0))
    return ranking.renumbered(merged[:depth])


def _contexts(
    dataset: Dataset, poisoning: Poisoning, embedder: TextEmbedder, depth: int, name: str
) -> Iterator[ContextRow]:
    queries = _questions(dataset)
    asked = embedder.embed_queries([query.text for query in queries])
    rows = embedder.embed_documents([document.content for document in dataset.documents])
    clean = rank(queries, dataset.documents, asked, rows, depth=depth)
    for ranking in clean:
        yield _context(ranking, Carried(dataset.name, name, CLEAN_CONDITION))
    places = {query.id: place for place, query in enumerate(queries)}
    for (attack, query_id), planted in _by_target(poisoning).items():
        place = places[query_id]
        own = embedder.embed_documents([document.content for document in planted])
        attacked = injected(clean[place], planted, _similarities(asked[place], own), depth)
        yield _context(attacked, Carried(dataset.name, name, attack))


def _similarities(query: FloatArray, rows: FloatArray) -> list[float]:
    places, similarities = nearest_rows(query[None, :], rows, len(rows))
    found = np.empty(len(rows), dtype=np.float64)
    found[places[0]] = similarities[0]
    values: list[float] = found.tolist()
    return values


def _context(ranking: Ranking, carried: Carried) -> ContextRow:
    declared = {
        document.id: {
            field: value
            for field, value in dataclasses.asdict(document.provenance).items()
            if value is not None
        }
        for document in ranking.documents
    }
    return ContextRow(ranking, carried, declared)


def _by_target(poisoning: Poisoning) -> Mapping[tuple[str, str], list[Document]]:
    groups: defaultdict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in poisoning.documents:
        label = poisoning.labels[document.id]
        groups[label.attack, label.query_id].append(document)
    return groups


def _questions(dataset: Dataset) -> tuple[Query, ...]:
    """The dataset's questions, then those that only a target asks."""
    found = {query.id: query for query in dataset.queries}
    for target in dataset.targets:
        found.setdefault(target.query.id, target.query)
    return tuple(found.values())


def _label_rows(poisoning: Poisoning, contexts: Path) -> Iterator[Mapping[str, Any]]:
    for document in poisoning.documents:
        label = poisoning.labels[document.id]
        yield {"document_id": document.id, "poison": True} | dataclasses.asdict(label)
    ranked = {
        document.id: None
        for row in read_contexts(contexts)
        for document in row.ranking.documents
        if document.id not in poisoning.labels
    }
    for name in ranked:
        yield {"document_id": name, "poison": False}


def _check(dataset: Dataset, poisoning: Poisoning) -> None:
    where = f"dataset {dataset.name!r}"
    names = {document.id for document in dataset.documents}
    asked = {query.id for query in _questions(dataset)}
    if not names or not asked:
        raise InputError(f"{where}: expected documents and questions, found none")
    planted = [document.id for document in poisoning.documents]
    if len(set(planted)) < len(planted) or set(planted) != set(poisoning.labels):
        raise InputError(f"{where}: expected one label for every planted document")
    for name in planted:
        label = poisoning.labels[name]
        if name in names:
            raise InputError(f"{where}: the planted document {name!r} has an id of the corpus")
        if label.query_id not in asked:
            raise InputError(f"{where}: {name!r} is aimed at an unknown question")
        if label.attack == CLEAN_CONDITION:
            raise InputError(f"{where}: no attack can be called {CLEAN_CONDITION!r}")


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name or name in {".", ".."} or any(mark in name for mark in '/\\\0:*?"<>|'):
            raise ConfigError(f"{name!r}: expected a name that can be a folder's")
        if names.count(name) > 1:
            raise ConfigError(f"{name!r}: stands twice; give every one a name of its own")


def _fingerprint(dataset: Dataset, poisoning: Poisoning, more: Sequence[str]) -> str:
    """Over everything a context shows or that decides its order."""
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        digest.update(to_json({"": parts}).encode("utf-8", "surrogatepass") + b"\n")

    add(str(_FORMAT), dataset.name, *more)
    for query in _questions(dataset):
        add("query", query.id, query.text)
    for document in (*dataset.documents, *poisoning.documents):
        declared = dataclasses.asdict(document.provenance)
        add("document", document.id, document.title, document.text, to_json(declared))
    for name, label in poisoning.labels.items():
        add("label", name, label.query_id, label.attack, str(label.member))
    return digest.hexdigest()


def _is_complete(folder: Path, fingerprint: str) -> bool:
    try:
        facts = json.loads((folder / CELL).read_text("utf-8"))
        return bool(
            facts["fingerprint"] == fingerprint
            and facts["contexts_sha256"] == _file_hash(folder / CONTEXTS)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be created ({error.strerror})") from error


def _file_hash(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
