"""What a collection of Milvus looks like, and how a filter names its rows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragsieve.errors import StoreError

TEXT_NAMES = ("text", "content", "document", "page_content", "chunk")
"""Where nothing is declared: the names that Milvus's own examples and frameworks use."""

_INTEGER = re.compile(r"-?[1-9][0-9]*|0")
_BITS = 63


@dataclasses.dataclass(frozen=True, slots=True)
class Schema:
    """A collection.

    :param id: name of its primary key.
    :param whole: whether ids are whole numbers; strings otherwise.
    :param auto: whether the server makes them.
    :param dynamic: whether rows may have fields that the schema does not name.
    :param computed: fields that the server fills in, which cannot be written.
    :param metric: of the vector's index, e.g. ``COSINE``; None where it has none.
    """

    id: str
    whole: bool
    auto: bool
    vector: str
    text: str
    dynamic: bool
    computed: frozenset[str] = frozenset()
    metric: str | None = None

    def possible(self, ids: Iterable[str]) -> list[str]:
        """Those that a row could have, written exactly as they are given back, each once."""
        fits = _is_whole if self.whole else _is_unicode
        return [name for name in dict.fromkeys(ids) if fits(name)]

    def key(self, name: str) -> int | str:
        """An id as the collection has it."""
        return int(name) if self.whole else name

    def named(self, ids: Sequence[str]) -> str:
        """A filter for the rows of these ids, which are possible ones.

        Never pymilvus's own ``ids=``: it writes them between quotes as they are, so an id with a
        quote in it is read as part of the filter.
        """
        listed = ", ".join(ids if self.whole else map(quoted, ids))
        return f"{self.id} in [{listed}]"


def read_schema(
    client: Any, collection: str, address: str, *, declared: Mapping[str, str | None]
) -> Schema:
    """Ask the server.

    :param declared: names of the fields ``id``, ``vector`` and ``text``; None is found out.
    :raises StoreError: when the collection has no such field.
    """
    found = client.describe_collection(collection)
    kinds = {
        field["name"]: getattr(field["type"], "name", str(field["type"]))
        for field in found["fields"]
    }
    keys = [field for field in found["fields"] if field.get("is_primary")]
    key = keys[0]
    if declared.get("id") not in {None, key["name"]}:
        raise StoreError(
            f"{address}: expected the primary key {key['name']!r}, found the option id="
            f"{declared['id']!r}; leave it out"
        )
    computed = {
        name for function in found.get("functions") or () for name in function["output_field_names"]
    }
    vectors = [name for name, kind in kinds.items() if kind == "FLOAT_VECTOR"]
    vector = declared.get("vector") or (vectors[0] if len(vectors) == 1 else None)
    if vector is None or vector not in vectors:
        raise StoreError(
            f"{address}: expected a field of float vectors, found {', '.join(vectors) or 'none'}; "
            "name one with the option vector"
        )
    dynamic = bool(found.get("enable_dynamic_field"))
    text = declared.get("text") or next((name for name in TEXT_NAMES if name in kinds), None)
    if text is None and dynamic:
        text = TEXT_NAMES[0]
    if text is None or (text not in kinds and not dynamic):
        raise StoreError(
            f"{address}: no field could be the text; name it with the parameter text. It has "
            f"{', '.join(kinds)}"
        )
    return Schema(
        id=key["name"],
        whole=kinds[key["name"]] == "INT64",
        auto=bool(found.get("auto_id") or key.get("auto_id")),
        vector=vector,
        text=text,
        dynamic=dynamic,
        computed=frozenset(computed),
        metric=_metric(client, collection, vector),
    )


def quoted(text: str) -> str:
    """A string of a filter. Only what the language of filters has an escape for is escaped."""
    for plain, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escape)
    return f'"{text}"'


def _metric(client: Any, collection: str, vector: str) -> str | None:
    for name in client.list_indexes(collection):
        index = client.describe_index(collection, name)
        if index.get("field_name") == vector:
            return str(index.get("metric_type")).upper()
    return None


def _is_whole(name: str) -> bool:
    return (
        len(name) <= len(str(-(2**_BITS)))
        and _INTEGER.fullmatch(name) is not None
        and -(2**_BITS) <= int(name) < 2**_BITS
    )


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
