"""Commands that change documents in a store: hide, release, delete, restore, recover, roll back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.ledgers import (
    Actor,
    Apply,
    Bundles,
    LedgerUrl,
    Reason,
    Tenant,
    ledger_settings,
    opened_ledger,
)
from ragsieve.errors import ConfigError
from ragsieve.settings import Settings

if TYPE_CHECKING:
    from ragsieve.ledger.records import QuarantineItem, Target
    from ragsieve.remediation.custody import Applied, Custody

Address = Annotated[str, typer.Argument(metavar="STORE", help="Address of the store.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Documents of the store.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Documents of a vector store: which are hidden, and hide, release, delete, restore. "
    "Every change is written to the ledger first and can be undone.",
)

_SETTLE_AFTER_SECONDS = 120.0
_SCAN_ENDS_AFTER_SECONDS = 86_400.0


@app.command()
def marks(store: Address, as_json: options.AsJson = False) -> None:
    """List the rows that are hidden now, as the store itself knows them."""
    from ragsieve.connectors.opening import open_store

    console = Console(as_json=as_json)
    with contextlib.closing(open_store(store)) as connector:
        found = connector.marks()
        address = connector.address
    rows = [
        {"id": one.id, "reason": one.reason, "scan": one.scan_id, "since": one.since.isoformat()}
        for one in found
    ]
    lines = [f"{one['id']}  {one['since']}  {one['reason']}  scan {one['scan']}" for one in rows]
    console.result(
        {"store": address, "hidden": rows}, [f"{len(rows):,} rows of {address} are hidden.", *lines]
    )


@app.command()
def prepare(store: Address, as_json: options.AsJson = False) -> None:
    """Add what hiding needs to the store, and print the filter your retriever is to use."""
    from ragsieve.connectors.opening import open_store

    console = Console(as_json=as_json)
    with contextlib.closing(open_store(store)) as connector:
        connector.prepare()
        address, served = connector.address, repr(connector.retrieval_filter())
    console.result(
        {"store": address, "filter": served},
        [f"{address} is ready. Its own search leaves hidden rows out with the filter:", served],
    )


@app.command()
def quarantine(
    store: Address,
    ids: Ids,
    reason: Reason,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Hide documents that somebody names, without a scan."""
    from ragsieve.ledger.records import ScanCounts, ScanKind, ScanStart
    from ragsieve.ledger.scans import new_scan_id

    console = Console(as_json=as_json)
    settings = ledger_settings(config, ledger, actor)
    with _custody(settings, store, tenant, existing=False) as custody:
        scan_id = new_scan_id()
        custody.ledger.scans.begin(
            ScanStart(
                scan_id, custody.connector.address, "manual", "manual", ScanKind.MANUAL, tenant,
                note=reason,
            )
        )  # fmt: skip
        targets = _as_stored(custody, ids)
        applied = custody.quarantine(targets, reason=reason, scan_id=scan_id)
        custody.ledger.scans.finish(scan_id, ScanCounts(documents=len(ids)), tenant=tenant)
    _report(console, "hidden", applied, ids, {"scan": scan_id})


