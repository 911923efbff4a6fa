"""Craft against many targets so that an interrupted run goes on, and plant what was made.

The journal is JSON lines, one finished target each, appended and flushed to disk. A line is
used again only if construction, target, payloads, seed, corpus and models are the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ragsieve._jsonl import Row, read_jsonl, to_json
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError, OutputError
from ragsieve.lab.corpora.records import Dataset, Label, Poisoning, Target
from ragsieve.lab.poison.base import Construction, Cost, Crafted, Faithfulness, Workshop
from ragsieve.lab.poison.payloads import payload_rng, payloads_for
from ragsieve.records import Document, Provenance

_DIGIT = re.compile(r"\d")
_TRIES = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Harvest:
    """What a run made, in the order of the targets, and the same ready to be planted."""

    crafted: tuple[Crafted, ...]
    poisoning: Poisoning


def craft_all(
    construction: Construction,
    targets: Sequence[Target],
    workshop: Workshop,
    *,
    seed: int,
    count: int = 5,
    journal: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> Harvest:
    """Craft against every target.

    Each target has a generator of its own, from the seed and the question's id, so the result
    depends neither on the order of the targets nor on where a run was interrupted.

    :param count: documents a target at most, which is also the number of payloads.
    :param journal: where finished targets are written and looked up; nothing is kept when None.
    :param progress: called with 1 after each target.
    :raises ConfigError: when count < 1, a question's id repeats, or the workshop lacks a model.
    :raises RecordError: when a journal's line is damaged, its torn last one aside.
    :raises OutputError: when the journal cannot be written.
    """
    names = [target.query.id for target in targets]
    if count < 1 or len(set(names)) < len(names):
        raise ConfigError("craft: expected count >= 1 and each question's id once")
    known = {} if journal is None else _read(journal)
    common = _common(construction, workshop, seed)
    made: list[Crafted] = []
    for target in targets:
        rng = payload_rng(target, seed)
        payloads = payloads_for(target, count, rng, workshop.chat).texts
        key = _key(common, target, payloads)
        crafted = known.get(key)
        if crafted is None:
            crafted = construction.craft(target, payloads, workshop, target_rng(target, seed))
            if journal is not None:
                _append(journal, key, seed, crafted)
        made.append(crafted)
        if progress is not None:
            progress(1)
    return Harvest(tuple(made), plant(made, workshop.dataset, seed))


def target_rng(target: Target, seed: int) -> np.random.Generator:
    """Depends on the seed and the question's id alone."""
    digest = hashlib.sha256(f"craft\0{target.query.id}".encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])


def plant(crafted: Sequence[Crafted], dataset: Dataset, seed: int) -> Poisoning:
    """Documents in an order that follows no target, with ids and origins like the corpus's own.

    An id is one of the corpus's with other digits; an origin is that of a random document,
    unless the construction declares one. Labels stand beside them.
    """
    rng = np.random.default_rng([seed, len(crafted)])
    taken = {document.id for document in dataset.documents}
    pairs: list[tuple[Document, Label]] = []
    for one in crafted:
        for member, text in enumerate(one.texts):
            document = Document(
                _fresh_id(dataset.documents, taken, rng),
                text,
                one.titles[member] if one.titles else "",
                one.origins[member] if one.origins else _usual_origin(dataset.documents, rng),
            )
            pairs.append((document, Label(one.query_id, one.attack, member)))
    pairs = [pairs[row] for row in rng.permutation(len(pairs)).tolist()]
    return Poisoning(
        documents=tuple(document for document, _ in pairs),
        labels={document.id: label for document, label in pairs},
    )


