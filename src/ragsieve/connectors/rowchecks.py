"""Rows of a store as documents of a corpus: what can be judged, what is left out and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ragsieve.connectors.address import Fields
from ragsieve.connectors.contract import Row
from ragsieve.records import Document, FloatArray, Provenance

# Why a row is left out.
NO_VECTOR = "no vector"
NOT_FINITE = "vector with NaN or infinity"
ZERO = "vector of zeros"
DIMENSION = "vector of another dimension"
BLANK = "no text"
SURROGATES = "text with lone surrogates"
NO_ID = "id that is empty or not valid Unicode"
REPEATED = "id that stood before"
HIDDEN = "hidden already"

# What a reader should know of a row that is kept.
NUL = "text with NUL characters"
PAIRED = "surrogates paired again"


@dataclasses.dataclass(frozen=True, slots=True)
class Excluded:
    """A row that a snapshot leaves out, and why: nobody judges it."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A row as a document.

    :param vector: shape (d,), float32, finite, not zero.
    :param remarks: what was odd about it.
    """

    document: Document
    vector: FloatArray
    remarks: tuple[str, ...]


def examine(row: Row, fields: Fields, dimension: int) -> Kept | Excluded:
    """The row as a document, or why it cannot be one.

    :param dimension: of the vectors that are kept.
    """
    remarks = []
    vector = _vector(row, dimension)
    if isinstance(vector, str):
        return Excluded(row.id, vector)
    if not row.id or not _is_unicode(row.id):
        return Excluded(row.id, NO_ID)
    text = row.text
    if not _is_unicode(text):
        # Two halves that some reader of UTF-16 left apart are a character; one alone is none.
        paired = _paired(text)
        if paired is None:
            return Excluded(row.id, SURROGATES)
        text = paired
        remarks.append(PAIRED)
    document = Document(row.id, text, _shown(row, fields.title) or "", _provenance(row, fields))
    if not document.content.strip():
        return Excluded(row.id, BLANK)
    if "\0" in document.content:
        remarks.append(NUL)
    return Kept(document, vector, tuple(remarks))


def found_at(metadata: Mapping[str, Any], path: str) -> Any:
    """The value under a key, or under nested keys joined by dots; None where there is none."""
    if path in metadata:
        return metadata[path]
    value: Any = metadata
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def _vector(row: Row, dimension: int) -> FloatArray | str:
    """The vector as float32, or what is wrong with it."""
    if row.vector is None:
        return NO_VECTOR
    if row.vector.shape != (dimension,):
        return DIMENSION
    with np.errstate(over="ignore", under="ignore"):
        vector = row.vector.astype(np.float32)
        # Numbers too large or too small for float32 become infinite or zero.
        length = np.linalg.norm(vector.astype(np.float64))
    if not np.isfinite(vector).all():
        return NOT_FINITE
    return vector if length > 0 else ZERO


def _provenance(row: Row, fields: Fields) -> Provenance:
    return Provenance(
        source=_shown(row, fields.source),
        author=_shown(row, fields.author),
        tenant=_shown(row, fields.tenant),
        version=_shown(row, fields.version),
        created=_shown(row, fields.created),
    )


def _shown(row: Row, path: str) -> str | None:
    value = found_at(row.metadata, path)
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()


def _paired(text: str) -> str | None:
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
