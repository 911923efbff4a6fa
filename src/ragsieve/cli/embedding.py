"""The command that embeds a corpus."""

from __future__ import annotations

from ragsieve._atomic import check_distinct, check_writable
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import write_embeddings


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
    check_distinct([output], [documents])
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
