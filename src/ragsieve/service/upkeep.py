"""What an earlier process left behind is settled: scans that ran, changes nobody confirmed."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragsieve.errors import ConfigError, MissingExtraError, StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.remediation.recovery import recover
from ragsieve.service.problems import where
from ragsieve.service.stores import Stores

EVERY_SECONDS = 30.0

log = logging.getLogger("ragsieve.service")

Settle = Callable[[Iterable[str | None], datetime.datetime], Sequence[str]]
"""Fails the scans of some tenants that began before a time and run no more; their ids."""


class Upkeep(Collector):
    """Settles at the start, and again every half minute while something is left.

    :param places: tenant and store of every declared store.
    :param settlers: fail scans that were interrupted.
    """

    def __init__(
        self,
        ledger: Ledger,
        stores: Stores,
        *,
        tenants: Iterable[str | None],
        places: Iterable[tuple[str | None, str]],
        settlers: Sequence[Settle],
        changed: Callable[[str | None], None],
        seconds: float = EVERY_SECONDS,
    ) -> None:
        self._ledger, self._stores = ledger, stores
        self._tenants = tuple(dict.fromkeys(tenants))
        self._places = tuple(dict.fromkeys(places))
        self._settlers, self._changed = settlers, changed
        self._seconds = seconds
        self._left: int | None = None
        self._began: datetime.datetime | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Settle, and go on doing so; also after :meth:`stop`."""
        if self._thread is None:
            self._began = self._ledger.now()
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Settle no more."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead: names are those of :meth:`collect`."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """How many changes are not settled; nothing while that is not known."""
        if self._left is not None:
            yield GaugeMetricFamily(
                "ragsieve_unsettled_changes",
                "Changes to stores that were intended and neither confirmed nor abandoned.",
                value=self._left,
            )

    def _run(self) -> None:
        while True:
            try:
                self._settle()
            except StoreError as error:
                self._left = None
                log.error("what was left open cannot be settled: %s", where(error))  # noqa: TRY400
            if self._stop.wait(self._seconds):
                return

    def _settle(self) -> None:
        if self._began is not None:
            for settle in self._settlers:
                for scan_id in settle(self._tenants, self._began):
                    log.warning("scan %s was interrupted", scan_id)
            self._began = None
        left = 0
        for tenant, store in self._places:
            if not self._ledger.states.pending(tenant=tenant, store=store):
                continue
            try:
                found = self._stores.run(store, tenant, self._ledger, recover)
            except (StoreError, ConfigError, MissingExtraError) as error:
                log.error("a store cannot be settled: %s", where(error))  # noqa: TRY400
            else:
                if found.confirmed or found.abandoned:
                    self._changed(tenant)
            left += len(self._ledger.states.pending(tenant=tenant, store=store))
        self._left = left
