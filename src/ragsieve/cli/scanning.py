"""The command that scans an index, whole or batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import ledgers as stores
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.cli.known import check_encoder
from ragsieve.cli.neighbors import NeighborChoice, scanned
from ragsieve.cli.storing import StoreChoice, scan_address
from ragsieve.detectors.campaigns import Budgeted, Campaign, campaigns, cut
from ragsieve.errors import ConfigError
from ragsieve.explain import MEANING
from ragsieve.features.knowledge import Snapshot
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import encoder_of, read_embeddings
from ragsieve.files.predictions import verdict_fields
from ragsieve.files.state import check_state_target, read_state, write_state
from ragsieve.records import Decision, Document, FloatArray, Level, Scan
from ragsieve.settings import Settings

_SHOWN = 5
_NAMED = 4


def scan(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[STORE]",
            help="Address of a vector store to scan in place of files: chroma://, qdrant://, "
            "lancedb://, postgresql://, faiss:// or milvus://.",
        ),
    ] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Corpus, one JSON object a line; with --embeddings.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Embeddings (.npy), one row a document in corpus order.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; replaced only when complete.")
    ] = None,
    apply: stores.Apply = False,
    ledger: stores.LedgerUrl = None,
    policy: stores.PolicyFile = None,
    tenant: stores.Tenant = None,
    actor: stores.Actor = None,
    embed: stores.Embed = False,
    vectors_by: stores.VectorsBy = None,
    allow_moving: stores.AllowMoving = False,
    work: stores.Work = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder to keep what later batches and queries need.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="State of an earlier scan: judge new documents by it.")
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Take the new documents into that state.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Documents that can be reviewed; the rest is cut.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Neighbours computed before, by `ragsieve graph`.")
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Search neighbours by FAISS; recall is printed.")
    ] = False,
    features: options.Features = None,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Scan an index before any query (RSG): which documents stand out against their surroundings?

    Of files, or of a vector store. A store is only read unless --apply is given; what was found
    is written to the ledger.
    """
    from ragsieve.assembly import corpus_detector, feature_store, ingest_gate
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    if address is not None:
        _only_files(
            documents=documents,
            embeddings=embeddings,
            state=state,
            against=against,
            graph=graph,
            update=update or None,
            budget=budget,
            approximate=approximate or None,
        )
        settings = load_settings(
            config,
            profile=profile,
            models_dir=models_dir,
            models={"causal": causal_model, "device": device},
            features={"store": features},
            ledger={"url": ledger, "actor": actor, "policy": policy},
        )
        there = StoreChoice(address, tenant, apply, embed, vectors_by, allow_moving, work, output)
        scan_address(console, settings, there)
        return
    if documents is None or embeddings is None or output is None:
        raise ConfigError(
            "expected the address of a store, or --documents, --embeddings and --output"
        )
    if apply or embed or allow_moving or any((ledger, policy, tenant, actor, vectors_by, work)):
        raise ConfigError(
            "--apply, --ledger, --policy, --tenant, --as, --embed, --vectors-by, --allow-moving "
            "and --work belong to the scan of a store; give its address"
        )
    check_writable(output)
    kept = against if update else state
    check_distinct([output, kept], [documents, embeddings, graph])
    _check_choices(state, against, update=update)
    choice = NeighborChoice(embeddings, graph, approximate=approximate)
    if against is not None and not choice.exact:
        raise ConfigError("--against searches exactly; leave --graph and --approximate out")
    settings = load_settings(
        config,
        profile=profile,
        models_dir=models_dir,
        models={"causal": causal_model, "device": device},
        features={"store": features},
    )
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    encoder = encoder_of(embeddings) or ""
    if against is not None:
        earlier = read_state(against)
        check_encoder(embeddings, against, earlier)
        result, snapshot = _against(console, settings, earlier, corpus, rows, update=update)
    else:
        # First, so that a profile without a state is refused before the work.
        gate = ingest_gate(settings, confirm=False) if state is not None else None
        store = feature_store(settings, note=console.note)
        detector = corpus_detector(settings, store=store)
        result = scanned(console, detector, corpus, rows, choice)
        if result.k_used < detector.neighbors:
            console.note(
                f"tiny corpus: {result.k_used} neighbours a document, not {detector.neighbors}"
            )
        snapshot = None if gate is None else gate.snapshot(result, rows, encoder)
    found = cut(campaigns(result), budget)
    write_jsonl(output, scan_rows(result, found))
    if kept is not None and snapshot is not None:
        write_state(kept, snapshot)
    for note in result.notes:
        console.note(note)
    console.result(scan_fields(result, found, budget), scan_lines(result, found))
    counts = Counter(result.decisions)
    leave(findings=bool(counts[Decision.FLAGGED]), partial=bool(counts[Decision.UNDECIDED]))