def _fresh_id(documents: Sequence[Document], taken: set[str], rng: np.random.Generator) -> str:
    for attempt in range(_TRIES):
        pattern = documents[int(rng.integers(len(documents)))].id if documents else ""
        if not _DIGIT.search(pattern):
            pattern = "note-000000"
        # A corpus that numbers its documents from 0 leaves no number of that length free.
        wider = pattern + "0" * (attempt // 10) if pattern[-1].isdigit() else pattern
        name = _DIGIT.sub(lambda _: str(int(rng.integers(10))), wider)
        if name not in taken:
            taken.add(name)
            return name
    while True:
        name = f"note-{int(rng.integers(16**8)):08x}"
        if name not in taken:
            taken.add(name)
            return name


def _usual_origin(documents: Sequence[Document], rng: np.random.Generator) -> Provenance:
    if not documents:
        return Provenance()
    return documents[int(rng.integers(len(documents)))].provenance


def _common(construction: Construction, workshop: Workshop, seed: int) -> tuple[str, ...]:
    """What all targets of a run have in common and their texts depend on."""
    dataset = workshop.dataset
    digest = hashlib.sha256()
    for document in dataset.documents:
        digest.update(f"{document.id}\0{document.content}\0".encode("utf-8", "replace"))
    models = (workshop.gradients, workshop.causal, workshop.chat)
    return (
        construction.fingerprint(),
        str(seed),
        dataset.name,
        digest.hexdigest(),
        workshop.embedder.identity,
        *("" if model is None else model.identity for model in models),
    )


def _key(common: Sequence[str], target: Target, payloads: Sequence[str]) -> str:
    relevant = (target.query.id, target.query.text, target.target_answer)
    return fingerprint(*common, *relevant, list(target.correct_answers), list(payloads))


def _read(journal: Path) -> dict[str, Crafted]:
    """What an earlier run finished; a last line cut off by an interrupt is removed."""
    if not journal.is_file():
        return {}
    raw = journal.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) < len(raw):
        try:
            os.truncate(journal, len(whole))
        except OSError as error:
            raise OutputError(f"{journal}: cannot be mended ({error.strerror})") from error
    if not whole.strip():
        return {}
    return {row.identifier("key"): _crafted(row) for row in read_jsonl(journal)}


def _append(journal: Path, key: str, seed: int, crafted: Crafted) -> None:
    line = to_json({"key": key, "seed": seed, **_plain(crafted)})
    try:
        with journal.open("ab") as handle:
            handle.write(line.encode("utf-8") + b"\n")
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise OutputError(f"{journal}: cannot be written ({error.strerror})") from error


def _plain(crafted: Crafted) -> dict[str, object]:
    figures = crafted.faithfulness
    return {
        "query_id": crafted.query_id,
        "attack": crafted.attack,
        "reduced": crafted.reduced,
        "documents": [
            {
                "text": text,
                "title": crafted.titles[row] if crafted.titles else None,
                "origin": dataclasses.asdict(crafted.origins[row]) if crafted.origins else None,
            }
            for row, text in enumerate(crafted.texts)
        ],
        "cost": dataclasses.asdict(crafted.cost),
        "similarity": figures.similarity,
        "in_top_5": figures.in_top_5,
        "mixed_scripts": figures.mixed_scripts,
        "peak_surprisal_share": figures.peak_surprisal_share,
        "checks": [{"name": name, "holds": holds} for name, holds in figures.checks],
    }


def _crafted(row: Row) -> Crafted:
    documents = row.objects("documents")
    titles = tuple(one.text("title") for one in documents if one.fields.get("title") is not None)
    origins = tuple(
        _origin(one, one.fields["origin"])
        for one in documents
        if one.fields.get("origin") is not None
    )
    for found, field in ((titles, "title"), (origins, "origin")):
        if found and len(found) != len(documents):
            raise row.error("documents", f"expected {field} in all documents or in none")
    return Crafted(
        query_id=row.text("query_id"),
        attack=row.text("attack"),
        texts=tuple(one.text("text") for one in documents),
        reduced=_flag(row, "reduced"),
        cost=_cost(row),
        faithfulness=Faithfulness(
            similarity=_figure(row, "similarity"),
            in_top_5=_figure(row, "in_top_5"),
            mixed_scripts=_figure(row, "mixed_scripts"),
            peak_surprisal_share=row.number("peak_surprisal_share"),
            checks=tuple((one.text("name"), _flag(one, "holds")) for one in row.objects("checks")),
        ),
        titles=titles,
        origins=origins,
    )


def _cost(row: Row) -> Cost:
    value = row.fields.get("cost")
    if not isinstance(value, Mapping):
        raise row.error("cost", "expected an object; delete the line to craft the target again")
    inner = Row(row.path, row.line, dict(value))
    return Cost(
        _figure(inner, "seconds"),
        inner.integer("encodes"),
        inner.integer("gradients"),
        inner.integer("chat_calls"),
    )


def _origin(row: Row, value: object) -> Provenance:
    if not isinstance(value, Mapping):
        raise row.error("origin", "expected an object; delete the line to craft the target again")
    inner = Row(row.path, row.line, dict(value))
    names = [field.name for field in dataclasses.fields(Provenance)]
    return Provenance(
        **{name: inner.text(name) for name in names if inner.fields.get(name) is not None}
    )


def _figure(row: Row, field: str) -> float:
    value = row.number(field)
    if value is None:
        raise row.error(field, "expected a number; delete the line to craft the target again")
    return value


def _flag(row: Row, field: str) -> bool:
    value = row.fields.get(field)
    if not isinstance(value, bool):
        raise row.error(field, "expected true or false; delete the line to craft the target again")
    return value
