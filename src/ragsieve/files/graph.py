"""A neighbour graph in one file: arrays, and what they were computed from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ragsieve._atomic import replacing
from ragsieve.errors import InputError
from ragsieve.records import NeighborGraph

FORMAT = 1
_INDICES, _SIMILARITIES, _MANIFEST = "indices", "similarities", "manifest"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error)


@dataclasses.dataclass(frozen=True, slots=True)
class GraphManifest:
    """What a graph is of.

    :param rows: documents.
    :param neighbors: a row.
    :param embeddings: hash of the rows it was computed from.
    :param fingerprint: how that hash was taken.
    :param kernel: what computed it.
    """

    rows: int
    neighbors: int
    embeddings: str
    fingerprint: str
    kernel: str


def write_graph(
    path: Path | str, graph: NeighborGraph, *, embeddings: str, fingerprint: str, kernel: str
) -> GraphManifest:
    """Write a graph as ``.npz``, completely or not at all.

    :param embeddings: hash of the rows it was computed from.
    :param fingerprint: how that hash was taken.
    :param kernel: what computed it.
    :raises OutputError: when it cannot be written.
    """
    manifest = GraphManifest(len(graph), graph.k, embeddings, fingerprint, kernel)
    fields = dataclasses.asdict(manifest) | {"format": FORMAT, "sha256": _sum(graph)}
    arrays: dict[str, Any] = {
        _INDICES: graph.indices,
        _SIMILARITIES: graph.similarities,
        _MANIFEST: np.frombuffer(json.dumps(fields, sort_keys=True).encode(), np.uint8),
    }
    with replacing(path) as handle:
        np.savez(handle, allow_pickle=False, **arrays)
    return manifest


def read_manifest(path: Path | str) -> GraphManifest:
    """What a saved graph is of, without reading it.

    :raises InputError: when the file is no graph or damaged.
    """
    return _read(Path(path), arrays=False)[0]


def read_graph(
    path: Path | str,
    *,
    rows: int | None = None,
    neighbors: int | None = None,
    embeddings: str | None = None,
) -> NeighborGraph:
    """A saved graph, checked against its own hash.

    :param rows: documents expected; any number when None.
    :param neighbors: wanted a row: further ones are left out, which gives the graph of that
        many. All when None.
    :param embeddings: hash of the rows it must have been computed from; any when None.
    :raises InputError: when the file is no graph, damaged, of other rows, or has too few
        neighbours.
    """
    source = Path(path)
    manifest, graph, stated = _read(source, arrays=True)
    if rows is not None and manifest.rows != rows:
        raise InputError(f"{source}: expected a graph of {rows} documents, found {manifest.rows}")
    if embeddings is not None and manifest.embeddings != embeddings:
        raise InputError(
            f"{source}: was computed from other embeddings; run `ragsieve graph` on these"
        )
    if stated != _sum(graph):
        raise InputError(f"{source}: is damaged; run `ragsieve graph` again")
    if neighbors is None:
        return graph
    wanted = min(neighbors, max(0, manifest.rows - 1))
    if graph.k < wanted:
        raise InputError(
            f"{source}: expected {wanted} neighbours a document, found {graph.k}; run "
            f"`ragsieve graph --neighbors {neighbors}`"
        )
    return NeighborGraph(
        np.ascontiguousarray(graph.indices[:, :wanted]),
        np.ascontiguousarray(graph.similarities[:, :wanted]),
    )


def _read(source: Path, *, arrays: bool) -> tuple[GraphManifest, NeighborGraph, str]:
    indices, similarities = np.empty((0, 0), np.int64), np.empty((0, 0))
    try:
        with source.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            fields = json.loads(archive[_MANIFEST].tobytes())
            if fields.pop("format") != FORMAT:
                raise ValueError("another format")
            stated = str(fields.pop("sha256"))
            manifest = GraphManifest(**fields)
            if arrays:
                indices, similarities = archive[_INDICES], archive[_SIMILARITIES]
    except (*_UNREADABLE, AttributeError, RecursionError) as error:
        raise InputError(
            f"{source}: expected a neighbour graph of `ragsieve graph` ({error})"
        ) from error
    shape = manifest.rows, manifest.neighbors
    fits = indices.dtype == np.int64 and similarities.dtype == np.float64
    if arrays and not (fits and indices.shape == similarities.shape == shape):
        raise InputError(
            f"{source}: expected arrays of shape {shape}, found {indices.dtype} {indices.shape} "
            f"and {similarities.dtype} {similarities.shape}"
        )
    return manifest, NeighborGraph(indices, similarities), stated


def _sum(graph: NeighborGraph) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(graph.indices, dtype="<i8").data)
    digest.update(np.ascontiguousarray(graph.similarities, dtype="<f8").data)
    return digest.hexdigest()
