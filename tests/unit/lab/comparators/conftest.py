"""Models that answer from tables, so that every figure can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ragsieve.detectors.rules import QueryView
from ragsieve.errors import BackendError
from ragsieve.records import ChatReply, DocumentFeatures


class TableEmbedder:
    """The vector a table gives for a text; another one for whatever it does not hold."""

    identity = "table"

    def __init__(self, table, other=(0.0, 0.0, 1.0), failing=False):
        self.table = {key: np.array(value, dtype=float) for key, value in table.items()}
        self.other = np.array(other, dtype=float)
        self.failing = failing
        self.dimension = len(self.other)
        self.seen = []

    def embed_documents(self, texts):
        self.seen += list(texts)
        if self.failing:
            raise BackendError("told to fail")
        return np.array([self.table.get(text, self.other) for text in texts])

    embed_queries = embed_documents


class WordLosses:
    """The loss a table gives for each word but the first; 1 nat for others."""

    identity = "words"
    vocabulary_size = 1000

    def __init__(self, table=(), failing=False):
        self.table, self.failing = dict(table), failing

    def losses(self, texts):
        if self.failing:
            raise BackendError("told to fail")
        return [
            np.array([self.table.get(word, 1.0) for word in text.split()[1:]]) for text in texts
        ]


class ScriptedChat:
    """Gives its replies in turn and keeps what it was asked."""

    identity = "scripted"

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def reply(self, messages, *, max_tokens):
        self.asked.append(messages)
        return ChatReply(self.replies.pop(0))

    def requests(self):
        return [next(m.content for m in messages if m.role == "user") for messages in self.asked]


@pytest.fixture
def table_embedder():
    return TableEmbedder


@pytest.fixture
def word_losses():
    return WordLosses


@pytest.fixture
def scripted():
    return ScriptedChat


@pytest.fixture
def view_of():
    def make(candidates, query="q", tail=(), rows=None, problem=None):
        known = None
        if rows is not None:
            known = tuple(DocumentFeatures(np.array(row, dtype=float)) for row in rows)
        return QueryView(query, tuple(candidates), tuple(tail), problem, known)

    return make
