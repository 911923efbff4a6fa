"""A linear encoder over words, with exact gradients; a small corpus; a chat model on a string."""

from __future__ import annotations

import numpy as np

from ragsieve.lab.corpora.records import Dataset, Target
from ragsieve.lab.poison.base import Workshop
from ragsieve.records import ChatReply, Document, Provenance, Query
from ragsieve.testing import FakeTextEmbedder, _vector

QUESTION = "who designed the iron bridge over the river"
TARGET = Target(Query("q1", QUESTION), ("Abraham Darby",), "Thomas Telford")
OTHER = Target(Query("q2", "when was the harbour tower finished"), ("1911",), "1934")
THIRD = Target(Query("q3", "where is the winter archive kept?"), ("Leeds",), "York")
TARGETS = (TARGET, OTHER, THIRD)
_FILL = (
    "stone market winter archive lantern orchard survey council harbour tower valley mill".split()
)


class FakeGradientEncoder:
    """Ids are words; the vector is the unit sum of the words' vectors and a constant one."""

    identity = "fake-gradients"

    def __init__(self, texts, specials=("[CLS]", "[SEP]", "[unused0]")):
        words = sorted({word for text in texts for word in text.split()})
        self.vocabulary = (*specials, *words)
        self.special_ids = frozenset(range(2))  # [unused0] has to be known by its looks
        self.embeddings = np.array([_vector(word.lower()) for word in self.vocabulary])
        self._ids = {word: row for row, word in enumerate(self.vocabulary)}
        self.encoded = []

    def token_ids(self, text):
        return [self._ids[word] for word in text.split()]

    def decode(self, ids):
        return " ".join(self.vocabulary[row] for row in ids)

    def _sum(self, ids):
        return self.embeddings[list(ids)].sum(axis=0) + _vector("")

    def encode_ids(self, batch):
        self.encoded += [list(ids) for ids in batch]
        rows = np.array([self._sum(ids) for ids in batch]).reshape(-1, 32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def gradient(self, ids, objective):
        total = self._sum(ids)
        size = np.linalg.norm(total)
        unit = total / size
        slope = (objective - (objective @ unit) * unit) / size
        return np.tile(slope, (len(ids), 1))


class FakeChat:
    """Replies from a function of the request."""

    identity = "fake-chat"

    def __init__(self, answer):
        self._answer = answer
        self.requests = []

    def reply(self, messages, *, max_tokens):
        self.requests.append(messages[-1].content)
        return ChatReply(self._answer(messages[-1].content, len(self.requests)))


def corpus(size=60):
    rng = np.random.default_rng(5)
    documents = []
    for row in range(size):
        words = rng.choice(_FILL, size=24).tolist()
        subject = ("the iron bridge", "the river", "the harbour tower", "the archive")[row % 4]
        text = f"About {subject} {' '.join(words[:12])}. It cost 1,{row:03d} pounds {' '.join(words[12:])}."
        origin = Provenance(source=("gazette", "almanac")[row % 2])
        documents.append(Document(f"doc{row}", text, provenance=origin))
    return tuple(documents)


def dataset(documents=None):
    documents = corpus() if documents is None else documents
    return Dataset(
        name="small",
        documents=documents,
        queries=tuple(target.query for target in TARGETS),
        targets=TARGETS,
        answers={target.query.id: target.correct_answers for target in TARGETS},
        relevant={"q1": frozenset({"doc4"})},
    )


def workshop(*, texts=(), causal=None, chat=None, documents=None):
    data = dataset(documents)
    embedder = FakeTextEmbedder()
    rows = embedder.embed_documents([document.content for document in data.documents])
    words = [document.text for document in data.documents]
    words += [word for target in TARGETS for word in (target.query.text, target.target_answer)]
    gradients = FakeGradientEncoder([*words, *texts])
    return Workshop(data, embedder, rows, gradients=gradients, causal=causal, chat=chat)
