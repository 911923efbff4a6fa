"""One collection scanned from end to end: frozen, judged, decided, written down, perhaps hidden."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ragsieve.auditing.incidents import ACL_FIELD, Court, Run, incidents, reaching
from ragsieve.cases import Incident, Measure, Opinion, content_sha256
from ragsieve.connectors.address import Fields
from ragsieve.connectors.snapshot import Snapshot, take_snapshot
from ragsieve.detectors.campaigns import campaigns
from ragsieve.errors import StoreError
from ragsieve.files.corpus import read_corpus
from ragsieve.ledger.records import Judged, QueueFilter, ScanCounts, ScanStart
from ragsieve.policy.file import Policy
from ragsieve.records import Decision, Document, FloatArray, Scan
from ragsieve.remediation.custody import Applied, Custody
from ragsieve.trishield.provenance_policy import ProvenancePolicy

Judge = Callable[[tuple[Document, ...], FloatArray], Scan]
"""Scans documents with their vectors, shape (V, d)."""

Embed = Callable[[Sequence[Document]], FloatArray]
"""Computes vectors anew, shape (V, d), for a store whose own cannot be used."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoreScanPlan:
    """How a collection is to be scanned.

    :param scan_id: of this scan, also its rollback handle.
    :param fingerprint: of the profile's settings and models.
    :param work: folder that takes the frozen copy, as ``SCAN_ID``; its parent exists.
    :param apply: hide what the policy quarantines; False changes nothing in the store.
    :param config_sha256: of the resolved settings; None when unknown.
    :param embedding_version: model behind the store's vectors; None when nobody said.
    :param fields: where title and provenance stand in the metadata.
    :param allow_moving: judge a part where the collection does not hold still.
    """

    scan_id: str
    profile: str
    fingerprint: str
    work: Path
    policy: Policy
    trust: ProvenancePolicy | None = None
    acl_field: str = ACL_FIELD
    apply: bool = False
    config_sha256: str | None = None
    embedding_version: str | None = None
    fields: Fields = Fields()
    allow_moving: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class StoreScan:
    """What a scan of a collection found and did.

    :param scan: None of a collection without a document that can be judged.
    :param wanted: ids that the policy quarantines.
    :param spared: those of them whose content a reviewer found benign before.
    :param applied: what became of the others; None for a dry run.
    """

    scan_id: str
    snapshot: Snapshot
    scan: Scan | None
    incidents: tuple[Incident, ...]
    wanted: tuple[str, ...]
    spared: tuple[str, ...]
    applied: Applied | None


def scan_store(
    custody: Custody, plan: StoreScanPlan, judge: Judge, *, embed: Embed | None = None
) -> StoreScan:
    """Scan a collection and write down what was found; hide it only when the plan says so.

    :param custody: of the collection, with its ledger.
    :param embed: used in place of the store's vectors when given.
    :raises StoreError: when the store or the ledger fails, or changes vectors so that they
        cannot be judged; the scan is then kept as failed.
    """
    ledger, connector = custody.ledger, custody.connector
    snapshot = take_snapshot(
        connector,
        plan.work / plan.scan_id,
        fields=plan.fields,
        embedding_version=plan.embedding_version,
        allow_moving=plan.allow_moving,
    )
    if snapshot.lossy and embed is None:
        raise StoreError(
            f"{connector.address}: the store changes vectors, so that the edge between "
            "neighbours at cosine 0.85 would not be where it was measured; embed the texts anew "
            "(--embed) or scan the vectors it was filled from"
        )
    start = ScanStart(
        plan.scan_id,
        connector.address,
        plan.profile,
        plan.fingerprint,
        tenant=custody.tenant,
        config_sha256=plan.config_sha256,
        policy_sha256=plan.policy.sha256,
        embedding_version=plan.embedding_version,
        index_version=snapshot.fingerprint.ids_sha256,
        dry_run=not plan.apply,
        note=" ".join(snapshot.notes),
    )
    ledger.scans.begin(start)
    try:
        return _scanned(custody, plan, snapshot, judge, embed)
    except Exception as error:
        # A scan that cannot be closed, or was rolled back meanwhile, must not hide the reason.
        with contextlib.suppress(StoreError):
            ledger.scans.fail(plan.scan_id, note=str(error)[:500], tenant=custody.tenant)
        raise


