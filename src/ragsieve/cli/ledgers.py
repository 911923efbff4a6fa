"""Options and doors that the commands around the ledger share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._extras import require
from ragsieve.errors import ConfigError
from ragsieve.settings import Settings, load_settings

if TYPE_CHECKING:
    from ragsieve.ledger.book import Ledger

LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="Ledger: a file, sqlite:///FILE or postgresql://...; else the settings'."
    ),
]
Tenant = Annotated[
    str | None, typer.Option(help="Whose findings; leave out where there is one owner.")
]
Actor = Annotated[
    str | None, typer.Option("--as", help="In whose name changes are written; else yours here.")
]
Reason = Annotated[str, typer.Option(help="Why; it stands in the audit trail.")]
Apply = Annotated[
    bool,
    typer.Option("--apply/--dry-run", help="Change the store; without it only say what would be."),
]
Bundles = Annotated[
    Path | None, typer.Option(help="Folder for what is deleted, so that it can be brought back.")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="TOML policy; the built-in one without it.")
]
Embed = Annotated[
    bool, typer.Option("--embed", help="Compute vectors anew from the texts of the store.")
]
VectorsBy = Annotated[
    str | None, typer.Option(help="Model behind the store's vectors; it stands in every finding.")
]
AllowMoving = Annotated[
    bool, typer.Option("--allow-moving", help="Judge a part where others write meanwhile.")
]
Work = Annotated[
    Path | None, typer.Option(help="Folder that keeps the frozen copy; else a temporary one.")
]


def ledger_settings(
    config: Path | None,
    ledger: str | None,
    actor: str | None = None,
    *,
    bundles: Path | None = None,
    policy: Path | None = None,
    **more: object,
) -> Settings:
    """Settings with what a command was told about its ledger."""
    return load_settings(
        config,
        ledger={"url": ledger, "actor": actor, "bundles": bundles, "policy": policy},
        **more,
    )


def opened_ledger(settings: Settings, *, existing: bool = False) -> Ledger:
    """The ledger that the settings name.

    :param existing: refuse a file that is not there instead of making an empty ledger.
    :raises ConfigError: when it is not there.
    :raises MissingExtraError: when the extra ``ledger`` is not installed.
    :raises StoreError: when it cannot be opened.
    """
    from ragsieve.ledger import open_ledger

    file = ledger_file(settings)
    if existing and file is not None and not file.exists():
        raise ConfigError(f"{file}: there is no ledger; give the one that a scan wrote: --ledger")
    return open_ledger(settings.ledger.url.get_secret_value(), actor=settings.ledger.signature)


def ledger_file(settings: Settings) -> Path | None:
    """The file of a ledger in SQLite; None for one on a server.

    :raises MissingExtraError: when the extra ``ledger`` is not installed.
    """
    require("sqlalchemy", extra="ledger")
    from ragsieve.ledger.connecting import address_of

    address = address_of(settings.ledger.url.get_secret_value())
    found = address.get_backend_name() == "sqlite" and address.database
    return Path(found) if found else None


def check_output(output: Path, settings: Settings, *read: Path | None) -> None:
    """Fail before the work starts when a result would replace the ledger, or what is read.

    :raises OutputError: when it would, or cannot be written.
    """
    check_writable(output)
    check_distinct([output], [ledger_file(settings), settings.ledger.policy, *read])
