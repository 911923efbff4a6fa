"""Metadata values as JSON and back, every one of the type it had."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ragsieve.errors import StoreError

_TAG = "$type"


def encoded(value: Any) -> Any:
    """A value that JSON can hold; what JSON has no word for becomes an object with ``$type``.

    :raises StoreError: for a type that is not known here.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    if isinstance(value, Mapping):
        plain = all(isinstance(key, str) and _is_unicode(key) for key in value)
        if plain and _TAG not in value:
            return {key: encoded(item) for key, item in value.items()}
        return _tagged("pairs", [[encoded(key), encoded(item)] for key, item in value.items()])
    if isinstance(value, str | float):
        return _encoded_scalar(value)
    return value if value is None or isinstance(value, int) else _encoded_object(value)


def decoded(value: Any) -> Any:
    """The value that `encoded` was given.

    :raises ValueError: for an object that `encoded` does not make.
    """
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decoded(item) for key, item in value.items()}
    try:
        return _READERS[value[_TAG]](value["value"])
    except (KeyError, TypeError, ArithmeticError) as error:
        raise ValueError(f"expected a value of a known type ({error})") from error


def array_packed(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An array of numbers as JSON, every bit the same."""
    little = array.dtype.newbyteorder("<")
    raw = np.ascontiguousarray(array, dtype=little).tobytes()
    return {
        "dtype": little.str,
        "shape": list(array.shape),
        "base64": base64.b64encode(raw).decode("ascii"),
    }


def array_unpacked(packed: Any) -> np.ndarray[Any, Any]:
    """The array that `array_packed` was given.

    :raises ValueError: for anything else.
    """
    try:
        dtype = np.dtype(packed["dtype"])
        if dtype.kind not in "fiub":
            raise ValueError(f"expected numbers, found {dtype}")
        raw = base64.b64decode(packed["base64"], validate=True)
        return np.frombuffer(raw, dtype=dtype).reshape(packed["shape"]).copy()
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected an array of numbers ({error})") from error


def _encoded_scalar(value: str | float) -> Any:
    if isinstance(value, str):
        return value if _is_unicode(value) else _tagged("surrogates", _packed(value))
    return value if math.isfinite(value) else _tagged("number", repr(value))


def _encoded_object(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return _tagged("array", array_packed(value))
    if isinstance(value, bytes):
        return _tagged("bytes", base64.b64encode(value).decode("ascii"))
    # A datetime is a date too: the narrower type first.
    for kind in (datetime.datetime, datetime.date, datetime.time):
        if isinstance(value, kind):
            return _tagged(kind.__name__, value.isoformat())
    if isinstance(value, datetime.timedelta):
        return _tagged("timedelta", [value.days, value.seconds, value.microseconds])
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return _tagged(type(value).__name__, str(value))
    raise StoreError(
        f"metadata holds a {type(value).__name__}, which cannot be written to a bundle; such rows "
        "can be hidden but not deleted"
    )


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, "value": value}


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _packed(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "surrogates": lambda raw: base64.b64decode(raw).decode("utf-8", "surrogatepass"),
    "number": float,
    "pairs": lambda pairs: {decoded(key): decoded(item) for key, item in pairs},
    "array": array_unpacked,
    "bytes": base64.b64decode,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
    "Decimal": decimal.Decimal,
    "UUID": uuid.UUID,
}
