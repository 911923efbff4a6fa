"""Qdrant in a folder."""

from __future__ import annotations

import uuid

from stores.makers import Maker


def ids(count):
    """Numbers and UUIDs mixed, as the store allows."""
    space = uuid.uuid5(uuid.NAMESPACE_URL, "ragsieve")
    return [str(n) if n % 2 else str(uuid.uuid5(space, str(n))) for n in range(count)]


def create(folder, rows):
    from qdrant_client import QdrantClient, models

    path = folder / "qdrant"
    client = QdrantClient(path=str(path))
    size = len(rows[0].vector)
    config = models.VectorParams(size=size, distance=models.Distance.COSINE)
    client.create_collection("docs", vectors_config=config)
    client.upsert(
        "docs",
        models.Batch(
            ids=[int(row.id) if row.id.isdigit() else row.id for row in rows],
            vectors=[row.vector.tolist() for row in rows],
            payloads=[{"text": row.text, **row.metadata} for row in rows],
        ),
    )
    client.close()
    return f"qdrant://{path}?collection=docs"


def native_search(connector, vector, depth, filtered):
    found = connector.client.query_points(
        connector.collection, query=vector.tolist(), query_filter=filtered, limit=depth
    )
    return [str(point.id) for point in found.points]


# A folder of Qdrant writes each point to disk alone; many are read in test_qdrant, from memory.
MAKERS = [
    Maker(
        "qdrant",
        create,
        native_search,
        ids=ids,
        normalises=True,
        unknown_id="987654321",
        many=400,
    )
]
