"""Commands about findings: list, show, review, truth, export."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsieve._atomic import write_text
from ragsieve.cases import Opinion, Remediation, Truth
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.ledgers import (
    Actor,
    LedgerUrl,
    Reason,
    Tenant,
    check_output,
    ledger_settings,
    opened_ledger,
)
from ragsieve.explain import MEANING
from ragsieve.findings.export import Format

if TYPE_CHECKING:
    from ragsieve.ledger.book import Ledger
    from ragsieve.ledger.records import KeptIncident, QueueFilter

app = typer.Typer(
    no_args_is_help=True,
    help="What was found and what became of it. A finding is evidence of promotion, never a "
    "verdict on truth.",
)

_PAGE = 500
Finding = Annotated[str, typer.Argument(metavar="ID", help="Id of the finding.")]
Scan = Annotated[str | None, typer.Option("--scan", help="Findings of this scan alone.")]
Store = Annotated[str | None, typer.Option(help="Findings in this store alone.")]
State = Annotated[Remediation | None, typer.Option(help="What was done to the document.")]
Unreviewed = Annotated[
    bool | None, typer.Option("--reviewed/--unreviewed", help="With or without an opinion.")
]


@app.command("list")
def list_findings(
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    scan: Scan = None,
    store: Store = None,
    state: State = None,
    reviewed: Unreviewed = None,
    evidence: Annotated[str | None, typer.Option(help="With this evidence above 0.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE)] = 20,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """List findings, the most pressing first: risk times exposure."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger), existing=True) as book:
        wanted = _filter(scan, store, state, reviewed=reviewed, evidence=evidence)
        page = book.incidents.queue(wanted, tenant=tenant, limit=limit)
    rows = [_short(one) for one in page.entries]
    lines = [
        f"{one['id']}  {one['document']}: {one['level']}, score {one['score']:.2f}, "
        f"{one['measure']}; state {one['state']}, opinion {one['opinion'] or 'none'}, "
        f"retrieved {one['retrieved']:,} times"
        for one in rows
    ]
    console.result(
        {"total": page.total, "findings": rows, "meaning": MEANING},
        [f"{page.total:,} findings, {len(rows):,} shown.", *lines, MEANING],
    )


@app.command()
def scans(
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    store: Store = None,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE)] = 20,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """List scans, newest first: their ids are what `rollback` takes."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger), existing=True) as book:
        entries = book.scans.all(tenant=tenant, store=store, limit=limit)
    rows = [
        {
            "id": one.start.id,
            "kind": str(one.start.kind),
            "store": one.start.store,
            "state": str(one.state),
            "dry_run": one.start.dry_run,
            "started": one.started.isoformat(),
            "documents": one.counts.documents,
            "findings": one.counts.flagged,
            "by": one.actor,
        }
        for one in entries
    ]
    lines = [
        f"{one.start.id}  {one.started:%Y-%m-%d %H:%M:%S}  {one.start.kind}, {one.state}"
        f"{', dry run' if one.start.dry_run else ''}: {one.counts.flagged:,} findings in "
        f"{one.counts.documents:,} documents of {one.start.store}, by {one.actor}"
        for one in entries
    ]
    console.result({"scans": rows}, lines or ["no scan"])


@app.command()
def show(
    finding: Finding,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Show one finding with its evidence, its history and what was done."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger), existing=True) as book:
        kept = book.incidents.get(finding, tenant=tenant)
        past = book.history(kept.incident.content_sha256, tenant=tenant)
    incident = kept.incident
    lines = [
        f"{incident.place.document_id} in {incident.place.store}",
        f"score {incident.verdict.score:.3f}, threshold {incident.verdict.threshold:g}, "
        f"level {incident.verdict.level}, state {incident.remediation}, truth {incident.truth}",
        f"policy: {incident.decision.measure} by rule {incident.decision.rule!r}: "
        f"{incident.decision.reason} (policy {incident.decision.policy_sha256[:12]})",
    ]
    lines += [
        f"  {one.name}: "
        + ("unavailable, " + str(one.reason) if one.value is None else f"{one.value:.3f}")
        for one in incident.verdict.evidences
    ]
    lines += [
        f"  {one.at:%Y-%m-%d %H:%M} {one.reviewer}: {one.opinion}, {one.reason}"
        for one in past.reviews
    ]
    lines += [
        f"  {one.at:%Y-%m-%d %H:%M} {one.actor}: {one.old} -> {one.new}, {one.reason}"
        for one in past.changes
    ]
    lines += [f"Rollback: ragsieve rollback {incident.rollback_handle}", MEANING]
    fields = _short(kept) | {
        "evidences": {one.name: one.value for one in incident.verdict.evidences},
        "policy_sha256": incident.decision.policy_sha256,
        "rule": incident.decision.rule,
        "reason": incident.decision.reason,
        "rollback_handle": incident.rollback_handle,
        "earlier_verdicts": len(past.verdicts),
        "reviews": [
            {"reviewer": one.reviewer, "opinion": str(one.opinion), "reason": one.reason}
            for one in past.reviews
        ],
        "meaning": MEANING,
    }
    console.result(fields, lines)


@app.command()
def review(
    finding: Finding,
    opinion: Annotated[Opinion, typer.Argument(help="What you say of it.")],
    reason: Reason,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what you think of a finding; nothing is hidden or released by it."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger, actor), existing=True) as book:
        made = book.reviews.add(finding, opinion, reason=reason, tenant=tenant)
    console.result(
        {"finding": finding, "opinion": str(made.opinion), "reviewer": made.reviewer},
        [f"{made.reviewer} says {made.opinion}: {made.reason}"],
    )


@app.command()
def truth(
    finding: Finding,
    checked: Annotated[Truth, typer.Argument(help="What was found out about the content.")],
    reason: Reason,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write down what somebody checked about the truth of a document; no score ever does."""
    console = Console(as_json=as_json)
    with opened_ledger(ledger_settings(config, ledger, actor), existing=True) as book:
        made = book.truth.add(finding, checked, reason=reason, tenant=tenant)
    console.result(
        {"finding": finding, "truth": str(made.truth), "checker": made.checker},
        [f"{made.checker} finds it {made.truth}: {made.reason}"],
    )


