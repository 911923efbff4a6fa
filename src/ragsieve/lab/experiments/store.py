"""A cell on disk: one folder that exists complete or not at all; labels in a folder of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ragsieve._atomic import replacing, write_text
from ragsieve._extras import require
from ragsieve.errors import InputError, OutputError
from ragsieve.lab.corpora.records import Label
from ragsieve.lab.experiments.outcome import (
    Answer,
    Condition,
    Context,
    Judged,
    Score,
    Status,
)

_Row = TypeVar("_Row")
_RECORD = "cell.json"
_SCORES, _CONTEXTS, _ANSWERS = "scores.parquet", "contexts.parquet", "answers.parquet"
PLAN = "plan.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell as the last run expanded it, and how it ended there."""

    fingerprint: str
    title: str


class Store:
    """Results of one experiment.

    :param folder: of the experiment; made when missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cells = folder / "cells"
        self._labels = folder / "labels"

    def open(self) -> None:
        """Make the folders and clear away what an interrupted run left half done.

        :raises OutputError: when they cannot be made.
        """
        try:
            for folder in (self._cells, self._labels):
                folder.mkdir(parents=True, exist_ok=True)
            for half in self._cells.glob("*.part"):
                shutil.rmtree(half, ignore_errors=True)
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be written ({error.strerror})") from error

    def status(self, fingerprint: str) -> Status | None:
        """How the cell of a fingerprint ended; None when it never did."""
        record = self.record(fingerprint)
        return None if record is None else Status(record["status"])

    def record(self, fingerprint: str) -> dict[str, Any] | None:
        """What is known of a cell beside its rows; None when it never ended."""
        path = self._cells / fingerprint / _RECORD
        try:
            fields = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read ({error}); delete the folder") from error
        return dict(fields)

    def keep(self, fingerprint: str, record: Mapping[str, Any], judged: Judged | None) -> None:
        """Write a cell's folder beside its place and move it there, so that it is never half.

        :raises OutputError: when it cannot be written.
        """
        place = self._cells / fingerprint
        half = self._cells / f"{fingerprint}.{os.getpid()}.part"
        try:
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            if judged is not None:
                made = {"cell": fingerprint, "rule": judged.facts.fingerprint}
                _write(half / _SCORES, [_score_fields(one) for one in judged.scores], made)
                _write(half / _CONTEXTS, map(dataclasses.asdict, judged.contexts), made)
                _write(half / _ANSWERS, map(dataclasses.asdict, judged.answers), made)
            text = json.dumps(dict(record), indent=1, allow_nan=False, sort_keys=True)
            write_text(half / _RECORD, text + "\n")
            # Only a cell that is not done is ever replaced.
            shutil.rmtree(place, ignore_errors=True)
            half.rename(place)
        except OSError as error:
            raise OutputError(f"{place}: cannot be written ({error})") from error
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(half)

    def scores(self, fingerprint: str) -> list[Score]:
        """The judgements of a finished cell."""
        return [
            Score(
                **{
                    **row,
                    "condition": Condition(row["condition"]),
                    "evidences": tuple((one["name"], one["value"]) for one in row["evidences"]),
                }
            )
            for row in _read(self._cells / fingerprint / _SCORES)
        ]

    def contexts(self, fingerprint: str) -> list[Context]:
        """What a finished cell handed over."""
        return [
            Context(
                Condition(row["condition"]),
                row["query_id"],
                tuple(row["before"]),
                tuple(row["after"]),
            )
            for row in _read(self._cells / fingerprint / _CONTEXTS)
        ]

    def answers(self, fingerprint: str) -> list[Answer]:
        """The marked answers of a finished cell."""
        return [
            Answer(**{**row, "condition": Condition(row["condition"])})
            for row in _read(self._cells / fingerprint / _ANSWERS)
        ]

    def keep_labels(self, key: str, labels: Mapping[str, Label]) -> None:
        """Write what was planted, where no detector looks.

        :raises OutputError: when it cannot be written.
        """
        rows = [
            {"document_id": name, **dataclasses.asdict(label)} for name, label in labels.items()
        ]
        _write(self._labels / f"{key}.parquet", rows, {"labels": key})

    def labels(self, key: str) -> dict[str, Label]:
        """What was planted.

        :raises InputError: when the file is missing or unreadable.
        """
        return {
            row.pop("document_id"): Label(**row) for row in _read(self._labels / f"{key}.parquet")
        }

    def keep_plan(self, fields: Mapping[str, Any], cells: Sequence[PlannedCell]) -> None:
        """Write what the experiment is and the cells it has now, for the summary."""
        plan = {**fields, "cells": [dataclasses.asdict(cell) for cell in cells]}
        write_text(self.folder / PLAN, json.dumps(plan, indent=1, sort_keys=True) + "\n")

    def plan(self) -> dict[str, Any]:
        """What ``keep_plan`` wrote.

        :raises InputError: when there is none.
        """
        path = self.folder / PLAN
        try:
            return dict(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read; run the experiment first") from error


def _score_fields(score: Score) -> dict[str, Any]:
    fields = dataclasses.asdict(score)
    fields["evidences"] = [{"name": name, "value": value} for name, value in score.evidences]
    return fields


def _write(path: Path, rows: Iterable[Mapping[str, Any]], made: Mapping[str, str]) -> None:
    """Rows as Parquet; ``made`` says in the file's own metadata what they came from."""
    arrow = require("pyarrow", extra="lab")
    parquet = require("pyarrow.parquet", extra="lab")
    schema = _schema(arrow, path.name).with_metadata(dict(made))
    table = arrow.Table.from_pylist(list(rows), schema=schema)
    with replacing(path) as handle:
        parquet.write_table(table, handle, compression="zstd")


def _read(path: Path) -> list[dict[str, Any]]:
    parquet = require("pyarrow.parquet", extra="lab")
    try:
        # A single file, whatever its folder is called.
        rows = parquet.ParquetFile(path).read().to_pylist()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the experiment again") from error
    return [dict(row) for row in rows]


def _schema(arrow: Any, name: str) -> Any:
    """Stated, so that a file without rows has its columns too."""
    words, number = arrow.string(), arrow.float64()
    asked = [("condition", words), ("query_id", words)]
    if name == _SCORES:
        evidence = arrow.struct([("name", words), ("value", number)])
        columns = [
            *asked,
            ("document_id", words),
            ("rank", arrow.int64()),
            ("score", number),
            ("threshold", number),
            ("decision", words),
            ("level", words),
            ("evidences", arrow.list_(evidence)),
        ]
    elif name == _CONTEXTS:
        columns = [*asked, ("before", arrow.list_(words)), ("after", arrow.list_(words))]
    elif name == _ANSWERS:
        columns = [
            *asked,
            ("text", words),
            ("exact", arrow.bool_()),
            ("f1", number),
            ("target_supported", arrow.bool_()),
            ("correct_supported", arrow.bool_()),
            ("seconds", number),
            ("stage_seconds", number),
            ("calls", arrow.int64()),
            ("prompt_tokens", arrow.int64()),
            ("completion_tokens", arrow.int64()),
            ("agreed", arrow.bool_()),
        ]
    else:
        columns = [
            ("document_id", words),
            ("query_id", words),
            ("attack", words),
            ("member", arrow.int64()),
        ]
    return arrow.schema(columns)
