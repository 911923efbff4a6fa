"""What is Chroma's alone."""

from __future__ import annotations

import contextlib
import datetime
import gc
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from ragsieve.connectors import open_store
from ragsieve.connectors.address import Fields
from ragsieve.connectors.chroma import ChromaConnector
from ragsieve.connectors.snapshot import take_snapshot
from ragsieve.errors import StoreError
from ragsieve.files.corpus import read_corpus
from stores import makers_chroma
from stores.makers import make_rows

pytestmark = pytest.mark.stores
(MAKER,) = makers_chroma.MAKERS
NOW = datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)


def hide(connector, ids):
    return connector.quarantine(ids, reason="why", scan_id="scan", since=NOW)


@pytest.fixture
def client(tmp_path):
    import chromadb

    client = chromadb.PersistentClient(str(tmp_path / "native"))
    yield client
    client.close()


class Spy:
    """A collection whose calls are recorded, and whose search may be worse than it is."""

    def __init__(self, collection, *, cut=None, repeat=False):
        self.collection, self.cut, self.repeat = collection, cut, repeat
        self.sizes = []

    def __getattr__(self, name):
        inner = getattr(self.collection, name)
        if not callable(inner):
            return inner

        def call(**given):
            self.sizes.append(len(given.get("ids") or ()) or given.get("limit", 0))
            answer = inner(**given)
            if name == "query" and (self.cut or self.repeat):
                order = [0, *range(self.cut or len(answer["ids"][0]))] if self.repeat else None
                for key in ("ids", "documents", "metadatas", "embeddings", "distances"):
                    found = answer[key][0]
                    answer[key] = [[found[n] for n in order] if order else found[: self.cut]]
            return answer

        return call


def test_requests_stay_below_the_batch_limit(client, monkeypatch):
    rows = make_rows(MAKER, 50)
    collection = filled(client, rows)
    monkeypatch.setattr(client, "get_max_batch_size", lambda: 7)
    spy = Spy(collection)
    connector = ChromaConnector(client, spy)
    ids = [row.id for row in rows]
    assert len([row for page in connector.pages(1_000) for row in page]) == 50
    assert len(hide(connector, ids)) == 50
    bundle = connector.export(ids)
    assert len(connector.delete(bundle)) == 50
    assert len(connector.restore(bundle)) == 50
    assert len(connector.marks()) == 50
    assert len(connector.release(ids)) == 50
    assert 1 < max(spy.sizes) <= 7


def filled(client, rows, name="docs"):
    collection = client.create_collection(name, embedding_function=None)
    collection.add(
        ids=[row.id for row in rows],
        embeddings=[row.vector for row in rows],
        documents=[row.text for row in rows],
        metadatas=[dict(row.metadata) for row in rows],
    )
    return collection


@pytest.mark.parametrize("space", ["l2", "cosine", "ip"])
def test_an_index_that_gives_too_few_is_made_up_for(client, space):
    rows = make_rows(MAKER, 40)
    collection = client.create_collection(
        "docs", embedding_function=None, configuration={"hnsw": {"space": space}}
    )
    collection.add(ids=[r.id for r in rows], embeddings=[r.vector for r in rows])
    whole = ChromaConnector(client, collection)
    hide(whole, [rows[3].id])
    expected = whole.search(rows[0].vector, depth=20)
    found = ChromaConnector(client, Spy(collection, cut=4)).search(rows[0].vector, depth=20)
    assert [row.id for row, _ in found] == [row.id for row, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], atol=1e-5)


def test_a_repeated_chunk_is_given_once(client):
    rows = make_rows(MAKER, 10)
    spy = Spy(filled(client, rows), repeat=True, cut=9)
    found = [row.id for row, _ in ChromaConnector(client, spy).search(rows[0].vector, depth=10)]
    assert sorted(found) == sorted(row.id for row in rows)


def test_what_chroma_takes_comes_back(client):
    collection = client.create_collection("docs", embedding_function=None)
    texts = ["b\0er Cloud", "", "\u202e", None]
    ids = ["it's", "\u4f60\u597d", "a b\n", "plain"]
    collection.add(
        ids=ids,
        embeddings=np.eye(4, dtype="f4"),
        documents=texts,
        metadatas=[{"many": ["a", "b"]}, None, None, {"page": 2**53}],
    )
    connector = ChromaConnector(client, collection)
    found = connector.fetch(ids)
    assert [row.text for row in found] == ["b\0er Cloud", "", "\u202e", ""]
    assert [dict(row.metadata) for row in found] == [{"many": ["a", "b"]}, {}, {}, {"page": 2**53}]
    assert hide(connector, ids) == tuple(ids)
    bundle = connector.export(ids)
    connector.delete(bundle)
    connector.restore(bundle)
    assert connector.release(ids) == tuple(ids)
    assert {item.mark for item in connector.export(ids).rows} == {None}
    for before, after in zip(found, connector.fetch(ids), strict=True):
        assert (before.text, before.metadata) == (after.text, after.metadata)
        assert before.vector.tolist() == after.vector.tolist()


