"""Findings of filter and gate go into the ledger: each once, in the name of the key that asked."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ragsieve.auditing.incidents import Court, Run, incidents, reaching
from ragsieve.cases import Place, content_sha256
from ragsieve.detectors.query import Mode
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import StaleStateError
from ragsieve.ledger.records import (
    Judged,
    QueueFilter,
    ScanCounts,
    ScanKind,
    ScanStart,
    ScanState,
)
from ragsieve.ledger.scans import new_scan_id
from ragsieve.outcomes import Outcome
from ragsieve.policy.file import Policy
from ragsieve.policy.rules import Kind
from ragsieve.records import Decision, Document, Level, Ranking, Scan, Verdict
from ragsieve.service.access import Principal
from ragsieve.service.holdings import BARE, Collection
from ragsieve.service.judging import decisions_of, judge
from ragsieve.service.seeing import actor_of
from ragsieve.trishield.provenance_policy import ProvenancePolicy

REMEMBERED = 50_000
"""Findings known to be kept; of others the ledger is asked."""

INTERRUPTED = "interrupted"
_KINDS: dict[ScanKind, Kind] = {ScanKind.FILTER: "filter", ScanKind.GUARD: "guard"}

_Judged = tuple[Document, Verdict]


@dataclasses.dataclass(slots=True)
class _Open:
    """The scan under which a day's findings of one collection are kept."""

    id: str
    day: datetime.date
    documents: int = 0
    flagged: int = 0
    undecided: int = 0

    @property
    def counts(self) -> ScanCounts:
        return ScanCounts(self.documents, self.flagged, self.undecided)


