"""One door to every format in which findings leave."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from ragsieve.cases import Incident
from ragsieve.findings.html import write_page
from ragsieve.findings.native import write_findings
from ragsieve.findings.ocsf import write_ocsf
from ragsieve.findings.sarif import write_sarif


class Format(enum.StrEnum):
    """How findings are written; each is UTF-8 text."""

    JSONL = "jsonl"
    SARIF = "sarif"
    OCSF = "ocsf"
    HTML = "html"


def export(incidents: Iterable[Incident], format: Format) -> Iterator[str]:  # noqa: A002
    """Findings as text, in pieces to be written one after the other.

    The same findings in the same order give the same text. `Format.JSONL` alone takes findings
    as they come; the others need all of them at once.

    :raises InputError: for a number that is not finite; from `Format.JSONL` when its line is
        reached.
    :raises MissingExtraError: for `Format.HTML` without the extra ``ledger``.
    """
    if format is Format.JSONL:
        return write_findings(incidents)
    gathered = tuple(incidents)
    if format is Format.SARIF:
        return write_sarif(gathered)
    if format is Format.OCSF:
        return write_ocsf(gathered)
    return write_page(gathered)
