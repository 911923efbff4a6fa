"""Answer many questions from what each retrieved; one that fails costs the others nothing."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence

from ragsieve.chat.answers import abstains
from ragsieve.chat.prompts import answer_prompt, echoes
from ragsieve.errors import BackendError, ConfigError
from ragsieve.ports import ChatModel
from ragsieve.records import ChatReply, Ranking


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """What a model answered to one ranking.

    :param document_ids: shown to the model, in the order of the prompt.
    :param reply: None where there is none, or where no document was there to ask about.
    :param abstained: whether the answer is that the documents do not tell; None for a failure.
    :param reason: why there is no answer.
    """

    query_id: str
    document_ids: tuple[str, ...]
    reply: ChatReply | None
    abstained: bool | None
    reason: str | None = None

    @property
    def failed(self) -> bool:
        """Whether an answer is still owed."""
        return self.abstained is None


def answer_all(
    chat: ChatModel,
    rankings: Sequence[Ranking],
    *,
    context_size: int,
    max_tokens: int,
    workers: int,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[Answered, ...]:
    """One answer a ranking, in their order, each from its best ``context_size`` documents.

    :param workers: questions at a time.
    :param progress: called with 1 after each.
    :raises ConfigError: when a number is below 1.
    :raises OutputError: when a journal cannot be written; nothing more is asked then.
    """
    if min(context_size, max_tokens, workers) < 1:
        raise ConfigError("expected a context size, tokens and concurrency of at least 1")

    def answer(ranking: Ranking) -> Answered:
        found = answer_one(chat, ranking, context_size=context_size, max_tokens=max_tokens)
        progress(1)
        return found

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(answer, ranking) for ranking in rankings]
        try:
            return tuple(one.result() for one in waiting)
        except BaseException:
            # Whoever interrupts pays for what is under way and for nothing else.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def answer_one(
    chat: ChatModel, ranking: Ranking, *, context_size: int, max_tokens: int
) -> Answered:
    """The answer to one ranking; a failure of the model is part of the answer."""
    shown = ranking.documents[:context_size]
    names = tuple(document.id for document in shown)
    if not shown:
        # A model without documents would answer from memory.
        reason = "the context holds no document; nobody was asked"
        return Answered(ranking.query_id, names, None, abstained=True, reason=reason)
    messages = answer_prompt(ranking.query, shown)
    try:
        reply = chat.reply(messages, max_tokens=max_tokens)
    except BackendError as error:
        return Answered(ranking.query_id, names, None, abstained=None, reason=str(error))
    if echoes(reply.content, messages):
        reason = "the model repeats the prompt instead of answering"
        return Answered(ranking.query_id, names, None, abstained=None, reason=reason)
    return Answered(ranking.query_id, names, reply, abstained=abstains(reply.content))
