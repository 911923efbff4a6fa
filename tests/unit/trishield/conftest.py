"""Fakes of the ports: models that say what they are told, an index in a fixed order."""

from __future__ import annotations

import threading
import types

import pytest

from ragsieve import Document, RankedDocument, Ranking
from ragsieve.errors import BackendError
from ragsieve.records import ChatReply


class Says:
    """Replies with its texts in turn, the last one for ever; raises what is an exception."""

    def __init__(self, *replies, name="says", tokens=(7, 2)):
        self.identity = name
        self._replies = list(replies)
        self._tokens = tokens
        self.asked = []

    def reply(self, messages, *, max_tokens):
        self.asked.append(messages)
        said = self._replies[min(len(self.asked), len(self._replies)) - 1]
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, str):
            return ChatReply(said, *self._tokens)
        return said


class Echoes:
    """Gives the whole prompt back."""

    identity = "echo"

    def reply(self, messages, *, max_tokens):
        return ChatReply("\n".join(turn.content for turn in messages))


class Hangs:
    """Never replies."""

    identity = "hangs"

    def __init__(self):
        self.released = threading.Event()

    def reply(self, messages, *, max_tokens):
        self.released.wait(20)
        return ChatReply("too late")


class Index:
    """Documents in a fixed order, with similarities that fall along it."""

    def __init__(self, documents, *, failing_at=(), obeying=True):
        self.documents = list(documents)
        self.calls = []
        self._failing_at = failing_at
        self._obeying = obeying

    def retrieve(self, query, *, depth, without=frozenset()):
        self.calls.append(without)
        if len(self.calls) in self._failing_at:
            raise BackendError("the index is down")
        found = [one for one in self.documents if not self._obeying or one.id not in without]
        entries = tuple(
            RankedDocument(one, rank, 0.9 - rank / 100) for rank, one in enumerate(found[:depth], 1)
        )
        return Ranking(query.id, query.text, entries)


def texts(count, start=0):
    """Documents of words of their own, apart from a few they share."""
    return [
        Document(f"d{row}", f"the river of town {row} " + " ".join(f"w{row}x{n}" for n in range(9)))
        for row in range(start, start + count)
    ]


@pytest.fixture
def fakes():
    return types.SimpleNamespace(Says=Says, Echoes=Echoes, Hangs=Hangs, Index=Index, texts=texts)
