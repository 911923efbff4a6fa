"""LangChain agents: what a retrieval tool found is filtered before the model reads it.

A score is evidence that a document is promoted into retrieval, never a verdict on truth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from ragsieve._extras import require
from ragsieve.display import visible
from ragsieve.errors import InputError
from ragsieve.integrations.contexts import Filtered
from ragsieve.integrations.langchain import context, found
from ragsieve.integrations.retrieved import ContextFilter

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.documents import Document
    from langchain_core.messages import ToolMessage
    from langchain_core.prompts import PromptTemplate, format_document
    from langgraph.types import Command
except ImportError:
    require("langchain.agents", extra="langchain")
    raise

NOTHING_LEFT = "No document is left."


class SieveMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Filters the documents of retrieval tools, in the artifact and in the content together.

    The content is written anew from the documents that are kept: what was taken out of the
    artifact alone would still be read by the model. Tools must give their documents as
    artifact (``create_retriever_tool(response_format="content_and_artifact")``) and retrieve as
    deep as the tail needs (:func:`ragsieve.integrations.langchain.deep_retriever`), unfiltered:
    a second filter behind a first one has no tail left.

    :param tools: names of the tools to filter, whose results without documents are refused; None
        filters whatever result has documents, and lets others pass.
    :param query_argument: the tool's argument that holds the query; its only text otherwise.
    :param document_prompt: how a document is written into the content, as the tool does.
    :param document_separator: between documents.
    """

    def __init__(
        self,
        sieve: ContextFilter,
        *,
        tools: Collection[str] | None = None,
        query_argument: str = "query",
        document_prompt: Any = None,
        document_separator: str = "\n\n",
    ) -> None:
        super().__init__()
        self._sieve = sieve
        self._tools = None if tools is None else frozenset(tools)
        self._query_argument = query_argument
        self._prompt = document_prompt or PromptTemplate.from_template("{page_content}")
        self._separator = document_separator

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Call the tool once and filter what it found.

        :raises InputError: for a tool named to be filtered that gives no documents or no query.
        :raises RankingError: when the retrieval cannot be judged and the policy says raise.
        """
        result = handler(request)
        written = []
        for message in self._messages(request, result):
            if self._guarded(request, message):
                query = self._query(request)
                filtered = self._sieve.judge(query, found(message.artifact))
                written.append(self._rewritten(message, filtered))
            else:
                written.append(message)
        return _with_messages(result, written)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As :meth:`wrap_tool_call`, beside the event loop."""
        result = await handler(request)
        written = []
        for message in self._messages(request, result):
            if self._guarded(request, message):
                query = self._query(request)
                filtered = await self._sieve.ajudge(query, found(message.artifact))
                written.append(self._rewritten(message, filtered))
            else:
                written.append(message)
        return _with_messages(result, written)

    def _guarded(self, request: ToolCallRequest, message: Any) -> bool:
        """Whether a message is a tool's that has documents to filter."""
        if not isinstance(message, ToolMessage) or message.status == "error":
            return False
        name, named = request.tool_call["name"], self._named(request)
        if self._tools is not None and not named:
            return False
        artifact = message.artifact
        documents = isinstance(artifact, Sequence) and not isinstance(artifact, str | bytes)
        # Without a document there is nothing either that the content of a named tool may tell.
        if documents and (artifact or named) and all(isinstance(one, Document) for one in artifact):
            return True
        if named:
            raise InputError(
                f"tool {visible(name)!r}: expected documents as artifact, found "
                f"{type(artifact).__name__}; make it with response_format='content_and_artifact'"
            )
        return False

    def _named(self, request: ToolCallRequest) -> bool:
        return self._tools is not None and request.tool_call["name"] in self._tools

    def _messages(self, request: ToolCallRequest, result: Any) -> list[Any]:
        """What a model will be shown of a result."""
        if not isinstance(result, Command):
            return [result]
        update = result.update
        if isinstance(update, Mapping):
            messages = update.get("messages", ())
            return list(messages) if isinstance(messages, list | tuple) else [messages]
        if update is not None and self._named(request):
            raise InputError(
                f"tool {visible(request.tool_call['name'])!r}: expected a command that updates by "
                f"a mapping, found {type(update).__name__}; its messages cannot be filtered"
            )
        return []

    def _query(self, request: ToolCallRequest) -> str:
        arguments = request.tool_call["args"]
        query = arguments.get(self._query_argument)
        if isinstance(query, str):
            return query
        texts = [value for value in arguments.values() if isinstance(value, str)]
        if len(texts) != 1:
            raise InputError(
                f"tool {visible(request.tool_call['name'])!r}: expected the query as argument "
                f"{self._query_argument!r}, found {', '.join(map(visible, arguments)) or 'none'}; "
                "give its name as query_argument"
            )
        return texts[0]

    def _rewritten(self, message: ToolMessage, filtered: Filtered[Document]) -> ToolMessage:
        documents = context(filtered)
        content = self._separator.join(format_document(one, self._prompt) for one in documents)
        return message.model_copy(
            update={"artifact": documents, "content": content or NOTHING_LEFT}
        )


def _with_messages(result: Any, messages: list[Any]) -> Any:
    if not isinstance(result, Command):
        return messages[0]
    if not messages:
        return result
    return dataclasses.replace(result, update={**result.update, "messages": messages})
