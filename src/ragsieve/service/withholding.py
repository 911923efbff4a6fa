"""What the ledger hides is withheld from retrievals: read in the background, known at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragsieve.cases import Remediation
from ragsieve.errors import StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.records import QueueFilter
from ragsieve.service.problems import where

STALE_READINGS = 3
"""Intervals without a reading after which what is known counts as stale."""

QUEUE_SECONDS = 15.0
"""Between two countings of what waits for a reviewer."""

log = logging.getLogger("ragsieve.service")


class Withheld:
    """Ids of one collection that no retrieval may return; quick, and never fails.

    What the ledger hides, and what a scan's predictions take out unless a reviewer released it
    since.

    :param predicted: ids that the predictions take out.
    :raises StoreError: when the ledger cannot be read at first.
    """

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        store: str,
        tenant: str | None,
        *,
        predicted: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.tenant = name, tenant
        self._ledger, self._store, self._predicted = ledger, store, predicted
        self._clock = clock
        self._reading = threading.Lock()
        self.read()

    def __call__(self) -> frozenset[str]:
        """The ids as they were read last."""
        return self._ids

    @property
    def age_seconds(self) -> float:
        """Since the ledger was read."""
        return self._clock() - self._read_at

    def read(self) -> None:
        """Ask the ledger; what was known stays where that fails.

        :raises StoreError: when the ledger cannot be read.
        """
        # One reading at a time: the later one must not be overwritten by an earlier one.
        with self._reading:
            begun = self._clock()
            states = self._ledger.states
            hidden = states.hidden(self._store, tenant=self.tenant)
            if self._predicted:
                released = {
                    one.place.document_id
                    for one in states.items(
                        tenant=self.tenant, store=self._store, states=[Remediation.RELEASED]
                    )
                }
                hidden |= self._predicted - released
            self._ids, self._read_at = hidden, begun


class Withholding(Collector):
    """Keeps what is withheld from every collection up to date, in a thread of its own.

    :param tenants: whose findings are counted for the review queue.
    :param seconds: between two readings.
    """

    def __init__(
        self,
        ledger: Ledger,
        members: Iterable[Withheld],
        *,
        tenants: Iterable[str | None],
        seconds: float,
    ) -> None:
        self._ledger, self._members = ledger, tuple(members)
        self._tenants = tuple(dict.fromkeys(tenants))
        self._seconds = seconds
        self._queue: int | None = None
        self._counted_at = float("-inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read; also after :meth:`stop`."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="withholding", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()

    def invalidate(self, tenant: str | None) -> None:
        """Read a tenant's collections now: a reviewer or a scan has just changed something.

        Where that fails the thread goes on trying.
        """
        self._counted_at = float("-inf")
        for one in self._members:
            if one.tenant == tenant:
                _try(one.read)

    def problem(self) -> str | None:
        """What is amiss, for readiness; None when all was read of late."""
        ages = [one.age_seconds for one in self._members]
        if ages and max(ages) > STALE_READINGS * self._seconds:
            return f"cannot be read; what is withheld is {max(ages):.0f} s old"
        return None

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead: names are those of :meth:`collect`."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Ages, and the length of the queue where it is known."""
        ages = GaugeMetricFamily(
            "ragsieve_withheld_age_seconds",
            "Since the ledger was asked what is hidden.",
            labels=["collection"],
        )
        for one in self._members:
            ages.add_metric([one.name], one.age_seconds)
        yield ages
        if self._queue is not None:
            yield GaugeMetricFamily(
                "ragsieve_review_queue_documents",
                "Documents whose finding nobody reviewed.",
                value=self._queue,
            )

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            whole = [_try(one.read) for one in self._members]
            if all(whole) and time.monotonic() - self._counted_at >= QUEUE_SECONDS:
                self._counted_at = time.monotonic()
                _try(self._count)

    def _count(self) -> None:
        try:
            self._queue = sum(
                self._ledger.incidents.queue(
                    QueueFilter(reviewed=False), tenant=tenant, limit=0
                ).total
                for tenant in self._tenants
            )
        except StoreError:
            # No number is better than an old one.
            self._queue = None
            raise


def _try(read: Callable[[], None]) -> bool:
    try:
        read()
    except StoreError as error:
        log.error("the ledger cannot be read: %s", where(error))  # noqa: TRY400 -- no text
        return False
    return True
