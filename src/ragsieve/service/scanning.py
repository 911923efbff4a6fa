"""What a scan job does: a declared store read through its own thread, judged, perhaps hidden."""

from __future__ import annotations

import dataclasses
import datetime
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ragsieve.auditing.rows import row_content_sha256
from ragsieve.auditing.store_scan import Embed, StoreScanPlan, scan_store
from ragsieve.connectors.contract import (
    PAGE_ROWS,
    Bundle,
    Capabilities,
    Connector,
    Mark,
    Row,
    StoreFingerprint,
)
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.ledger.book import Ledger
from ragsieve.policy.file import Policy
from ragsieve.records import Document, FloatArray, Scan
from ragsieve.remediation.custody import Custody
from ragsieve.service.holdings import Collection
from ragsieve.service.jobs import Found, Job, Phase, Watch
from ragsieve.service.stores import Stores
from ragsieve.trishield.provenance_policy import ProvenancePolicy

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class StoreScanner:
    """Does scan jobs; each call is a :data:`ragsieve.service.jobs.Work`.

    :param collections: by name; those with a store.
    :param detector: makes the judge when the first job begins; it keeps nothing between jobs.
    """

    stores: Stores
    collections: Mapping[str, Collection]
    policy: Policy
    profile: str
    config_sha256: str
    detector: Callable[[], CorpusDetector]
    trust: ProvenancePolicy | None = None
    acl_field: str = "acl"
    bundles: Path | None = None

    def __call__(self, job: Job, ledger: Ledger, watch: Watch) -> Found:
        """Scan the store of a job.

        :raises StoreError: when the store or the ledger fails.
        :raises Cancelled: when the job was cancelled.
        """
        detector = self.detector()
        held = None if job.collection is None else self.collections.get(job.collection)
        fields = self.stores.fields(job.store, job.tenant)
        connector = InTurn(self.stores, job.store, job.tenant, ledger, watch)
        custody = Custody(ledger, connector, row_content_sha256(fields), job.tenant, self.bundles)

        def judge(corpus: tuple[Document, ...], vectors: FloatArray) -> Scan:
            done = 0

            def advance(count: int) -> None:
                nonlocal done
                done += count
                watch.at(Phase.JUDGING, done, len(corpus))

            watch.at(Phase.JUDGING, 0, len(corpus))
            scan = detector.scan(corpus, vectors, progress=advance)
            # The last moment at which it can be cancelled.
            watch.at(Phase.JUDGING, len(corpus), len(corpus))
            return scan

        with tempfile.TemporaryDirectory(prefix="ragsieve-scan-") as work:
            plan = StoreScanPlan(
                scan_id=job.id,
                profile=self.profile,
                fingerprint=detector.fingerprint,
                work=Path(work),
                policy=self.policy,
                trust=self.trust,
                acl_field=self.acl_field,
                apply=job.apply,
                config_sha256=self.config_sha256,
                embedding_version=None if held is None else held.vectors_by,
                fields=fields,
            )
            done = scan_store(custody, plan, judge, embed=_embed(connector, held))
        return Found(
            documents=done.snapshot.documents,
            findings=len(done.incidents),
            to_quarantine=len(done.wanted),
            hidden=None if done.applied is None else len(done.applied.done),
            partial=done.snapshot.partial
            or any(why != "hidden already" for why, _ in done.snapshot.reasons),
        )


class InTurn:
    """A connector whose every call waits its turn in the store's own thread.

    Reviewers go on while a scan is at work; an embedded store is used where it was opened.
    """

    def __init__(
        self, stores: Stores, store: str, tenant: str | None, ledger: Ledger, watch: Watch
    ) -> None:
        self._stores, self._store, self._tenant, self._ledger = stores, store, tenant, ledger
        self._watch = watch
        self._read = 0
        self._total: int | None = None

    @property
    def address(self) -> str:
        """See the contract of connectors, here and below."""
        return self._store

    def capabilities(self) -> Capabilities:
        """What the collection can do."""
        return self._run(lambda one: one.capabilities())

    def fingerprint(self) -> StoreFingerprint:
        """What it holds now."""
        found = self._run(lambda one: one.fingerprint())
        self._total = found.count
        return found

    def pages(self, size: int = PAGE_ROWS) -> Iterator[Sequence[Row]]:
        """Every row once; others have their turn between two pages."""
        pages = self._run(lambda one: one.pages(size))
        self._read = 0
        while True:
            self._watch.at(Phase.READING, self._read, self._total)
            page = self._run(lambda _one: next(pages, None))
            if page is None:
                return
            self._read += len(page)
            yield page

    def fetch(self, ids: Sequence[str]) -> tuple[Row, ...]:
        """The rows of these ids."""
        return self._run(lambda one: one.fetch(ids))

    def quarantine(
        self, ids: Sequence[str], *, reason: str, scan_id: str, since: datetime.datetime
    ) -> tuple[str, ...]:
        """Hide rows; a job that came this far is not cancelled any more."""
        self._watch.at(Phase.APPLYING, 0, None)
        return self._run(
            lambda one: one.quarantine(ids, reason=reason, scan_id=scan_id, since=since)
        )

    def prepare(self) -> None:
        """Make the collection able to take marks."""
        self._run(lambda one: one.prepare())

    def release(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Serve hidden rows again."""
        return self._run(lambda one: one.release(ids))

    def marks(self) -> tuple[Mark, ...]:
        """The rows that are hidden now."""
        return self._run(lambda one: one.marks())

    def export(self, ids: Sequence[str]) -> Bundle:
        """Rows with what is needed to bring them back."""
        return self._run(lambda one: one.export(ids))

    def delete(self, bundle: Bundle) -> tuple[str, ...]:
        """Remove the rows of a bundle."""
        return self._run(lambda one: one.delete(bundle))

    def restore(self, bundle: Bundle) -> tuple[str, ...]:
        """Bring rows of a bundle back."""
        return self._run(lambda one: one.restore(bundle))

    def retrieval_filter(self) -> Any:
        """What the store's own search takes to leave hidden rows out."""
        return self._run(lambda one: one.retrieval_filter())

    def search(self, vector: FloatArray, *, depth: int) -> tuple[tuple[Row, float], ...]:
        """The nearest served rows."""
        return self._run(lambda one: one.search(vector, depth=depth))

    def close(self) -> None:
        """Nothing: the store stays open for others."""

    def _run(self, call: Callable[[Connector], T]) -> T:
        return self._stores.run(
            self._store, self._tenant, self._ledger, lambda custody: call(custody.connector)
        )


def _embed(connector: InTurn, held: Collection | None) -> Embed | None:
    """Computes vectors anew where the store changes its own and the collection may embed."""
    embedder = None if held is None else held.embedder
    if embedder is None or not connector.capabilities().lossy_vectors:
        return None
    return lambda documents: embedder.embed_documents([one.content for one in documents])
