"""A service of small parts, and clients of it."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
from fastapi.testclient import TestClient

from builders import clustered
from ragsieve.assembly import ingest_gate
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.records import Document
from ragsieve.service.app import create_app
from ragsieve.service.gates import StateGate
from ragsieve.service.holdings import Collection, Holdings
from ragsieve.service.keys import KeyFile
from ragsieve.service.runtime import Parts
from ragsieve.settings import ServiceSettings, load_settings

QUERY = "who built the bridge"


@functools.cache
def corpus(seed=1, size=60, prefix="d"):
    texts, rows = clustered(np.random.default_rng(seed), size)
    return tuple(Document(f"{prefix}{place}", text) for place, text in enumerate(texts)), rows


@functools.cache
def snapshot_of(seed=1, size=60, prefix="d"):
    return scanned(*corpus(seed, size, prefix))


def by_id(documents):
    return {one.id: one for one in documents}


def scanned(documents, rows):
    """A snapshot of a small corpus, and the gate that made it."""
    gate = ingest_gate(load_settings(), confirm=False)
    scan = CorpusDetector(DefaultCorpusRule()).scan(documents, rows)
    return gate, gate.snapshot(scan, rows, "fake-encoder")


def collection(name="default", *, prefix="d", state=False, **more):
    documents, _ = corpus(prefix=prefix)
    detector = QueryDetector("default")
    if state:
        gate, snapshot = snapshot_of(prefix=prefix)
        detector = QueryDetector("default", features=gate.features(snapshot))
        more = {"gate": StateGate(gate, snapshot), "known": len(documents)} | more
    return Collection(name, more.pop("detector", detector), documents=by_id(documents), **more)


def parts(*members, settings=None, keys=None, bare=None, **more):
    bare = bare or Collection("", QueryDetector("default"))
    settings = settings or ServiceSettings()
    return Parts(Holdings(bare, members), settings, "default", keys=keys, **more)


@contextlib.contextmanager
def served(made, token=None, *, client=("127.0.0.1", 5), raises=True):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with TestClient(
        create_app(made),
        base_url="http://localhost",
        client=client,
        headers=headers,
        raise_server_exceptions=raises,
    ) as found:
        yield found


def asked(ids=None, count=40, prefix="d", **more):
    names = ids if ids is not None else [f"{prefix}{place}" for place in range(count)]
    return {"query": QUERY, "ids": names} | more


def key_file(tmp_path, **more):
    return KeyFile(tmp_path / "keys.json", **more)


class Broken:
    """A detector's stand-in that fails, or waits, in place of judging."""

    def __init__(self, error=None, wait=None):
        self._inner, self._error, self._wait = QueryDetector("default"), error, wait

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def _fail(self):
        if self._wait is not None:
            self._wait.wait(20)
        if self._error is not None:
            raise self._error

    def score_many(self, rankings, *, progress=None):
        self._fail()
        return self._inner.score_many(rankings, progress=progress)

    def decide_many(self, rankings, *, progress=None):
        self._fail()
        return self._inner.decide_many(rankings, progress=progress)


def samples(client):
    """The metrics, by name with dimensions."""
    lines = client.get("/metrics").text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}
