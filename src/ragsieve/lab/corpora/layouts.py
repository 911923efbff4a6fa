"""Read a dataset whatever its layout: which one it is shows in its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ragsieve.errors import InputError
from ragsieve.lab.corpora._rows import read_rows
from ragsieve.lab.corpora.artifact import read_artifact
from ragsieve.lab.corpora.beir import read_beir
from ragsieve.lab.corpora.bench import read_attack_file, read_bench
from ragsieve.lab.corpora.camodocs import read_camodocs
from ragsieve.lab.corpora.embedded import DOCSTRINGS, docstrings_dataset
from ragsieve.lab.corpora.gmtp import read_gmtp
from ragsieve.lab.corpora.poisonedrag import read_poisonedrag
from ragsieve.lab.corpora.records import Loaded

LAYOUTS = f"""\
  artifact     a folder: corpus.jsonl, queries.jsonl; optional qrels.jsonl, targets.jsonl,
               counterfactuals.jsonl, subset*.json, attacks/*.jsonl
  bench        a folder: corpus.jsonl, queries.jsonl, attacks/*.jsonl
  beir         a folder: corpus.jsonl, queries.jsonl, qrels/*.tsv
  attacks      a file: rows with query_id, query, attack, target_answer, documents
  poisonedrag  a file: records with id, question, correct answer, incorrect answer, adv_texts
  camodocs     the same, named camodocs*
  gmtp         a file: records with query_id, query, poisoned_texts, poisoned_docs
  {DOCSTRINGS}   this word: the documentation of what is installed"""


def load(source: Path | str) -> Loaded:
    """What a file or folder holds, or the embedded dataset by its name.

    :raises InputError: when its layout is none of ``LAYOUTS``, or a file is unusable.
    :raises RecordError: for a row that breaks its layout.
    """
    path = Path(source)
    if str(source) == DOCSTRINGS and not path.exists():
        return Loaded(docstrings_dataset(), {})
    if not path.exists():
        raise InputError(f"{path}: does not exist; expected a dataset:\n{LAYOUTS}")
    reader = _of_folder(path) if path.is_dir() else _of_file(path)
    if reader is None:
        raise InputError(f"{path}: of unknown layout; expected one of\n{LAYOUTS}")
    return reader(path)


def _of_folder(path: Path) -> Callable[[Path], Loaded] | None:
    if not (path / "corpus.jsonl").is_file() or not (path / "queries.jsonl").is_file():
        return None
    if (path / "qrels").is_dir():
        return read_beir
    own = any(
        (path / name).is_file()
        for name in ("qrels.jsonl", "targets.jsonl", "counterfactuals.jsonl", "attacks.jsonl")
    )
    if own or any(path.glob("subset*.json")):
        return read_artifact
    return read_bench


def _of_file(path: Path) -> Callable[[Path], Loaded] | None:
    if path.suffix not in {".json", ".jsonl"}:
        return None
    first = next(iter(read_rows(path))).fields.keys()
    if "adv_texts" in first:
        return read_camodocs if path.name.startswith("camodocs") else read_poisonedrag
    if "poisoned_docs" in first:
        return read_gmtp
    if {"documents", "attack"} <= first:
        return read_attack_file
    return None
