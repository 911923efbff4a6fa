"""The scan of a vector store: what `ragsieve scan ADDRESS` does."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsieve._atomic import write_text
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.ledgers import check_output, opened_ledger
from ragsieve.errors import ConfigError
from ragsieve.explain import MEANING
from ragsieve.records import Decision, Document, FloatArray, Scan
from ragsieve.settings import Settings

if TYPE_CHECKING:
    from ragsieve.auditing.store_scan import Embed, StoreScan

_SHOWN = 10


@dataclasses.dataclass(frozen=True, slots=True)
class StoreChoice:
    """What the command was told about a store.

    :param address: of the store and its collection.
    :param apply: hide what the policy quarantines.
    :param embed: compute vectors anew from the texts.
    :param vectors_by: model behind the store's vectors, as the operator says.
    :param work: folder that keeps the frozen copy; a temporary one when None.
    """

    address: str
    tenant: str | None = None
    apply: bool = False
    embed: bool = False
    vectors_by: str | None = None
    allow_moving: bool = False
    work: Path | None = None
    output: Path | None = None


def scan_address(console: Console, settings: Settings, choice: StoreChoice) -> None:
    """Scan a store end to end and leave with the exit code.

    :raises ConfigError: for an address that cannot be read.
    :raises StoreError: when the store or the ledger fails.
    """
    from ragsieve.assembly import corpus_detector, feature_store
    from ragsieve.auditing.rows import row_content_sha256
    from ragsieve.auditing.store_scan import StoreScanPlan, scan_store
    from ragsieve.connectors.address import parse_address
    from ragsieve.connectors.opening import open_store
    from ragsieve.findings.export import Format, export
    from ragsieve.ledger.scans import new_scan_id
    from ragsieve.policy.file import read_policy
    from ragsieve.remediation.custody import Custody
    from ragsieve.trishield.provenance_policy import read_provenance_policy

    address = parse_address(choice.address)
    if choice.output is not None:
        files = [address.path, address.name if address.scheme == "faiss" else None]
        check_output(choice.output, settings, *(Path(one) for one in files if one))
    policy = read_policy(settings.ledger.policy)
    declared = settings.trishield.provenance
    trust = None if declared is None else read_provenance_policy(declared)
    store = feature_store(settings, note=console.note)
    detector = corpus_detector(settings, store=store)

    def judge(corpus: tuple[Document, ...], vectors: FloatArray) -> Scan:
        with console.progress("searching neighbours", len(corpus)) as advance:
            return detector.scan(corpus, vectors, progress=advance)

    version, embedder = choice.vectors_by, None
    if choice.embed:
        version, embedder = _embedder(console, settings)
    with _folder(choice.work) as work, opened_ledger(settings) as ledger:
        connector = open_store(address)
        try:
            custody = Custody(
                ledger,
                connector,
                row_content_sha256(address.fields),
                tenant=choice.tenant,
                bundles=settings.ledger.bundles,
            )
            plan = StoreScanPlan(
                scan_id=new_scan_id(),
                profile=settings.profile,
                fingerprint=detector.fingerprint,
                work=work,
                policy=policy,
                trust=trust,
                acl_field=settings.ledger.acl_field,
                apply=choice.apply,
                config_sha256=settings.sha256,
                embedding_version=version,
                fields=address.fields,
                allow_moving=choice.allow_moving,
            )
            done = scan_store(custody, plan, judge, embed=embedder)
        finally:
            connector.close()
    if choice.output is not None:
        write_text(choice.output, "".join(export(done.incidents, Format.JSONL)))
    notes = (*done.snapshot.notes, *(done.scan.notes if done.scan is not None else ()))
    for note in notes:
        console.note(note)
    console.result(_fields(done, notes), _lines(done))
    skipped = bool(done.snapshot.reasons)
    moved = done.applied is not None and (done.applied.changed or done.applied.missing)
    leave(
        findings=bool(done.incidents),
        partial=bool(done.snapshot.partial or skipped or moved or _undecided(done)),
    )


@contextlib.contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        if not chosen.is_dir():
            raise ConfigError(f"--work: {chosen}: expected a folder; create it first")
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="ragsieve-scan-") as made:
        yield Path(made)


def _embedder(console: Console, settings: Settings) -> tuple[str, Embed]:
    """The identity of the encoder that the settings name, and what embeds with it."""
    from ragsieve.assembly import text_embedder

    bars: list[Callable[[int], None]] = []

    def moved(count: int) -> None:
        bars[-1](count)

    chosen = text_embedder(settings, progress=moved)

    def embed(documents: Sequence[Document]) -> FloatArray:
        with console.progress("embedding", len(documents)) as advance:
            bars.append(advance)
            return chosen.embed_documents([one.content for one in documents])

    return chosen.identity, embed


def _undecided(done: StoreScan) -> int:
    decisions = () if done.scan is None else done.scan.decisions
    return sum(one is Decision.UNDECIDED for one in decisions)


def _fields(done: StoreScan, notes: Sequence[str]) -> dict[str, Any]:
    applied = done.applied
    return {
        "scan": done.scan_id,
        "store": done.snapshot.address,
        "documents": done.snapshot.documents,
        "excluded": dict(done.snapshot.reasons),
        "findings": len(done.incidents),
        "undecided": _undecided(done),
        "quarantine": list(done.wanted),
        "spared": list(done.spared),
        "dry_run": applied is None,
        "hidden": None if applied is None else list(applied.done),
        "already_hidden": None if applied is None else list(applied.already),
        "changed": None if applied is None else list(applied.changed),
        "missing": None if applied is None else list(applied.missing),
        "partial": done.snapshot.partial,
        "notes": list(notes),
        "meaning": MEANING,
    }


def _lines(done: StoreScan) -> list[str]:
    levels = Counter(str(one.decision.measure) for one in done.incidents)
    lines = [
        f"scan {done.scan_id} of {done.snapshot.address}",
        f"{len(done.incidents):,} of {done.snapshot.documents:,} documents are findings: "
        f"{levels['quarantine']:,} to quarantine, {levels['review']:,} to review, "
        f"{levels['record']:,} to record; {_undecided(done):,} undecided.",
    ]
    strongest = sorted(done.incidents, key=lambda one: -one.verdict.score)[:_SHOWN]
    lines += [
        f"  {one.place.document_id}: score {one.verdict.score:.2f}, {one.decision.measure} "
        f"({one.decision.rule}), finding {one.id}"
        for one in strongest
    ]
    if len(done.incidents) > _SHOWN:
        lines.append(f"  and {len(done.incidents) - _SHOWN:,} more: ragsieve findings list")
    if done.spared:
        lines.append(f"{len(done.spared):,} are left alone: a reviewer found their content benign.")
    if done.applied is None:
        if done.wanted:
            lines.append(f"Dry run: nothing was hidden. --apply hides {len(done.wanted):,}.")
    else:
        lines.append(
            f"{len(done.applied.done):,} hidden now, {len(done.applied.already):,} were hidden, "
            f"{len(done.applied.changed) + len(done.applied.missing):,} changed meanwhile."
        )
        lines.append(f"Undo: ragsieve rollback {done.scan_id} --store '{done.snapshot.address}'")
    return [*lines, MEANING]
