"""Arrays as bytes and back, every bit the same."""

from __future__ import annotations

import struct
from typing import Generic, Protocol, TypeVar

import numpy as np

from ragsieve.records import FloatArray

T = TypeVar("T")


class Codec(Protocol, Generic[T]):
    """How values of one kind are stored.

    ``name`` is part of every fingerprint: raise its number when the bytes change.
    """

    @property
    def name(self) -> str:
        """Name and version."""
        ...

    def encode(self, value: T) -> bytes | None:
        """The value as bytes; None for one that is not to be stored."""
        ...

    def decode(self, raw: bytes) -> T:
        """The value back.

        :raises ValueError: when the bytes are none that ``encode`` gave.
        """
        ...


class ArrayCodec:
    """Finite float arrays of one or two dimensions; what is decoded is read-only.

    Values that are not finite are not stored: what made them may pass.

    Layout: ``RSA1``, one character for the type, number of dimensions, two bytes of padding,
    both dimensions as unsigned 32 bits (the second 0 for one dimension), then the numbers in
    little-endian order. The numbers begin at byte 16, where any type is aligned.
    """

    name = "array/1"

    def encode(self, value: FloatArray) -> bytes | None:
        """The array as bytes; None when it is not finite, or of another type or shape."""
        code = _CODES.get(value.dtype.newbyteorder("="))
        if code is None or value.ndim not in {1, 2} or not bool(np.isfinite(value).all()):
            return None
        rows, columns = (*value.shape, 0)[:2]
        if max(rows, columns) > _LARGEST:
            return None
        head = _HEAD.pack(_MAGIC, code, value.ndim, rows, columns)
        return head + value.astype(value.dtype.newbyteorder("<"), order="C", copy=False).tobytes()

    def decode(self, raw: bytes) -> FloatArray:
        """The array; a view of the bytes, so it cannot be written.

        :raises ValueError: when the bytes are no array.
        """
        if len(raw) < _HEAD.size:
            raise ValueError("an array's bytes end early")
        magic, code, dimensions, rows, columns = _HEAD.unpack_from(raw)
        kind = _TYPES.get(code)
        if magic != _MAGIC or kind is None or dimensions not in {1, 2}:
            raise ValueError("expected the bytes of an array")
        shape = (rows, columns)[:dimensions]
        count = rows if dimensions == 1 else rows * columns
        if len(raw) != _HEAD.size + count * kind.itemsize or (dimensions == 1 and columns):
            raise ValueError("an array's bytes do not fit its shape")
        found: FloatArray = np.frombuffer(raw, kind, count, _HEAD.size).reshape(shape)
        return found.astype(kind.newbyteorder("="), copy=False)


_MAGIC = b"RSA1"
_HEAD = struct.Struct("<4scB2xII")
_LARGEST = 2**32 - 1
_TYPES = {code: np.dtype(f"<f{code.decode()}") for code in (b"2", b"4", b"8")}
_CODES = {np.dtype(f"=f{code.decode()}"): code for code in _TYPES}
