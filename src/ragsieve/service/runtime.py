"""What a service is made of, and what its routes share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter, Request
from prometheus_client.registry import Collector

from ragsieve.outcomes import Outcome
from ragsieve.policy.file import Policy, read_policy
from ragsieve.records import Document, Ranking, Scan
from ragsieve.service.access import Access, Principal
from ragsieve.service.health import Health
from ragsieve.service.holdings import Collection, Holdings
from ragsieve.service.keys import KeyFile
from ragsieve.service.metrics import Metrics
from ragsieve.service.sessions import Sessions
from ragsieve.service.telemetry import Telemetry
from ragsieve.service.workers import Workers
from ragsieve.settings import ServiceSettings
from ragsieve.trishield.provenance_policy import ProvenancePolicy

if TYPE_CHECKING:
    from ragsieve.ledger.book import Ledger


class Recorder(Protocol):
    """Keeps findings. Called in a worker thread, after the answer was made up.

    What it raises is logged and counted, and spoils no answer.
    """

    def filtered(self, principal: Principal, collection: Collection, outcome: Outcome) -> None:
        """A retrieval in which something was flagged or undecided."""
        ...

    def gated(
        self,
        principal: Principal,
        collection: Collection,
        documents: Sequence[Document],
        scan: Scan,
    ) -> None:
        """A batch of new documents, whatever was decided."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What :func:`ragsieve.service.app.create_app` makes a service of.

    :param keys: None for a service that only this machine may ask.
    :param policy: what is done about findings.
    :param trust: in declared sources, for rules that ask for it; unknown without.
    :param recorder: keeps findings; None where nothing is kept.
    :param retrieved: told of every retrieval that was answered, on the path of its request: it
        must be quick and may not fail.
    :param checks: of readiness, by name: each says what is amiss, or None. Quick; asked by
        strangers too, so that no secret and no name of a tenant may stand in what it says.
    :param routers: further routes, made from what all routes share.
    :param ledger: where findings, reviews and states are kept; None where nothing is.
    :param collectors: further metrics.
    :param on_start: called before the first request, in a thread; what they raise stops the
        service.
    :param on_stop: called last, in order.
    :param secure_cookies: whether the desk's cookie goes over TLS alone.
    """

    holdings: Holdings
    settings: ServiceSettings
    profile: str
    keys: KeyFile | None = None
    policy: Policy = dataclasses.field(default_factory=lambda: read_policy(None))
    trust: ProvenancePolicy | None = None
    recorder: Recorder | None = None
    retrieved: Callable[[Collection, Ranking], None] = lambda _collection, _ranking: None
    checks: Mapping[str, Callable[[], str | None]] = dataclasses.field(default_factory=dict)
    routers: Sequence[Callable[[Runtime], APIRouter]] = ()
    ledger: Ledger | None = None
    collectors: Sequence[Collector] = ()
    on_start: Sequence[Callable[[], None]] = ()
    on_stop: Sequence[Callable[[], None]] = ()
    secure_cookies: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Runtime:
    """What the routes of one app share; also ``app.state.runtime``.

    :param workers: judge retrievals; ``gate_worker`` new documents, one batch at a time;
        ``recording`` keeps findings after their answers.
    """

    parts: Parts
    access: Access
    sessions: Sessions
    metrics: Metrics
    telemetry: Telemetry
    health: Health
    workers: Workers
    gate_worker: Workers
    recording: Workers


async def runtime_of(request: Request) -> Runtime:
    """A dependency: what the routes share."""
    found: Runtime = request.app.state.runtime
    return found
