"""What a calibration was made from and what it found, kept beside the policy."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import ClassVar, Literal

from ragsieve._atomic import write_text
from ragsieve.calibration.drift import Drift
from ragsieve.calibration.intervals import Interval
from ragsieve.calibration.recall import Recall
from ragsieve.calibration.sketch import Sketch
from ragsieve.calibration.slices import Slice
from ragsieve.calibration.thresholds import Alarms, Unit
from ragsieve.errors import InputError

SUFFIX = ".calibration.json"

MEANING = (
    "A threshold says which evidence of promotion is rare in this traffic. It does not say that "
    "what lies above is planted or false, nor that what lies below is neither."
)

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclasses.dataclass(frozen=True, slots=True)
class SliceRecord:
    """One slice of a calibration.

    :param documents: judgements that were used.
    :param queries: rankings they come from; None for a corpus scan.
    :param units: documents, or queries, by which the rate counts.
    :param effective: independent draws they are worth.
    :param trimmed: units left out as possibly planted.
    :param left_out: judgements without the slice's evidence.
    :param missing: evidence that no score of the slice contains.
    :param threshold: None when it could not be set; then ``reason`` says why.
    :param rate: of alarms at it, over the units that were not trimmed.
    :param in_force: alarms at the threshold that decides from now on.
    :param at_profile: alarms at the profile's threshold; ``review`` are the documents.
    :param sketch: of the units' scores, trimmed ones included.
    :param no_recall: why there is no recall; None when there is one.
    :param no_drift: why there is no comparison; None when there is one.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    slice: Slice
    fingerprint: str
    documents: int
    queries: int | None
    units: int
    effective: int
    trimmed: int
    left_out: int
    missing: tuple[str, ...]
    threshold: Interval | None
    rate: Interval | None
    reason: str | None
    in_force: Alarms
    at_profile: Alarms
    review: tuple[str, ...]
    sketch: Sketch
    recall: Recall | None = None
    no_recall: str | None = None
    drift: Drift | None = None
    no_drift: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A file that went in.

    :param role: what for, as the command's option is called.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    role: str
    name: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """A whole calibration.

    :param created: ISO 8601, UTC.
    :param config_sha256: of the settings; None where scores came from files.
    :param policy_sha256: of the policy file that was written with it.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    format: Literal[1]
    created: str
    alarm_rate: float
    unit: Unit
    confidence: float
    trim: float
    sources: tuple[Source, ...]
    config_sha256: str | None
    policy_sha256: str
    slices: tuple[SliceRecord, ...]
    meaning: str = MEANING


def record_path(policy: Path) -> Path:
    """Where the record of a policy file stands."""
    return policy.with_name(policy.stem + SUFFIX)


def record_json(record: CalibrationRecord) -> str:
    """A record as strict JSON."""
    fields = dataclasses.asdict(record)
    return json.dumps(fields, ensure_ascii=True, allow_nan=False, indent=1) + "\n"


def write_record(path: Path, record: CalibrationRecord) -> None:
    """Write a record, atomically.

    :raises OutputError: when it cannot be written.
    """
    write_text(path, record_json(record))


def read_record(path: Path) -> CalibrationRecord:
    """The record of a calibration file.

    :raises InputError: when it cannot be read, or is not one; the message names the field.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); expected the record of a calibration"
        ) from error
    try:
        return TypeAdapter(CalibrationRecord).validate_json(text, strict=True)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{path}: expected a calibration record: field {field!r}: {first['msg']}"
        ) from error
