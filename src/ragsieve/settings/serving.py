"""The tables of the ledger and of the service."""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from ragsieve.errors import ConfigError

_STRICT = ConfigDict(extra="forbid", frozen=True)
_COLLECTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class LedgerSettings(BaseModel):
    """Where decisions about stores are remembered, and by what they are made.

    :param url: of the ledger's database, or a file name; may hold a password.
    :param actor: in whose name changes are written; the user of this machine when None.
    :param policy: TOML file of what is done about findings; the built-in one when None.
    :param bundles: folder for what is deleted from stores; nothing can be deleted without.
    :param acl_field: metadata of a store that says who may write a document.
    """

    model_config = _STRICT

    url: SecretStr = SecretStr("ragsieve-ledger.sqlite")
    actor: str | None = Field(default=None, min_length=1)
    policy: Path | None = None
    bundles: Path | None = None
    acl_field: str = "acl"

    @property
    def signature(self) -> str:
        """In whose name changes are written."""
        return self.actor or getpass.getuser()


class CollectionSettings(BaseModel):
    """One corpus that the service knows.

    :param tenant: who owns it; keys of another tenant do not see it.
    :param corpus: its documents; requests may then name ids alone.
    :param state: of a scan of it: what the query rule and the gate of profile ``default`` know.
    :param live: folder of its live index, which the gate judges against in place of a state.
    :param predictions: of its scan; what it flagged is taken out of every retrieval.
    :param embed: whether the gate embeds documents that come without a vector.
    :param store: address of the vector store behind it, as the command `scan` takes it; may hold
        a secret. Scan jobs read it, reviewers change it; needs the ledger.
    :param vectors_by: model behind the store's vectors; it stands in every finding.
    """

    model_config = _STRICT

    tenant: str | None = Field(default=None, min_length=1)
    corpus: Path | None = None
    state: Path | None = None
    live: Path | None = None
    predictions: Path | None = None
    embed: bool = False
    store: SecretStr | None = None
    vectors_by: str | None = Field(default=None, min_length=1)


class ServiceSettings(BaseModel):
    """How the service listens, what it knows and what it refuses.

    :param host: address to listen on; other than this machine's own only with keys.
    :param keys: file of the hashed keys.
    :param collections: ``[service.collections.NAME]`` tables.
    :param policy: TOML file of what is done about findings; the built-in one when None.
    :param on_failure: where judging fails or takes too long: ``closed`` refuses, ``open`` hands
        the ranking over unfiltered and says so.
    :param threads: that judge retrievals.
    :param waiting: requests that may wait for a thread.
    :param request_seconds: for judging one request, waiting included.
    :param gate_seconds: for judging one batch of new documents.
    :param body_seconds: for a request's whole body; ``header_seconds`` for its head.
    :param connections: open at once.
    :param max_documents: in one ranking, or one batch of the gate.
    :param max_batch: retrievals in one request.
    :param trace_questions: whether spans carry the text of questions.
    :param ledger: whether findings, reviews and states are kept in the ledger of ``[ledger]``.
    :param name: of this service in the ledger; services that share one need names of their own.
    :param refresh_seconds: after which the ledger is asked again what is hidden.
    :param exposure_depth: documents of a retrieval that count as retrieved, the best first; none
        are counted at 0.
    :param exposures_waiting: retrievals that may wait to be counted; what comes then is dropped.
    :param scans_waiting: scan jobs that may wait.
    :param most_exported: findings in one export.
    :param secure_cookies: whether the desk's cookie goes over TLS alone: true behind a proxy that
        ends TLS. When None, where the service listens beyond this machine.
    :param session_idle_seconds: after which an unused session of the desk ends.
    :param session_seconds: after which any ends.
    """

    model_config = _STRICT

    host: str = "127.0.0.1"
    port: int = Field(default=8713, ge=0, le=65_535)
    keys: Path = Field(default_factory=lambda: _default_keys())  # noqa: PLW0108 -- defined below
    collections: dict[str, CollectionSettings] = {}
    policy: Path | None = None
    on_failure: Literal["closed", "open"] = "closed"
    threads: int = Field(default=2, ge=1, le=64)
    waiting: int = Field(default=64, ge=0, le=10_000)
    request_seconds: float = Field(default=10, gt=0)
    gate_seconds: float = Field(default=60, gt=0)
    body_seconds: float = Field(default=10, gt=0)
    header_seconds: float = Field(default=10, gt=0)
    keep_alive_seconds: int = Field(default=5, ge=1)
    stop_seconds: int = Field(default=10, ge=1)
    connections: int = Field(default=128, ge=1)
    max_body_bytes: int = Field(default=4 << 20, ge=1_024)
    max_documents: int = Field(default=200, ge=1, le=1_000)
    max_batch: int = Field(default=64, ge=1, le=256)
    trace_questions: bool = False
    ledger: bool = False
    name: str = Field(default="ragsieve", pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\z")
    refresh_seconds: float = Field(default=2, ge=0.1)
    exposure_depth: int = Field(default=10, ge=0, le=1_000)
    exposures_waiting: int = Field(default=10_000, ge=1)
    scans_waiting: int = Field(default=16, ge=1, le=1_000)
    most_exported: int = Field(default=10_000, ge=1, le=100_000)
    secure_cookies: bool | None = None
    session_idle_seconds: float = Field(default=1_800, gt=0)
    session_seconds: float = Field(default=36_000, gt=0)

    @field_validator("collections")
    @classmethod
    def _short_names(
        cls, collections: dict[str, CollectionSettings]
    ) -> dict[str, CollectionSettings]:
        # They are dimensions of metrics and parts of addresses.
        for name in collections:
            if not _COLLECTION_NAME.fullmatch(name):
                raise ConfigError(
                    f"expected names of letters, digits, '-' and '_', at most 64, found {name!r}"
                )
        return collections

    @model_validator(mode="after")
    def _stores_need_the_ledger(self) -> ServiceSettings:
        for name, one in self.collections.items():
            if one.store is not None and not self.ledger:
                raise ConfigError(
                    f"collections.{name}.store: what is done to a store is kept in a ledger; "
                    "set service.ledger = true"
                )
        return self


def _default_keys() -> Path:
    return Path(platformdirs.user_config_dir("ragsieve")) / "keys.json"
