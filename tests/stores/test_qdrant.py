"""What is Qdrant's alone."""

from __future__ import annotations

import datetime
import socket
import uuid

import numpy as np
import pytest

from ragsieve.connectors import open_store
from ragsieve.connectors.qdrant import QdrantConnector
from ragsieve.connectors.snapshot import take_snapshot
from ragsieve.errors import StoreError
from ragsieve.files.corpus import read_corpus
from stores import makers_qdrant
from stores.makers import make_rows

pytestmark = pytest.mark.stores
(MAKER,) = makers_qdrant.MAKERS
NOW = datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)


def hide(connector, ids):
    return connector.quarantine(ids, reason="why", scan_id="scan", since=NOW)


@pytest.fixture
def client():
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")
    yield client
    client.close()


def collection(client, points, *, distance="Euclid", **config):
    from qdrant_client import models

    if not config:
        config = {"vectors_config": models.VectorParams(size=2, distance=distance)}
    client.create_collection("docs", **config)
    client.upsert("docs", [models.PointStruct(**point) for point in points])


def point(name, vector=(1.0, 2.0), **payload):
    return {"id": name, "vector": list(vector) if isinstance(vector, tuple) else vector} | {
        "payload": payload
    }


def test_ids_are_numbers_or_uuids_there_and_strings_here(client):
    first = str(uuid.UUID(int=5))
    collection(client, [point(0), point(2**63), point(7), point(first)])
    connector = QdrantConnector(client, "docs")
    ids = ["0", str(2**63), "7", first]
    assert sorted(row.id for page in connector.pages(2) for row in page) == sorted(ids)
    nobodies = ["007", "+7", "-7", " 7", "\u0667", str(2**64), "d7", "7.0", first[:-1]]
    assert [row.id for row in connector.fetch([*nobodies, *ids])] == ids
    assert hide(connector, [*nobodies, *ids]) == tuple(ids)
    assert connector.release([*nobodies, first]) == (first,)
    bundle = connector.export(ids)
    assert connector.delete(bundle) == tuple(ids)
    assert connector.restore(bundle) == tuple(ids)
    assert {p.id for p in client.scroll("docs")[0]} == {0, 2**63, 7, first}


def test_payloads_come_back_as_they_were(client):
    payloads = [
        {"text": "a text", "nested": {"by": "Ann", "list": [1, 2.5, None]}, "nothing": None},
        {"text": None},
        {"text": 5, "page": 1},
        {"text": ""},
    ]
    collection(client, [point(n, **payload) for n, payload in enumerate(payloads)])
    connector = QdrantConnector(client, "docs")
    ids = ["0", "1", "2", "3"]
    assert [row.text for row in connector.fetch(ids)] == ["a text", "", "", ""]
    hide(connector, ids)
    bundle = connector.export(ids)
    connector.delete(bundle)
    connector.restore(bundle)
    connector.release(ids)
    assert [p.payload for p in client.retrieve("docs", [0, 1, 2, 3])] == payloads


def test_a_named_vector_is_chosen(client):
    from qdrant_client import models

    size = models.VectorParams(size=2, distance="Dot")
    points = [
        point(1, {"a": [1.0, 2.0], "b": [3.0, 4.0]}, text="one"),
        point(2, {"a": [1.0, 0.0]}, text="two"),
    ]
    collection(client, points, vectors_config={"a": size, "b": size})
    with pytest.raises(StoreError, match=r"parameter 'vector'.*a, b"):
        QdrantConnector(client, "docs")
    with pytest.raises(StoreError, match=r"parameter 'vector'.*a, b"):
        QdrantConnector(client, "docs", vector_name="c")
    connector = QdrantConnector(client, "docs", vector_name="b")
    first, second = connector.fetch(["1", "2"])
    assert first.vector.tolist() == [3, 4]
    assert second.vector is None
    assert [row.id for row, _ in connector.search(np.ones(2), depth=2)] == ["1"]
    assert hide(connector, ["1"]) == ("1",)
    assert connector.search(np.ones(2), depth=2) == ()
    # A bundle keeps one vector: deleting would lose the other for good.
    assert not connector.capabilities().deletes
    with pytest.raises(StoreError, match="hide them instead"):
        connector.delete(connector.export(["1"]))
    assert client.count("docs").count == 2


def test_one_named_vector_is_brought_back(client):
    from qdrant_client import models

    size = models.VectorParams(size=2, distance="Dot")
    points = [point(1, {"a": [1.0, 2.0]}, text="one"), point(2, {}, text="bare")]
    collection(client, points, vectors_config={"a": size})
    connector = QdrantConnector(client, "docs")
    assert connector.capabilities().deletes
    bundle = connector.export(["1", "2"])
    connector.delete(bundle)
    connector.restore(bundle)
    found = client.retrieve("docs", [1, 2], with_vectors=True)
    assert [p.vector for p in found] == [{"a": [1.0, 2.0]}, {}]


