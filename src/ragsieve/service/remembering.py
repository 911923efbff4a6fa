"""A service that remembers: what its ledger adds to its parts."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

from prometheus_client import Histogram

from ragsieve.assembly import corpus_detector
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.errors import RagsieveError
from ragsieve.featurestore.store import FeatureStore
from ragsieve.ledger import open_ledger
from ragsieve.ledger.book import Ledger
from ragsieve.policy.file import Policy
from ragsieve.service import exports, reviews, scans
from ragsieve.service.desk import routes as desk
from ragsieve.service.exposing import Exposing
from ragsieve.service.holdings import Collection, Holdings
from ragsieve.service.jobs import Job, Jobs
from ragsieve.service.problems import where
from ragsieve.service.recording import LedgerRecorder
from ragsieve.service.reviewing import Reviewing
from ragsieve.service.runtime import Parts
from ragsieve.service.scanning import StoreScanner
from ragsieve.service.stores import DeclaredStore, Stores, declare
from ragsieve.service.upkeep import Upkeep
from ragsieve.service.withholding import Withheld, Withholding
from ragsieve.settings import ServiceSettings, Settings
from ragsieve.trishield.provenance_policy import ProvenancePolicy

BUSY_SECONDS = 5.0
"""How long a request waits for another writer of the ledger."""

_SCAN_SECONDS = (1, 5, 15, 60, 300, 900, 3_600, 14_400)

log = logging.getLogger("ragsieve.service")


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """By what findings are judged and kept.

    :param declared: the stores that may be changed.
    :param detector: makes the judge of scan jobs.
    """

    ledger: Ledger
    declared: tuple[DeclaredStore, ...]
    detector: Callable[[], CorpusDetector]
    config_sha256: str
    trust: ProvenancePolicy | None = None
    acl_field: str = "acl"
    bundles: Path | None = None


def with_ledger(parts: Parts, settings: Settings, features: FeatureStore | None) -> Parts:
    """The parts of a service that keeps what it finds in the ledger of the settings.

    :param features: what is known about texts, for scan jobs.
    :raises ConfigError: for an address that cannot be read.
    :raises StoreError: when the ledger cannot be opened.
    """
    service = settings.service
    declared = tuple(
        declare(one.store.get_secret_value(), one.tenant)
        for one in service.collections.values()
        if one.store is not None
    )
    actor = settings.ledger.actor or f"service {service.name}"
    ledger = open_ledger(
        settings.ledger.url.get_secret_value(), actor=actor, busy_seconds=BUSY_SECONDS
    )
    memory = Memory(
        ledger,
        declared,
        lambda: corpus_detector(settings, store=features),
        settings.sha256,
        parts.trust,
        settings.ledger.acl_field,
        settings.ledger.bundles,
    )
    return remembering(parts, memory)


def remembering(parts: Parts, memory: Memory) -> Parts:
    """The parts with recording, withholding, reviews, scan jobs and exports.

    :raises StoreError: when the ledger cannot be read.
    """
    service, ledger = parts.settings, memory.ledger
    withheld = {one.name: _withheld(ledger, one) for one in parts.holdings}
    members = [dataclasses.replace(one, withheld=withheld[one.name]) for one in parts.holdings]
    tenants = {None, *(one.tenant for one in members)}
    stores = Stores(memory.declared, bundles=memory.bundles)
    withholding = Withholding(
        ledger, withheld.values(), tenants=tenants, seconds=service.refresh_seconds
    )
    exposing = Exposing(
        ledger,
        questions=parts.policy.declared.keep_questions,
        depth=service.exposure_depth,
        waiting=service.exposures_waiting,
    )
    recorder = LedgerRecorder(
        ledger,
        parts.policy,
        name=service.name,
        config_sha256=memory.config_sha256,
        trust=memory.trust,
    )
    seconds = Histogram(
        "ragsieve_scan_duration_seconds",
        "Scan jobs that ended well.",
        ["store"],
        buckets=_SCAN_SECONDS,
        registry=None,
    )
    jobs = _jobs(
        memory, parts.policy, parts.profile, members, stores, service, seconds, withholding
    )
    upkeep = Upkeep(
        ledger,
        stores,
        tenants=tenants,
        places=[(one.tenant, one.address) for one in memory.declared],
        settlers=(recorder.settle_interrupted, jobs.settle_interrupted),
        changed=withholding.invalidate,
    )
    reviewing = Reviewing(ledger, stores, changed=withholding.invalidate)
    holdings = Holdings(parts.holdings.bare, members)
    ends = (jobs.stop, upkeep.stop, withholding.stop, exposing.stop, recorder.close, stores.close)
    return dataclasses.replace(
        parts,
        holdings=holdings,
        ledger=ledger,
        recorder=recorder,
        retrieved=exposing.add,
        checks={**parts.checks, "ledger": withholding.problem},
        routers=(
            *parts.routers,
            reviews.router(reviewing),
            scans.router(jobs, ledger, holdings, name=service.name),
            exports.router(ledger, most=service.most_exported),
            desk.router(reviewing),
        ),
        collectors=(*parts.collectors, withholding, upkeep, exposing.dropped, seconds),
        on_start=(
            *parts.on_start,
            withholding.start,
            exposing.start,
            jobs.start,
            upkeep.start,
        ),
        on_stop=(*(_quietly(one) for one in ends), ledger.close, *parts.on_stop),
    )


def _withheld(ledger: Ledger, one: Collection) -> Withheld:
    return Withheld(ledger, one.name, one.address, one.tenant, predicted=one.withheld())


def _jobs(
    memory: Memory,
    policy: Policy,
    profile: str,
    members: list[Collection],
    stores: Stores,
    service: ServiceSettings,
    seconds: Histogram,
    withholding: Withholding,
) -> Jobs:
    scanner = StoreScanner(
        stores,
        {one.name: one for one in members if one.store is not None},
        policy,
        profile,
        memory.config_sha256,
        memory.detector,
        memory.trust,
        memory.acl_field,
        memory.bundles,
    )

    def seen(job: Job) -> None:
        if job.found is not None and job.started is not None and job.ended is not None:
            took = (job.ended - job.started).total_seconds()
            seconds.labels(job.collection).observe(took)

    return Jobs(
        memory.ledger,
        scanner,
        name=service.name,
        waiting=service.scans_waiting,
        changed=withholding.invalidate,
        seen=seen,
    )


def _quietly(end: Callable[[], None]) -> Callable[[], None]:
    """What ends a part; the others end too where it fails."""

    def ended() -> None:
        try:
            end()
        except RagsieveError as error:
            log.error("something did not end well: %s", where(error))  # noqa: TRY400

    return ended
