"""Scan jobs: asked for, done one after the other, watched, cancelled; none is forgotten."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ragsieve.errors import RagsieveError, StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import NotKeptError
from ragsieve.ledger.records import ScanEntry, ScanKind, ScanState
from ragsieve.ledger.reports import AuditEntry
from ragsieve.ledger.scans import new_scan_id
from ragsieve.service.problems import Refused, where

ASKED, ENDED = "scan.job", "scan.job.end"
INTERRUPTED = "interrupted"
REMEMBERED = 200
"""Ended jobs kept in memory; of older ones the ledger knows the outcome."""

_LONGEST_NOTE = 500

log = logging.getLogger("ragsieve.service")


class JobState(enum.StrEnum):
    """How far a job came."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self not in {JobState.QUEUED, JobState.RUNNING}


class Phase(enum.StrEnum):
    """What a running job does."""

    READING = "reading"
    JUDGING = "judging"
    APPLYING = "applying"


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a scan came to.

    :param to_quarantine: documents that the policy quarantines; None when nobody remembers.
    :param hidden: documents it hid; None for a dry run, or when nobody remembers.
    :param partial: whether a part of the store was not judged; None when nobody remembers.
    """

    documents: int
    findings: int
    to_quarantine: int | None = None
    hidden: int | None = None
    partial: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A scan job as of now.

    :param id: also of its scan in the ledger, and the rollback handle.
    :param store: public address.
    :param collection: its name; None when nobody remembers.
    :param total: documents of the phase; None while unknown.
    :param found: None until it ended well.
    :param note: why it ended early.
    """

    id: str
    store: str
    collection: str | None
    tenant: str | None
    apply: bool
    asked_by: str
    asked: datetime.datetime
    state: JobState = JobState.QUEUED
    phase: Phase | None = None
    done: int = 0
    total: int | None = None
    started: datetime.datetime | None = None
    ended: datetime.datetime | None = None
    found: Found | None = None
    note: str = ""


class Cancelled(Exception):  # noqa: N818 -- asked for, not a fault
    """Somebody cancelled the job, or the service stops."""


class Watch(Protocol):
    """Told by a scan how far it is."""

    def at(self, phase: Phase, done: int, total: int | None) -> None:
        """Say how far it is.

        :raises Cancelled: when it is to stop; not once it changes the store.
        """
        ...


Work = Callable[[Job, Ledger, Watch], Found]
"""Does a job, in the name of the ledger's actor."""


