"""Saved graphs: what comes back is what was written, or an error that says why not."""

from __future__ import annotations

import numpy as np
import pytest

from ragsieve.errors import InputError, OutputError
from ragsieve.evidence.knn import cosine_knn
from ragsieve.files.graph import GraphManifest, read_graph, read_manifest, write_graph

ROWS = np.random.default_rng(1).normal(size=(30, 6))


@pytest.fixture
def path(tmp_path):
    graph = cosine_knn(ROWS, 8)
    target = tmp_path / "graph.npz"
    made = write_graph(target, graph, embeddings="abc", fingerprint="contents", kernel="1")
    assert made == GraphManifest(30, 8, "abc", "contents", "1")
    return target


def test_it_comes_back(path):
    assert read_manifest(path) == GraphManifest(30, 8, "abc", "contents", "1")
    found, expected = read_graph(path, rows=30, embeddings="abc"), cosine_knn(ROWS, 8)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.similarities, expected.similarities)


def test_fewer_neighbours_are_the_graph_of_fewer(path):
    found, expected = read_graph(path, neighbors=3), cosine_knn(ROWS, 3)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.similarities, expected.similarities)


def test_more_neighbours_than_a_tiny_corpus_has_are_not_wanted(tmp_path):
    graph = cosine_knn(ROWS[:4], 16)
    write_graph(tmp_path / "g.npz", graph, embeddings="", fingerprint="ends", kernel="1")
    assert read_graph(tmp_path / "g.npz", neighbors=24).k == 3


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"rows": 31}, "31 documents, found 30"),
        ({"neighbors": 9}, "9 neighbours a document, found 8"),
        ({"embeddings": "abd"}, "other embeddings"),
    ],
)
def test_the_wrong_graph_is_refused(path, wanted, message):
    with pytest.raises(InputError, match=message):
        read_graph(path, **wanted)


def test_damage_is_noticed(path):
    raw = path.read_bytes()
    for bad in (b"", raw[:100], raw[:-40], b"PK" + raw[2:50], raw.replace(b"indices", b"indicex")):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"graph\.npz"):
            read_graph(path)
    with pytest.raises(InputError, match="missing"):
        read_graph(path.with_name("missing.npz"))


def test_numbers_of_another_graph_are_noticed(path):
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["similarities"] = arrays["similarities"] / 2
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="is damaged"):
        read_graph(path)
    arrays["indices"] = arrays["indices"].astype(np.float32)
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="arrays of shape"):
        read_graph(path)


def test_objects_and_odd_manifests_are_refused(path):
    for manifest in (b"[]", b"{}", b'{"format": 2}', b"\xff", b"[" * 100_000):
        np.savez(path, manifest=np.frombuffer(manifest, np.uint8))
        with pytest.raises(InputError, match="expected a neighbour graph"):
            read_manifest(path)
    np.savez(path, manifest=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="expected a neighbour graph"):
        read_graph(path)


def test_a_failed_write_leaves_the_earlier_graph(path):
    before = path.read_bytes()
    with pytest.raises(OutputError):
        write_graph(path.parent, cosine_knn(ROWS, 2), embeddings="", fingerprint="", kernel="")
    assert path.read_bytes() == before
