"""A small world for experiments: a corpus, an attack file, a construction, two comparators."""

from __future__ import annotations

import dataclasses

import numpy as np

from ragsieve.detectors.profiles import corpus_rule, query_rule
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators.base import (
    ControlPoint,
    CorpusComparator,
    Declaration,
    QueryComparator,
)
from ragsieve.lab.corpora.records import Dataset, Label, Poisoning, Target
from ragsieve.lab.experiments.needs import Written
from ragsieve.lab.experiments.outcome import UnavailableError
from ragsieve.lab.experiments.parts import LabParts
from ragsieve.lab.experiments.spec import Attack, Experiment, Kind, Method, MethodKind
from ragsieve.lab.poison.base import Fidelity
from ragsieve.records import ChatReply, Document, Query
from ragsieve.testing import FakeTextEmbedder

TOPICS = "harbour bridge orchard archive lantern market tower river winter council".split()
MARK = "xyzzyplugh"


def world(size=60, targets=4):
    rng = np.random.default_rng(0)
    documents = tuple(
        Document(f"d{row}", f"{TOPICS[row % 10]} " + " ".join(rng.choice(TOPICS, size=12)))
        for row in range(size)
    )
    queries = tuple(
        Query(f"q{row}", " ".join([TOPICS[row]] * 4) + " keeper") for row in range(targets)
    )
    return Dataset(
        name="world",
        documents=documents,
        queries=queries,
        targets=tuple(Target(query, ("the warden",), "the thief") for query in queries),
        answers={query.id: ("the warden",) for query in queries},
        relevant={query.id: frozenset({"d0"}) for query in queries},
    )


def planted(dataset, count=5):
    documents, labels = [], {}
    for target in dataset.targets:
        for member in range(count):
            text = f"{target.query.text} {target.query.text} the thief {MARK} note {member}"
            documents.append(Document(f"n{len(documents)}", text))
            labels[documents[-1].id] = Label(target.query.id, "echo", member)
    return Poisoning(tuple(documents), labels)


def declared(name, point, *, binary=False):
    return Declaration(
        name=name,
        control_point=point,
        needs=frozenset(),
        native_rule="as the test says",
        fidelity=Fidelity.VARIANT,
        source="a test",
        binary=binary,
    )


class Longest(QueryComparator):
    declaration = declared("longest", ControlPoint.RETRIEVAL, binary=True)
    threshold = 1.0

    def fingerprint(self):
        return fingerprint("longest")

    def scores(self, view):
        return [float(len(text.split()) > 14) for text in view.candidates]


class Crowded(CorpusComparator):
    declaration = declared("crowded", ControlPoint.INGEST)
    neighbors = 4

    def fingerprint(self):
        return fingerprint("crowded")

    def scores(self, contents, graph):
        return np.maximum(graph.similarities[:, 0], 0.0)


class FakeChat:
    """Answers with what the first document says; counts calls."""

    identity = "fake-chat"

    def __init__(self):
        self.calls = 0
        self.asked = []

    def reply(self, messages, *, max_tokens):
        self.calls += 1
        self.asked.append(messages[-1].content)
        said = "the thief" if "the thief" in messages[-1].content else "the warden"
        return ChatReply(said, 20, 2)


class FakeParts:
    """:class:`ragsieve.lab.experiments.needs.Parts` without models or files.

    :param breaking: comparator whose judging raises; ``stopping``: one that is interrupted.
    """

    def __init__(self, dataset=None, *, breaking=None, stopping=None, chat=None):
        self.data = dataset or world()
        self.breaking = breaking
        self.stopping = stopping
        self.chat_model = chat
        self.embedder = FakeTextEmbedder()
        self.identity = self.embedder.identity
        self.attack_version = "1"
        self.model_version = ""
        self.built = []

    def dataset(self, name, payloads):
        if name != "world":
            raise ConfigError(f"unknown dataset {name!r}")
        return self.data

    def file_attack(self, dataset, file):
        return Written(self.data.targets, planted(self.data))

    def crafted(self, attack, targets, dataset, rows, experiment, seed):
        if attack.name == "missing-model":
            raise UnavailableError("needs a model that is not here")
        found = planted(dataclasses.replace(self.data, targets=targets), attack.write)
        return Written(targets, found, "variant", True, (0.5,) * len(targets))

    def attack_fingerprint(self, dataset, name, file):
        return f"{name} {file} {self.attack_version}"

    def encoder_identity(self, retriever):
        return self.identity

    def rows(self, dataset, retriever):
        return self.embedder.embed_documents([one.content for one in dataset.documents])

    def embedded(self, texts, retriever):
        return self.embedder.embed_documents(texts)

    def asked(self, texts, retriever):
        return self.embedder.embed_queries(texts)

    def query_rule(self, method, models, *, fresh=False):
        self.built.append(method)
        rule = query_rule(method.profile)
        if self.model_version:
            rule.fingerprint = lambda: self.model_version
        return rule

    def corpus_rule(self, method, models, *, fresh=False):
        return corpus_rule(method.profile)

    def features(self, scan, rows):
        return LabParts.features(self, scan, rows)

    def declaration(self, comparator):
        for kind in (Longest, Crowded):
            if kind.declaration.name == comparator:
                return kind.declaration
        if comparator in {self.breaking, self.stopping}:
            return declared(comparator, ControlPoint.INGEST)
        raise ConfigError(f"unknown comparator {comparator!r}")

    def comparator(self, name, around, models):
        self.built.append(name)
        if name == self.breaking:
            raise ZeroDivisionError("it broke")
        if name == self.stopping:
            raise KeyboardInterrupt
        return Longest() if name == "longest" else Crowded()

    def members(self, answers):
        if self.chat_model is None:
            raise UnavailableError("no chat model")
        return dict.fromkeys(answers.names, self.chat_model)


RSQ = Method(MethodKind.RSQ, "rsq", "default")
RSG = Method(MethodKind.RSG, "rsg", "default")
NONE = Method(MethodKind.NONE, "none")
SERIAL = Method(MethodKind.SERIAL, "serial", "default")


def pipeline(name):
    return Method(MethodKind.PIPELINE, str(name))


def comparator(name):
    return Method(MethodKind.COMPARATOR, name)


def experiment(**changes):
    given = {
        "name": "trial",
        "claim": "A claim.",
        "kind": Kind.DETECTION,
        "dataset": "world",
        "attacks": (Attack("echo", (5,), file="echo"),),
        "methods": (RSQ, RSG, comparator("longest"), comparator("crowded")),
        "depth": 40,
    }
    return Experiment(**{**given, **changes})