class LedgerRecorder:
    """Keeps findings; a :class:`ragsieve.service.runtime.Recorder`. Called by one thread.

    A document waits for review once: what is a finding at its place already, with the same
    content and at least the same level, is not kept again, whichever scan found it.

    :param name: of this service, by which it knows scans of its own that were interrupted.
    """

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy,
        *,
        name: str,
        config_sha256: str,
        trust: ProvenancePolicy | None = None,
    ) -> None:
        self._ledger = ledger
        self._court = Court(policy, trust)
        self._note = f"service {name}"
        self._config_sha256 = config_sha256
        self._scans: dict[tuple[str, ScanKind], tuple[_Open, str | None]] = {}
        self._known: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._lock = threading.Lock()

    def filtered(self, principal: Principal, collection: Collection, outcome: Outcome) -> None:
        """A retrieval in which something was flagged or undecided; the flagged are kept.

        :raises StoreError: when the ledger cannot be written.
        """
        if collection.name == BARE:
            # No place is known where a reviewer could look.
            return
        left = _left(outcome)
        judged = _paired(left, outcome.verdicts)
        documents = {one.id: one for one in left.documents}
        ruled = [
            (documents[one.document_id], one.decision, one.level)
            for one in outcome.rulings
            if one.flagged
        ]
        if outcome.rulings:
            if all(self._remembered(collection, *one) for one in ruled):
                return
            # A finding is kept with all its evidence, which mode decision did not need.
            judged = _paired(left, _in_full(outcome, collection))
        self._keep(principal, collection, ScanKind.FILTER, judged, left, len(decisions_of(outcome)))
        for one in ruled:
            # Also where a slice of the policy asks for more: once is enough to find out.
            self._remember(collection, *one)

    def gated(
        self,
        principal: Principal,
        collection: Collection,
        documents: Sequence[Document],
        scan: Scan,
    ) -> None:
        """A batch of new documents.

        :raises StoreError: when the ledger cannot be written.
        """
        judged = list(zip(documents, scan, strict=True))
        self._keep(principal, collection, ScanKind.GUARD, judged, None, len(judged))

    def close(self) -> None:
        """End the scans under which findings were kept, with what was counted."""
        with self._lock:
            held, self._scans = self._scans, {}
        for opened, tenant in held.values():
            self._finish(opened, tenant)

    def settle_interrupted(
        self, tenants: Iterable[str | None], before: datetime.datetime
    ) -> tuple[str, ...]:
        """Scans that an earlier process of this service left running are failed; their ids.

        :param before: when this process began.
        :raises StoreError: when the ledger cannot be written.
        """
        ended = []
        for tenant in dict.fromkeys(tenants):
            for kind in _KINDS:
                running = self._ledger.scans.all(
                    tenant=tenant, state=ScanState.RUNNING, kind=kind, limit=1_000
                )
                for one in running:
                    if one.start.note == self._note and one.started < before:
                        self._ledger.scans.fail(one.start.id, note=INTERRUPTED, tenant=tenant)
                        ended.append(one.start.id)
        return tuple(ended)

    def _keep(
        self,
        principal: Principal,
        collection: Collection,
        kind: ScanKind,
        judged: Sequence[_Judged],
        ranking: Ranking | None,
        count: int,
    ) -> None:
        run = self._run("", collection, kind)
        found = [
            (document, verdict)
            for document, verdict in reaching(run, judged, self._court.policy)
            if not self._kept(collection, document, verdict)
        ]
        # Without a state every candidate of every retrieval is undecided: the metrics count them.
        undecided = [
            (document, verdict)
            for document, verdict in judged
            if kind is ScanKind.GUARD
            and verdict.decision is Decision.UNDECIDED
            and not self._remembered(collection, document, verdict.decision, verdict.level)
        ]
        if not found and not undecided:
            return
        opened = self._opened(collection, kind)
        run = self._run(opened.id, collection, kind)
        ledger = self._ledger.acting_as(actor_of(principal))
        made = incidents(run, found, self._court, decided_at=ledger.now(), ranking=ranking)
        ledger.incidents.record(made)
        reached = {document.id for document, _ in found}
        bare = [
            Judged(self._place(collection, document), content_sha256(document), verdict)
            for document, verdict in undecided
            if document.id not in reached
        ]
        ledger.incidents.judge(opened.id, bare, tenant=collection.tenant)
        for document, verdict in (*found, *undecided):
            self._remember(collection, document, verdict.decision, verdict.level)
        opened.documents += count
        opened.flagged += len(made)
        opened.undecided += len(bare)

    def _run(self, scan_id: str, collection: Collection, kind: ScanKind) -> Run:
        return Run(
            scan_id,
            _KINDS[kind],
            collection.address,
            collection.tenant,
            collection.vectors_by,
        )

    def _opened(self, collection: Collection, kind: ScanKind) -> _Open:
        """The day's scan of a collection; a new one when the day or the ledger's view changed."""
        day = self._ledger.now().date()
        key = (collection.name, kind)
        with self._lock:
            held = self._scans.get(key)
        if held is not None and held[0].day == day:
            return held[0]
        opened = _Open(new_scan_id(), day)
        detector = collection.detector
        self._ledger.scans.begin(
            ScanStart(
                opened.id,
                collection.address,
                detector.profile,
                detector.fingerprint,
                kind,
                collection.tenant,
                config_sha256=self._config_sha256,
                policy_sha256=self._court.policy.sha256,
                embedding_version=collection.vectors_by,
                note=self._note,
            )
        )
        with self._lock:
            self._scans[key] = (opened, collection.tenant)
        if held is not None:
            self._finish(*held)
        return opened

    def _finish(self, opened: _Open, tenant: str | None) -> None:
        # Somebody took it for dead; then its counts stay unknown.
        with contextlib.suppress(StaleStateError):
            self._ledger.scans.finish(opened.id, opened.counts, tenant=tenant, note=self._note)

    def _kept(self, collection: Collection, document: Document, verdict: Verdict) -> bool:
        """Whether the ledger has this finding, or a stronger one of the same content there."""
        if self._remembered(collection, document, verdict.decision, verdict.level):
            return True
        wanted = QueueFilter(
            store=collection.address,
            document_id=document.id,
            content_sha256=content_sha256(document),
        )
        page = self._ledger.incidents.queue(wanted, tenant=collection.tenant, limit=1)
        kept = any(one.incident.verdict.level.reaches(verdict.level) for one in page.entries)
        if kept:
            self._remember(collection, document, verdict.decision, verdict.level)
        return kept

    def _remembered(
        self, collection: Collection, document: Document, decision: Decision, level: Level
    ) -> bool:
        key = _key(collection, document, decision, level)
        if key not in self._known:
            return False
        self._known.move_to_end(key)
        return True

    def _remember(
        self, collection: Collection, document: Document, decision: Decision, level: Level
    ) -> None:
        self._known[_key(collection, document, decision, level)] = None
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _place(self, collection: Collection, document: Document) -> Place:
        return Place(collection.address, document.id, collection.tenant)


def _key(
    collection: Collection, document: Document, decision: Decision, level: Level
) -> tuple[str, ...]:
    return (collection.name, document.id, content_sha256(document), decision, level)


def _left(outcome: Outcome) -> Ranking:
    """The ranking that was judged: without what was quarantined."""
    gone = frozenset(outcome.quarantined_ids)
    ranking = outcome.ranking
    if not gone:
        return ranking
    return ranking.renumbered([one for one in ranking.entries if one.document.id not in gone])


def _in_full(outcome: Outcome, collection: Collection) -> Sequence[Verdict]:
    full = judge(
        [outcome.ranking],
        collection,
        mode=Mode.FULL,
        size=collection.detector.candidates,
        withheld=frozenset(outcome.quarantined_ids),
    )
    return full[0].verdicts


def _paired(ranking: Ranking, verdicts: Iterable[Verdict]) -> list[_Judged]:
    documents = {one.id: one for one in reversed(ranking.documents)}
    return [(documents[one.document_id], one) for one in verdicts]