def test_a_client_of_ones_own_stays_open(client):
    rows = make_rows(MAKER, 5)
    connector = ChromaConnector(client, filled(client, rows))
    assert connector.address == "chroma://client/docs"
    assert not connector.capabilities().several_processes
    connector.close()
    assert client.get_collection("docs").count() == 5


def test_text_may_stand_in_the_metadata(client, tmp_path):
    collection = client.create_collection("docs", embedding_function=None)
    collection.add(ids=["a"], embeddings=[[1, 2]], metadatas=[{"body": "the text", "by": "Ann"}])
    connector = open_store(f"chroma://{tmp_path / 'native'}?collection=docs&text=body&author=by")
    (row,) = connector.fetch(["a"])
    assert (row.text, dict(row.metadata)) == ("the text", {"by": "Ann"})
    bundle = connector.export(["a"])
    connector.delete(bundle)
    connector.restore(bundle)
    assert collection.get()["metadatas"] == [{"body": "the text", "by": "Ann"}]
    taken = take_snapshot(connector, tmp_path / "s", fields=Fields(text="body", author="by"))
    assert read_corpus(taken.corpus_path)[0].provenance.author == "Ann"
    connector.close()


def test_a_folder_that_is_none_of_chromas_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no Chroma database"):
        open_store(f"chroma://{tmp_path}?collection=docs")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_collection_names_those_there_are(client, tmp_path):
    filled(client, make_rows(MAKER, 2))
    with pytest.raises(StoreError, match="it has docs"):
        open_store(f"chroma://{tmp_path / 'native'}?collection=dogs")
    assert client.count_collections() == 1


def test_a_scan_reads_a_frozen_copy(tmp_path):
    rows = make_rows(MAKER, 1_200)
    connector = open_store(MAKER.create(tmp_path, rows))
    taken = take_snapshot(connector, tmp_path / "s", page_rows=100)
    found = read_corpus(taken.corpus_path)
    documents = {document.id: document for document in found}
    vectors = dict(zip(documents, taken.embeddings(), strict=True))
    # A title is content too: the row whose text is a blank is kept.
    assert (len(documents), taken.excluded) == (1_200, ())
    for row in rows:
        assert documents[row.id].text == row.text
        assert documents[row.id].title == row.metadata["title"]
        assert documents[row.id].provenance.source == "wiki"
        np.testing.assert_allclose(vectors[row.id], row.vector, atol=1e-6)
    connector.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server(tmp_path):
    """A Chroma server of the same release, as users run it."""
    port = free_port()
    program = Path(sys.executable).with_name("chroma")
    command = [program, "run", "--path", tmp_path / "served", "--port", str(port)]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)
        # Chroma's client leaves its sockets to the collector.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def test_a_server_serves_several(server):
    import chromadb

    rows = make_rows(MAKER, 30)
    native = chromadb.HttpClient("127.0.0.1", server)
    filled(native, rows)
    address = f"chroma://127.0.0.1:{server}/docs"
    one, other = open_store(address), open_store(address)
    assert one.capabilities().several_processes
    assert one.address == address
    ids = [row.id for row in rows]
    assert hide(one, ids[:3]) == tuple(ids[:3])
    assert hide(other, ids[:5]) == tuple(ids[3:5])
    found = native.get_collection("docs", embedding_function=None).query(
        query_embeddings=[rows[0].vector], n_results=30, where=one.retrieval_filter()
    )
    assert sorted(found["ids"][0]) == sorted(ids[5:])
    bundle = one.export(ids[:2])
    assert other.delete(bundle) == tuple(ids[:2])
    assert one.restore(bundle) == tuple(ids[:2])
    assert len(other.marks()) == 5
    one.close()
    other.close()
    native.close()
    with pytest.raises(StoreError, match="it has docs"):
        open_store(f"chroma://127.0.0.1:{server}/dogs")


def test_a_server_that_is_away_is_said_without_its_token():
    with pytest.raises(StoreError, match=r"chroma://127.0.0.1:\d+/docs: opening failed") as caught:
        open_store(f"chroma://:hunter2@127.0.0.1:{free_port()}/docs")
    assert "hunter2" not in str(caught.value)
