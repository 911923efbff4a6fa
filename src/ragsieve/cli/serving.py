"""The command that serves the filter and the gate, and those about its keys."""

from __future__ import annotations

import datetime
import enum
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve._extras import require
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import BAD_INPUT
from ragsieve.settings import load_settings

if TYPE_CHECKING:
    from ragsieve.service.keys import ApiKey, KeyFile

_SWITCH_SECONDS = 0.0005
_COLLECTION = "default"

KeysFile = Annotated[Path | None, typer.Option("--keys", help="File of the hashed keys.")]


class OnFailure(enum.StrEnum):
    """What follows where judging fails or takes too long."""

    CLOSED = "closed"
    OPEN = "open"


class RoleName(enum.StrEnum):
    """What a key may do."""

    SERVICE = "service"
    REVIEWER = "reviewer"
    ADMIN = "admin"


keys = typer.Typer(
    no_args_is_help=True,
    help="Keys of the service: made, listed, ended. Exit codes: 0 done, 2 usage or bad input.",
)


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address; other than 127.0.0.1 only once there are keys.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535)] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Corpus: requests may then name ids alone.")
    ] = None,
    state: options.State = None,
    live: Annotated[
        Path | None, typer.Option(help="Live index that the gate judges against.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Predictions of `scan`: what they quarantine is withheld.")
    ] = None,
    embed: Annotated[
        bool | None, typer.Option("--embed", help="The gate embeds what comes without a vector.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="Address of the vector store behind it; with --ledger.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="Ledger: a file or URL; reviews, scan jobs and the desk need one."),
    ] = None,
    keys_file: KeysFile = None,
    policy: Annotated[Path | None, typer.Option(help="TOML policy of findings.")] = None,
    on_failure: Annotated[
        OnFailure | None, typer.Option(help="closed: 503. open: the ranking unfiltered.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that judge.")] = None,
    features: options.Features = None,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
) -> None:
    """Serve the query filter and the ingest gate over HTTP until interrupted.

    With --ledger also reviews, scan jobs, exports and the review desk. --corpus, --state,
    --live, --predictions, --embed and --store make the collection `default`; several
    collections stand in the settings. Exit codes: 0 stopped, 2 usage or bad input.
    """
    console = Console()
    for module in ("fastapi", "uvicorn", "prometheus_client", "opentelemetry"):
        require(module, extra="service")
    from ragsieve.service.app import create_app
    from ragsieve.service.loading import load_parts
    from ragsieve.service.serving import make_server

    given = {
        "corpus": corpus,
        "state": state,
        "live": live,
        "predictions": predictions,
        "embed": embed,
        "store": store,
    }
    settings = load_settings(
        config,
        profile=profile,
        models_dir=models_dir,
        models={
            "causal": causal_model,
            "encoder": token_model,
            "retriever": encoder,
            "device": device,
        },
        features={"store": features},
        ledger={"url": ledger},
        service={
            "host": host,
            "port": port,
            "keys": keys_file,
            "policy": policy,
            "on_failure": on_failure,
            "threads": threads,
            "ledger": None if ledger is None else True,
            "collections": {_COLLECTION: given},
        },
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    parts = load_parts(settings, note=console.note)
    app = create_app(parts)
    if not app.state.runtime.access.keyed:
        console.note(
            f"no keys in {settings.service.keys}: everybody on this machine is admin; "
            "`ragsieve keys add NAME` ends that"
        )
    server = make_server(app, settings.service)
    # The ledger's driver gives the interpreter away at every row; behind threads that judge it would
    # wait the usual 5 ms each time to get it back, and fall behind the retrievals it counts.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # The server stops in good order on this signal and then raises it again: for us it has ended.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        server.run()
    except KeyboardInterrupt:
        return
    except SystemExit as error:
        # Said in the log: the port is taken, or the like.
        raise typer.Exit(BAD_INPUT) from error


@keys.command()
def add(
    name: Annotated[str, typer.Argument(help="Whom or what it is for.")],
    role: Annotated[RoleName, typer.Option(help="What it may do.")] = RoleName.SERVICE,
    tenant: Annotated[
        str | None, typer.Option(help="Whose collections it sees; all without.")
    ] = None,
    expires_days: Annotated[
        float | None, typer.Option(min=0, help="Days until it ends by itself.")
    ] = None,
    keys_file: KeysFile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a key and show it, this once: only its hash is kept."""
    from ragsieve.service.keys import Role

    lifetime = None if expires_days is None else datetime.timedelta(days=expires_days)
    token, key = _file(keys_file, config).add(
        name, Role(role.value), tenant=tenant, lifetime=lifetime
    )
    lines = [token, f"Key {key.id} of {key.name}: it is shown this once; only its hash is kept."]
    Console(as_json=as_json).result({"key": token, **_fields(key)}, lines)


@keys.command("list")
def list_keys(
    keys_file: KeysFile = None, config: options.Config = None, as_json: options.AsJson = False
) -> None:
    """List keys, ended ones too; none of them can be shown again."""
    file = _file(keys_file, config)
    found = file.keys()
    rows = [_fields(key) for key in found]
    lines = ["  ".join(f"{name} {value}" for name, value in row.items() if value) for row in rows]
    Console(as_json=as_json).result({"keys": rows}, lines or [f"No keys in {file.path}."])


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    keys_file: KeysFile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """End a key, and the sessions made from it, for good."""
    key = _file(keys_file, config).revoke(key_id)
    lines = [f"Key {key.id} of {key.name} opens nothing any more."]
    Console(as_json=as_json).result(_fields(key), lines)


def _file(path: Path | None, config: Path | None) -> KeyFile:
    require("fastapi", extra="service")
    from ragsieve.service.keys import KeyFile

    return KeyFile(load_settings(config, service={"keys": path}).service.keys)


def _fields(key: ApiKey) -> dict[str, str | None]:
    times = (key.created, key.expires, key.revoked)
    created, expires, revoked = (
        None if one is None else one.isoformat(timespec="seconds") for one in times
    )
    return {
        "id": key.id,
        "name": key.name,
        "role": str(key.role),
        "tenant": key.tenant,
        "created": created,
        "expires": expires,
        "revoked": revoked,
    }