@app.command()
def export(
    output: options.Output,
    format: Annotated[Format, typer.Option(help="How it is written.")] = Format.JSONL,  # noqa: A002
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    scan: Scan = None,
    store: Store = None,
    state: State = None,
    reviewed: Unreviewed = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write findings for other tools: JSON lines, SARIF 2.1.0, OCSF or a page to read."""
    from ragsieve.findings.export import export as write

    console = Console(as_json=as_json)
    settings = ledger_settings(config, ledger)
    check_output(output, settings, config)
    with opened_ledger(settings, existing=True) as book:
        wanted = _filter(scan, store, state, reviewed=reviewed)
        found = [one.incident for one in every(book, wanted, tenant)]
        write_text(output, "".join(write(found, format)))
        payload = {"format": str(format), "findings": len(found)}
        book.audit.add("findings.export", str(scan or store or "all"), payload, tenant=tenant)
    console.result(
        {"findings": len(found), "format": str(format), "output": str(output)},
        [f"{len(found):,} findings written to {output} as {format}.", MEANING],
    )


def every(book: Ledger, wanted: QueueFilter, tenant: str | None) -> list[KeptIncident]:
    """All findings that a filter has, by the pages of the queue."""
    found: list[KeptIncident] = []
    while True:
        page = book.incidents.queue(wanted, tenant=tenant, limit=_PAGE, offset=len(found))
        found += page.entries
        if not page.entries or len(found) >= page.total:
            return found


def _filter(
    scan: str | None,
    store: str | None,
    state: Remediation | None,
    *,
    reviewed: bool | None,
    evidence: str | None = None,
) -> QueueFilter:
    from ragsieve.ledger.records import QueueFilter

    # Every finding of a named scan, also those that a later scan superseded.
    return QueueFilter(
        scan_id=scan,
        store=store,
        state=state,
        reviewed=reviewed,
        evidence=evidence,
        # Measured and nothing found is 0; the least number above it leaves those out.
        evidence_at_least=math.ulp(0.0),
        superseded=None if scan is not None else False,
    )


def _short(kept: KeptIncident) -> dict[str, Any]:
    incident = kept.incident
    return {
        "id": incident.id,
        "document": incident.place.document_id,
        "store": incident.place.store,
        "scan": incident.scan_id,
        "level": str(incident.verdict.level),
        "score": round(incident.verdict.score, 4),
        "measure": str(incident.decision.measure),
        "state": str(incident.remediation),
        "truth": str(incident.truth),
        "opinion": None if incident.opinion is None else str(incident.opinion),
        "campaign": incident.campaign,
        "retrieved": kept.exposure,
    }
