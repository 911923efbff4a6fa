"""Milvus Lite: a collection in a local file."""

from __future__ import annotations

from stores.makers import DIMENSION, Maker


def create(folder, rows, *, whole=False, metric="COSINE"):
    from milvus_lite.server_manager import server_manager_instance
    from pymilvus import MilvusClient

    path = folder / "milvus.db"
    client = MilvusClient(str(path))
    kind = {"id_type": "int"} if whole else {"id_type": "string", "max_length": 200}
    client.create_collection(
        "docs",
        dimension=DIMENSION,
        primary_field_name="key",
        vector_field_name="vector",
        metric_type=metric,
        **kind,
    )
    lines = [
        {
            "key": int(row.id) if whole else row.id,
            "text": row.text,
            "vector": row.vector.tolist(),
            **row.metadata,
        }
        for row in rows
    ]
    for start in range(0, len(lines), 1_000):
        client.insert("docs", lines[start : start + 1_000])
    client.close()
    # Closing a client leaves the file locked to other processes.
    server_manager_instance.release_server(str(path))
    return f"milvus://{path}?collection=docs"


def create_whole(folder, rows):
    return create(folder, rows, whole=True, metric="L2")


def native_search(connector, vector, depth, filtered):
    """As a user would."""
    found = connector.client.search(
        connector.collection, data=[vector.tolist()], limit=depth, filter=filtered
    )
    return [str(hit["key"]) for hit in found[0]]


def whole_ids(count):
    return [str(number * 3 - 5) for number in range(count)]


MAKERS = [
    Maker("milvus", create, native_search),
    Maker("milvus-whole", create_whole, native_search, ids=whole_ids, unknown_id="777777777"),
]
