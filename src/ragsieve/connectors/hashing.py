"""What makes two rows, or two readings of a collection, the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import numpy as np

from ragsieve.connectors.contract import Row, StoreFingerprint
from ragsieve.connectors.values import encoded

VECTOR_TOLERANCE = 1e-6
"""How much of its length a vector may move when it is written and read again.

Stores that normalise on writing, and those that compute in float32, change the last bits.
"""


def row_sha256(row: Row) -> str:
    """Hash of id, text, vector and metadata, hexadecimal; the order of metadata keys is no part.

    Vectors are compared as numbers: float32 and float64 of equal values have one hash.

    :raises StoreError: when metadata holds a value of a type that cannot be written.
    """
    digest = hashlib.sha256()
    for text in (row.id, row.text, metadata_json(row)):
        _feed(digest, text.encode("utf-8", "surrogatepass"))
    if row.vector is None:
        digest.update(b"no vector")
    else:
        _feed(digest, np.asarray(row.vector, dtype="<f8").tobytes())
    return digest.hexdigest()


def ids_fingerprint(ids: Iterable[str]) -> StoreFingerprint:
    """Number and hash of all ids, in whatever order they are given; repeated ids count.

    :param ids: of every row, hidden ones included.
    """
    ordered = sorted(ids)
    digest = hashlib.sha256()
    for name in ordered:
        _feed(digest, name.encode("utf-8", "surrogatepass"))
    return StoreFingerprint(len(ordered), digest.hexdigest())


def same_row(one: Row, other: Row, *, tolerance: float = VECTOR_TOLERANCE) -> bool:
    """Whether two rows hold the same text, metadata and, within ``tolerance``, vector.

    :param tolerance: of the vector's largest number; infinite where vectors are lossy.
    """
    if (one.id, one.text) != (other.id, other.text) or metadata_json(one) != metadata_json(other):
        return False
    if one.vector is None or other.vector is None:
        return one.vector is other.vector
    first = np.asarray(one.vector, dtype=np.float64)
    second = np.asarray(other.vector, dtype=np.float64)
    if first.shape != second.shape:
        return False
    if np.isinf(tolerance) or not first.size:
        return True
    finite = np.abs(first[np.isfinite(first)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(first, second, rtol=0, atol=tolerance * scale, equal_nan=True))


def metadata_json(row: Row) -> str:
    """A row's metadata as one line of JSON with sorted keys.

    :raises StoreError: when it holds a value of a type that cannot be written.
    """
    return json.dumps(encoded(dict(row.metadata)), sort_keys=True, allow_nan=False)


def _feed(digest: hashlib._Hash, raw: bytes) -> None:
    # The length first, so that no two lists of parts run together into one.
    digest.update(len(raw).to_bytes(8, "big") + raw)
