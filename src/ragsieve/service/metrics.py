"""Prometheus metrics of one app. Dimensions are bounded: no document, no question, no free text."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragsieve.outcomes import Action, Outcome
from ragsieve.records import Decision, Evidence, Scan
from ragsieve.service.holdings import Collection, Holdings
from ragsieve.service.windows import Traffic

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Counts what the service does.

    :param now: the time, with a zone, for ages.
    """

    def __init__(
        self,
        holdings: Holdings,
        *,
        version: str,
        profile: str,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self.registry = CollectorRegistry()
        self.traffic = Traffic()
        registry = self.registry
        self.filter_seconds = Histogram(
            "ragsieve_query_filter_duration_seconds",
            "Judging one request, waiting included.",
            ["mode"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.retrievals = Counter(
            "ragsieve_query_retrievals", "Retrievals answered.", ["mode"], registry=registry
        )
        self.removed = Counter(
            "ragsieve_query_candidates_removed",
            "Candidates taken out of retrievals.",
            registry=registry,
        )
        self.withheld = Counter(
            "ragsieve_query_documents_withheld",
            "Quarantined documents kept out of retrievals.",
            registry=registry,
        )
        self.refills = Counter(
            "ragsieve_query_refills", "Documents that moved up.", registry=registry
        )
        self.short = Counter(
            "ragsieve_query_insufficient_tail",
            "Retrievals too short to judge against.",
            registry=registry,
        )
        self.partial = Counter(
            "ragsieve_query_partial", "Retrievals not wholly judged.", registry=registry
        )
        self.fallbacks = Counter(
            "ragsieve_query_fallback",
            "Retrievals handed over unfiltered.",
            ["reason"],
            registry=registry,
        )
        self.refusals = Counter(
            "ragsieve_query_refused",
            "Requests refused because judging failed.",
            ["reason"],
            registry=registry,
        )
        self.scanned = Counter(
            "ragsieve_documents_scanned",
            "Documents judged by the gate or a scan.",
            ["store"],
            registry=registry,
        )
        self.flagged = Counter(
            "ragsieve_documents_flagged",
            "Documents flagged, by their strongest evidence.",
            ["detector", "evidence"],
            registry=registry,
        )
        self.requests = Counter(
            "ragsieve_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.recording_failures = Counter(
            "ragsieve_recording_failures", "Findings that could not be recorded.", registry=registry
        )
        Gauge(
            "ragsieve_build_info", "What runs.", ["version", "profile"], registry=registry
        ).labels(version, profile).set(1)
        self.registry.register(_Windows(self.traffic, holdings, now))

    def filtered(self, collection: Collection, mode: str, outcome: Outcome, *, short: bool) -> None:
        """Count one judged retrieval."""
        self.retrievals.labels(mode).inc()
        self.removed.inc(len(outcome.removed_ids))
        self.withheld.inc(len(outcome.quarantined_ids))
        self.refills.inc(sum(step.action is Action.REFILLED for step in outcome.trace))
        self.short.inc(short)
        self.partial.inc(outcome.partial)
        judged = outcome.verdicts or outcome.rulings
        for one in judged:
            if one.flagged:
                self.flagged.labels("query", strongest(one.evidences)).inc()
        gone = {*outcome.quarantined_ids, *(one.document_id for one in judged)}
        looked = outcome.ranking.entries[: collection.detector.documents]
        self.traffic.judged(
            collection.name,
            [(one.document_id, one.decision) for one in judged],
            [entry.document.id for entry in looked if entry.document.id not in gone],
            collection.suspects,
        )

    def fell_back(self, mode: str, reason: str, count: int) -> None:
        """Count retrievals that were handed over unfiltered."""
        self.retrievals.labels(mode).inc(count)
        self.fallbacks.labels(reason).inc(count)
        self.partial.inc(count)
        for _ in range(count):
            self.traffic.fell_back()

    def gated(self, collection: Collection, scan: Scan) -> None:
        """Count one batch of new documents."""
        self.scanned.labels(collection.name).inc(len(scan))
        for verdict in scan:
            if verdict.flagged:
                self.flagged.labels("corpus", strongest(verdict.evidences)).inc()

    def answered(self, method: str, route: str, status: int) -> None:
        """Count one answer."""
        self.requests.labels(method, route, str(status)).inc()

    def text(self) -> bytes:
        """Everything, in the text format."""
        return generate_latest(self.registry)


def strongest(evidences: Iterable[Evidence]) -> str:
    """The name of the evidence with the largest value."""
    measured = [one for one in evidences if one.value is not None]
    return max(measured, key=lambda one: one.value or 0.0).name if measured else "none"


class _Windows(Collector):
    """Shares and ages, worked out when they are asked for; one that is unknown is not given."""

    def __init__(
        self, traffic: Traffic, holdings: Holdings, now: Callable[[], datetime.datetime]
    ) -> None:
        self._traffic, self._holdings, self._now = traffic, holdings, now

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead: names are those of :meth:`collect`."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The gauges that are known now."""
        traffic = self._traffic
        for name, text, value in (
            ("query_fallback_ratio", "Recent retrievals not judged.", traffic.fallback_share),
            (
                "query_tail_contamination_ratio",
                "Recent tail places held by flagged documents.",
                traffic.tail_contamination,
            ),
            (
                "query_decision_drift",
                "Population stability index of recent decisions against the first ones.",
                traffic.drift,
            ),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"ragsieve_{name}", text, value=value)
        shares = traffic.decision_shares()
        if shares is not None:
            yield _family(
                "query_decisions_ratio",
                "Recent candidates by decision.",
                "decision",
                [(str(one), shares[one]) for one in Decision],
            )
        now = self._now()
        ages = [(one.name, one.age_seconds(now)) for one in self._holdings]
        yield _family("state_age_seconds", "Since the state was written.", "collection", ages)
        unseen = [(one.name, _unseen(one)) for one in self._holdings]
        yield _family(
            "state_unseen_documents",
            "Documents of the corpus that the scan never saw.",
            "collection",
            unseen,
        )


def _family(
    name: str, text: str, dimension: str, values: Iterable[tuple[str, float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"ragsieve_{name}", text, labels=[dimension])
    for one, value in values:
        if value is not None:
            family.add_metric([one], value)
    return family


def _unseen(collection: Collection) -> float | None:
    if collection.scanned is None or not collection.documents:
        return None
    return float(sum(name not in collection.scanned for name in collection.documents))