class Jobs:
    """Scan jobs of one service; may be shared between threads.

    One job of a store waits or runs at a time, and one job runs at all: others are judged on
    the same cores. That a job was asked for stands in the audit trail before it begins, so that
    one whose process died is known as interrupted.

    :param name: of this service; jobs of others that share the ledger are left alone.
    :param waiting: jobs that may wait.
    :param changed: called with a tenant after a job that may have hidden documents.
    :param seen: called with each job that ended.
    """

    def __init__(
        self,
        ledger: Ledger,
        work: Work,
        *,
        name: str,
        waiting: int,
        changed: Callable[[str | None], None] = lambda _tenant: None,
        seen: Callable[[Job], None] = lambda _job: None,
    ) -> None:
        self._ledger, self._work, self._name = ledger, work, name
        self._changed, self._seen = changed, seen
        self._most = waiting
        self._kept: dict[str, Job] = {}
        self._cancelled: set[str] = set()
        self._line: queue.Queue[str | None] = queue.Queue()
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work; also after :meth:`stop`."""
        if self._thread is None:
            self._stopping = False
            self._line = queue.Queue()
            self._thread = threading.Thread(target=self._run, name="scans", daemon=True)
            self._thread.start()

    def stop(self, *, seconds: float = 10.0) -> None:
        """Cancel what waits and what runs, and wait a while for it."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping = True
        for one in self.all():
            if one.state is JobState.QUEUED:
                self._end(one, JobState.CANCELLED, "the service stopped")
        self._line.put(None)
        thread.join(seconds)

    def submit(
        self, collection: str, store: str, tenant: str | None, *, apply: bool, actor: str
    ) -> Job:
        """Have a store scanned.

        :raises Refused: when a job of the store waits or runs, or too many wait.
        :raises StoreError: when the ledger cannot be written.
        """
        job = Job(new_scan_id(), store, collection, tenant, apply, actor, asked=self._ledger.now())
        with self._lock:
            if self._stopping or self._thread is None:
                raise Refused(503, "the service is stopping")
            at_hand = [one for one in self._kept.values() if not one.state.ended]
            if any((one.store, one.tenant) == (store, tenant) for one in at_hand):
                raise Refused(409, "a scan of this store waits or runs already")
            if sum(one.state is JobState.QUEUED for one in at_hand) >= self._most:
                raise Refused(503, "as many scans wait as may wait", headers={"Retry-After": "60"})
            self._kept[job.id] = job
        try:
            payload = {
                "service": self._name,
                "collection": collection,
                "store": store,
                "apply": apply,
            }
            ledger = self._ledger.acting_as(actor)
            ledger.audit.add(ASKED, job.id, payload, tenant=tenant)
        except BaseException:
            with self._lock:
                self._kept.pop(job.id, None)
            raise
        self._line.put(job.id)
        return job

    def all(self) -> tuple[Job, ...]:
        """The jobs of this process that are remembered, the newest first."""
        with self._lock:
            return tuple(reversed(self._kept.values()))

    def find(self, job_id: str) -> Job | None:
        """A job of this process; None when it remembers no such job."""
        with self._lock:
            return self._kept.get(job_id)

    def cancel(self, job_id: str) -> Job:
        """Have a job stop, soon; one that changes its store by now goes on.

        :raises Refused: when it ended, or hides documents by now.
        """
        with self._lock:
            job = self._kept[job_id]
            if job.state.ended or job.phase is Phase.APPLYING:
                raise Refused(409, f"the job is {job.phase or job.state} by now")
            self._cancelled.add(job_id)
        if job.state is JobState.QUEUED:
            return self._end(job, JobState.CANCELLED, "cancelled")
        return job

    def settle_interrupted(
        self, tenants: Iterable[str | None], before: datetime.datetime
    ) -> tuple[str, ...]:
        """Scans that an earlier process of this service left running are failed; their ids.

        :param before: when this process began.
        :raises StoreError: when the ledger cannot be written.
        """
        ended = []
        for tenant in dict.fromkeys(tenants):
            running = self._ledger.scans.all(
                tenant=tenant, state=ScanState.RUNNING, kind=ScanKind.SCAN, limit=1_000
            )
            for one in running:
                entries = self._ledger.audit.entries(
                    tenant=tenant, action=ASKED, subject=one.start.id, limit=1
                )
                ours = bool(entries) and entries[0].payload.get("service") == self._name
                if ours and one.started < before:
                    self._ledger.scans.fail(one.start.id, note=INTERRUPTED, tenant=tenant)
                    ended.append(one.start.id)
        return tuple(ended)

    def _run(self) -> None:
        line = self._line
        while (job_id := line.get()) is not None:
            with self._lock:
                job = self._kept.get(job_id)
                if job is None or job.state is not JobState.QUEUED:
                    continue
                job = dataclasses.replace(
                    job, state=JobState.RUNNING, phase=Phase.READING, started=self._ledger.now()
                )
                self._kept[job_id] = job
            self._do(job)

    def _do(self, job: Job) -> None:
        try:
            found = self._work(job, self._ledger.acting_as(job.asked_by), _Watching(self, job.id))
        except Cancelled:
            self._end(job, JobState.CANCELLED, "the service stopped" if self._stopping else "")
        except RagsieveError as error:
            self._end(job, JobState.FAILED, str(error)[:_LONGEST_NOTE])
        except Exception as error:  # noqa: BLE001 -- the next job must have its turn
            log.error("a scan failed: %s", where(error))  # noqa: TRY400 -- no text
            self._end(job, JobState.FAILED, "an unexpected error; the log says where")
        else:
            self._end(job, JobState.FINISHED, "", found)
        if job.apply:
            self._changed(job.tenant)

    def _moved(self, job_id: str, phase: Phase, done: int, total: int | None) -> None:
        with self._lock:
            if phase is not Phase.APPLYING and (self._stopping or job_id in self._cancelled):
                raise Cancelled("cancelled")
            self._kept[job_id] = dataclasses.replace(
                self._kept[job_id], phase=phase, done=done, total=total
            )

    def _end(self, job: Job, state: JobState, note: str, found: Found | None = None) -> Job:
        with self._lock:
            job = dataclasses.replace(
                self._kept[job.id], state=state, note=note, found=found, ended=self._ledger.now()
            )
            self._kept[job.id] = job
            self._cancelled.discard(job.id)
            ended = [one.id for one in self._kept.values() if one.state.ended]
            for name in ended[: max(0, len(ended) - REMEMBERED)]:
                del self._kept[name]
        if state is not JobState.FINISHED:
            payload = {"state": str(state), "note": note}
            try:
                ledger = self._ledger.acting_as(job.asked_by)
                ledger.audit.add(ENDED, job.id, payload, tenant=job.tenant)
            except StoreError as error:
                log.error("how a scan ended is not kept: %s", where(error))  # noqa: TRY400
        self._seen(job)
        return job


