"""The command that lets a chat model answer from saved contexts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve._jsonl import write_jsonl
from ragsieve.chat.batch import Answered, answer_all
from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.chat.journal import JournaledChat
from ragsieve.chat.openai_chat import OpenAIChat
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.errors import ConfigError
from ragsieve.files.contexts import ContextRow, read_contexts
from ragsieve.settings import Settings, load_settings

_SHOWN = 5  # reasons for failures


def answer(
    contexts: Annotated[Path, typer.Option(help="Contexts from `retrieve` or `filter`.")],
    output: options.Output,
    journal: Annotated[
        Path, typer.Option(help="Replies already paid for; appended to, never replaced.")
    ],
    base_url: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible address, such as http://127.0.0.1:8080/v1."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="With --base-url the name its server knows; else a member of the settings."
        ),
    ] = None,
    key_variable: Annotated[
        str | None, typer.Option(help="NAME of the environment variable that holds the key.")
    ] = None,
    context_size: Annotated[int, typer.Option(min=1, help="Documents an answer is made from.")] = 5,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer at most.")] = 64,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Questions at a time.")] = None,
    timeout_seconds: Annotated[float | None, typer.Option(help="For one request.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="Requests for one reply.")] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer each context with a chat model; what is interrupted or failed goes on from the journal."""
    from ragsieve.assembly import chat_model, reply_journal

    console = Console(as_json=as_json)
    check_writable(output)
    check_distinct([output, journal, journal.with_name(f"{journal.name}.lock")], [contexts])
    limits = {
        "key_variable": key_variable,
        "concurrency": concurrency,
        "timeout_seconds": timeout_seconds,
        "attempts": attempts,
    }
    member = _member(load_settings(config), base_url, model, limits)
    rows = read_contexts(contexts)
    chat, kept = chat_model(member), reply_journal(journal)
    if kept.damaged:
        numbers = ", ".join(map(str, kept.damaged))
        console.note(f"ragsieve: {journal}: passed over lines without a reply: {numbers}")
    with console.progress("answering", len(rows)) as advance:
        answers = answer_all(
            JournaledChat(chat, kept),
            [row.ranking for row in rows],
            context_size=context_size,
            max_tokens=max_tokens,
            workers=member.concurrency,
            progress=advance,
        )
    write_jsonl(output, _fields(rows, answers, chat.identity))
    _report(console, answers, chat)


def _member(
    settings: Settings, base_url: str | None, model: str | None, limits: Mapping[str, Any]
) -> ChatEndpoint:
    from ragsieve.assembly import chat_member

    given = {name: value for name, value in limits.items() if value is not None}
    if base_url is None:
        return dataclasses.replace(chat_member(settings, model), **given)
    if model is None:
        raise ConfigError("--base-url: expected --model with it, the name the server knows")
    return ChatEndpoint(base_url=base_url, model=model, **given)


def _fields(
    rows: Sequence[ContextRow], answers: Sequence[Answered], identity: str
) -> Iterator[dict[str, Any]]:
    for row, one in zip(rows, answers, strict=True):
        reply = one.reply
        yield {
            "query_id": one.query_id,
            **row.carried.fields(),
            "answer": None if reply is None else reply.content,
            "abstained": one.abstained,
            "document_ids": list(one.document_ids),
            "model": identity,
            "prompt_tokens": None if reply is None else reply.prompt_tokens,
            "completion_tokens": None if reply is None else reply.completion_tokens,
            **({} if one.reason is None else {"reason": one.reason}),
        }


def _report(console: Console, answers: Sequence[Answered], chat: OpenAIChat) -> None:
    usage = chat.usage
    failures = [one for one in answers if one.failed]
    abstained = sum(one.abstained is True for one in answers)
    fields = {
        "answers": len(answers) - len(failures),
        "abstained": abstained,
        "failed": len(failures),
        "model": chat.identity,
        "usage": dataclasses.asdict(usage),
        "failures": [{"query_id": one.query_id, "reason": one.reason} for one in failures],
    }
    bound = "at least " if usage.uncounted_calls else ""
    lines = [
        f"{len(answers) - len(failures):,} answers ({abstained:,} abstained), "
        f"{len(failures):,} failed; {chat.identity}",
        f"{usage.calls:,} replies asked for, the others known; {usage.retries:,} requests repeated; "
        f"{bound}{usage.prompt_tokens + usage.completion_tokens:,} tokens, {usage.seconds:.1f} s",
        *(f"{one.query_id}: {one.reason}" for one in failures[:_SHOWN]),
    ]
    if failures:
        lines.append(
            "The same command asks again for replies that did not come, and for nothing else."
        )
    console.result(fields, lines)
    leave(findings=False, partial=bool(failures))
