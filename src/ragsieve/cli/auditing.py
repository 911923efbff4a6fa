"""Commands about the audit trail: verify, head, show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.ledgers import LedgerUrl, Tenant, ledger_settings, opened_ledger
from ragsieve.errors import ConfigError

if TYPE_CHECKING:
    from ragsieve.ledger.reports import AuditHead

app = typer.Typer(
    no_args_is_help=True,
    help="Who changed what, when: a chain of entries that cannot be edited unseen. Exit codes: "
    "0 the chain holds, 1 it is damaged, 2 usage or no ledger.",
)

_HASH_CHARACTERS = 64


@app.command()
def verify(
    ledger: LedgerUrl = None,
    expect: Annotated[
        str | None,
        typer.Option(help="NUMBER:HASH that `audit head` printed before; finds a tail cut off."),
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Check every entry of the chain."""
    console = Console(as_json=as_json)
    expected = None if expect is None else _head(expect)
    with opened_ledger(ledger_settings(config, ledger), existing=True) as book:
        report = book.audit.verify(expected_head=expected)
    head = None if report.head is None else f"{report.head.seq}:{report.head.sha256}"
    fields = {
        "entries": report.entries,
        "intact": report.intact,
        "head": head,
        "first_bad": report.first_bad,
        "problem": report.problem,
    }
    if report.intact:
        lines = [f"{report.entries:,} entries; the chain holds. Head: {head or 'none yet'}"]
        if expected is None:
            lines.append("A tail cut off shows only against a head kept elsewhere: --expect.")
    else:
        lines = [f"entry {report.first_bad}: {report.problem}", f"{report.entries:,} hold before."]
    console.result(fields, lines)
    leave(findings=not report.intact, partial=False)


@app.command()
def head(
    ledger: LedgerUrl = None, config: options.Config = None, as_json: options.AsJson = False
) -> None:
    """Print the last entry's number and hash, to be kept where the ledger's owner cannot write."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger), existing=True) as book:
        last = book.audit.head()
    shown = None if last is None else f"{last.seq}:{last.sha256}"
    console.result({"head": shown}, [shown or "no entry yet"])


@app.command()
def show(
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, help="Entries to print, newest first.")] = 20,
    subject: Annotated[str | None, typer.Option(help="Of one scan or finding.")] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the newest entries of one tenant."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger), existing=True) as book:
        entries = book.audit.entries(tenant=tenant, limit=limit, subject=subject, newest_first=True)
    fields = [
        {
            "seq": one.seq,
            "at": one.at.isoformat(),
            "actor": one.actor,
            "action": one.action,
            "subject": one.subject,
            "payload": dict(one.payload),
            "sha256": one.sha256,
        }
        for one in entries
    ]
    lines = [
        f"{one.seq}  {one.at:%Y-%m-%d %H:%M:%S}  {one.actor}  {one.action}  {one.subject}  "
        + json.dumps(dict(one.payload), ensure_ascii=True)[:200]
        for one in entries
    ]
    console.result({"entries": fields}, lines or ["no entry"])


def _head(text: str) -> AuditHead:
    from ragsieve.ledger.reports import AuditHead

    number, _, sha256 = text.partition(":")
    if not number.isdecimal() or len(sha256) != _HASH_CHARACTERS:
        raise ConfigError(f"--expect: expected NUMBER:HASH as `audit head` prints, found {text!r}")
    return AuditHead(int(number), sha256)
