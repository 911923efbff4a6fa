"""Published camouflaged documents: ``adv_texts`` that are finished, and what they were made of.

A file of finished documents has the fields of ``poisonedrag``. Two accompany it: the false
passages before the camouflage (the same fields, of which the first passages promote the
target's lie) and harmless passages on the question (``synth_texts``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ragsieve.lab.corpora._gather import joined, planted, poison_alone
from ragsieve.lab.corpora._rows import read_rows, texts_of
from ragsieve.lab.corpora.poisonedrag import adversarial_targets
from ragsieve.lab.corpora.records import AttackSet, Loaded

CAMODOCS = "camodocs"
PAYLOADS = 5


def read_camodocs(
    path: Path | str, *, passages: Path | str | None = None, attack: str = CAMODOCS
) -> Loaded:
    """Targets and planted documents of a file of finished documents.

    :param passages: the file of false passages; its first five, those that promote the
        target's lie, become the payloads. Without it targets have none.
    :raises InputError: when a file cannot be read or is empty.
    :raises RecordError: for a record that breaks the layout or repeats a question.
    """
    finished = adversarial_targets(path)
    payloads = {} if passages is None else _payloads(passages)
    targets = tuple(
        dataclasses.replace(target, payloads=payloads.get(target.query.id, ()))
        for target in finished
    )
    plantings = (planted(attack, target.query.id, target.payloads) for target in finished)
    attacks = {attack: AttackSet(targets, joined(plantings, path))}
    return poison_alone(Path(path).stem, attacks, targets)


def read_harmless(path: Path | str) -> Mapping[str, tuple[str, ...]]:
    """Harmless passages by question id.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a record that breaks the layout.
    """
    return {row.identifier("id"): texts_of(row, "synth_texts") for row in read_rows(path)}


def _payloads(path: Path | str) -> dict[str, tuple[str, ...]]:
    return {target.query.id: target.payloads[:PAYLOADS] for target in adversarial_targets(path)}