def test_sparse_and_many_vectors(client):
    from qdrant_client import models

    many = models.MultiVectorConfig(comparator="max_sim")
    client.create_collection(
        "docs",
        vectors_config={
            "a": models.VectorParams(size=2, distance="Dot"),
            "m": models.VectorParams(size=2, distance="Dot", multivector_config=many),
        },
        sparse_vectors_config={"s": models.SparseVectorParams()},
    )
    with pytest.raises(StoreError, match="many vectors a point"):
        QdrantConnector(client, "docs", vector_name="m")
    assert not QdrantConnector(client, "docs", vector_name="a").capabilities().deletes


def test_quantised_storage_is_lossy(client):
    from qdrant_client import models

    small = models.VectorParams(size=2, distance="Dot", datatype=models.Datatype.UINT8)
    client.create_collection("docs", vectors_config=small)
    assert QdrantConnector(client, "docs").capabilities().lossy_vectors


class Spy:
    """A client whose requests are recorded and whose index stops early, as a server's may."""

    def __init__(self, client):
        self.client, self.limits, self.exact = client, [], []

    def __getattr__(self, name):
        return getattr(self.client, name)

    def scroll(self, *given, limit, **options):
        self.limits.append(limit)
        return self.client.scroll(*given, limit=limit, **options)

    def query_points(self, *given, search_params=None, **options):
        self.exact.append(bool(search_params and search_params.exact))
        answer = self.client.query_points(*given, **options)
        if not self.exact[-1]:
            answer.points = answer.points[:2]
        return answer


def test_requests_are_small_and_a_short_answer_is_asked_again_exactly(client):
    collection(client, [point(n, (1.0, float(n))) for n in range(3_000)])
    spy = Spy(client)
    connector = QdrantConnector(spy, "docs", server=True)
    pages = list(connector.pages(250_000))
    assert sum(map(len, pages)) == 3_000
    assert max(spy.limits) <= 256
    assert len(connector.search(np.ones(2), depth=30)) == 30
    assert spy.exact == [False, True]
    assert connector.capabilities().several_processes
    ids = [row.id for page in pages for row in page]
    assert hide(connector, ids) == tuple(ids)
    assert len(connector.marks()) == 3_000
    assert connector.release(ids) == tuple(ids)


def test_a_client_of_ones_own_stays_open(client):
    collection(client, [point(1)])
    connector = QdrantConnector(client, "docs")
    assert connector.address == "qdrant://client/docs"
    assert not connector.capabilities().several_processes
    connector.close()
    assert client.count("docs").count == 1


# The client leaves its lock file open when it is refused.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_folder_in_use_is_said(tmp_path):
    address = MAKER.create(tmp_path, make_rows(MAKER, 3))
    connector = open_store(address)
    with pytest.raises(StoreError, match="already accessed"):
        open_store(address)
    connector.close()
    open_store(address).close()


def test_a_folder_that_is_none_of_qdrants_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no Qdrant folder"):
        open_store(f"qdrant://{tmp_path}?collection=docs")
    assert list(tmp_path.iterdir()) == []
    address = MAKER.create(tmp_path, make_rows(MAKER, 3))
    with pytest.raises(StoreError, match="it has docs"):
        open_store(address.replace("=docs", "=dogs"))
    # A refusal lets go of the folder.
    open_store(address).close()


def test_a_server_that_is_away_is_said_without_its_key():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(
        StoreError, match=rf"qdrant://127.0.0.1:{port}/docs\?https=true: reading"
    ) as caught:
        open_store(f"qdrant://:hunter2@127.0.0.1:{port}/docs?https=true")
    assert "hunter2" not in str(caught.value)


def test_a_scan_reads_a_frozen_copy(client, tmp_path):
    payload = {"page_content": "a text", "metadata": {"source": "wiki", "title": "T"}}
    collection(client, [point(n, (1.0, n + 1.0), **payload) for n in range(9)], distance="Cosine")
    connector = QdrantConnector(client, "docs", text_key="page_content")
    from ragsieve.connectors.address import Fields

    fields = Fields(title="metadata.title", source="metadata.source")
    taken = take_snapshot(connector, tmp_path / "s", fields=fields)
    document = read_corpus(taken.corpus_path)[0]
    assert (document.title, document.provenance.source) == ("T", "wiki")
    np.testing.assert_allclose(np.linalg.norm(taken.embeddings(), axis=1), 1, atol=1e-6)