@dataclasses.dataclass(frozen=True, slots=True)
class _Watching:
    jobs: Jobs
    job_id: str

    def at(self, phase: Phase, done: int, total: int | None) -> None:
        """See :class:`Watch`."""
        self.jobs._moved(self.job_id, phase, done, total)


def past_jobs(
    ledger: Ledger, tenant: str | None, *, name: str, limit: int, known: Mapping[str, Job]
) -> tuple[Job, ...]:
    """A tenant's jobs as the ledger remembers them, the newest first.

    :param name: of this service: what it does not remember itself was interrupted.
    :param known: what it does remember, which is then told as it is.
    :raises StoreError: when the ledger cannot be read.
    """
    entries = ledger.audit.entries(tenant=tenant, action=ASKED, limit=limit, newest_first=True)
    return tuple(
        known.get(one.subject) or _remembered(ledger, tenant, one, name) for one in entries
    )


def past_job(ledger: Ledger, tenant: str | None, job_id: str, *, name: str) -> Job | None:
    """One of them; None when this tenant has no such job.

    :raises StoreError: when the ledger cannot be read.
    """
    if not job_id.isprintable():
        return None
    entries = ledger.audit.entries(tenant=tenant, action=ASKED, subject=job_id, limit=1)
    return _remembered(ledger, tenant, entries[0], name) if entries else None


def _remembered(ledger: Ledger, tenant: str | None, asked: AuditEntry, name: str) -> Job:
    ours = asked.payload.get("service") == name
    job = Job(
        asked.subject,
        str(asked.payload.get("store", "")),
        str(asked.payload.get("collection", "")) or None,
        tenant,
        bool(asked.payload.get("apply")),
        asked.actor,
        asked.at,
        state=JobState.FAILED if ours else JobState.QUEUED,
        note=INTERRUPTED if ours else "",
    )
    try:
        scan = ledger.scans.get(asked.subject, tenant=tenant)
    except NotKeptError:
        scan = None
    said = ledger.audit.entries(tenant=tenant, action=ENDED, subject=asked.subject, limit=1)
    if said:
        state, note = JobState(said[0].payload["state"]), str(said[0].payload["note"])
        job = dataclasses.replace(job, state=state, note=note, ended=said[0].at)
    return job if scan is None else _with_scan(job, scan, ended=bool(said))


def _with_scan(job: Job, scan: ScanEntry, *, ended: bool) -> Job:
    job = dataclasses.replace(job, started=scan.started, ended=scan.finished)
    if scan.state in {ScanState.FINISHED, ScanState.ROLLED_BACK}:
        counts = scan.counts
        found = Found(counts.documents, counts.flagged)
        note = "rolled back since" if scan.state is ScanState.ROLLED_BACK else ""
        return dataclasses.replace(job, state=JobState.FINISHED, note=note, found=found)
    if scan.state is ScanState.RUNNING:
        return dataclasses.replace(job, state=JobState.RUNNING, note="")
    return job if ended else dataclasses.replace(job, state=JobState.FAILED, note=scan.note)