def _scanned(
    custody: Custody,
    plan: StoreScanPlan,
    snapshot: Snapshot,
    judge: Judge,
    embed: Embed | None,
) -> StoreScan:
    if not snapshot.documents:
        custody.ledger.scans.finish(plan.scan_id, ScanCounts(), tenant=custody.tenant)
        applied = Applied() if plan.apply else None
        return StoreScan(plan.scan_id, snapshot, None, (), (), (), applied)
    corpus = read_corpus(snapshot.corpus_path)
    vectors = snapshot.embeddings() if embed is None else embed(corpus)
    scan = judge(corpus, vectors)
    found = _written(custody, plan, snapshot, corpus, scan)
    wanted = [one for one in found if one.decision.measure is Measure.QUARANTINE]
    spared = [one for one in wanted if _was_benign(custody, one)]
    passed = {one.id for one in spared}
    applied = None
    if plan.apply:
        applied = Applied()
        for rule, members in _by_rule(one for one in wanted if one.id not in passed).items():
            targets = [custody.target(i.place.document_id, i.content_sha256) for i in members]
            applied += custody.quarantine(targets, reason=rule, scan_id=plan.scan_id)
    reached = {one.place.document_id for one in found}
    left = (
        one is Decision.UNDECIDED and name not in reached
        for name, one in zip(scan.document_ids, scan.decisions, strict=True)
    )
    counts = ScanCounts(documents=len(scan), flagged=len(found), undecided=sum(left))
    custody.ledger.scans.finish(plan.scan_id, counts, tenant=custody.tenant)
    return StoreScan(
        plan.scan_id,
        snapshot,
        scan,
        found,
        tuple(one.place.document_id for one in wanted),
        tuple(one.place.document_id for one in spared),
        applied,
    )


def _written(
    custody: Custody,
    plan: StoreScanPlan,
    snapshot: Snapshot,
    corpus: tuple[Document, ...],
    scan: Scan,
) -> tuple[Incident, ...]:
    """The findings of a scan, in the ledger."""
    ledger, connector = custody.ledger, custody.connector
    run = Run(
        plan.scan_id,
        "scan",
        connector.address,
        custody.tenant,
        plan.embedding_version,
        snapshot.fingerprint.ids_sha256,
    )
    # One verdict at a time: of a large collection nearly all are clear.
    found = reaching(run, zip(corpus, scan, strict=True), plan.policy)
    rows = connector.fetch([document.id for document, _ in found])
    metadata = {row.id: row.metadata for row in rows}
    court = Court(
        plan.policy,
        plan.trust,
        plan.acl_field,
        metadata=lambda name: metadata.get(name, {}),
        known_versions=lambda name: _versions(custody, name),
    )
    made = incidents(
        run, found, court, decided_at=ledger.now(), campaigns=_campaigns(plan.scan_id, scan)
    )
    ledger.incidents.record(made)
    reached = {document.id for document, _ in found}
    undecided = [
        Judged(custody.place(document.id), content_sha256(document), scan.verdict(row))
        for row, document in enumerate(corpus)
        if scan.decisions[row] is Decision.UNDECIDED and document.id not in reached
    ]
    ledger.incidents.judge(plan.scan_id, undecided, tenant=custody.tenant)
    return made


def _campaigns(scan_id: str, scan: Scan) -> dict[str, str]:
    """A name for every campaign, by document id."""
    return {
        scan.document_ids[row]: f"{scan_id[:12]}-{one.number}"
        for one in campaigns(scan)
        for row in one.rows
    }


def _versions(custody: Custody, document_id: str) -> frozenset[str]:
    """The declared versions under which a document was a finding before."""
    wanted = QueueFilter(store=custody.connector.address, document_id=document_id, superseded=None)
    kept = custody.ledger.incidents.queue(wanted, tenant=custody.tenant).entries
    declared = (one.incident.standing.document_version for one in kept)
    return frozenset(version for version in declared if version is not None)


def _was_benign(custody: Custody, incident: Incident) -> bool:
    """Whether the last thing a reviewer said of this content is that it is benign."""
    said = custody.ledger.history(incident.content_sha256, tenant=custody.tenant).reviews
    return bool(said) and said[-1].opinion is Opinion.BENIGN


def _by_rule(found: Iterable[Incident]) -> dict[str, list[Incident]]:
    """Findings by the reason that will stand in the store."""
    groups: dict[str, list[Incident]] = {}
    for one in found:
        reason = f"{one.decision.rule}: {one.decision.reason}"
        groups.setdefault(reason, []).append(one)
    return groups
