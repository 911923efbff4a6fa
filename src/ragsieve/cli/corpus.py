"""Commands about a whole corpus: embed, scan."""

from __future__ import annotations

from collections import Counter

from ragsieve._atomic import check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.explain import MEANING
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import read_embeddings, write_embeddings
from ragsieve.files.predictions import verdict_fields
from ragsieve.records import Decision, Scan


def embed(
    documents: options.Documents,
    output: options.Output,
    encoder: options.Encoder = None,
    encoder_path: options.EncoderPath = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Embed a corpus with the retriever's encoder, and write a manifest beside the rows."""
    from ragsieve.assembly import text_embedder
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    check_writable(output)
    models = {"retriever": encoder, "retriever_path": encoder_path, "device": device}
    settings = load_settings(config, models_dir=models_dir, models=models)
    corpus = read_corpus(documents)
    with console.progress("embedding", len(corpus)) as advance:
        embedder = text_embedder(settings, progress=advance)
        rows = embedder.embed_documents([document.content for document in corpus])
    write_embeddings(output, rows, corpus, embedder.identity)
    fields = {
        "documents": len(corpus),
        "dimension": embedder.dimension,
        "encoder": embedder.identity,
    }
    console.result(fields, [f"{len(corpus):,} documents embedded with {embedder.identity}"])


def scan(
    documents: options.Documents,
    embeddings: options.Embeddings,
    output: options.Output,
    profile: options.Profile = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Scan an index before any query (RSG): which documents are dense beyond their surroundings?"""
    from ragsieve.assembly import corpus_detector
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    check_writable(output)
    detector = corpus_detector(load_settings(config, profile=profile))
    corpus = read_corpus(documents)
    rows = read_embeddings(embeddings, corpus)
    with console.progress("searching neighbours", len(corpus)) as advance:
        result = detector.scan(corpus, rows, progress=advance)
    write_jsonl(output, (verdict_fields(verdict) for verdict in result))
    if result.k_used < detector.neighbors:
        console.note(
            f"tiny corpus: {result.k_used} neighbours a document, not {detector.neighbors}"
        )
    counts = Counter(result.decisions)
    console.result(_scan_fields(result, counts), _scan_lines(result, counts))
    leave(findings=bool(counts[Decision.FLAGGED]), partial=bool(counts[Decision.UNDECIDED]))


def _scan_fields(result: Scan, counts: Counter[Decision]) -> dict[str, object]:
    return {
        "documents": len(result),
        "flagged": counts[Decision.FLAGGED],
        "undecided": counts[Decision.UNDECIDED],
        "alarms_per_10000_documents": 10_000 * counts[Decision.FLAGGED] / len(result),
        "neighbors": result.k_used,
        "truncated_documents": int((result.truncated_characters > 0).sum()),
        "threshold": result.threshold,
        "profile": result.profile,
        "fingerprint": result.fingerprint,
        "meaning": MEANING,
    }


def _scan_lines(result: Scan, counts: Counter[Decision]) -> list[str]:
    rate = 10_000 * counts[Decision.FLAGGED] / len(result)
    lines = [
        f"{counts[Decision.FLAGGED]:,} of {len(result):,} documents flagged "
        f"({rate:.0f} per 10,000), {counts[Decision.UNDECIDED]:,} undecided "
        f"(profile {result.profile}).",
        MEANING,
    ]
    truncated = int((result.truncated_characters > 0).sum())
    if truncated:
        lines.append(f"The end of {truncated:,} very long documents was not examined.")
    return lines
