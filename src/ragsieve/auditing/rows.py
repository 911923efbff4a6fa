"""The content of a store's row, as findings and the ledger know it."""

from __future__ import annotations

from collections.abc import Callable

from ragsieve.cases import content_sha256
from ragsieve.connectors.address import Fields
from ragsieve.connectors.contract import Row
from ragsieve.connectors.rowchecks import Kept, examine

UNJUDGED = ""
"""Stands for the content of a row that no scan can judge; no finding has it."""


def row_content_sha256(fields: Fields) -> Callable[[Row], str]:
    """A function from a row to the hash of its content.

    :param fields: where the title stands in the metadata; it is part of the content.
    """

    def hashed(row: Row) -> str:
        dimension = 0 if row.vector is None else int(row.vector.size)
        kept = examine(row, fields, dimension)
        return content_sha256(kept.document) if isinstance(kept, Kept) else UNJUDGED

    return hashed