def _only_files(**given: object) -> None:
    """Refuse the options of files beside the address of a store."""
    wrong = [f"--{name}" for name, value in given.items() if value is not None]
    if wrong:
        raise ConfigError(f"{', '.join(wrong)}: a store has its own; leave out what is for files")


def _check_choices(state: Path | None, against: Path | None, *, update: bool) -> None:
    if update and against is None:
        raise ConfigError("--update: expected --against DIR, the state to take the documents into")
    if state is not None and against is not None:
        raise ConfigError("--state keeps a whole scan; with --against use --update instead")
    for target in (state, against if update else None):
        if target is not None:
            check_state_target(target)


def _against(
    console: Console,
    settings: Settings,
    earlier: Snapshot,
    corpus: tuple[Document, ...],
    rows: FloatArray,
    *,
    update: bool,
) -> tuple[Scan, Snapshot | None]:
    from ragsieve.assembly import ingest_gate

    gate = ingest_gate(settings)
    if update:
        return gate.extend(earlier, corpus, rows)
    with console.progress("searching neighbours", len(corpus)) as advance:
        return gate.judge(earlier, corpus, rows, progress=advance), None


def scan_rows(result: Scan, found: Budgeted) -> Iterator[dict[str, Any]]:
    """A scan's predictions with campaigns, one JSON object a document."""
    number = {row: one.number for one in found.campaigns for row in one.rows}
    for row, verdict in enumerate(result):
        yield verdict_fields(verdict) | {
            "campaign": number.get(row),
            "within_budget": row in found.within,
        }


def scan_fields(result: Scan, found: Budgeted, budget: int | None) -> dict[str, object]:
    """What ``--json`` prints about a scan."""
    flagged = len(result.flagged_ids)
    quarantined = len(result.flagged_at(Level.QUARANTINE))
    return {
        "documents": len(result),
        "judged_against": len(result.earlier_ids) or None,
        "flagged": flagged,
        "quarantine": quarantined,
        "review": flagged - quarantined,
        "undecided": Counter(result.decisions)[Decision.UNDECIDED],
        "alarms_per_10000_documents": 10_000 * flagged / len(result),
        "quarantine_per_10000_documents": 10_000 * quarantined / len(result),
        "budget": budget,
        "beyond_budget": flagged - len(found.within),
        "campaigns": [_campaign_fields(result, one) for one in found.campaigns],
        "neighbors": result.k_used,
        "truncated_documents": int((result.truncated_characters > 0).sum()),
        "threshold": result.threshold,
        "profile": result.profile,
        "fingerprint": result.fingerprint,
        "notes": list(result.notes),
        "meaning": MEANING,
    }


def _campaign_fields(result: Scan, one: Campaign) -> dict[str, object]:
    return {
        "number": one.number,
        "level": str(one.level),
        "score": one.score,
        "documents": [result.document_ids[row] for row in one.rows],
        "links_by_neighbors": one.by_neighbors,
        "links_by_stretch": one.by_stretch,
    }


def scan_lines(result: Scan, found: Budgeted) -> list[str]:
    """What a person reads about a scan."""
    flagged = len(result.flagged_ids)
    quarantined = len(result.flagged_at(Level.QUARANTINE))
    rate = 10_000 / len(result)
    lines = [
        f"{flagged:,} of {len(result):,} documents flagged ({flagged * rate:.0f} per 10,000): "
        f"{quarantined:,} to quarantine ({quarantined * rate:.0f} per 10,000), "
        f"{flagged - quarantined:,} to review; "
        f"{Counter(result.decisions)[Decision.UNDECIDED]:,} undecided (profile {result.profile}).",
    ]
    if found.campaigns:
        lines.append(f"{len(found.campaigns):,} campaigns, the strongest first:")
        lines += [_campaign_line(result, one) for one in found.campaigns[:_SHOWN]]
    beyond = flagged - len(found.within)
    if beyond:
        lines.append(f"{beyond:,} findings lie beyond the budget of {len(found.within):,}.")
    truncated = int((result.truncated_characters > 0).sum())
    if truncated:
        lines.append(f"The end of {truncated:,} very long documents was not examined.")
    return [*lines, MEANING]


def _campaign_line(result: Scan, one: Campaign) -> str:
    names = ", ".join(result.document_ids[row] for row in one.rows[:_NAMED])
    more = len(one.rows) - _NAMED
    tail = f" and {more} more" if more > 0 else ""
    return f"  {one.number}. {one.level}, score {one.score:.2f}: {names}{tail}"