@app.command()
def release(
    store: Address,
    ids: Ids,
    reason: Reason,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve hidden documents again."""
    console = Console(as_json=as_json)
    with _custody(ledger_settings(config, ledger, actor), store, tenant) as custody:
        applied = custody.release(_as_kept(custody, ids), reason=reason)
    _report(console, "released", applied, ids)


@app.command()
def delete(
    store: Address,
    ids: Ids,
    reason: Reason,
    bundles: Bundles = None,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove hidden documents; what is needed to bring them back is kept in a bundle."""
    console = Console(as_json=as_json)
    settings = ledger_settings(config, ledger, actor, bundles=bundles)
    with _custody(settings, store, tenant) as custody:
        applied = custody.delete(_as_kept(custody, ids), reason=reason)
    _report(console, "deleted", applied, ids)


@app.command()
def restore(
    store: Address,
    ids: Ids,
    reason: Reason,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring deleted documents back, hidden as they were."""
    console = Console(as_json=as_json)
    with _custody(ledger_settings(config, ledger, actor), store, tenant) as custody:
        applied = custody.restore(_as_kept(custody, ids), reason=reason)
    _report(console, "restored", applied, ids)


@app.command()
def recover(
    store: Address,
    older_than_seconds: Annotated[
        float, typer.Option(min=0, help="Leave younger intents to whoever is at work.")
    ] = _SETTLE_AFTER_SECONDS,
    scans_older_than_seconds: Annotated[
        float, typer.Option(min=0, help="Scans begun longer ago that still run count as dead.")
    ] = _SCAN_ENDS_AFTER_SECONDS,
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Settle what an interrupted command left open, by what the store shows."""
    from ragsieve.remediation.recovery import end_interrupted_scans
    from ragsieve.remediation.recovery import recover as settle

    console = Console(as_json=as_json)
    with _custody(ledger_settings(config, ledger, actor), store, tenant) as custody:
        found = settle(custody, older_than_seconds=older_than_seconds)
        ended = end_interrupted_scans(custody, older_than_seconds=scans_older_than_seconds)
    console.result(
        dataclasses.asdict(found) | {"interrupted_scans": list(ended)},
        [
            f"{len(found.confirmed):,} had happened and are confirmed, {len(found.abandoned):,} "
            f"had not and are abandoned, {len(found.waiting):,} are too young to be touched; "
            f"{len(ended):,} scans were interrupted."
        ],
    )


def rollback(
    scan: Annotated[str, typer.Argument(metavar="SCAN", help="Id of the scan.")],
    store: Annotated[
        str | None, typer.Option(help="Address of the store where the ledger's needs a secret.")
    ] = None,
    apply: Apply = False,
    include_contested: Annotated[
        bool, typer.Option(help="Also what somebody reviewed or another scan found since.")
    ] = False,
    reason: Reason = "rolled back",
    ledger: LedgerUrl = None,
    tenant: Tenant = None,
    actor: Actor = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Undo a whole scan; without --apply only show what would come back."""
    from ragsieve.remediation.recovery import recover as settle
    from ragsieve.remediation.rollback import roll_back

    console = Console(as_json=as_json)
    settings = ledger_settings(config, ledger, actor)
    with opened_ledger(settings, existing=True) as book:
        preview = book.rollback_preview(scan, tenant=tenant)
    place = store or preview.scan.start.store
    fields: dict[str, Any] = {
        "scan": scan,
        "store": preview.scan.start.store,
        "brings_back": _names(preview.brings_back),
        "contested": {one.item.place.document_id: list(one.reasons) for one in preview.contested},
        "left": _names(preview.left),
        "queries_affected": preview.queries_affected,
        "queries_kept": preview.queries_kept,
        "dry_run": not apply,
    }
    lines = [
        f"scan {scan} of {preview.scan.start.store}: {len(preview.brings_back):,} documents come "
        f"back, {len(preview.contested):,} are contested, {len(preview.left):,} are no longer its.",
        f"{preview.queries_affected:,} of the last {preview.queries_kept:,} retrievals kept would "
        "have had one of them.",
        *(
            f"  contested {one.item.place.document_id}: {'; '.join(one.reasons)}"
            for one in preview.contested
        ),
    ]
    if not apply:
        console.result(fields, [*lines, "Dry run: nothing was changed. --apply brings them back."])
        return
    with _custody(settings, place, tenant) as custody:
        if custody.connector.address != preview.scan.start.store:
            raise ConfigError(
                f"--store: {custody.connector.address} is not {preview.scan.start.store}, which "
                "this scan changed"
            )
        settle(custody)
        done = roll_back(custody, scan, reason=reason, include_contested=include_contested)
    fields |= {
        "released": list(done.released.done),
        "restored": list(done.restored.done),
        "left_contested": list(done.left),
        "complete": done.complete,
    }
    lines.append(
        f"{len(done.released.done):,} released, {len(done.restored.done):,} restored, "
        f"{len(done.left):,} contested ones left."
    )
    console.result(fields, lines)
    leave(findings=False, partial=not done.complete)


@contextlib.contextmanager
def _custody(
    settings: Settings, store: str, tenant: str | None, *, existing: bool = True
) -> Iterator[Custody]:
    from ragsieve.auditing.rows import row_content_sha256
    from ragsieve.connectors.address import parse_address
    from ragsieve.connectors.opening import open_store
    from ragsieve.remediation.custody import Custody

    address = parse_address(store)
    with (
        opened_ledger(settings, existing=existing) as ledger,
        contextlib.closing(open_store(address)) as connector,
    ):
        yield Custody(
            ledger,
            connector,
            row_content_sha256(address.fields),
            tenant=tenant,
            bundles=settings.ledger.bundles,
        )


def _as_stored(custody: Custody, ids: list[str]) -> list[Target]:
    """Targets with the content that the store holds now."""
    rows = custody.connector.fetch(ids)
    return [custody.target(row.id, custody.content_sha256(row)) for row in rows]


def _as_kept(custody: Custody, ids: list[str]) -> list[Target]:
    """Targets as the ledger knows them.

    :raises ConfigError: for a document to which nothing was ever done.
    """
    from ragsieve.ledger.records import Target

    found = []
    for name in dict.fromkeys(ids):
        item = custody.ledger.states.get(custody.place(name))
        if item is None:
            raise ConfigError(
                f"document {name!r}: the ledger knows of no change to it in "
                f"{custody.connector.address}"
            )
        found.append(Target(item.place, item.content_sha256, item.version))
    return found


def _names(items: tuple[QuarantineItem, ...]) -> list[str]:
    return [one.place.document_id for one in items]


def _report(
    console: Console,
    word: str,
    applied: Applied,
    ids: list[str],
    more: dict[str, Any] | None = None,
) -> None:
    known = {*applied.done, *applied.already, *applied.changed, *applied.missing}
    missing = [*applied.missing, *(name for name in dict.fromkeys(ids) if name not in known)]
    fields = {
        word: list(applied.done),
        "already": list(applied.already),
        "changed": list(applied.changed),
        "missing": missing,
    }
    lines = [f"{len(applied.done):,} {word}, {len(applied.already):,} were already."]
    if applied.changed:
        lines.append(f"{', '.join(applied.changed)}: changed since; look at them again.")
    if missing:
        lines.append(f"{', '.join(missing)}: not in the store.")
    console.result(fields | (more or {}), lines)
    leave(findings=False, partial=bool(applied.changed or missing))
