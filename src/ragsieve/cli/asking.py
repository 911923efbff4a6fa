"""The command that answers one question from a corpus and shows how."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve.asking import Defense, Index, shield
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.contexts import check_query_encoder
from ragsieve.cli.exits import leave
from ragsieve.cli.known import check_encoder
from ragsieve.cli.llm import served_members
from ragsieve.errors import ConfigError
from ragsieve.files.corpus import read_corpus
from ragsieve.files.embeddings import read_embeddings
from ragsieve.files.state import read_state
from ragsieve.records import Query
from ragsieve.retrieval import CorpusRetriever
from ragsieve.settings import Settings, load_settings
from ragsieve.trishield.reading import explain_trace
from ragsieve.trishield.trace import Status, trace_fields

if TYPE_CHECKING:
    from ragsieve.chat.endpoint import ChatEndpoint
    from ragsieve.ports import ChatModel


def ask(
    question: Annotated[str, typer.Argument(help="One question.")],
    corpus: Annotated[Path, typer.Option(help="Corpus, one JSON object a line.")],
    defense: Annotated[
        Defense,
        typer.Option(help="none; sieve (RSG and RSQ); trishield (three rings); or all of them."),
    ] = Defense.ALL,
    embeddings: Annotated[
        Path | None,
        typer.Option(help="Embeddings from `embed`; without them the corpus is embedded now."),
    ] = None,
    state: options.State = None,
    graph_predictions: Annotated[
        Path | None, typer.Option(help="Predictions of `scan`: what it flagged stays out.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible address; without it the settings' chat.members."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="With --base-url the name its server knows.")
    ] = None,
    local: Annotated[
        list[str] | None,
        typer.Option(help="A pulled model or GGUF file to serve meanwhile; several make a panel."),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Replies already paid for; appended to, never replaced.")
    ] = None,
    encoder: options.Encoder = None,
    encoder_path: options.EncoderPath = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer a question from a corpus; prints answer, sources and a readable trace.

    Exit codes: 0 answered, 2 usage or bad input, 3 no answer is given.
    """
    from ragsieve.assembly import text_embedder

    console = Console(as_json=as_json)
    models = {"retriever": encoder, "retriever_path": encoder_path, "device": device}
    settings = load_settings(config, models_dir=models_dir, models=models)
    documents = read_corpus(corpus)
    embedder = text_embedder(settings)
    if embeddings is None:
        console.note("no --embeddings: the corpus is embedded now; `ragsieve embed` does it once")
        rows = embedder.embed_documents([document.content for document in documents])
    else:
        rows = read_embeddings(embeddings, documents)
        check_query_encoder(embeddings, embedder.identity)
    if defense.sieves:
        _check_known(console, settings, embeddings, state, graph_predictions)
    retriever = CorpusRetriever(documents, rows, embedder)
    index = Index(documents, rows, state, graph_predictions)
    with _models(settings, base_url, model, local or [], journal) as members:
        pipeline = shield(settings, defense, index, retriever, members)
        trace = pipeline.answer(
            Query("asked", question), now=datetime.datetime.now(tz=datetime.UTC)
        )
    answer = [] if trace.answer is None else [trace.answer, ""]
    fields = {"defense": str(defense), **trace_fields(trace)}
    console.result(fields, [*answer, *explain_trace(trace)])
    leave(findings=False, partial=trace.status is not Status.ANSWERED)


def _check_known(
    console: Console,
    settings: Settings,
    embeddings: Path | None,
    state: Path | None,
    predictions: Path | None,
) -> None:
    """What the sieve is given must be all it needs, or be said to be less."""
    if state is not None and embeddings is not None:
        check_encoder(embeddings, state, read_state(state))
    if state is not None and predictions is None:
        console.note("no --graph-predictions: what the scan flagged is not kept out of retrieval")
    if predictions is not None and state is None and settings.profile == "default":
        raise ConfigError("--graph-predictions: expected --state beside it, of the same scan")


@contextlib.contextmanager
def _models(
    settings: Settings,
    base_url: str | None,
    model: str | None,
    local: list[str],
    journal: Path | None,
) -> Iterator[dict[str, ChatModel]]:
    """Who is asked, by name; local servers run meanwhile."""
    from ragsieve.assembly import chat_model, reply_journal
    from ragsieve.chat.journal import JournaledChat

    with contextlib.ExitStack() as running:
        if local:
            if base_url is not None:
                raise ConfigError("--local: expected no --base-url beside it")
            chosen = served_members(local, settings.models_dir, running)
        else:
            chosen = _named(settings, base_url, model)
        asked: dict[str, ChatModel] = {}
        for name, endpoint in chosen.items():
            opened = chat_model(endpoint)
            running.callback(opened.close)
            asked[name] = opened
        if journal is not None:
            kept = reply_journal(journal)
            asked = {name: JournaledChat(one, kept) for name, one in asked.items()}
        yield asked


def _named(settings: Settings, base_url: str | None, model: str | None) -> dict[str, ChatEndpoint]:
    """The address given, or the settings' members, the chosen one first."""
    from ragsieve.assembly import chat_member
    from ragsieve.chat.endpoint import ChatEndpoint

    if base_url is not None:
        if model is None:
            raise ConfigError("--base-url: expected --model with it, the name the server knows")
        return {model: ChatEndpoint(base_url=base_url, model=model, name=model)}
    members = dict(settings.chat.members)
    if not members:
        raise ConfigError(
            "expected a chat model: give --base-url and --model, --local NAME, or a settings file "
            "with [chat.members.NAME] tables; `ragsieve llm serve` prints some"
        )
    if model is None and settings.chat.model is None:
        return members
    first = chat_member(settings, model)
    name = next(key for key, member in members.items() if member == first)
    return {name: members.pop(name), **members}
