"""Prediction files: verdicts with every component, one row a document."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragsieve._jsonl import Row, read_jsonl
from ragsieve.files.contexts import Carried
from ragsieve.outcomes import Ruling
from ragsieve.records import Decision, Evidence, Level, Verdict

_STATUS = "_status"


@dataclasses.dataclass(frozen=True, slots=True)
class Prediction:
    """One saved verdict.

    :param query_id: None in the predictions of a corpus scan.
    :param removed: whether the deployment took the document out; None where it did not say.
    :param numbers: every numeric field of the row, components of evidences among them.
    """

    document_id: str
    score: float
    threshold: float
    decision: Decision
    level: Level
    profile: str
    fingerprint: str
    evidences: tuple[Evidence, ...]
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    query_id: str | None = None
    rank: int | None = None
    removed: bool | None = None
    carried: Carried = Carried()

    @property
    def flagged(self) -> bool:
        """Whether the measured evidence reaches the threshold."""
        return self.decision is Decision.FLAGGED

    def evidence(self, name: str) -> Evidence | None:
        """The evidence called ``name``, if this profile has it."""
        return next((one for one in self.evidences if one.name == name), None)


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict of a corpus scan as one JSON object."""
    return prediction_fields(_saved(verdict)) | {
        "truncated_characters": verdict.truncated_characters
    }


def query_fields(
    verdict: Verdict, query_id: str, carried: Carried, *, removed: bool
) -> dict[str, Any]:
    """A verdict on a candidate as one JSON object."""
    prediction = dataclasses.replace(
        _saved(verdict), query_id=query_id, carried=carried, removed=removed
    )
    return prediction_fields(prediction) | {
        "truncated_characters": verdict.truncated_characters,
        "annotations": [dataclasses.asdict(one) for one in verdict.annotations],
    }


def ruling_fields(
    ruling: Ruling, query_id: str, carried: Carried, *, removed: bool
) -> dict[str, Any]:
    """A decision on a candidate as one JSON object: bounds in place of a score."""
    fields: dict[str, Any] = {"query_id": query_id, **carried.fields()}
    fields |= {
        "document_id": ruling.document_id,
        "rank": ruling.rank,
        "score_at_least": ruling.bounds.lower,
        "score_at_most": None if math.isinf(ruling.bounds.upper) else ruling.bounds.upper,
        "flagged": ruling.flagged,
        "decision": str(ruling.decision),
        "level": str(ruling.level),
        "threshold": ruling.threshold,
        "profile": ruling.profile,
        "fingerprint": ruling.fingerprint,
        "removed": removed,
        "not_looked_at": list(ruling.skipped),
        "truncated_characters": ruling.truncated_characters,
    }
    for evidence in ruling.evidences:
        fields |= _evidence_fields(evidence)
    return fields


def prediction_fields(prediction: Prediction) -> dict[str, Any]:
    """A prediction as one JSON object; unavailable evidence is null with its reason."""
    fields: dict[str, Any] = {}
    if prediction.query_id is not None:
        fields["query_id"] = prediction.query_id
    fields |= prediction.carried.fields()
    fields["document_id"] = prediction.document_id
    if prediction.rank is not None:
        fields["rank"] = prediction.rank
    fields |= {
        "score": prediction.score,
        "score_is_lower_bound": not all(
            one.measured or one.optional for one in prediction.evidences
        ),
        "flagged": prediction.flagged,
        "decision": str(prediction.decision),
        "level": str(prediction.level),
        "threshold": prediction.threshold,
        "profile": prediction.profile,
        "fingerprint": prediction.fingerprint,
    }
    if prediction.removed is not None:
        fields["removed"] = prediction.removed
    for evidence in prediction.evidences:
        fields |= _evidence_fields(evidence)
    return fields


def _saved(verdict: Verdict) -> Prediction:
    return Prediction(
        document_id=verdict.document_id,
        score=verdict.score,
        threshold=verdict.threshold,
        decision=verdict.decision,
        level=verdict.level,
        profile=verdict.profile,
        fingerprint=verdict.fingerprint,
        evidences=verdict.evidences,
        rank=verdict.rank,
    )


def read_predictions(path: Path | str) -> Iterator[Prediction]:
    """Saved verdicts, in file order.

    :raises InputError: when the file cannot be read or is empty.
    :raises RecordError: for a row that breaks the layout.
    """
    return (_prediction_of(row) for row in read_jsonl(path))


def _evidence_fields(evidence: Evidence) -> dict[str, Any]:
    name = evidence.name
    if not evidence.measured:
        return {name: None, name + _STATUS: "unavailable", f"{name}_reason": evidence.reason}
    fields: dict[str, Any] = {name: evidence.value, name + _STATUS: "measured"}
    if evidence.probability is not None:
        fields[f"{name}_probability"] = evidence.probability
    return fields | dict(evidence.components)


def _prediction_of(row: Row) -> Prediction:
    names = [key.removesuffix(_STATUS) for key in row.fields if key.endswith(_STATUS)]
    if not names:
        raise row.error(None, "expected evidence fields with a status; is this a prediction file?")
    decision = row.text("decision")
    if decision not in set(Decision):
        raise row.error("decision", f"expected one of {', '.join(Decision)}, found {decision!r}")
    level = row.text("level")
    if level not in set(Level):
        raise row.error("level", f"expected one of {', '.join(Level)}, found {level!r}")
    removed = row.fields.get("removed")
    if removed is not None and not isinstance(removed, bool):
        raise row.error("removed", "expected true or false")
    return Prediction(
        document_id=row.identifier("document_id"),
        score=_required(row, "score"),
        threshold=_required(row, "threshold"),
        decision=Decision(decision),
        level=Level(level),
        profile=row.text("profile"),
        fingerprint=row.text("fingerprint"),
        rank=row.integer("rank") if row.fields.get("rank") is not None else None,
        evidences=tuple(_evidence_of(row, name) for name in names),
        numbers={
            key: float(value)
            for key, value in row.fields.items()
            if isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        },
        query_id=row.text("query_id") if row.fields.get("query_id") is not None else None,
        removed=removed,
        carried=Carried(
            **{
                name: row.text(name) if row.fields.get(name) is not None else None
                for name in ("dataset", "encoder", "condition")
            }
        ),
    )


def _evidence_of(row: Row, name: str) -> Evidence:
    if row.fields[name + _STATUS] != "measured":
        return Evidence.unavailable(name, row.text(f"{name}_reason", default="not stated"))
    return Evidence(name, _required(row, name), row.number(f"{name}_probability"))


def _required(row: Row, field: str) -> float:
    value = row.number(field)
    if value is None or not math.isfinite(value):
        raise row.error(field, "expected a finite number")
    return value
